"""A simulated cluster on which plans are carried out, and ways to disturb it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

from builders import NOON
from opendrs.controller import Brake, Means, Report, execute, resume
from opendrs.controller.stores import MemoryStore
from opendrs.errors import PlatformUnavailableError
from opendrs.model import (
    GIB,
    Action,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Migration,
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
from opendrs.sim import SimulatedClock, SimulatedPlatform

HASTY = Limits(cooldown=0, patience=300)


def migration(guest: str, source: str, target: str) -> Migration:
    """Return the migration of *guest* from *source* to *target*."""
    return Migration(GuestId(guest), NodeId(source), NodeId(target))


def step(name: str, action: Action, *after: str) -> Step:
    """Return a step that waits for the steps called *after*."""
    return Step(StepId(name), action, tuple(StepId(other) for other in after))


class Diary:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.started_steps: list[str] = []
        self.looks: list[str] = []
        self.waits: list[tuple[str, str]] = []
        self.ends: list[StepRecord] = []

    def started(self, step: Step) -> None:
        """Write it down."""
        self.started_steps.append(step.id)

    def progressed(self, step: Step, status: TaskStatus) -> None:
        """Write it down."""
        assert status.progress is not None
        self.looks.append(step.id)

    def waiting(self, step: Step, why: str) -> None:
        """Write it down."""
        self.waits.append((step.id, why))

    def ended(self, step: Step, record: StepRecord) -> None:
        """Write it down."""
        assert record.step == step.id
        assert record.outcome is not None
        self.ends.append(record)


class WatchedPlatform(SimulatedPlatform):
    """A simulated platform that counts starts, and whose nodes may stop answering.

    What runs on, from and to a node that does not answer runs on. As with libvirt, its
    guests are not seen, a guest that arrives from it stands still at its target, and
    the source is asked how a migration stands.

    Attributes:
        starts: How often each action was started.
        shows_arrivals: Whether such a guest is seen at its target at all.
    """

    def __init__(self, origin: Snapshot, clock: Clock, bandwidth: float) -> None:
        super().__init__(origin, clock, bandwidth=bandwidth, swing=0.0)
        self.starts: Counter[Action] = Counter()
        self.shows_arrivals = True
        self._isolated: set[NodeId] = set()
        self._sources: dict[TaskId, NodeId] = {}

    def isolate(self, *nodes: NodeId) -> None:
        """Let *nodes* answer no question."""
        self._isolated |= set(nodes)

    def rejoin(self, *nodes: NodeId) -> None:
        """Let *nodes* answer again."""
        self._isolated -= set(nodes)

    def truth(self) -> Snapshot:
        """Return the cluster as it is, whatever of it can be seen."""
        return super().observe()

    def observe(self) -> Snapshot:
        """Return what can be seen."""
        seen = super().observe()
        nodes = {
            name: Node(id=name) if name in self._isolated else found
            for name, found in seen.nodes.items()
        }
        shown = map(self._as_shown, seen.guests.values())
        guests = {found.id: found for found in shown if found is not None}
        return replace(seen, nodes=nodes, guests=guests)

    def start(self, action: Action) -> TaskId:
        """Count it, and start it."""
        self.starts[action] += 1
        if isinstance(action, PowerOn | PowerOff):
            return super().start(action)
        self._require_answer(action.source)
        task = super().start(action)
        self._sources[task] = action.source
        return task

    def status(self, task: TaskId) -> TaskStatus:
        """Ask the source."""
        self._require_answer(self._sources.get(task))
        return super().status(task)

    def abort(self, task: TaskId) -> None:
        """Ask the source."""
        self._require_answer(self._sources.get(task))
        super().abort(task)

    def _require_answer(self, node: NodeId | None) -> None:
        if node in self._isolated:
            raise PlatformUnavailableError(f"{node} does not answer")

    def _as_shown(self, guest: Guest) -> Guest | None:
        target = guest.migrating_to
        if guest.node not in self._isolated:
            lone = target in self._isolated
            return replace(guest, migrating_to=None) if lone else guest
        if target is None or target in self._isolated or not self.shows_arrivals:
            return None
        return replace(
            guest,
            node=target,
            migrating_to=None,
            state=GuestState.UNKNOWN,
            usage=Usage(),
            moves=Mobility.NEVER,
        )


class Stage:
    """A simulated cluster, and all that is needed to carry out plans on it.

    Args:
        origin: The cluster in the beginning.
        limits: What the operator allows.
        bandwidth: Bytes a second over the link of one node.
    """

    def __init__(
        self, origin: Snapshot, limits: Limits = HASTY, bandwidth: float = GIB
    ) -> None:
        self.limits = limits
        self.clock = SimulatedClock(NOON)
        self.world = WatchedPlatform(origin, self.clock, bandwidth)
        self.platform: Platform = self.world
        self.store: Store = MemoryStore()
        self.diary = Diary()
        self.brake = Brake()

    def play(self, *steps: Step, run: str = "run") -> Report:
        """Carry out *steps*."""
        return execute(Plan(steps), self.means(), run=run)

    def pick_up(self) -> tuple[StepRecord, ...]:
        """Follow what was left."""
        return resume(self.means())

    def means(self) -> Means:
        """Return what is at hand here."""
        return Means(
            platform=self.platform,
            clock=self.clock,
            store=self.store,
            limits=self.limits,
            watcher=self.diary,
            brake=self.brake,
        )

    def tap(self, tap: Callable[[str], AbstractContextManager[None]]) -> None:
        """Let every call to platform and store go through *tap*."""
        tapped = Tapped(self.world, self.store, tap)
        self.platform, self.store = tapped, tapped

    def node_of(self, guest: str) -> str:
        """Return where *guest* is."""
        return self.world.observe().guests[GuestId(guest)].node

    @property
    def elapsed(self) -> float:
        """Return the seconds since the beginning."""
        return self.clock.monotonic()


def outcomes(report: Report) -> list[Outcome | None]:
    """Return what came of each step."""
    return [record.outcome for record in report.records]


class Tapped:
    """A platform and a store, each call to which goes through one tap.

    Args:
        platform: The platform.
        store: The store.
        tap: Entered before a call, with its name, and left after it.
    """

    def __init__(
        self,
        platform: Platform,
        store: Store,
        tap: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self._platform = platform
        self._store = store
        self._tap = tap

    @property
    def name(self) -> str:
        """Return the name of the platform."""
        return self._platform.name

    def observe(self) -> Snapshot:
        """Pass it on."""
        with self._tap("observe"):
            return self._platform.observe()

    def start(self, action: Action) -> TaskId:
        """Pass it on."""
        with self._tap(f"start {action}"):
            return self._platform.start(action)

    def find(self, action: Action) -> TaskId:
        """Pass it on."""
        with self._tap("find"):
            return self._platform.find(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Pass it on."""
        with self._tap("status"):
            return self._platform.status(task)

    def abort(self, task: TaskId) -> None:
        """Pass it on."""
        with self._tap("abort"):
            self._platform.abort(task)

    def load(self, key: str) -> Mapping[str, object] | None:
        """Pass it on."""
        with self._tap("load"):
            return self._store.load(key)

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Pass it on."""
        with self._tap("save"):
            self._store.save(key, value)

    def write(self, record: StepRecord) -> None:
        """Pass it on."""
        with self._tap(f"write {record.step} {record.task} {record.outcome}"):
            self._store.write(record)

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Pass it on."""
        with self._tap("unfinished"):
            return self._store.unfinished()

    def correct_times(self, now: datetime) -> int:
        """Pass it on."""
        with self._tap("correct times"):
            return self._store.correct_times(now)

    def of_run(self, run: str) -> tuple[StepRecord, ...]:
        """Pass it on."""
        with self._tap("of run"):
            return self._store.of_run(run)

    def note_cycle(self, cycle: CycleRecord) -> None:
        """Pass it on."""
        with self._tap("note cycle"):
            self._store.note_cycle(cycle)

    def cycles(self) -> tuple[CycleRecord, ...]:
        """Pass it on."""
        with self._tap("cycles"):
            return self._store.cycles()

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Pass it on."""
        with self._tap("recent"):
            return self._store.recent(since)
