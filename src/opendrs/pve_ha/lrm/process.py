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
    """Something to do about a service, on the node of the agent.

    Attributes:
        service: The service.
        command: What is to be done: the state it is in.
        uid: What the manager knows the job by; None when it does not.
        target: Where it moves to.
        timeout: Seconds it may take to stop.
    """

    service: ServiceId
    command: ServiceState
    uid: str | None = None
    target: NodeId | None = None
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended.

    Attributes:
        code: Its exit code, an `ExitCode`.
        log: What happened meanwhile.
        delay: Seconds it took.
    """

    code: int
    log: tuple[LogEvent, ...] = ()
    delay: int = 0


UNMANAGED_STATES = frozenset(
    {ServiceState.RECOVERY, ServiceState.FREEZE, ServiceState.REQUEST_START}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lrm:
    """An agent, between two of its turns.

    Attributes:
        node: The node it works on.
        state: Where it stands.
        mode: What it is about.
        state_since: When it passed to its state.
        manager_status: What the manager told, as far as the agent has heard.
        queue: What is to be done, by service.
        results: How jobs ended, by the uid the manager gave them.
        restart_tries: How often each service was started again in vain.
        stop_requested: Whether it was asked to end.
        failed_stops: How many services could not be stopped for the shutdown.
        idle_rounds: For how many rounds there has been no service here.
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
        """Return whether the manager is fencing the node."""
        is_in_fence_state = (
            self.manager_status.nodes.get(self.node) is PveNodeState.FENCE
        )
        return is_in_fence_state or self.manager_status.needs_fencing(self.node)

    @property
    def active_service_count(self) -> int:
        """Return how many services keep the agent busy."""
        return self.manager_status.active_service_count(self.node)


JobGenerator = Generator[LrmJob, JobResult, None]


"""Yields what is to be done, and is sent how it ended."""


class LrmStep(ProcessStep):
    """A turn of an agent under way."""

    def __init__(self, lrm: Lrm, observation: ProcessObservation) -> None:
        super().__init__(observation)
        self.lrm = lrm
        self.exits = False

    @property
    def lock_name(self) -> str:
        """Return the name of the lock of this agent."""
        return lrm_lock_name(self.lrm.node)

    def set_lrm(self, lrm: Lrm) -> None:
        """Be another agent from now on."""
        self.lrm = lrm

    def enter_state(self, state: LrmState) -> None:
        """Pass to another state."""
        self.log(log_events.ProcessStateChanged(self.lrm.state, state))
        self.lrm = replace(self.lrm, state=state, state_since=self.now)

    def acquire_lock_and_watchdog(self) -> bool:
        """Take or keep the lock of the agent, and a watchdog along with it."""
        if not self.acquire_own_lock(self.lock_name):
            return False
        self.feed_watchdog()
        return True

    def release_lock_and_watchdog(self) -> None:
        """Give back the lock, and close the watchdog."""
        self.release_lock(self.lock_name)
        self.close_watchdog()

    def update_manager_status(self) -> bool:
        """Learn what the manager wants, and return whether that worked."""
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
        """Tell the manager how things stand, and return whether that worked."""
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
        """Do for each service of the node what the manager wants."""
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
        """Do all that is queued; in the simulation nothing is left undone.

        Raises:
            FilesUnreadableError: The cluster file system does not answer.
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
    """How the jobs of one turn ended so far.

    Attributes:
        step: The turn in which they are done.
        results: As in `Lrm`.
        restart_tries: As in `Lrm`.
        failed_stops: As in `Lrm`.
    """

    step: LrmStep
    results: dict[str, int]
    restart_tries: dict[ServiceId, int]
    failed_stops: int

    def record(self, job: LrmJob, code: int, config: ServiceConfig | None) -> None:
        """Note that *job*, of a service with that *config*, ended with *code*."""
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
        """Return what becomes of a start that ended with *code*."""
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
