"""Simulated cluster that executes plans, and ways to disturb it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

from opendrs.controller import (
    CancellationToken,
    ExecutionContext,
    ExecutionReport,
    execute,
    recover,
)
from opendrs.errors import PlatformUnavailableError
from opendrs.guard import Rejection, RejectionReason
from opendrs.model import (
    GIB,
    Action,
    Guest,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    Mobility,
    Node,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.ports import (
    Clock,
    CycleRecord,
    Outcome,
    Platform,
    StepRecord,
    Store,
    TaskId,
    TaskStatus,
)
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from opendrs.store import MemoryStore
from support.builders import NOON

SHORT_LIMITS = Limits(cooldown=0, migration_timeout=300)


def migration(guest: str, source: str, target: str) -> LiveMigration:
    """Return the live migration of *guest* from *source* to *target*."""
    return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def step(name: str, action: Action, *after: str) -> Step:
    """Return a step that depends on the steps *after*."""
    return Step(StepId(name), action, tuple(StepId(other) for other in after))


class RecordingObserver:
    """Observer that records all events."""

    def __init__(self) -> None:
        self.started_steps: list[str] = []
        self.progress: list[str] = []
        self.waits: list[tuple[str, str]] = []
        self.rejections: list[tuple[str, RejectionReason]] = []
        self.finished: list[StepRecord] = []

    def step_started(self, step: Step) -> None:
        """Record the event."""
        self.started_steps.append(step.id)

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Record the event."""
        assert status.progress is not None
        self.progress.append(step.id)

    def step_waiting(self, step: Step, detail: str) -> None:
        """Record the event."""
        self.waits.append((step.id, detail))

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Record the event."""
        self.rejections.append((step.id, rejection.reason))

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Record the event."""
        assert record.step == step.id
        assert record.outcome is not None
        self.finished.append(record)

    def steps_polled(self) -> None:
        """Do nothing."""


class UnreliablePlatform(SimulatedPlatform):
    """Simulated platform that counts starts, and whose nodes may become unreachable.

    Migrations from and to an unreachable node continue. As with libvirt, its guests are
    not observed, a guest that arrives from it is paused at its target, and the status
    of a migration is requested from the source.

    Attributes:
        starts: Number of starts of each action.
        shows_arrivals: Whether such a guest is observed at its target.
    """

    def __init__(self, origin: Snapshot, clock: Clock, bandwidth: float) -> None:
        super().__init__(origin, clock, bandwidth=bandwidth, load_variation=0.0)
        self.starts: Counter[Action] = Counter()
        self.shows_arrivals = True
        self._unreachable: set[NodeId] = set()
        self._sources: dict[TaskId, NodeId] = {}

    def isolate(self, *nodes: NodeId) -> None:
        """Make *nodes* unreachable."""
        self._unreachable |= set(nodes)

    def rejoin(self, *nodes: NodeId) -> None:
        """Make *nodes* reachable."""
        self._unreachable -= set(nodes)

    def true_snapshot(self) -> Snapshot:
        """Return the cluster as it is, whatever of it can be seen."""
        return super().observe()

    def observe(self) -> Snapshot:
        """Return what can be seen."""
        snapshot = super().observe()
        nodes = {
            name: Node(id=name) if name in self._unreachable else found
            for name, found in snapshot.nodes.items()
        }
        observed = map(self._observed_guest, snapshot.guests.values())
        guests = {found.id: found for found in observed if found is not None}
        return replace(snapshot, nodes=nodes, guests=guests)

    def start(self, action: Action) -> TaskId:
        """Count it, and start it."""
        self.starts[action] += 1
        if isinstance(action, PowerOn | PowerOff):
            return super().start(action)
        self._require_reachable(action.source)
        task = super().start(action)
        self._sources[task] = action.source
        return task

    def status(self, task: TaskId) -> TaskStatus:
        """Ask the source."""
        self._require_reachable(self._sources.get(task))
        return super().status(task)

    def abort(self, task: TaskId) -> None:
        """Ask the source."""
        self._require_reachable(self._sources.get(task))
        super().abort(task)

    def _require_reachable(self, node: NodeId | None) -> None:
        if node in self._unreachable:
            raise PlatformUnavailableError(f"{node} does not answer")

    def _observed_guest(self, guest: Guest) -> Guest | None:
        target = guest.migrating_to
        if guest.node not in self._unreachable:
            lone = target in self._unreachable
            return replace(guest, migrating_to=None) if lone else guest
        if target is None or target in self._unreachable or not self.shows_arrivals:
            return None
        return replace(
            guest,
            node=target,
            migrating_to=None,
            state=GuestState.UNKNOWN,
            usage=Usage(),
            mobility=Mobility.NONE,
        )


