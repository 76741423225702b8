"""The agent of a node: the only one that starts, stops and moves services."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace

from opendrs.ha import events
from opendrs.ha.commands import PublishReport
from opendrs.ha.documents import (
    AgentReport,
    ManagerStatus,
    ServiceConfig,
    ServiceStatus,
)
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.jobs import Job, JobEnd
from opendrs.ha.locks import agent_lock
from opendrs.ha.observation import FilesUnreadableError, Observation
from opendrs.ha.states import ExitCode, LrmMode, LrmState, NodeState, ServiceState
from opendrs.ha.turn import Turn
from opendrs.model import NodeId

LEFT_ALONE = frozenset(
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
        known: What the manager told, as far as the agent has heard.
        queue: What is to be done, by service.
        results: How jobs ended, by the uid the manager gave them.
        tries: How often each service was started again in vain.
        ending: Whether it was asked to end.
        failed_stops: How many services could not be stopped for the shutdown.
        idle_rounds: For how many rounds there has been no service here.
    """

    node: NodeId
    state: LrmState = LrmState.WAIT_FOR_AGENT_LOCK
    mode: LrmMode = LrmMode.ACTIVE
    state_since: int = 0
    known: ManagerStatus = field(default_factory=ManagerStatus)
    queue: Mapping[ServiceId, Job] = field(default_factory=dict)
    results: Mapping[str, int] = field(default_factory=dict)
    tries: Mapping[ServiceId, int] = field(default_factory=dict)
    ending: bool = False
    failed_stops: int = 0
    idle_rounds: int = 0

    @property
    def to_be_fenced(self) -> bool:
        """Return whether the manager is fencing the node."""
        fenced = self.known.nodes.get(self.node) is NodeState.FENCE
        return fenced or self.known.wants_fencing(self.node)

    @property
    def active_services(self) -> int:
        """Return how many services keep the agent busy."""
        return self.known.active_services(self.node)


Jobs = Generator[Job, JobEnd, None]
"""Yields what is to be done, and is sent how it ended."""


class LrmTurn(Turn):
    """A turn of an agent under way."""

    def __init__(self, lrm: Lrm, seen: Observation) -> None:
        super().__init__(seen)
        self.lrm = lrm
        self.exits = False

    @property
    def lock(self) -> str:
        """Return the name of the lock of this agent."""
        return agent_lock(self.lrm.node)

    def set(self, lrm: Lrm) -> None:
        """Be another agent from now on."""
        self.lrm = lrm

    def pass_to(self, state: LrmState) -> None:
        """Pass to another state."""
        self.say(events.StatusChanged(self.lrm.state, state))
        self.lrm = replace(self.lrm, state=state, state_since=self.now)

    def acquire_with_watchdog(self) -> bool:
        """Take or keep the lock of the agent, and a watchdog along with it."""
        if not self.acquire_own(self.lock):
            return False
        self.feed_watchdog()
        return True

    def let_go(self) -> None:
        """Give back the lock, and close the watchdog."""
        self.release(self.lock)
        self.close_watchdog()

    def listen(self) -> bool:
        """Learn what the manager wants, and return whether that worked."""
        try:
            known = self.seen.readable_files().status
        except FilesUnreadableError as error:
            self.say(events.StatusNotUpdated(str(error)))
            return False
        mode = self._mode(known)
        if known is not self.lrm.known or mode is not self.lrm.mode:
            self.lrm = replace(self.lrm, known=known, mode=mode)
        return True

    def report(self) -> bool:
        """Tell the manager how things stand, and return whether that worked."""
        if not self.seen.quorate:
            return False
        try:
            self.seen.readable_files()
        except FilesUnreadableError as error:
            self.say(events.ReportUnwritable(str(error)))
            return False
        lrm = self.lrm
        self.do(PublishReport(AgentReport(lrm.state, lrm.mode, lrm.results)))
        return True

    def manage_services(self) -> Jobs:
        """Do for each service of the node what the manager wants."""
        lrm, known = self.lrm, self.lrm.known
        queue = dict(lrm.queue)
        for service, status in known.services_on(lrm.node).items():
            if status.uid is None or status.state in LEFT_ALONE:
                continue
            if status.uid in lrm.results and status.state is not ServiceState.STOPPED:
                continue
            queue[service] = _job(service, status)
        tries = {s: count for s, count in lrm.tries.items() if s in known.services}
        self.lrm = replace(lrm, queue=queue, tries=tries)
        yield from self.work()

    def work(self) -> Jobs:
        """Do all that is queued; in the simulation nothing is left undone.

        Raises:
            FilesUnreadableError: The cluster file system does not answer.
        """
        services = self.seen.readable_files().services
        lrm = self.lrm
        if not lrm.queue:
            return
        work = _Work(self, dict(lrm.results), dict(lrm.tries), lrm.failed_stops)
        for _, job in sorted(lrm.queue.items()):
            end = yield job
            self.effects.extend(end.told)
            self.wait(end.delay)
            work.finish(job, end.code, services.get(job.service))
        uids = lrm.known.uids
        self.lrm = replace(
            lrm,
            queue={},
            results={uid: c for uid, c in work.results.items() if uid in uids},
            tries=work.tries,
            failed_stops=work.failed_stops,
        )

    def _mode(self, known: ManagerStatus) -> LrmMode:
        mode = self.lrm.mode
        if self.lrm.ending:
            return mode
        if self.lrm.node in known.maintenance_requests:
            return LrmMode.MAINTENANCE
        if known.disarm is not None:
            return LrmMode.DISARM
        if mode in (LrmMode.MAINTENANCE, LrmMode.DISARM):
            return LrmMode.ACTIVE
        return mode


def _job(service: ServiceId, status: ServiceStatus) -> Job:
    return Job(service, status.state, status.uid, status.target or None, status.timeout)


@dataclass(slots=True)
class _Work:
    """How the jobs of one turn ended so far.

    Attributes:
        turn: The turn in which they are done.
        results: As in `Lrm`.
        tries: As in `Lrm`.
        failed_stops: As in `Lrm`.
    """

    turn: LrmTurn
    results: dict[str, int]
    tries: dict[ServiceId, int]
    failed_stops: int

    def finish(self, job: Job, code: int, config: ServiceConfig | None) -> None:
        """Note that *job*, of a service with that *config*, ended with *code*."""
        if job.uid is None:
            self.failed_stops += code != ExitCode.SUCCESS
            return
        if job.command is ServiceState.STARTED:
            code = self._after_start(job.service, code, config)
        if code != ExitCode.RETRY:
            self.results[job.uid] = code

    def _after_start(
        self, service: ServiceId, code: int, config: ServiceConfig | None
    ) -> int:
        """Return what becomes of a start that ended with *code*."""
        tries = self.tries.get(service, 0)
        if code == ExitCode.SUCCESS:
            self.tries.pop(service, None)
        if code != ExitCode.ERROR:
            return code
        if config is None or tries >= config.max_restart:
            self.turn.say(events.RetriesExhausted(service, tries))
            self.tries.pop(service, None)
            return code
        self.tries[service] = tries + 1
        self.turn.say(events.StartRetried(service, tries + 1))
        return ExitCode.RETRY
