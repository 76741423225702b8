"""What was interrupted is followed first; then plan, ask, act, and tell."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta

import pytest

from builders import NOON, cluster
from opendrs.cli.performance import Performance, Task, perform
from opendrs.cli.sources import Source
from opendrs.controller import Brake, SilentWatcher, Watcher
from opendrs.controller.stores import MemoryStore
from opendrs.model import (
    GuestId,
    Limits,
    Migration,
    NodeId,
    Snapshot,
    Step,
    StepId,
)
from opendrs.policies import AutoRebalance, Balance, Policy, Reason
from opendrs.ports import Outcome, StepRecord, TaskStatus
from opendrs.sim import SimulatedClock, SimulatedPlatform

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
LEVEL = cluster(nodes={"a": 0.5, "b": 0.5}, guests={"vm": ("a", 0.1)})
HASTY = Limits(cooldown=0, quiet_time=0, patience=300)
MOVE = Migration(GuestId("one"), NodeId("a"), NodeId("b"))


class Spectator:
    """An audience that keeps what it is shown."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.found: Sequence[StepRecord] = ()
        self.seen: list[Performance] = []
        self.brakes: list[Brake] = []
        self._watcher = watcher or SilentWatcher()

    def interrupted(self, records: Sequence[StepRecord]) -> None:
        self.found = records

    def decided(self, performance: Performance) -> None:
        self.seen.append(performance)

    def watcher(self, brake: Brake) -> AbstractContextManager[Watcher]:
        self.brakes.append(brake)
        return nullcontext(self._watcher)

    def finished(self, performance: Performance) -> None:
        self.seen.append(performance)


def task(
    snapshot: Snapshot,
    policy: Policy[int] | Policy[None] | None = None,
    store: MemoryStore | None = None,
) -> tuple[Task, SimulatedPlatform]:
    clock = SimulatedClock(start=snapshot.taken_at)
    platform = SimulatedPlatform(snapshot, clock, swing=0.0)
    source = Source(platform=platform, clock=clock, lasting=False)
    chosen = policy or Balance(limits=HASTY)
    return Task(source=source, policy=chosen, store=store or MemoryStore()), platform


def left_under_way(platform: SimulatedPlatform, store: MemoryStore) -> StepRecord:
    """Return the record of a move that a process which is dead has started."""
    record = StepRecord(
        run="earlier",
        step=StepId("7"),
        action=MOVE,
        intended_at=NOON,
        task=platform.start(MOVE),
    )
    store.write(record)
    return record


def test_all_done_is_success() -> None:
    asked, platform = task(LOPSIDED)
    audience = Spectator()

    status = perform(asked, audience, consent=lambda: True)

    done = audience.seen[-1]
    assert status == 0
    assert done.report is not None
    assert done.report.complete
    assert done.after == platform.observe()
    assert done.measures["imbalance"] < done.decision.before["imbalance"]


def test_nothing_to_do_is_success_without_asking() -> None:
    asked, _ = task(LEVEL)
    audience = Spectator()

    status = perform(asked, audience, consent=lambda: pytest.fail("asked"))

    assert status == 0
    assert audience.seen[-1].decision.reason is Reason.BALANCED


def test_without_consent_nothing_is_started() -> None:
    asked, platform = task(LOPSIDED)

    status = perform(asked, Spectator(), consent=lambda: False)

    assert status == 1
    assert platform.observe().guests[GuestId("one")].node == "a"


def test_what_fails_is_a_failure() -> None:
    asked, platform = task(LOPSIDED)
    platform.later(2, lambda: platform.kill(NodeId("b")))

    status = perform(asked, Spectator(), consent=lambda: True)

    assert status == 3


class Hasty(SilentWatcher):
    """An operator who stops as soon as something runs.

    Args:
        pulls: How often Ctrl-C is pressed.
    """

    def __init__(self, pulls: int) -> None:
        self.pulls = pulls
        self.audience: Spectator

    def progressed(self, step: Step, status: TaskStatus) -> None:
        del step, status
        while self.pulls:
            self.pulls -= 1
            self.audience.brakes[-1].pull()


@pytest.mark.parametrize(
    ("pulls", "outcome"), [(1, Outcome.DONE), (2, Outcome.ABORTED)]
)
def test_what_the_operator_stopped_is_not_done_and_no_failure(
    pulls: int, outcome: Outcome
) -> None:
    limits = Limits(cooldown=0, quiet_time=0, moves_at_once=1)
    asked, _ = task(LOPSIDED, Balance(limits=limits))
    operator = Hasty(pulls)
    operator.audience = Spectator(operator)

    status = perform(asked, operator.audience, consent=lambda: True)

    report = operator.audience.seen[-1].report
    assert report is not None
    assert status == 1
    assert [record.outcome for record in report.records] == [outcome, Outcome.SKIPPED]


def test_what_was_interrupted_is_followed_to_its_end_first() -> None:
    store = MemoryStore()
    asked, platform = task(LOPSIDED, store=store)
    begun = left_under_way(platform, store)
    audience = Spectator()

    status = perform(asked, audience, consent=lambda: True)

    [resumed] = audience.seen[-1].resumed
    assert status == 0
    assert audience.found == (begun,)
    assert (resumed.run, resumed.outcome) == ("earlier", Outcome.DONE)
    assert audience.seen[0].before.guests[GuestId("one")].node == "b"
    assert store.unfinished() == ()


@pytest.mark.parametrize("pulls", [1, 2])
def test_who_stops_what_was_interrupted_wants_nothing_new(pulls: int) -> None:
    store = MemoryStore()
    asked, platform = task(LOPSIDED, store=store)
    left_under_way(platform, store)
    operator = Hasty(pulls)
    operator.audience = Spectator(operator)

    with pytest.raises(KeyboardInterrupt):
        perform(asked, operator.audience, consent=lambda: True)

    assert operator.audience.seen == []
    assert store.unfinished() == ()
    assert len(store.recent(NOON)) == 1


def test_the_policy_remembers_from_one_call_to_the_next() -> None:
    store, policy = MemoryStore(), AutoRebalance(hold=2, limits=HASTY)
    reasons = []
    for _ in range(2):
        asked, _ = task(LOPSIDED, policy, store)
        audience = Spectator()
        perform(asked, audience, consent=lambda: False)
        reasons.append(audience.seen[0].decision.reason)

    assert reasons[0] is Reason.NOT_YET_SUSTAINED
    assert reasons[1] is not Reason.NOT_YET_SUSTAINED


def test_what_was_done_is_told_though_the_cluster_cannot_be_seen() -> None:
    asked, platform = task(LOPSIDED, Balance(moves=1, limits=HASTY))

    class Last(SilentWatcher):
        def ended(self, step: Step, record: StepRecord) -> None:
            del step, record
            platform.disconnect()

    audience = Spectator(Last())

    status = perform(asked, audience, consent=lambda: True)

    assert status == 0
    assert audience.seen[-1].report is not None
    assert audience.seen[-1].after is None


def test_records_tell_when_it_was() -> None:
    asked, _ = task(LOPSIDED)
    audience = Spectator()

    perform(asked, audience, consent=lambda: True)

    report = audience.seen[-1].report
    assert report is not None
    for record in report.records:
        assert record.ended_at is not None
        assert timedelta() < record.ended_at - NOON < timedelta(minutes=10)
