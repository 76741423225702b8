"""Carries out the jobs of an agent on simulated services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.ha import (
    CONTAINER,
    FAILING,
    VIRTUAL_MACHINE,
    ExitCode,
    Job,
    JobEnd,
    ServiceConfig,
    ServiceId,
    ServiceState,
    Task,
    events,
    kind_of,
)
from opendrs.ha.events import Event
from opendrs.model import NodeId
from opendrs.sim.drill.cluster import Cluster
from opendrs.sim.drill.failing import Counters

KINDS = frozenset({VIRTUAL_MACHINE, CONTAINER, FAILING})
ACT_TIME = 2  # seconds to start, stop or move a service
RUNS = JobEnd(ExitCode.SUCCESS)


class Worker:
    """Carries out jobs on the node of an agent.

    Args:
        cluster: Where the services are.
        counters: Which attempts are to fail.
        node: The node of the agent.
    """

    def __init__(self, cluster: Cluster, counters: Counters, node: NodeId) -> None:
        self._cluster = cluster
        self._counters = counters
        self._node = node
        self._told: list[Event] = []
        self._delay = 0

    def carry_out(self, job: Job) -> JobEnd:
        """Return how *job* ended."""
        if job.command is ServiceState.STARTED and self._runs_here(job.service):
            return RUNS
        self._told, self._delay = [], 0
        code = self._execute(job)
        return JobEnd(code, tuple(self._told), self._delay)

    def _execute(self, job: Job) -> int:
        service = job.service
        config = self._cluster.services.get(service)
        if kind_of(service) not in KINDS:
            self._told.append(events.TypeUnknown(kind_of(service)))
            return ExitCode.UNKNOWN_TYPE
        if config is None:
            self._told.append(events.NotConfigured(service))
            return ExitCode.UNKNOWN_SERVICE
        if job.command is ServiceState.ERROR:
            self._told.append(events.NeedsOperator(service))
            return ExitCode.SUCCESS
        if config.node != self._node:
            self._told.append(events.NotHere(service))
            return ExitCode.WRONG_NODE
        act = _ACTS.get(job.command)
        if act is None:
            self._told.append(events.CommandUnknown(job.command))
            return ExitCode.UNKNOWN_COMMAND
        return act(self, job, config)

    def start(self, job: Job, config: ServiceConfig) -> int:
        """Start a service."""
        service = job.service
        if self._runs(service):
            return ExitCode.SUCCESS
        self._told.append(events.Starting(service))
        fails = self._counters.start_fails(service, self._node)
        if not fails and self._acts(service, config, "start"):
            self._cluster.running[self._node].add(service)
        if self._runs(service):
            self._told.append(events.Started(service))
            return ExitCode.SUCCESS
        self._told.append(events.NotStarted(service))
        return ExitCode.ERROR

    def stop(self, job: Job, config: ServiceConfig) -> int:
        """Stop a service."""
        service = job.service
        if not self._runs(service):
            return ExitCode.SUCCESS
        self._told.append(
            events.Stopping(service)
            if job.timeout is None
            else events.StoppingWithin(service, job.timeout)
        )
        self._shut_down(service, config)
        if self._runs(service):
            self._told.append(events.NotStopped(service))
            return ExitCode.ERROR
        self._told.append(events.Stopped(service))
        return ExitCode.SUCCESS

    def move(self, job: Job, config: ServiceConfig) -> int:
        """Move a service to another node."""
        service, target = job.service, job.target
        if target is None:
            why = f"{job.command} '{service}' failed - missing target"
            self._told += [events.JobRaised(why), events.JobCrashed(service)]
            return ExitCode.CRASHED
        if config.node == target:
            return ExitCode.SUCCESS
        placing = job.command is ServiceState.REQUEST_START_BALANCE
        if placing and self._runs(service):
            self._told.append(events.RunsAlready(service))
            return ExitCode.IGNORED
        live = job.command is ServiceState.MIGRATE
        fails = self._counters.move_fails(service, self._node)
        if fails or not self._moves(service, config, target, live=live):
            self._told.append(events.NotMoved(service))
            return ExitCode.ERROR
        return ExitCode.SUCCESS

    def _moves(
        self, service: ServiceId, config: ServiceConfig, target: NodeId, *, live: bool
    ) -> bool:
        """Move *service*, and return whether that worked."""
        if live and kind_of(service) == CONTAINER and self._runs(service):
            self._told.append(events.NotLive())
            live = False
        task = Task.MIGRATE if live else Task.RELOCATE
        self._told.append(events.MoveBegun(service, task, target))
        if not live and config.lock is None and self._runs(service):
            self._told.append(events.StoppingToRelocate(service))
            self._shut_down(service, config)
            self._told.append(events.Stopped(service))
        elif not self._acts(service, config, task):
            return False
        self._cluster.change_service(service, lambda s: replace(s, node=target))
        self._cluster.running[self._node].discard(service)
        self._told.append(events.MoveEnded(service, task, target))
        return True

    def _shut_down(self, service: ServiceId, config: ServiceConfig) -> None:
        if self._counters.of(service).never_stops:
            return
        if self._acts(service, config, "shutdown"):
            self._cluster.running[self._node].discard(service)

    def _acts(self, service: ServiceId, config: ServiceConfig, act: str) -> bool:
        """Return whether something may be done to a service, and take the time."""
        if config.lock:
            self._told.append(events.ServiceLocked(service, config.lock, act))
            return False
        self._delay += ACT_TIME
        return True

    def _runs_here(self, service: ServiceId) -> bool:
        """Return whether a start finds nothing to do, as most do."""
        config = self._cluster.services.get(service)
        here = config is not None and config.node == self._node
        return here and self._runs(service) and kind_of(service) in KINDS

    def _runs(self, service: ServiceId) -> bool:
        return service in self._cluster.running[self._node]


Act = Callable[[Worker, Job, ServiceConfig], int]
_ACTS: Mapping[ServiceState, Act] = MappingProxyType(
    {
        ServiceState.STARTED: Worker.start,
        ServiceState.REQUEST_STOP: Worker.stop,
        ServiceState.STOPPED: Worker.stop,
        ServiceState.MIGRATE: Worker.move,
        ServiceState.RELOCATE: Worker.move,
        ServiceState.REQUEST_START_BALANCE: Worker.move,
    }
)
