"""A plan is carried out step by step, and every step gets an outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, cluster, guest, guest_ids, node
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    StoreError,
    UnsupportedError,
)
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Rule,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.ports import Outcome, StepRecord
from stage import HASTY, Stage, Tapped, migration, outcomes, step

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
DONE, FAILED, ABORTED = Outcome.DONE, Outcome.FAILED, Outcome.ABORTED
REFUSED, SKIPPED, LOST = Outcome.REFUSED, Outcome.SKIPPED, Outcome.LOST
ONE = step("1", migration("vm1", "a", "b"))
TWO = step("2", migration("vm2", "a", "c"))
TOGETHER = Affinity(guests=guest_ids("vm1", "vm2"), name="a pair")


def crowd(*rules: Rule) -> Snapshot:
    """Return three nodes, with six guests of 10 GiB on the first."""
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests, rules)


def test_does_what_the_plan_says() -> None:
    stage = Stage(crowd())

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [DONE, DONE]
    assert report.complete
    assert report.summary == "2 done"
    assert (stage.node_of("vm1"), stage.node_of("vm2")) == ("b", "c")


def test_an_empty_plan_is_done_at_once() -> None:
    stage = Stage(crowd())

    assert stage.play().summary == "nothing to do"
    assert stage.elapsed == 0


def test_tells_the_watcher_what_happens() -> None:
    stage = Stage(crowd())

    report = stage.play(ONE, TWO)

    assert stage.diary.started_steps == ["1", "2"]
    assert set(stage.diary.looks) == {"1", "2"}
    assert {record.step for record in stage.diary.ends} == {"1", "2"}
    assert set(stage.diary.ends) == set(report.records)


def test_keeps_the_records_in_the_store() -> None:
    stage = Stage(crowd())

    report = stage.play(ONE, TWO)

    assert set(stage.store.recent(NOON)) == set(report.records)
    assert stage.store.unfinished() == ()


def test_writes_the_intention_before_the_start_and_the_task_right_after() -> None:
    stage = Stage(crowd())
    calls: list[str] = []

    @contextmanager
    def listening(name: str) -> Iterator[None]:
        calls.append(name)
        yield

    stage.tap(listening)
    stage.play(ONE)

    started = calls.index(f"start {ONE.action}")
    assert calls[started - 1] == "write 1 None None"
    assert calls[started + 1] == "write 1 migration vm1 a b None"


def test_does_not_start_a_step_before_those_it_waits_for_are_done() -> None:
    stage = Stage(crowd())

    report = stage.play(ONE, step("2", migration("vm2", "a", "c"), "1"))
    first, second = report.records

    assert outcomes(report) == [DONE, DONE]
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


def test_does_not_start_what_waits_for_a_step_that_failed() -> None:
    stage = Stage(crowd())
    stage.world.later(3, lambda: stage.world.kill(B))

    report = stage.play(
        ONE,
        step("2", migration("vm2", "a", "c"), "1"),
        step("3", migration("vm3", "a", "c"), "2"),
    )

    assert outcomes(report) == [FAILED, SKIPPED, SKIPPED]
    assert report.records[1].detail == "it waits for 1, which was not done"
    assert stage.node_of("vm2") == "a"


def test_a_guest_may_move_twice_in_one_plan() -> None:
    stage = Stage(crowd(), limits=Limits(cooldown=600))

    report = stage.play(ONE, step("2", migration("vm1", "b", "c"), "1"))

    assert outcomes(report) == [DONE, DONE]
    assert stage.node_of("vm1") == "c"


def test_what_the_guard_refuses_is_refused_in_its_words() -> None:
    full = replace(crowd(), nodes={**crowd().nodes, B: node("b", 0.9)})
    stage = Stage(full)

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [REFUSED, DONE]
    assert report.records[0].detail.startswith("b uses 90.0 GiB, and 10.0 GiB would")
    assert stage.node_of("vm1") == "a"


def test_judges_each_step_on_what_has_become_of_the_cluster() -> None:
    stage = Stage(crowd())
    stage.world.later(8, lambda: stage.world.kill(C))

    report = stage.play(ONE, step("2", migration("vm2", "a", "c"), "1"))

    assert outcomes(report) == [DONE, REFUSED]
    assert report.records[1].detail == "c is not online but offline"


def most_at_once(stage: Stage, *steps: Step) -> dict[str, int]:
    """Carry out *steps*; return how many moved at once, by node and in all."""
    most = Counter({"all": 0})

    @contextmanager
    def counting(_: str) -> Iterator[None]:
        yield
        seen = stage.world.observe().guests.values()
        moving = [found for found in seen if found.migrating_to is not None]
        now = Counter(name for found in moving for name in found.locations)
        for name, count in [*now.items(), ("all", len(moving))]:
            most[name] = max(most[name], count)

    stage.tap(counting)
    assert stage.play(*steps).complete
    return dict(most)


def test_one_node_gives_no_more_at_once_than_the_operator_allows() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, moves_per_node=2))
    steps = [step(str(n), migration(f"vm{n}", "a", "bc"[n % 2])) for n in range(1, 7)]

    assert most_at_once(stage, *steps) == {"a": 2, "b": 1, "c": 1, "all": 2}


def test_the_cluster_moves_no_more_at_once_than_the_operator_allows() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, moves_per_node=6, moves_at_once=3))
    steps = [step(str(n), migration(f"vm{n}", "a", "b")) for n in range(1, 7)]

    assert most_at_once(stage, *steps) == {"a": 3, "b": 3, "all": 3}


def test_says_once_what_a_step_waits_for() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, moves_per_node=1))

    stage.play(ONE, TWO)

    assert stage.diary.waits == [("2", "1 moves from or to a under way, of at most 1")]


def test_waits_for_room_that_a_guest_on_its_way_will_leave() -> None:
    # b has room for one of them only once vm7 has left; the plan does not say.
    full = {**crowd().nodes, B: node("b", 0.8)}
    guests = {**crowd().guests, GuestId("vm7"): guest("vm7", "b", 0.2)}
    stage = Stage(replace(crowd(), nodes=full, guests=guests))
    tight = step("2", migration("vm6", "a", "b"))
    second = step("3", migration("vm5", "a", "b"))

    report = stage.play(step("1", migration("vm7", "b", "c")), tight, second)

    assert outcomes(report) == [DONE, DONE, DONE]


def test_gives_up_a_guest_that_does_not_converge() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, patience=60))
    stage.world.agitate(GuestId("vm1"))

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [ABORTED, DONE]
    assert report.records[0].detail == (
        "did not converge within 60 s: the guest writes 2048 MiB/s and 1024 MiB/s "
        "are sent; vm1 is on a (running)"
    )


def test_tells_where_a_guest_is_whose_target_died() -> None:
    stage = Stage(crowd())
    stage.world.later(5, lambda: stage.world.kill(B))

    report = stage.play(ONE)

    assert outcomes(report) == [FAILED]
    assert report.records[0].detail == "b died; vm1 is on a (running)"


def test_tells_that_the_link_was_cut() -> None:
    stage = Stage(crowd())
    stage.world.later(5, lambda: stage.world.cut(B))

    report = stage.play(ONE)

    assert outcomes(report) == [FAILED]
    assert report.records[0].detail == (
        "the connection to b broke; vm1 is on a (running)"
    )


def test_a_task_the_platform_no_longer_knows_is_lost() -> None:
    stage = Stage(crowd())
    stage.world.later(5, lambda: stage.world.forget(ONE.action))

    report = stage.play(ONE)

    assert outcomes(report) == [LOST]
    assert report.records[0].detail == (
        "the platform no longer knows migration vm1 a b; vm1 is on a (running)"
    )


def test_bears_with_a_platform_that_does_not_answer_for_a_while() -> None:
    stage = Stage(crowd())
    stage.world.later(3, stage.world.disconnect)
    stage.world.later(40, stage.world.reconnect)

    report = stage.play(ONE, step("2", migration("vm2", "a", "c"), "1"))

    assert outcomes(report) == [DONE, DONE]
    assert stage.diary.waits == [("1", "simulation does not answer")]


def test_asks_less_and_less_often() -> None:
    stage = Stage(crowd())
    stage.world.later(3, stage.world.disconnect)
    stage.world.later(200, stage.world.reconnect)
    attempts: list[float] = []

    @contextmanager
    def noting(name: str) -> Iterator[None]:
        if name == "status":
            attempts.append(stage.elapsed)
        yield

    stage.tap(noting)
    stage.play(ONE)

    assert attempts == [1, 2, 3, 4, 6, 10, 18, 34, 66, 126, 186, 246]


def test_gives_up_on_a_platform_that_does_not_answer_for_too_long() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, patience=60))
    stage.world.later(3, stage.world.disconnect)

    report = stage.play(ONE, step("2", migration("vm2", "a", "c")))

    assert outcomes(report) == [LOST, LOST]
    assert report.records[0].detail == (
        "could not be asked after for 60 s: simulation does not answer; "
        "where vm1 is now could not be seen"
    )
    assert 60 < stage.elapsed < 180


def test_starts_nothing_in_a_cluster_that_cannot_be_seen() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, patience=60))
    stage.world.disconnect()

    report = stage.play(ONE)

    assert outcomes(report) == [SKIPPED]
    assert report.records[0].detail == (
        "the cluster cannot be seen: simulation does not answer"
    )
    assert stage.diary.waits == [("1", "simulation does not answer")]


def complaining(
    stage: Stage, about: str, error: PlatformError, *, too_late: bool = False
) -> None:
    """Let the first call of *about* fail, before or after it took effect."""
    left = [error]

    @contextmanager
    def tap(name: str) -> Iterator[None]:
        strikes = name.startswith(about) and bool(left)
        if strikes and not too_late:
            raise left.pop()
        yield
        if strikes:
            raise left.pop()

    stage.tap(tap)


@pytest.mark.parametrize(
    "error", [UnsupportedError, PermissionDeniedError, PlatformError]
)
def test_a_step_the_platform_does_not_take_has_failed(
    error: type[PlatformError],
) -> None:
    stage = Stage(crowd())
    complaining(stage, "start", error("no"))

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [FAILED, DONE]
    assert report.records[0].detail == "could not be started: no"


def test_a_step_that_runs_in_spite_of_a_complaint_is_followed() -> None:
    stage = Stage(crowd())
    complaining(stage, "start", PlatformUnavailableError("time is out"), too_late=True)

    report = stage.play(ONE)

    assert outcomes(report) == [DONE]
    assert stage.diary.started_steps == ["1"]


def test_a_name_that_another_task_had_is_not_taken_for_the_task() -> None:
    stage = Stage(crowd())
    there_and_back = [ONE, step("2", migration("vm1", "b", "a"), "1")]
    assert outcomes(stage.play(*there_and_back, run="first")) == [DONE, DONE]
    complaining(stage, "start", PlatformUnavailableError("time is out"))

    report = stage.play(ONE, run="second")

    assert outcomes(report) == [FAILED]
    assert report.records[0].detail == "could not be started: time is out"


def test_a_platform_that_forbids_to_ask_has_lost_the_step() -> None:
    stage = Stage(crowd())
    complaining(stage, "status", PermissionDeniedError("no"))

    report = stage.play(ONE)

    assert outcomes(report) == [LOST]
    assert (
        report.records[0].detail == "cannot be asked after: no; vm1 is on a (running)"
    )


def test_a_platform_that_forbids_to_look_starts_nothing() -> None:
    stage = Stage(crowd())
    complaining(stage, "observe", PermissionDeniedError("no"))

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [SKIPPED, SKIPPED]
    assert report.records[0].detail == "the cluster cannot be seen: no"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PlatformUnavailableError("busy"), []),
        (PlatformError("no"), [("1", "cannot be aborted: no")]),
    ],
)
def test_an_abort_that_fails_does_not_lose_the_step(
    error: PlatformError, told: list[tuple[str, str]]
) -> None:
    stage = Stage(crowd(), limits=replace(HASTY, patience=60))
    stage.world.agitate(GuestId("vm1"))
    complaining(stage, "abort", error)

    report = stage.play(ONE)

    # Asked again where nobody answered; else the step is lost in the end.
    assert outcomes(report) == [LOST if told else ABORTED]
    assert stage.diary.waits == told


def test_a_store_that_fails_starts_nothing_more() -> None:
    stage = Stage(crowd())

    @contextmanager
    def full(name: str) -> Iterator[None]:
        if name.startswith("write 2"):
            raise StoreError("the disk is full")
        yield

    stage.tap(full)

    with pytest.raises(StoreError, match="the disk is full"):
        stage.play(ONE, TWO)
    assert stage.world.observe().guests[GuestId("vm2")].migrating_to is None


def test_the_brake_stops_new_steps_and_lets_running_ones_end() -> None:
    stage = Stage(crowd(), limits=replace(HASTY, moves_at_once=1))
    stage.world.later(3, stage.brake.pull)

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [DONE, SKIPPED]
    assert report.records[1].detail == "stopped by the operator"
    assert report.summary == "1 done, 1 skipped"
    assert not report.complete


def test_the_brake_pulled_twice_aborts_running_steps() -> None:
    stage = Stage(crowd())
    stage.world.later(2, stage.brake.pull)
    stage.world.later(3, stage.brake.pull)

    report = stage.play(ONE, TWO)

    assert outcomes(report) == [ABORTED, ABORTED]
    assert report.records[0].detail == (
        "aborted by the operator; vm1 is on a (running)"
    )
    assert stage.elapsed < 6


def test_leaves_alone_who_was_moved_by_an_earlier_run() -> None:
    stage = Stage(crowd(), limits=Limits(cooldown=600))
    stage.play(ONE, run="first")

    report = stage.play(step("1", migration("vm1", "b", "c")), TWO, run="second")

    assert outcomes(report) == [REFUSED, DONE]
    assert "is left alone for 600 s" in report.records[0].detail


def test_wakes_nodes_before_guests_go_there_and_empties_them_before_sleep() -> None:
    asleep = node("c", 0.0, state=NodeState.OFFLINE)
    origin = cluster({"a": 0.7, "b": 0.2}, {"vm1": ("b", 0.1)})
    stage = Stage(replace(origin, nodes={**origin.nodes, C: asleep}))

    report = stage.play(
        step("wake", PowerOn(C)),
        step("move", migration("vm1", "b", "c"), "wake"),
        step("sleep", PowerOff(B), "move"),
    )

    assert outcomes(report) == [DONE, DONE, DONE]
    assert stage.world.observe().nodes[B].state is NodeState.OFFLINE


def test_guests_that_belong_together_start_together() -> None:
    stage = Stage(crowd(TOGETHER))

    report = stage.play(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [DONE, DONE]
    assert report.records[0].intended_at == report.records[1].intended_at


def test_a_guest_does_not_leave_the_one_it_belongs_to() -> None:
    stage = Stage(crowd(TOGETHER))

    report = stage.play(ONE)

    assert outcomes(report) == [REFUSED]
    assert "a pair: broken by vm1, vm2 on a, b" in report.records[0].detail


def test_the_other_stays_when_one_of_a_pair_cannot_start() -> None:
    stage = Stage(crowd(TOGETHER))
    second = step("2", migration("vm2", "a", "b"))
    complaining(stage, f"start {second.action}", UnsupportedError("no"))

    report = stage.play(ONE, second)

    assert outcomes(report) == [ABORTED, FAILED]
    assert report.records[0].detail == (
        "given up because 2, bound to it, did not go; vm1 is on a (running)"
    )
    assert stage.node_of("vm1") == stage.node_of("vm2") == "a"


def test_the_other_is_not_started_when_the_first_of_a_pair_cannot_start() -> None:
    stage = Stage(crowd(TOGETHER))
    complaining(stage, "start", UnsupportedError("no"))

    report = stage.play(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [FAILED, SKIPPED]
    assert stage.diary.started_steps == []


def test_says_so_when_a_pair_was_torn_apart() -> None:
    stage = Stage(crowd(TOGETHER), limits=replace(HASTY, patience=60))
    stage.world.agitate(GuestId("vm2"))

    report = stage.play(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [DONE, ABORTED]
    assert report.records[1].detail.endswith("this rule is broken now: a pair")


def test_a_unit_that_waits_for_itself_by_way_of_another_is_skipped() -> None:
    stage = Stage(crowd(TOGETHER))

    report = stage.play(
        ONE,
        step("2", migration("vm3", "a", "c"), "1"),
        step("3", migration("vm2", "a", "b"), "2"),
    )

    assert outcomes(report) == [SKIPPED, SKIPPED, SKIPPED]


def test_a_pair_may_wait_for_one_another() -> None:
    stage = Stage(crowd(TOGETHER))

    report = stage.play(ONE, step("2", migration("vm2", "a", "b"), "1"))

    assert outcomes(report) == [DONE, DONE]


def test_keeps_apart_on_the_way_what_a_rule_keeps_apart() -> None:
    # vm2 may come to b only when vm1 has left it, whatever the plan says.
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2"))
    places = {"vm1": ("b", 0.1), "vm2": ("a", 0.1)}
    origin = cluster({"a": 0.3, "b": 0.3, "c": 0.1}, places, [apart])
    stage = Stage(origin)

    report = stage.play(
        step("1", migration("vm1", "b", "c")), step("2", migration("vm2", "a", "b"))
    )
    first, second = report.records

    assert outcomes(report) == [DONE, DONE]
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


def test_does_not_wait_forever_for_moves_of_others() -> None:
    foreign = guest("vm7", "b", 0.1, migrating_to=C)
    origin = replace(crowd(), guests={**crowd().guests, GuestId("vm7"): foreign})
    limits = replace(HASTY, patience=60, moves_per_node=1)
    stage = Stage(origin, limits=limits, bandwidth=1.0)

    report = stage.play(ONE)

    assert outcomes(report) == [REFUSED]
    assert report.records[0].detail == "1 moves from or to b under way, of at most 1"
    assert 60 <= stage.elapsed < 70


class Foggy(Tapped):
    """A cluster that cannot measure b for *left* looks once vm1 is there."""

    left = 3

    def observe(self) -> Snapshot:
        seen = super().observe()
        if seen.guests[GuestId("vm1")].node == A or not self.left:
            return seen
        self.left -= 1
        return replace(seen, nodes={**seen.nodes, B: node("b", None)})


@pytest.mark.parametrize(("looks", "expected"), [(3, DONE), (30, REFUSED)])
def test_bears_with_figures_that_are_missing_for_a_moment(
    looks: int, expected: Outcome
) -> None:
    stage = Stage(crowd())
    stage.platform = foggy = Foggy(stage.world, stage.store, lambda _: nullcontext())
    foggy.left = looks

    report = stage.play(ONE, step("2", migration("vm2", "a", "b"), "1"))

    assert outcomes(report) == [DONE, expected]


def test_the_record_of_a_refused_step_has_both_times() -> None:
    stage = Stage(crowd())
    stage.clock.sleep(30)

    report = stage.play(step("1", migration("vm1", "b", "a")))

    assert report.records == (
        StepRecord(
            run="run",
            step=StepId("1"),
            action=migration("vm1", "b", "a"),
            intended_at=NOON + timedelta(seconds=30),
            ended_at=NOON + timedelta(seconds=30),
            outcome=REFUSED,
            detail="vm1 is on a, not on b",
        ),
    )


def test_unknown_use_is_never_taken_for_none() -> None:
    blind = replace(node("b", 0.1), usage=Usage(1.0, None))
    stage = Stage(replace(crowd(), nodes={**crowd().nodes, B: blind}))

    report = stage.play(ONE)

    assert outcomes(report) == [REFUSED]
    assert report.records[0].detail == "the memory in use on b was not measured"
