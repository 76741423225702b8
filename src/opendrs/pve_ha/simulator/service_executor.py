"""Execution of the jobs of an LRM on simulated services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.lrm import JobResult, LrmJob
from opendrs.pve_ha.simulator.cluster import SimulatedCluster
from opendrs.pve_ha.simulator.injected_failures import FailureCounters
from opendrs.pve_ha.states import (
    CONTAINER,
    FAILING_SERVICE,
    VIRTUAL_MACHINE,
    ExitCode,
    ServiceCommand,
    ServiceId,
    ServiceState,
    service_type,
)
from opendrs.pve_ha.status_files import ServiceConfig

SERVICE_TYPES = frozenset({VIRTUAL_MACHINE, CONTAINER, FAILING_SERVICE})
OPERATION_TIME = 2  # duration of a start, stop or move, in seconds
ALREADY_RUNNING = JobResult(ExitCode.SUCCESS)


class ServiceExecutor:
    """Executor of jobs on the node of an LRM.

    Args:
        cluster: Simulated cluster.
        counters: Injected failures.
        node: Node of the LRM.
    """

    def __init__(
        self, cluster: SimulatedCluster, counters: FailureCounters, node: NodeId
    ) -> None:
        self._cluster = cluster
        self._counters = counters
        self._node = node
        self._log: list[LogEvent] = []
        self._delay = 0

    def execute(self, job: LrmJob) -> JobResult:
        """Execute *job* and return its result."""
        if job.command is ServiceState.STARTED and self._is_running_here(job.service):
            return ALREADY_RUNNING
        self._log, self._delay = [], 0
        code = self._run_job(job)
        return JobResult(code, tuple(self._log), self._delay)

    def _run_job(self, job: LrmJob) -> int:
        service = job.service
        config = self._cluster.services.get(service)
        if service_type(service) not in SERVICE_TYPES:
            self._log.append(log_events.ServiceTypeUnknown(service_type(service)))
            return ExitCode.UNKNOWN_TYPE
        if config is None:
            self._log.append(log_events.ServiceNotConfigured(service))
            return ExitCode.UNKNOWN_SERVICE
        if job.command is ServiceState.ERROR:
            self._log.append(log_events.ServiceNeedsIntervention(service))
            return ExitCode.SUCCESS
        if config.node != self._node:
            self._log.append(log_events.ServiceOnOtherNode(service))
            return ExitCode.WRONG_NODE
        handle = _HANDLERS.get(job.command)
        if handle is None:
            self._log.append(log_events.JobCommandUnknown(job.command))
            return ExitCode.UNKNOWN_COMMAND
        return handle(self, job, config)

    def start(self, job: LrmJob, config: ServiceConfig) -> int:
        """Start a service."""
        service = job.service
        if self._is_running(service):
            return ExitCode.SUCCESS
        self._log.append(log_events.ServiceStarting(service))
        fails = self._counters.start_fails(service, self._node)
        if not fails and self._perform(service, config, "start"):
            self._cluster.running[self._node].add(service)
        if self._is_running(service):
            self._log.append(log_events.ServiceStarted(service))
            return ExitCode.SUCCESS
        self._log.append(log_events.ServiceStartFailed(service))
        return ExitCode.ERROR

    def stop(self, job: LrmJob, config: ServiceConfig) -> int:
        """Stop a service."""
        service = job.service
        if not self._is_running(service):
            return ExitCode.SUCCESS
        self._log.append(
            log_events.ServiceStopping(service)
            if job.timeout is None
            else log_events.ServiceStoppingWithTimeout(service, job.timeout)
        )
        self._shut_down(service, config)
        if self._is_running(service):
            self._log.append(log_events.ServiceStillRunning(service))
            return ExitCode.ERROR
        self._log.append(log_events.ServiceStopped(service))
        return ExitCode.SUCCESS

    def move(self, job: LrmJob, config: ServiceConfig) -> int:
        """Move a service to another node."""
        service, target = job.service, job.target
        if target is None:
            error = f"{job.command} '{service}' failed - missing target"
            self._log += [log_events.JobFailed(error), log_events.JobCrashed(service)]
            return ExitCode.CRASHED
        if config.node == target:
            return ExitCode.SUCCESS
        is_start_placement = job.command is ServiceState.REQUEST_START_BALANCE
        if is_start_placement and self._is_running(service):
            self._log.append(log_events.ServiceAlreadyRunning(service))
            return ExitCode.IGNORED
        live = job.command is ServiceState.MIGRATE
        fails = self._counters.move_fails(service, self._node)
        if fails or not self._move(service, config, target, live=live):
            self._log.append(log_events.ServiceMoveFailed(service))
            return ExitCode.ERROR
        return ExitCode.SUCCESS

    def _move(
        self, service: ServiceId, config: ServiceConfig, target: NodeId, *, live: bool
    ) -> bool:
        """Move *service* and return True on success."""
        if live and service_type(service) == CONTAINER and self._is_running(service):
            self._log.append(log_events.LiveMigrationUnsupported())
            live = False
        command = ServiceCommand.MIGRATE if live else ServiceCommand.RELOCATE
        self._log.append(log_events.ServiceMoveStarted(service, command, target))
        if not live and config.lock is None and self._is_running(service):
            self._log.append(log_events.ServiceStoppingToRelocate(service))
            self._shut_down(service, config)
            self._log.append(log_events.ServiceStopped(service))
        elif not self._perform(service, config, command):
            return False
        self._cluster.change_service(service, lambda s: replace(s, node=target))
        self._cluster.running[self._node].discard(service)
        self._log.append(log_events.ServiceMoveFinished(service, command, target))
        return True

    def _shut_down(self, service: ServiceId, config: ServiceConfig) -> None:
        if self._counters.failures_of(service).never_stops:
            return
        if self._perform(service, config, "shutdown"):
            self._cluster.running[self._node].discard(service)

    def _perform(
        self, service: ServiceId, config: ServiceConfig, operation: str
    ) -> bool:
        """Add the duration of an operation; return False if a lock prevents it."""
        if config.lock:
            self._log.append(log_events.ServiceLocked(service, config.lock, operation))
            return False
        self._delay += OPERATION_TIME
        return True

    def _is_running_here(self, service: ServiceId) -> bool:
        """Return True if a start finds the service running, as most starts do."""
        config = self._cluster.services.get(service)
        is_here = config is not None and config.node == self._node
        return (
            is_here
            and self._is_running(service)
            and service_type(service) in SERVICE_TYPES
        )

    def _is_running(self, service: ServiceId) -> bool:
        return service in self._cluster.running[self._node]


JobHandler = Callable[[ServiceExecutor, LrmJob, ServiceConfig], int]
_HANDLERS: Mapping[ServiceState, JobHandler] = MappingProxyType(
    {
        ServiceState.STARTED: ServiceExecutor.start,
        ServiceState.REQUEST_STOP: ServiceExecutor.stop,
        ServiceState.STOPPED: ServiceExecutor.stop,
        ServiceState.MIGRATE: ServiceExecutor.move,
        ServiceState.RELOCATE: ServiceExecutor.move,
        ServiceState.REQUEST_START_BALANCE: ServiceExecutor.move,
    }
)
