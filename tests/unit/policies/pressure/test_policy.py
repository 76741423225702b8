"""Pressure helps the guest that is worst off, one at a time, and then waits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import NOON, guest_ids
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestKind,
    GuestState,
    Limits,
    Mobility,
    NodeAffinity,
    NodeState,
    Pin,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import PressureRelief, Reason
from opendrs.scoring import AhpMethod
from unit.policies.pressure.wards import (
    AT_ONCE,
    FREE,
    HOUR,
    A,
    B,
    C,
    decided,
    host,
    moves,
    vm,
    ward,
)

# x waits for cpu, and b is the least busy.
WAITING = ward(
    [host("a", 50, 9), host("b", 10), host("c", 40)],
    [vm("x", "a", waits=0.9), vm("y", "a", waits=0.5)],
)


def with_guest(snapshot: Snapshot, name: str, **changes: Any) -> Snapshot:  # noqa: ANN401
    guests = {
        key: replace(each, **changes) if key == name else each
        for key, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=guests)


def later(snapshot: Snapshot, seconds: float) -> Snapshot:
    guests = {
        name: each if each.uptime is None else replace(each, uptime=HOUR + seconds)
        for name, each in snapshot.guests.items()
    }
    then = NOON + timedelta(seconds=seconds)
    return replace(snapshot, taken_at=then, guests=guests)


# One guest.


def test_the_guest_that_waits_for_cpu_goes_where_it_would_best_start() -> None:
    decision = decided(WAITING)

    assert moves(decision) == {"x": "b"}
    assert decision.reason is Reason.RELIEVES_PRESSURE
    assert decision.detail == "guests in trouble: 1; one is helped"
    assert decision.plan.steps[0].why == (
        "it waits for cpu 90% of the time, more than 75%; takes 1.00 cores and 4.00 "
        "GiB from a to b, where it would best start"
    )
    assert decision.before == {
        "waiting_guests": 1,
        "crowded_guests": 0,
        "highest_memory": 0.5,
        "highest_cpu_pressure": 0.9,
    }
    assert decision.after == {
        "waiting_guests": 0,
        "crowded_guests": 0,
        "highest_memory": 0.46,
        "highest_cpu_pressure": 0.5,
    }


def test_one_guest_is_moved_however_many_are_in_trouble() -> None:
    many = [vm(f"vm{number}", "a", waits=0.9) for number in range(6)]

    decision = decided(ward([host("a", 50), host("b", 10)], many))

    assert moves(decision) == {"vm0": "b"}
    assert decision.detail == "guests in trouble: 6; one is helped"


def test_nothing_is_done_when_nobody_is_in_trouble() -> None:
    calm = with_guest(WAITING, "x", pressure=WAITING.guests["y"].pressure)  # type: ignore[index]

    decision = decided(calm)

    assert (decision.reason, decision.detail) == (
        Reason.NO_PRESSURE,
        "no guest is in trouble",
    )
    assert decision.before == decision.after


def test_the_guest_that_just_relieves_a_crowded_node_is_moved() -> None:
    # 90 GiB where 85 may be: 4 GiB are too few, 6 suffice, 40 are too many.
    crowded = ward(
        [host("a", 90), host("b", 10)],
        [vm("x", "a", 4), vm("y", "a", 40), vm("z", "a", 6)],
    )

    decision = decided(crowded)

    assert moves(decision) == {"z": "b"}
    assert decision.before["crowded_guests"] == 3
    assert decision.after["crowded_guests"] == 0


# Who may be moved.


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": GuestKind.CONTAINER}, None),
        ({"state": GuestState.PAUSED}, None),
        ({"ha_managed": False}, "it is not managed by the HA manager"),
        ({"uptime": 299.0}, "it has run for less than 300 s"),
        ({"uptime": None}, "how long it has run is not known"),
        ({"moves": Mobility.NEVER, "obstacle": "a gpu"}, "it cannot move: a gpu"),
        ({"usage": Usage(1.0, None)}, "its usage is not known"),
    ],
)
def test_who_is_not_moved_although_it_waits(
    changes: Mapping[str, object], why: str | None
) -> None:
    decision = decided(with_guest(WAITING, "x", **changes))

    assert decision.plan.steps == ()
    if why is None:
        assert decision.reason is Reason.NO_PRESSURE
    else:
        assert decision.reason is Reason.NO_CANDIDATE
        assert decision.detail == "guests in trouble: 1; none of them may move anywhere"
        assert decision.notes[0] == f"in trouble, and left alone: x: {why}"


@pytest.mark.parametrize("uptime", [300.0, 301.0])
def test_a_guest_must_have_run_for_five_minutes(uptime: float) -> None:
    assert moves(decided(with_guest(WAITING, "x", uptime=uptime))) == {"x": "b"}


@pytest.mark.parametrize("uptime", [None, 0.0])
def test_how_long_a_guest_has_run_need_not_count(uptime: float | None) -> None:
    regardless = PressureRelief(
        interval=0, quiet=0, uptime=0, limits=replace(FREE, quiet_time=0)
    )

    found = decided(with_guest(WAITING, "x", uptime=uptime), regardless)

    assert moves(found) == {"x": "b"}


def test_guests_on_nodes_without_statistics_are_not_judged() -> None:
    dark = replace(WAITING.nodes[A], usage=Usage())

    decision = decided(replace(WAITING, nodes={**WAITING.nodes, A: dark}))

    assert decision.reason is Reason.NO_PRESSURE
    assert decision.notes == ("a: not measured, so that nobody there is judged",)


def test_a_node_without_statistics_receives_nobody() -> None:
    dark = replace(WAITING.nodes[B], usage=Usage())

    assert moves(decided(replace(WAITING, nodes={**WAITING.nodes, B: dark}))) == {
        "x": "c"
    }


def test_a_cluster_of_which_nothing_is_known_is_not_judged() -> None:
    dark = {name: replace(n, usage=Usage()) for name, n in WAITING.nodes.items()}

    decision = decided(replace(WAITING, nodes=dark))

    assert decision.reason is Reason.NOT_MEASURED
    assert decision.before == {}


def test_what_would_tell_of_trouble_and_is_not_known_is_told() -> None:
    blind = ward(
        [host("a", 50, ksm_shared=None), host("b", 10)], [vm("x", "a", waits=None)]
    )

    assert decided(blind).notes == (
        "x: how long it waits for cpu is not known",
        "a: how much memory is merged (KSM) is not known",
    )


def test_a_pinned_guest_stays_and_the_next_is_helped() -> None:
    pinned = replace(
        with_guest(WAITING, "y", pressure=WAITING.guests["x"].pressure),  # type: ignore[index]
        rules=(Pin(guests=guest_ids("x"), name="stay"),),
    )

    decision = decided(pinned)

    assert moves(decision) == {"y": "b"}
    assert "in trouble, and left alone: x: rule: stay" in decision.notes


def test_guests_that_stay_together_move_as_one() -> None:
    bound = replace(WAITING, rules=(Affinity(guests=guest_ids("x", "y")),))

    decision = decided(bound)

    assert moves(decision) == {"x": "b", "y": "b"}
    assert "x and y must stay together and move as one" in decision.plan.steps[0].why


# Who is taken first.


def test_the_first_in_rank_that_finds_a_place_is_helped() -> None:
    # x waits longest and is too large for any node; y waits less.
    cluster = ward(
        [host("a", 60), host("b", 80), host("c", 80)],
        [vm("x", "a", 8, waits=1.0), vm("y", "a", 4, waits=0.76)],
    )

    decision = decided(cluster)

    assert moves(decision) == {"y": "b"}
    assert decision.notes[0] == (
        "in trouble, and nowhere to go: x: b, c: it would use more of its memory "
        "than it may when it receives"
    )


def test_the_weights_may_come_from_the_eigenvector() -> None:
    other = replace(AT_ONCE, weights=AhpMethod.EIGENVECTOR)

    assert moves(decided(WAITING, other)) == {"x": "b"}


# Who was moved last.


def after(snapshot: Snapshot, guest: str, where: str, seconds: float) -> Snapshot:
    """Return the cluster later on, with *guest* there, and waiting as before."""
    moved = with_guest(snapshot, guest, node=where)
    return later(moved, seconds)


def test_the_guest_that_was_moved_last_stays_until_another_was_moved() -> None:
    first = decided(WAITING)
    stays = AT_ONCE.decide(after(WAITING, "x", "b", 600), first.memory)
    both = with_guest(
        after(WAITING, "x", "b", 1200),
        "y",
        pressure=WAITING.guests["x"].pressure,  # type: ignore[index]
    )
    other = AT_ONCE.decide(both, stays.memory)
    again = AT_ONCE.decide(
        with_guest(later(both, 1800), "y", node=other.plan.steps[0].action.target),  # type: ignore[union-attr]
        other.memory,
    )

    assert first.memory["last"] == "x"
    assert stays.reason is Reason.NO_CANDIDATE
    assert stays.notes[0] == (
        "in trouble, and left alone: x: it was the last to be moved"
    )
    assert list(moves(other)) == ["y"]
    assert list(moves(again)) == ["x"]


def test_the_guest_that_was_moved_last_may_be_forgotten_after_some_time() -> None:
    forgetful = replace(AT_ONCE, forget_after=900.0)
    first = decided(WAITING, forgetful)

    soon = forgetful.decide(after(WAITING, "x", "b", 899), first.memory)
    then = forgetful.decide(after(WAITING, "x", "b", 900), first.memory)

    assert soon.plan.steps == ()
    assert list(moves(then)) == ["x"]


def test_guests_that_move_as_one_are_the_last_as_one() -> None:
    rule = Affinity(guests=guest_ids("x", "y"))
    first = decided(replace(WAITING, rules=(rule,)))
    together = replace(WAITING, rules=(rule,))
    waiting = with_guest(
        with_guest(after(together, "x", "b", 600), "y", node=B),
        "y",
        pressure=WAITING.guests["x"].pressure,  # type: ignore[index]
    )

    decision = AT_ONCE.decide(waiting, first.memory)

    assert decision.reason is Reason.NO_CANDIDATE


# Where to.


def test_nodes_that_rules_prefer_are_preferred() -> None:
    rule = NodeAffinity(guests=guest_ids("x"), nodes={A: 1, C: 2}, strict=False)

    decision = decided(replace(WAITING, rules=(rule,)))

    assert moves(decision) == {"x": "c"}
    assert "b would be better, but other nodes are preferred" in str(decision.plan)


def test_nodes_with_guests_it_must_be_apart_from_are_no_place() -> None:
    apart = replace(
        WAITING,
        guests={**WAITING.guests, **ward([], []).guests, vm("z", "b").id: vm("z", "b")},
        rules=(AntiAffinity(guests=guest_ids("x", "z")),),
    )

    decision = decided(apart)

    assert moves(decision) == {"x": "c"}
    assert "b would be better, but x must be apart from z" in str(decision.plan)


@pytest.mark.parametrize("state", [NodeState.OFFLINE, NodeState.MAINTENANCE])
def test_nodes_that_are_not_online_are_no_place(state: NodeState) -> None:
    away = replace(WAITING.nodes[B], state=state)

    assert moves(decided(replace(WAITING, nodes={**WAITING.nodes, B: away}))) == {
        "x": "c"
    }


def lone_target(size: float = 4, **changes: Any) -> Snapshot:  # noqa: ANN401
    """Return x in trouble and one node it could go to."""
    target = host("b", **{"memory": 10, **changes})
    return ward([host("a", 50), target], [vm("x", "a", size, waits=0.9)])


@pytest.mark.parametrize(("used", "fits"), [(81, True), (81.1, False)])
def test_the_target_must_not_become_crowded_itself(used: float, *, fits: bool) -> None:
    assert bool(moves(decided(lone_target(memory=used)))) is fits


@pytest.mark.parametrize("merged", [21 * GIB, None])
@pytest.mark.parametrize(("used", "fits"), [(76, True), (76.1, False)])
def test_where_much_is_merged_or_it_is_not_known_the_target_is_filled_less(
    merged: int | None, used: float, *, fits: bool
) -> None:
    cluster = lone_target(memory=used, ksm_shared=merged)

    assert bool(moves(decided(cluster))) is fits


@pytest.mark.parametrize(("cores", "fits"), [(10, True), (12, False)])
def test_the_target_must_have_as_many_cores_as_the_guest(
    cores: float, *, fits: bool
) -> None:
    cluster = with_guest(lone_target(), "x", limit=Resources(cores, 4 * GIB))

    decision = decided(cluster)

    assert bool(moves(decision)) is fits
    if not fits:
        assert decision.notes[0] == (
            "in trouble, and nowhere to go: x: b: it has fewer cores than the guest"
        )


@pytest.mark.parametrize("limit", [None, Resources(0, 4 * GIB)])
def test_a_guest_without_a_known_limit_asks_for_no_number_of_cores(
    limit: Resources | None,
) -> None:
    assert moves(decided(with_guest(lone_target(), "x", limit=limit))) == {"x": "b"}


@pytest.mark.parametrize(("busy", "fits"), [(9, True), (9.1, False)])
def test_the_target_must_have_the_processor_time(busy: float, *, fits: bool) -> None:
    decision = decided(lone_target(cpu=busy))

    assert bool(moves(decision)) is fits
    if not fits:
        assert "b: its processors would be overcommitted" in decision.notes[0]


def test_the_headroom_of_the_operator_binds_as_well() -> None:
    roomy = PressureRelief(
        interval=0,
        quiet=0,
        limits=Limits(memory_headroom=0.5, memory_overbooking=100.0),
    )

    decision = decided(lone_target(memory=47), roomy)

    assert decision.reason is Reason.NO_CANDIDATE
    assert "b: it lacks 1.0 GiB of free memory" in decision.notes[0]


def test_of_equal_places_the_first_by_name_is_taken() -> None:
    cluster = ward(
        [host("a", 50), host("d", 10), host("b", 10), host("c", 10)],
        [vm("x", "a", waits=0.9)],
    )

    assert moves(decided(cluster)) == {"x": "b"}


def test_the_best_place_is_where_the_guest_would_best_start() -> None:
    # Memory weighs more than cpu: on c it would raise the highest memory use.
    cluster = ward(
        [host("a", 50), host("b", 20, 2), host("c", 60, 1)],
        [vm("x", "a", waits=0.9)],
    )

    assert moves(decided(cluster)) == {"x": "b"}


def test_many_with_nowhere_to_go_are_not_all_told() -> None:
    guests = [vm(f"vm{number}", "a", waits=0.9) for number in range(7)]

    decision = decided(ward([host("a", 50), host("b", 90)], guests))

    assert decision.notes[4].startswith("in trouble, and nowhere to go: vm4: b: ")
    assert decision.notes[5] == "in trouble, and nowhere to go: 2 more"


def test_of_nodes_that_are_closed_by_rules_it_is_told_by_which() -> None:
    bound = NodeAffinity(guests=guest_ids("x"), nodes={A: 1}, name="home")

    (note, *_) = decided(replace(WAITING, rules=(bound,))).notes

    assert note == ("in trouble, and nowhere to go: x: b, c: a rule forbids it: home")


def test_with_no_other_node_there_is_nowhere_to_go() -> None:
    alone = ward([host("a", 50)], [vm("x", "a", waits=0.9)])

    assert decided(alone).notes == (
        "in trouble, and nowhere to go: x: no other node is online and measured",
    )


# When.

USUAL = PressureRelief(limits=FREE)


def looks(*seconds: float, policy: PressureRelief = USUAL) -> list[Reason]:
    """Return what is decided at each of these times, with nothing done."""
    memory, reasons = policy.initial_memory(), []
    for second in seconds:
        decision = policy.decide(later(WAITING, second), memory)
        memory = decision.memory
        reasons.append(decision.reason)
    return reasons


WAIT, CHANGED, HELP = (
    Reason.NOT_YET_DUE,
    Reason.RECENTLY_CHANGED,
    Reason.RELIEVES_PRESSURE,
)


def test_the_first_check_comes_a_minute_after_the_first_look() -> None:
    assert looks(0, 59.9, 60) == [WAIT, WAIT, HELP]
    assert looks(0, 300) == [WAIT, HELP]


def test_there_is_one_check_a_minute() -> None:
    relaxed = replace(USUAL, forget_after=0.0)

    found = looks(0, 60, 119, 120, 130, 180, policy=relaxed)

    assert found == [WAIT, HELP, WAIT, HELP, WAIT, HELP]


def test_it_is_told_when_the_next_check_is() -> None:
    first = decided(WAITING, USUAL)

    assert first.detail == "the next check is in 60 s; there is one every 60 s"
    assert first.before["waiting_guests"] == 1
    assert USUAL.decide(later(WAITING, 45), first.memory).detail == (
        "the next check is in 15 s; there is one every 60 s"
    )


def test_without_interval_and_quiet_time_it_acts_at_once() -> None:
    assert looks(0, policy=replace(USUAL, interval=0.0, quiet=0.0)) == [HELP]
    assert looks(0, 59, 60, policy=replace(USUAL, interval=0.0)) == [
        CHANGED,
        CHANGED,
        HELP,
    ]


def changed_at(second: float, snapshot: Snapshot) -> list[Reason]:
    """Return the reasons of looks every 10 s, when the cluster changes once."""
    memory, reasons = USUAL.initial_memory(), []
    for now in range(0, 200, 10):
        seen = snapshot if now >= second else WAITING
        decision = USUAL.decide(later(seen, now), memory)
        memory = decision.memory
        reasons.append(decision.reason)
    return reasons


@pytest.mark.parametrize(
    "changed",
    [
        with_guest(WAITING, "y", state=GuestState.PAUSED),
        with_guest(WAITING, "y", node=C),
        replace(WAITING, guests={"x": WAITING.guests["x"]}),  # type: ignore[dict-item, index]
        replace(WAITING, guests={**WAITING.guests, vm("z", "c").id: vm("z", "c")}),
    ],
)
def test_after_a_change_of_any_guest_a_minute_must_be_quiet(changed: Snapshot) -> None:
    # The check at 60 s is lost to the change at 20 s, and costs a whole minute.
    reasons = changed_at(20, changed)

    assert reasons == [WAIT] * 6 + [CHANGED] + [WAIT] * 5 + [HELP] + [WAIT] * 5 + [
        reasons[18],
        WAIT,
    ]


def test_a_change_of_load_is_no_change() -> None:
    busier = with_guest(WAITING, "y", usage=Usage(2.0, 5 * GIB))

    assert changed_at(20, busier)[6] is HELP


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        ({"uptime": 59.0}, 59),
        ({"moved_at": NOON - timedelta(seconds=30)}, 30),
        ({"moved_at": NOON + timedelta(seconds=30)}, 0),
    ],
)
def test_a_change_between_two_looks_is_seen_as_well(
    changes: Mapping[str, object], quiet: float
) -> None:
    policy = replace(USUAL, interval=0.0)
    before = replace(WAITING, taken_at=NOON - timedelta(hours=1))
    memory = decided(before, policy).memory

    decision = policy.decide(with_guest(WAITING, "y", **changes), memory)

    assert decision.reason is CHANGED
    assert decision.detail == (f"a guest changed {quiet} s ago; 60 s must be quiet")


def test_how_long_a_stopped_guest_has_not_run_is_no_change() -> None:
    policy = replace(USUAL, interval=0.0)
    stopped = with_guest(WAITING, "y", state=GuestState.STOPPED, uptime=0.0)
    before = replace(stopped, taken_at=NOON - timedelta(hours=1))

    assert policy.decide(stopped, decided(before, policy).memory).reason is HELP


def test_it_waits_while_a_guest_is_on_the_move() -> None:
    moving = with_guest(WAITING, "y", migrating_to=C)
    memory = decided(moving, AT_ONCE).memory

    decision = AT_ONCE.decide(later(moving, 600), memory)

    assert decision.reason is Reason.MIGRATION_UNDER_WAY
    assert decision.detail == "on the move: y"


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    memory = decided(later(WAITING, 1e6), USUAL).memory
    first = USUAL.decide(WAITING, memory)

    assert first.reason is WAIT
    assert USUAL.decide(later(WAITING, 60), first.memory).reason is HELP


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"cpu_pressure": 1.1}, "cpu_pressure must be a finite number in"),
        ({"memory": -0.1}, "memory must be"),
        ({"memory_ksm": float("nan")}, "memory_ksm must be"),
        ({"ksm": 2.0}, "ksm must be"),
        ({"uptime": -1.0}, "uptime must be"),
        ({"interval": float("inf")}, "interval must be"),
        ({"quiet": -1.0}, "quiet must be"),
        ({"forget_after": -1.0}, "forget_after must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        PressureRelief(**settings)  # type: ignore[arg-type]
