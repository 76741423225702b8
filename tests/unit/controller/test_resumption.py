"""A process may die at any time: nothing is lost, and nothing done twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, cluster, guest_ids
from opendrs.model import (
    Affinity,
    GuestId,
    GuestState,
    Migration,
    Snapshot,
    Step,
    StepId,
)
from opendrs.ports import Outcome, StepRecord, Store, TaskId
from opendrs.rules import violations
from stage import Stage, migration, step

PAIR = Affinity(guests=guest_ids("vm1", "vm2"), name="a pair")
STEPS = (
    step("1", migration("vm1", "a", "b")),
    step("2", migration("vm2", "a", "b")),
    step("3", migration("vm3", "a", "c")),
    step("4", migration("vm4", "a", "c"), "3"),
    step("5", migration("vm5", "c", "b"), "4"),
)


def crowd() -> Snapshot:
    """Return three nodes; vm1 and vm2 belong together."""
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 5)} | {
        "vm5": ("c", 0.05)
    }
    return cluster({"a": 0.6, "b": 0.1, "c": 0.2}, guests, [PAIR])


class Killed(BaseException):
    """The process is gone; nothing may catch it."""


class Fuse:
    """Lets the process die at one of its calls to platform and store.

    Args:
        at: The number of the call, the first being 0.
        too_late: Whether the call takes effect before.
    """

    def __init__(self, at: int, *, too_late: bool) -> None:
        self.calls = 0
        self._at = at
        self._too_late = too_late

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        burns = self.calls == self._at
        self.calls += 1
        if burns and not self._too_late:
            raise Killed(name)
        yield
        if burns:
            raise Killed(name)


def new_process(stage: Stage, store: Store) -> None:
    """Let *stage* forget all but the world and the store."""
    stage.platform, stage.store = stage.world, store


def dies(stage: Stage, fuse: Fuse, *steps: Step) -> bool:
    """Carry out *steps* until the fuse burns; return whether it did."""
    stage.tap(fuse)
    try:
        stage.play(*steps)
    except Killed:
        return True
    return False


def dies_again(stage: Stage, fuse: Fuse) -> bool:
    """Pick up what was left until the fuse burns; return whether it did."""
    stage.tap(fuse)
    try:
        stage.pick_up()
    except Killed:
        return True
    return False


def calls_of_a_whole_run() -> int:
    """Return how many calls there are when nobody dies."""
    fuse = Fuse(-1, too_late=False)
    assert not dies(Stage(crowd()), fuse, *STEPS)
    return fuse.calls


def records(store: Store) -> tuple[StepRecord, ...]:
    return store.recent(NOON)


def check_that_all_is_well(stage: Stage) -> None:
    """Check that no guest is lost or was moved twice, and the record is true."""
    seen = stage.world.observe()
    assert stage.store.unfinished() == ()
    assert max(stage.world.starts.values(), default=0) <= 1
    for found in seen.guests.values():
        assert found.state is GuestState.RUNNING
        assert found.migrating_to is None
    done = {r.action for r in records(stage.store) if r.outcome is Outcome.DONE}
    for one in STEPS:
        assert isinstance(one.action, Migration)
        place = seen.guests[one.action.guest].node
        assert place == (one.action.target if one.action in done else one.action.source)


CALLS = calls_of_a_whole_run()


@pytest.mark.parametrize("too_late", [False, True])
def test_wherever_it_dies_nothing_is_lost_or_done_twice(*, too_late: bool) -> None:
    deaths = 0
    for at in range(CALLS):
        stage = Stage(crowd())
        store = stage.store
        deaths += dies(stage, Fuse(at, too_late=too_late), *STEPS)
        new_process(stage, store)

        stage.pick_up()

        check_that_all_is_well(stage)
        assert not violations(stage.world.observe())

    assert deaths == CALLS > 50


@pytest.mark.parametrize("too_late", [False, True])
def test_it_may_die_again_while_it_picks_up_what_was_left(*, too_late: bool) -> None:
    deaths = 0
    for at in range(0, CALLS, 5):
        for again in range(12):
            stage = Stage(crowd())
            store = stage.store
            dies(stage, Fuse(at, too_late=not too_late), *STEPS)
            new_process(stage, store)
            deaths += dies_again(stage, Fuse(again, too_late=too_late))
            new_process(stage, store)

            stage.pick_up()

            check_that_all_is_well(stage)

    assert deaths > 50


def test_what_was_not_done_can_be_done_afterwards() -> None:
    for at in range(0, CALLS, 3):
        stage = Stage(crowd())
        store = stage.store
        dies(stage, Fuse(at, too_late=True), *STEPS)
        new_process(stage, store)
        stage.pick_up()
        done = {r.step for r in records(store) if r.outcome is Outcome.DONE}
        rest = [
            replace(one, after=tuple(name for name in one.after if name not in done))
            for one in STEPS
            if one.id not in done
        ]

        report = stage.play(*rest, run="second")

        assert report.complete
        assert [stage.node_of(f"vm{n}") for n in range(1, 6)] == list("bbccb")


def left_behind(task: str | None) -> Stage:
    """Return a stage on which vm3 was about to be moved to c."""
    stage = Stage(crowd())
    stage.store.write(
        StepRecord(
            run="run",
            step=StepId("3"),
            action=migration("vm3", "a", "c"),
            intended_at=NOON,
            task=None if task is None else TaskId(task),
        )
    )
    return stage


def test_has_nothing_to_pick_up_when_all_has_ended() -> None:
    stage = Stage(crowd())
    stage.play(*STEPS)

    assert stage.pick_up() == ()


def test_what_was_intended_and_not_started_is_never_started() -> None:
    stage = left_behind(task=None)

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.LOST
    assert record.detail == "never started"
    assert stage.node_of("vm3") == "a"
    assert stage.diary.started_steps == []


def test_what_runs_is_followed_to_its_end() -> None:
    stage = left_behind(task=None)
    stage.world.start(migration("vm3", "a", "c"))

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.DONE
    assert record.task == "migration vm3 a c"
    assert stage.diary.started_steps == ["3"]
    assert stage.elapsed > 5


def test_what_ended_meanwhile_is_noted() -> None:
    stage = left_behind(task=None)
    task = stage.world.start(migration("vm3", "a", "c"))
    stage.clock.sleep(3)
    stage.world.abort(task)

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.FAILED
    assert record.detail == "given up on request; vm3 is on a (running)"


def test_a_task_the_platform_has_forgotten_is_lost_and_its_guest_is_not() -> None:
    stage = left_behind(task="migration vm3 a c")

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.LOST
    assert record.detail == (
        "the platform no longer knows migration vm3 a c; vm3 is on a (running)"
    )


def test_what_runs_for_too_long_is_given_up() -> None:
    stage = left_behind(task=None)
    stage.world.agitate(GuestId("vm3"))
    stage.world.start(migration("vm3", "a", "c"))
    stage.clock.sleep(400)

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.ABORTED
    assert record.detail.startswith("did not converge within 300 s")


def test_the_brake_pulled_twice_aborts_what_was_left() -> None:
    stage = left_behind(task=None)
    stage.world.start(migration("vm3", "a", "c"))
    stage.brake.pull()
    stage.brake.pull()

    (record,) = stage.pick_up()

    assert record.outcome is Outcome.ABORTED
    assert stage.node_of("vm3") == "a"


def test_one_of_a_pair_does_not_go_alone_when_the_other_was_not_started() -> None:
    stage = Stage(crowd())
    for name, guest in (("1", "vm1"), ("2", "vm2")):
        stage.store.write(
            StepRecord(
                run="run",
                step=StepId(name),
                action=migration(guest, "a", "b"),
                intended_at=NOON,
            )
        )
    stage.world.start(migration("vm1", "a", "b"))

    first, second = stage.pick_up()

    assert first.outcome is Outcome.ABORTED
    assert second.outcome is Outcome.LOST
    assert stage.node_of("vm1") == stage.node_of("vm2") == "a"


def test_steps_of_other_runs_do_not_count_as_companions() -> None:
    stage = Stage(crowd())
    for run, guest in (("first", "vm1"), ("second", "vm2")):
        stage.store.write(
            StepRecord(
                run=run,
                step=StepId("1"),
                action=migration(guest, "a", "b"),
                intended_at=NOON,
            )
        )
    stage.world.start(migration("vm1", "a", "b"))

    outcomes = [record.outcome for record in stage.pick_up()]

    assert outcomes == [Outcome.DONE, Outcome.LOST]


def test_picks_up_also_when_the_rules_cannot_be_seen_at_first() -> None:
    stage = left_behind(task=None)
    stage.store.write(
        StepRecord(
            run="run",
            step=StepId("4"),
            action=migration("vm4", "a", "c"),
            intended_at=NOON + timedelta(seconds=1),
        )
    )
    stage.world.start(migration("vm3", "a", "c"))
    stage.world.disconnect()
    stage.world.later(30, stage.world.reconnect)

    outcomes = [record.outcome for record in stage.pick_up()]

    assert outcomes == [Outcome.DONE, Outcome.LOST]
    assert stage.diary.waits[0] == ("3", "simulation does not answer")
