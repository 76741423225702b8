"""The LRM process of a node, its jobs, and one step of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.effects import WriteLrmStatus
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.observation import FilesUnreadableError, ProcessObservation
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import (
    ExitCode,
    LrmMode,
    LrmState,
    PveNodeState,
    ServiceId,
    ServiceState,
)
from opendrs.pve_ha.status_files import (
    LrmStatus,
    ManagerStatus,
    ServiceConfig,
    ServiceStatus,
    lrm_lock_name,
)


@dataclass(frozen=True, slots=True)
class LrmJob:
    """A job for a service on the node of the LRM.

    Attributes:
        service: The service.
        command: Requested action: the state of the service.
        uid: Identifier of the job in the manager status; None if the LRM created the
            job itself.
        target: Target of a migration.
        timeout: Seconds allowed for a stop.
    """

    service: ServiceId
    command: ServiceState
    uid: str | None = None
    target: NodeId | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """Result of a job.

    Attributes:
        code: Exit code, an `ExitCode`.
        log: Log events of the job.
        delay: Duration in seconds.
    """

    code: int
    log: tuple[LogEvent, ...] = ()
    delay: int = 0


UNMANAGED_STATES = frozenset(
    {ServiceState.RECOVERY, ServiceState.FREEZE, ServiceState.REQUEST_START}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lrm:
    """An LRM process between two steps.

    Attributes:
        node: Its node.
        state: Its state.
        mode: Its mode.
        state_since: Time of the last state change.
        manager_status: Last manager status that the LRM has read.
        queue: Pending jobs by service.
        results: Exit codes of finished jobs, by their uid.
        restart_tries: Failed restarts of each service.
        stop_requested: True once the process has been asked to stop.
        failed_stops: Services that failed to stop during the shutdown.
        idle_rounds: Consecutive rounds without a service on the node.
    """

    node: NodeId
    state: LrmState = LrmState.WAIT_FOR_AGENT_LOCK
    mode: LrmMode = LrmMode.ACTIVE
    state_since: int = 0
    manager_status: ManagerStatus = field(default_factory=ManagerStatus)
    queue: Mapping[ServiceId, LrmJob] = field(default_factory=dict)
    results: Mapping[str, int] = field(default_factory=dict)
    restart_tries: Mapping[ServiceId, int] = field(default_factory=dict)
    stop_requested: bool = False
    failed_stops: int = 0
    idle_rounds: int = 0

    @property
    def needs_fencing(self) -> bool:
        """Return True if the manager is fencing the node."""
        is_in_fence_state = (
            self.manager_status.nodes.get(self.node) is PveNodeState.FENCE
        )
        return is_in_fence_state or self.manager_status.needs_fencing(self.node)

    @property
    def active_service_count(self) -> int:
        """Return the number of services that keep the LRM active."""
        return self.manager_status.active_service_count(self.node)


JobGenerator = Generator[LrmJob, JobResult, None]
"""Yields jobs and receives their results."""


class LrmStep(ProcessStep):
    """One step of an LRM process."""

    def __init__(self, lrm: Lrm, observation: ProcessObservation) -> None:
        super().__init__(observation)
        self.lrm = lrm
        self.exits = False

    @property
    def lock_name(self) -> str:
        """Return the name of the lock of this LRM."""
        return lrm_lock_name(self.lrm.node)

    def set_lrm(self, lrm: Lrm) -> None:
        """Replace the LRM."""
        self.lrm = lrm

    def enter_state(self, state: LrmState) -> None:
        """Change to another state."""
        self.log(log_events.ProcessStateChanged(self.lrm.state, state))
        self.lrm = replace(self.lrm, state=state, state_since=self.now)

    def acquire_lock_and_watchdog(self) -> bool:
        """Acquire or renew the lock of the LRM and update the watchdog."""
        if not self.acquire_own_lock(self.lock_name):
            return False
        self.feed_watchdog()
        return True

    def release_lock_and_watchdog(self) -> None:
        """Release the lock and close the watchdog."""
        self.release_lock(self.lock_name)
        self.close_watchdog()

    def update_manager_status(self) -> bool:
        """Read the manager status and return True on success."""
        try:
            manager_status = self.observation.require_files().status
        except FilesUnreadableError as error:
            self.log(log_events.ServiceStatusNotUpdated(str(error)))
            return False
        mode = self._next_mode(manager_status)
        if manager_status is not self.lrm.manager_status or mode is not self.lrm.mode:
            self.lrm = replace(self.lrm, manager_status=manager_status, mode=mode)
        return True

    def write_status(self) -> bool:
        """Write the LRM status and return True on success."""
        if not self.observation.quorate:
            return False
        try:
            self.observation.require_files()
        except FilesUnreadableError as error:
            self.log(log_events.LrmStatusUnwritable(str(error)))
            return False
        lrm = self.lrm
        self.emit(WriteLrmStatus(LrmStatus(lrm.state, lrm.mode, lrm.results)))
        return True

    def manage_services(self) -> JobGenerator:
        """Run a job for each service of the node that needs one."""
        lrm, manager_status = self.lrm, self.lrm.manager_status
        queue = dict(lrm.queue)
        for service, status in manager_status.services_on(lrm.node).items():
            if status.uid is None or status.state in UNMANAGED_STATES:
                continue
            if status.uid in lrm.results and status.state is not ServiceState.STOPPED:
                continue
            queue[service] = _job_for(service, status)
        restart_tries = {
            s: count
            for s, count in lrm.restart_tries.items()
            if s in manager_status.services
        }
        self.lrm = replace(lrm, queue=queue, restart_tries=restart_tries)
        yield from self.run_jobs()

    def run_jobs(self) -> JobGenerator:
        """Run all queued jobs. In a drill all of them finish within the step.

        Raises:
            FilesUnreadableError: The cluster file system does not respond.
        """
        services = self.observation.require_files().services
        lrm = self.lrm
        if not lrm.queue:
            return
        job_results = _JobResults(
            self, dict(lrm.results), dict(lrm.restart_tries), lrm.failed_stops
        )
        for _, job in sorted(lrm.queue.items()):
            result = yield job
            self.outputs.extend(result.log)
            self.wait(result.delay)
            job_results.record(job, result.code, services.get(job.service))
        uids = lrm.manager_status.uids
        self.lrm = replace(
            lrm,
            queue={},
            results={uid: c for uid, c in job_results.results.items() if uid in uids},
            restart_tries=job_results.restart_tries,
            failed_stops=job_results.failed_stops,
        )

    def _next_mode(self, manager_status: ManagerStatus) -> LrmMode:
        mode = self.lrm.mode
        if self.lrm.stop_requested:
            return mode
        if self.lrm.node in manager_status.maintenance_requests:
            return LrmMode.MAINTENANCE
        if manager_status.disarm is not None:
            return LrmMode.DISARM
        if mode in (LrmMode.MAINTENANCE, LrmMode.DISARM):
            return LrmMode.ACTIVE
        return mode


def _job_for(service: ServiceId, status: ServiceStatus) -> LrmJob:
    return LrmJob(
        service, status.state, status.uid, status.target or None, status.timeout
    )


@dataclass(slots=True)
class _JobResults:
    """Results of the jobs of one step so far.

    Attributes:
        step: The step.
        results: As in `Lrm`.
        restart_tries: As in `Lrm`.
        failed_stops: As in `Lrm`.
    """

    step: LrmStep
    results: dict[str, int]
    restart_tries: dict[ServiceId, int]
    failed_stops: int

    def record(self, job: LrmJob, code: int, config: ServiceConfig | None) -> None:
        """Record the exit code of *job*, of a service with *config*."""
        if job.uid is None:
            self.failed_stops += code != ExitCode.SUCCESS
            return
        if job.command is ServiceState.STARTED:
            code = self._start_exit_code(job.service, code, config)
        if code != ExitCode.RETRY:
            self.results[job.uid] = code

    def _start_exit_code(
        self, service: ServiceId, code: int, config: ServiceConfig | None
    ) -> int:
        """Return the exit code of a start after the restart policy."""
        restart_tries = self.restart_tries.get(service, 0)
        if code == ExitCode.SUCCESS:
            self.restart_tries.pop(service, None)
        if code != ExitCode.ERROR:
            return code
        if config is None or restart_tries >= config.max_restart:
            self.step.log(log_events.RetriesExhausted(service, restart_tries))
            self.restart_tries.pop(service, None)
            return code
        self.restart_tries[service] = restart_tries + 1
        self.step.log(log_events.StartRetried(service, restart_tries + 1))
        return ExitCode.RETRY
