"""Policy pressure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.metrics import AhpMethod
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
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
from opendrs.policies import DecisionReason
from opendrs.policies.pressure import PressureRelief
from support.builders import NOON, guest_ids
from unit.policies.pressure.starved_clusters import (
    AT_ONCE,
    FREE,
    HOUR,
    A,
    B,
    C,
    decide,
    host,
    starved_cluster,
    targets_of,
    vm,
)

# x waits for cpu, and b is the least busy.
WAITING = starved_cluster(
    [host("a", 50, 9), host("b", 10), host("c", 40)],
    [vm("x", "a", cpu_stall=0.9), vm("y", "a", cpu_stall=0.5)],
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


def test_guest_above_cpu_pressure_is_moved_to_best_start_node() -> None:
    decision = decide(WAITING)

    assert targets_of(decision) == {"x": "b"}
    assert decision.reason is DecisionReason.RELIEVES_PRESSURE
    detail = decision.plan.steps[0].detail
    assert all(number in detail for number in ("90%", "75%", "1.00", "4.00"))
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


def test_one_starved_guest_is_moved_per_decision() -> None:
    many = [vm(f"vm{number}", "a", cpu_stall=0.9) for number in range(6)]

    decision = decide(starved_cluster([host("a", 50), host("b", 10)], many))

    assert targets_of(decision) == {"vm0": "b"}
    assert decision.before["waiting_guests"] == 6
    assert decision.after["waiting_guests"] == 5


def test_no_starved_guest_gives_empty_plan() -> None:
    unstarved = with_guest(WAITING, "x", pressure=WAITING.guests["y"].pressure)  # type: ignore[index]

    decision = decide(unstarved)

    assert decision.reason is DecisionReason.NO_PRESSURE
    assert decision.before == decision.after


def test_smallest_guest_relieving_memory_is_moved() -> None:
    # 90 GiB where 85 may be: 4 GiB are too few, 6 suffice, 40 are too many.
    crowded = starved_cluster(
        [host("a", 90), host("b", 10)],
        [vm("x", "a", 4), vm("y", "a", 40), vm("z", "a", 6)],
    )

    decision = decide(crowded)

    assert targets_of(decision) == {"z": "b"}
    assert decision.before["crowded_guests"] == 3
    assert decision.after["crowded_guests"] == 0


# Who may be moved.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": GuestKind.CONTAINER}, None),
        ({"state": GuestState.PAUSED}, None),
        ({"ha_managed": False}, SkipReason.NOT_HA_MANAGED),
        ({"uptime": 299.0}, SkipReason.RECENTLY_STARTED),
        ({"uptime": None}, SkipReason.METRICS_MISSING),
        ({"mobility": Mobility.NONE}, SkipReason.MOBILITY_NONE),
        ({"usage": Usage(1.0, None)}, SkipReason.METRICS_MISSING),
    ],
)
def test_immovable_starved_guest_is_skipped(
    changes: Mapping[str, object], reason: SkipReason | None
) -> None:
    decision = decide(with_guest(WAITING, "x", **changes))

    assert decision.plan.steps == ()
    if reason is None:
        assert decision.reason is DecisionReason.NO_PRESSURE
    else:
        assert decision.reason is DecisionReason.NO_CANDIDATE
        assert decision.skipped[GuestId("x")].reason is reason


@pytest.mark.parametrize("uptime", [300.0, 301.0])
def test_guest_with_minimum_uptime_is_moved(uptime: float) -> None:
    assert targets_of(decide(with_guest(WAITING, "x", uptime=uptime))) == {"x": "b"}


@pytest.mark.parametrize("uptime", [None, 0.0])
def test_zero_min_uptime_ignores_uptime(uptime: float | None) -> None:
    regardless = PressureRelief(
        interval=0, settle_time=0, min_uptime=0, limits=replace(FREE, min_uptime=0)
    )

    found = decide(with_guest(WAITING, "x", uptime=uptime), regardless)

    assert targets_of(found) == {"x": "b"}


def test_guests_of_node_without_metrics_are_ignored_with_note() -> None:
    dark = replace(WAITING.nodes[A], usage=Usage())

    decision = decide(replace(WAITING, nodes={**WAITING.nodes, A: dark}))

    assert decision.reason is DecisionReason.NO_PRESSURE
    assert decision.unmeasured == (A,)
    (note,) = decision.notes
    assert "nodes.a.usage: cpu, memory" in note


def test_node_without_metrics_is_no_target() -> None:
    dark = replace(WAITING.nodes[B], usage=Usage())

    assert targets_of(decide(replace(WAITING, nodes={**WAITING.nodes, B: dark}))) == {
        "x": "c"
    }


def test_cluster_without_metrics_gives_metrics_missing() -> None:
    dark = {name: replace(n, usage=Usage()) for name, n in WAITING.nodes.items()}

    decision = decide(replace(WAITING, nodes=dark))

    assert decision.reason is DecisionReason.METRICS_MISSING
    assert decision.before == {}


def test_missing_pressure_metrics_are_noted() -> None:
    blind = starved_cluster(
        [host("a", 50, ksm_shared=None), host("b", 10)], [vm("x", "a", cpu_stall=None)]
    )

    guest_note, node_note = decide(blind).notes
    assert guest_note.startswith("x: ")
    assert node_note.startswith("a: ")


def test_pinned_guest_is_skipped_and_next_is_moved() -> None:
    pinned = replace(
        with_guest(WAITING, "y", pressure=WAITING.guests["x"].pressure),  # type: ignore[index]
        rules=(Pin(guests=guest_ids("x"), name="stay"),),
    )

    decision = decide(pinned)

    assert targets_of(decision) == {"y": "b"}
    assert decision.skipped[GuestId("x")].reason is SkipReason.PINNED


def test_affinity_group_is_moved_together() -> None:
    bound = replace(WAITING, rules=(Affinity(guests=guest_ids("x", "y")),))

    decision = decide(bound)

    assert targets_of(decision) == {"x": "b", "y": "b"}


# Who is taken first.


def test_first_ranked_guest_with_feasible_node_is_moved() -> None:
    # x waits longest and is too large for any node; y waits less.
    cluster = starved_cluster(
        [host("a", 60), host("b", 80), host("c", 80)],
        [vm("x", "a", 8, cpu_stall=1.0), vm("y", "a", 4, cpu_stall=0.76)],
    )

    decision = decide(cluster)

    assert targets_of(decision) == {"y": "b"}
    assert ": x: b, c: " in decision.notes[0]


def test_eigenvector_weights_give_same_target() -> None:
    other = replace(AT_ONCE, weights=AhpMethod.EIGENVECTOR)

    assert targets_of(decide(WAITING, other)) == {"x": "b"}


# Who was moved last.


def after(snapshot: Snapshot, guest: str, where: str, seconds: float) -> Snapshot:
    """Return the cluster later on, with *guest* there, and waiting as before."""
    moved = with_guest(snapshot, guest, node=where)
    return later(moved, seconds)


def test_last_migrated_guest_is_skipped_until_another_is_moved() -> None:
    first = decide(WAITING)
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

    assert first.memory["last_group"] == "x"
    assert stays.reason is DecisionReason.NO_CANDIDATE
    assert stays.skipped[GuestId("x")].reason is SkipReason.LAST_MIGRATED
    assert list(targets_of(other)) == ["y"]
    assert list(targets_of(again)) == ["x"]


def test_last_migrated_guest_is_moved_after_remigration_delay() -> None:
    forgetful = replace(AT_ONCE, remigration_delay=900.0)
    first = decide(WAITING, forgetful)

    soon = forgetful.decide(after(WAITING, "x", "b", 899), first.memory)
    then = forgetful.decide(after(WAITING, "x", "b", 900), first.memory)

    assert soon.plan.steps == ()
    assert list(targets_of(then)) == ["x"]


def test_last_migrated_group_is_skipped_as_a_whole() -> None:
    rule = Affinity(guests=guest_ids("x", "y"))
    first = decide(replace(WAITING, rules=(rule,)))
    together = replace(WAITING, rules=(rule,))
    waiting = with_guest(
        with_guest(after(together, "x", "b", 600), "y", node=B),
        "y",
        pressure=WAITING.guests["x"].pressure,  # type: ignore[index]
    )

    decision = AT_ONCE.decide(waiting, first.memory)

    assert decision.reason is DecisionReason.NO_CANDIDATE


# Where to.


def test_soft_node_affinity_determines_target() -> None:
    rule = NodeAffinity(guests=guest_ids("x"), nodes={A: 1, C: 2}, strict=False)

    decision = decide(replace(WAITING, rules=(rule,)))

    assert targets_of(decision) == {"x": "c"}
    assert "target b is infeasible: " in decision.plan.steps[0].detail


def test_node_with_anti_affine_guest_is_no_target() -> None:
    apart = replace(
        WAITING,
        guests={
            **WAITING.guests,
            **starved_cluster([], []).guests,
            vm("z", "b").id: vm("z", "b"),
        },
        rules=(AntiAffinity(guests=guest_ids("x", "z")),),
    )

    decision = decide(apart)

    assert targets_of(decision) == {"x": "c"}
    assert "target b is infeasible: anti-affinity" in decision.plan.steps[0].detail


@pytest.mark.parametrize("state", [NodeState.OFFLINE, NodeState.MAINTENANCE])
def test_node_not_online_is_no_target(state: NodeState) -> None:
    away = replace(WAITING.nodes[B], state=state)

    assert targets_of(decide(replace(WAITING, nodes={**WAITING.nodes, B: away}))) == {
        "x": "c"
    }


def single_target(size: float = 4, **changes: Any) -> Snapshot:  # noqa: ANN401
    """Return a cluster with starved guest x and one possible target."""
    target = host("b", **{"memory": 10, **changes})
    return starved_cluster([host("a", 50), target], [vm("x", "a", size, cpu_stall=0.9)])


@pytest.mark.parametrize(("used", "fits"), [(81, True), (81.1, False)])
def test_the_target_must_not_become_crowded_itself(used: float, *, fits: bool) -> None:
    assert bool(targets_of(decide(single_target(memory=used)))) is fits


@pytest.mark.parametrize("merged", [21 * GIB, None])
@pytest.mark.parametrize(("used", "fits"), [(76, True), (76.1, False)])
def test_where_much_is_merged_or_it_is_not_known_the_target_is_filled_less(
    merged: int | None, used: float, *, fits: bool
) -> None:
    cluster = single_target(memory=used, ksm_shared=merged)

    assert bool(targets_of(decide(cluster))) is fits


@pytest.mark.parametrize(("cores", "fits"), [(10, True), (12, False)])
def test_target_with_fewer_cores_than_guest_is_infeasible(
    cores: float, *, fits: bool
) -> None:
    cluster = with_guest(single_target(), "x", limit=Resources(cores, 4 * GIB))

    decision = decide(cluster)

    assert bool(targets_of(decision)) is fits
    if not fits:
        assert ": x: b: " in decision.notes[0]


@pytest.mark.parametrize("limit", [None, Resources(0, 4 * GIB)])
def test_a_guest_without_a_known_limit_asks_for_no_number_of_cores(
    limit: Resources | None,
) -> None:
    assert targets_of(decide(with_guest(single_target(), "x", limit=limit))) == {
        "x": "b"
    }


@pytest.mark.parametrize(("busy", "fits"), [(9, True), (9.1, False)])
def test_target_without_free_cpu_is_infeasible(busy: float, *, fits: bool) -> None:
    decision = decide(single_target(cpu=busy))

    assert bool(targets_of(decision)) is fits
    if not fits:
        assert ": x: b: " in decision.notes[0]


def test_target_below_memory_headroom_is_infeasible() -> None:
    roomy = PressureRelief(
        interval=0,
        settle_time=0,
        limits=Limits(memory_headroom=0.5, memory_overcommit=100.0),
    )

    decision = decide(single_target(memory=47), roomy)

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert ": 1.0 GiB" in decision.notes[0]


def test_of_equal_places_the_first_by_name_is_taken() -> None:
    cluster = starved_cluster(
        [host("a", 50), host("d", 10), host("b", 10), host("c", 10)],
        [vm("x", "a", cpu_stall=0.9)],
    )

    assert targets_of(decide(cluster)) == {"x": "b"}


def test_the_best_place_is_where_the_guest_would_best_start() -> None:
    # Memory weighs more than cpu: on c it would raise the highest memory use.
    cluster = starved_cluster(
        [host("a", 50), host("b", 20, 2), host("c", 60, 1)],
        [vm("x", "a", cpu_stall=0.9)],
    )

    assert targets_of(decide(cluster)) == {"x": "b"}


def test_notes_about_unplaceable_guests_are_limited() -> None:
    guests = [vm(f"vm{number}", "a", cpu_stall=0.9) for number in range(7)]

    decision = decide(starved_cluster([host("a", 50), host("b", 90)], guests))

    assert ": vm4: b: " in decision.notes[4]
    assert " 2 more " in decision.notes[-1]


def test_infeasible_nodes_are_noted_with_rule() -> None:
    bound = NodeAffinity(guests=guest_ids("x"), nodes={A: 1}, name="home")

    (note, *_) = decide(replace(WAITING, rules=(bound,))).notes

    assert ": x: b, c: " in note
    assert note.endswith('forbidden by the rule "home"')


def test_single_node_gives_no_candidate() -> None:
    alone = starved_cluster([host("a", 50)], [vm("x", "a", cpu_stall=0.9)])

    decision = decide(alone)

    assert decision.reason is DecisionReason.NO_CANDIDATE
    (note,) = decision.notes
    assert ": x: " in note


# When.

USUAL = PressureRelief(limits=FREE)


def reasons_at(*seconds: float, policy: PressureRelief = USUAL) -> list[DecisionReason]:
    """Return what is decided at each of these times, with nothing done."""
    memory, reasons = policy.initial_memory(), []
    for second in seconds:
        decision = policy.decide(later(WAITING, second), memory)
        memory = decision.memory
        reasons.append(decision.reason)
    return reasons


WAIT, SETTLING, RELIEF = (
    DecisionReason.INTERVAL_NOT_ELAPSED,
    DecisionReason.CLUSTER_SETTLING,
    DecisionReason.RELIEVES_PRESSURE,
)


def test_the_first_check_comes_a_minute_after_the_first_look() -> None:
    assert reasons_at(0, 59.9, 60) == [WAIT, WAIT, RELIEF]
    assert reasons_at(0, 300) == [WAIT, RELIEF]


def test_there_is_one_check_a_minute() -> None:
    relaxed = replace(USUAL, remigration_delay=0.0)

    found = reasons_at(0, 60, 119, 120, 130, 180, policy=relaxed)

    assert found == [WAIT, RELIEF, WAIT, RELIEF, WAIT, RELIEF]


def test_detail_contains_time_of_next_check() -> None:
    first = decide(WAITING, USUAL)

    second = USUAL.decide(later(WAITING, 45), first.memory)

    assert "60 s" in first.detail
    assert first.before["waiting_guests"] == 1
    assert "15 s" in second.detail


def test_zero_interval_and_settle_time_act_at_once() -> None:
    assert reasons_at(0, policy=replace(USUAL, interval=0.0, settle_time=0.0)) == [
        RELIEF
    ]
    assert reasons_at(0, 59, 60, policy=replace(USUAL, interval=0.0)) == [
        SETTLING,
        SETTLING,
        RELIEF,
    ]


def changed_at(second: float, snapshot: Snapshot) -> list[DecisionReason]:
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

    assert reasons == [WAIT] * 6 + [SETTLING] + [WAIT] * 5 + [RELIEF] + [WAIT] * 5 + [
        reasons[18],
        WAIT,
    ]


def test_a_change_of_load_is_no_change() -> None:
    busier = with_guest(WAITING, "y", usage=Usage(2.0, 5 * GIB))

    assert changed_at(20, busier)[6] is RELIEF


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        ({"uptime": 59.0}, 59),
        ({"migrated_at": NOON - timedelta(seconds=30)}, 30),
        ({"migrated_at": NOON + timedelta(seconds=30)}, 0),
    ],
)
def test_change_between_cycles_waits_for_settle_time(
    changes: Mapping[str, object], quiet: float
) -> None:
    policy = replace(USUAL, interval=0.0)
    before = replace(WAITING, taken_at=NOON - timedelta(hours=1))
    memory = decide(before, policy).memory

    decision = policy.decide(with_guest(WAITING, "y", **changes), memory)

    assert decision.reason is SETTLING
    assert f"{quiet} s" in decision.detail
    assert "60 s" in decision.detail


def test_how_long_a_stopped_guest_has_not_run_is_no_change() -> None:
    policy = replace(USUAL, interval=0.0)
    stopped = with_guest(WAITING, "y", state=GuestState.STOPPED, uptime=0.0)
    before = replace(stopped, taken_at=NOON - timedelta(hours=1))

    assert policy.decide(stopped, decide(before, policy).memory).reason is RELIEF


def test_migration_in_progress_gives_empty_plan() -> None:
    moving = with_guest(WAITING, "y", migrating_to=C)
    memory = decide(moving, AT_ONCE).memory

    decision = AT_ONCE.decide(later(moving, 600), memory)

    assert decision.reason is DecisionReason.MIGRATION_IN_PROGRESS
    assert decision.detail.endswith(": y")


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    memory = decide(later(WAITING, 1e6), USUAL).memory
    first = USUAL.decide(WAITING, memory)

    assert first.reason is WAIT
    assert USUAL.decide(later(WAITING, 60), first.memory).reason is RELIEF


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"cpu_pressure_threshold": 1.1},
            "cpu_pressure_threshold: expected a finite number in",
        ),
        ({"memory_threshold": -0.1}, "memory_threshold: expected"),
        ({"memory_threshold_ksm": float("nan")}, "memory_threshold_ksm: expected"),
        ({"ksm_threshold": 2.0}, "ksm_threshold: expected"),
        ({"min_uptime": -1.0}, "min_uptime: expected"),
        ({"interval": float("inf")}, "interval: expected"),
        ({"settle_time": -1.0}, "settle_time: expected"),
        ({"remigration_delay": -1.0}, "remigration_delay: expected"),
    ],
)
def test_settings_out_of_range_raise_error(
    settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        PressureRelief(**settings)  # type: ignore[arg-type]