class SimulatedCluster:
    """Simulated cluster with the dependencies of the plan executor.

    Args:
        origin: The cluster in the beginning.
        limits: Limits of the operator.
        bandwidth: Bytes per second over the link of one node.
        clock: The time; None for a clock that starts at noon.
    """

    def __init__(
        self,
        origin: Snapshot,
        limits: Limits = SHORT_LIMITS,
        bandwidth: float = GIB,
        clock: SimulatedClock | None = None,
    ) -> None:
        self.limits = limits
        self.clock = clock or SimulatedClock(NOON)
        self.simulated_platform = UnreliablePlatform(origin, self.clock, bandwidth)
        self.platform: Platform = self.simulated_platform
        self.store: Store = MemoryStore()
        self.observer = RecordingObserver()
        self.cancellation = CancellationToken()

    def execute(self, *steps: Step, run: str = "run") -> ExecutionReport:
        """Execute *steps*."""
        return execute(Plan(steps), self.context(), run=run)

    def recover(self) -> tuple[StepRecord, ...]:
        """Recover unfinished steps."""
        return recover(self.context())

    def context(self) -> ExecutionContext:
        """Return the context for the plan executor."""
        return ExecutionContext(
            platform=self.platform,
            clock=self.clock,
            store=self.store,
            limits=self.limits,
            observer=self.observer,
            cancellation=self.cancellation,
        )

    def intercept(
        self, interceptor: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """Pass every call to platform and store through *interceptor*."""
        intercepted = InterceptedPorts(self.simulated_platform, self.store, interceptor)
        self.platform, self.store = intercepted, intercepted

    def node_of(self, guest: str) -> str:
        """Return the node of *guest*."""
        return self.simulated_platform.observe().guests[GuestId(guest)].node

    @property
    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return self.clock.monotonic()


def outcomes(report: ExecutionReport) -> list[Outcome | None]:
    """Return the outcome of each step."""
    return [record.outcome for record in report.records]


class InterceptedPorts:
    """A platform and a store, each call to which goes through one tap.

    Args:
        platform: The platform.
        store: The store.
        interceptor: Entered before a call, with its name, and left after it.
    """

    def __init__(
        self,
        platform: Platform,
        store: Store,
        interceptor: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._platform = platform
        self._store = store
        self._interceptor = interceptor

    @property
    def name(self) -> str:
        """Return the name of the platform."""
        return self._platform.name

    def observe(self) -> Snapshot:
        """Forward the call."""
        with self._interceptor("observe"):
            return self._platform.observe()

    def start(self, action: Action) -> TaskId:
        """Forward the call."""
        with self._interceptor(f"start {action}"):
            return self._platform.start(action)

    def find(self, action: Action) -> TaskId:
        """Forward the call."""
        with self._interceptor("find"):
            return self._platform.find(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Forward the call."""
        with self._interceptor("status"):
            return self._platform.status(task)

    def abort(self, task: TaskId) -> None:
        """Forward the call."""
        with self._interceptor("abort"):
            self._platform.abort(task)

    def require_lease(self) -> None:
        """Forward the call; it is no call to the store."""
        self._store.require_lease()

    def load(self, key: str) -> Mapping[str, object] | None:
        """Forward the call."""
        with self._interceptor("load"):
            return self._store.load(key)

    def load_all(self, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Forward the call."""
        with self._interceptor("load_all"):
            return self._store.load_all(prefix)

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Forward the call."""
        with self._interceptor("save"):
            self._store.save(key, value)

    def replace(
        self, key: str, before: Mapping[str, object], after: Mapping[str, object]
    ) -> bool:
        """Forward the call."""
        with self._interceptor("replace"):
            return self._store.replace(key, before, after)

    def write(self, record: StepRecord) -> None:
        """Forward the call."""
        with self._interceptor(f"write {record.step} {record.task} {record.outcome}"):
            self._store.write(record)

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Forward the call."""
        with self._interceptor("unfinished"):
            return self._store.unfinished()

    def correct_times(self, now: datetime) -> int:
        """Forward the call."""
        with self._interceptor("correct times"):
            return self._store.correct_times(now)

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Forward the call."""
        with self._interceptor("of run"):
            return self._store.records_of(run)

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Forward the call."""
        with self._interceptor("note cycle"):
            self._store.record_cycle(cycle)

    def cycles(self) -> Iterator[CycleRecord]:
        """Forward the call."""
        with self._interceptor("cycles"):
            yield from self._store.cycles()

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Forward the call."""
        with self._interceptor("recent"):
            return self._store.recent(since)
