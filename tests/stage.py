"""A simulated cluster on which plans are carried out, and ways to disturb it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime

from builders import NOON
from opendrs.controller import Brake, Means, Report, execute, resume
from opendrs.controller.stores import MemoryStore
from opendrs.model import (
    GIB,
    Action,
    GuestId,
    Limits,
    Migration,
    NodeId,
    Plan,
    Snapshot,
    Step,
    StepId,
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


class CountedPlatform(SimulatedPlatform):
    """A simulated platform that counts how often it was told to start what."""

    def __init__(self, origin: Snapshot, clock: Clock, bandwidth: float) -> None:
        super().__init__(origin, clock, bandwidth=bandwidth, swing=0.0)
        self.starts: Counter[Action] = Counter()

    def start(self, action: Action) -> TaskId:
        """Count it, and start it."""
        self.starts[action] += 1
        return super().start(action)


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
        self.world = CountedPlatform(origin, self.clock, bandwidth)
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
