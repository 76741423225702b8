"""Threshold-rebalance moves guests from the busiest host to less busy ones.

The cases are those known of Incus, most of them seen on running clusters; the
guests use next to nothing, as the stopped ones there did.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import NOON, guest_ids, node
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
    NodeId,
    NodeState,
    Pin,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Reason, ThresholdRebalance
from opendrs.policies.threshold_rebalance import CpuMeasure, Form
from opendrs.scoring import UsageMode
from unit.policies.threshold_rebalance.hosts import (
    EXAMPLE,
    GENEROUS,
    decided,
    hosts,
    moved,
    vm,
)

MIB = 1 << 20
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
EXACT = [Form.CORRECTED, Form.INCUS_7_0_2]
SWAPPED = [Form.INCUS_6_0, Form.INCUS_7_3]
ORIGINAL = [form for form in Form if form.original]
SMALL = 128 * MIB


def policy(form: Form = Form.CORRECTED, **settings: object) -> ThresholdRebalance:
    return ThresholdRebalance(form=form, limits=GENEROUS, **settings)  # type: ignore[arg-type]


# The worked example.


@pytest.mark.parametrize("form", EXACT)
def test_a_guest_that_keeps_its_target_below_half_way_is_moved(form: Form) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 1, 7 * GIB)])

    decision = decided(policy(form), cluster)

    assert moved(policy(form), cluster) == [("vm", "n1")]
    assert decision.reason is Reason.IMPROVES_BALANCE
    assert decision.plan.steps[0].why == (
        "n3 (65 points) and n1 (15) are 76% apart; brings 1.00 cores and 7.00 GiB "
        "to n1 (15 → 39 points, below the goal 40)"
    )


@pytest.mark.parametrize("form", EXACT)
@pytest.mark.parametrize(("cpu", "memory"), [(1, 7372 * MIB), (8, SMALL)])
def test_a_guest_that_brings_its_target_half_way_is_skipped(
    form: Form, cpu: float, memory: int
) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", cpu, memory)])

    decision = decided(policy(form), cluster)

    assert decision.reason is Reason.NO_CANDIDATE
    (note,) = decision.notes
    assert note == (
        "stays on n3: vm: n1 would go from 15 to 40 points, and not stay below the "
        "goal 40"
    )


@pytest.mark.parametrize("form", EXACT)
def test_a_guest_of_seven_cores_is_moved_where_eight_are_too_many(form: Form) -> None:
    assert moved(policy(form), hosts(EXAMPLE, [vm("vm", "n3", 7, SMALL)]))


@pytest.mark.parametrize("form", SWAPPED)
def test_before_7_0_2_a_guest_of_any_size_is_moved(form: Form) -> None:
    # 64 GiB and 32 cores, to a host that has 16 of each.
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 32, 64 * GIB)])

    assert moved(policy(form), cluster) == [("vm", "n1")]
    for other in EXACT:
        assert moved(policy(other), cluster) == []


def test_whatever_the_form_no_memory_is_promised_that_is_not_there() -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 32, 64 * GIB)])

    for form in SWAPPED:
        assert moved(ThresholdRebalance(form=form), cluster) == []


# The threshold.


@pytest.mark.parametrize("form", Form)
def test_nothing_is_done_below_the_threshold(form: Form) -> None:
    cluster = hosts({"n1": (41, 8), "n2": (50, 8)}, [vm("vm", "n2", 1, SMALL)])

    decision = decided(policy(form), cluster)

    assert decision.reason is Reason.BALANCED
    assert decision.detail == (
        "n2 (50 points) and n1 (45) are 10% apart, less than the threshold 20%"
    )
    assert decision.before == decision.after
    assert decision.before == {
        "difference": 0.1,
        "highest_score": 0.5,
        "lowest_score": 0.45,
    }


@pytest.mark.parametrize("form", Form)
def test_the_threshold_is_relative_so_that_5_against_4_points_is_enough(
    form: Form,
) -> None:
    cluster = hosts({"n1": (8, 0), "n2": (10, 0)}, [vm("vm", "n2", 1, SMALL)])

    assert decided(policy(form), cluster).reason is Reason.NO_CANDIDATE
    above = policy(form, threshold=0.21)
    assert decided(above, cluster).reason is Reason.BALANCED


def test_hosts_below_the_floor_are_left_alone_however_far_apart() -> None:
    cluster = hosts({"n1": (0, 0), "n2": (58, 0)}, [vm("vm", "n2", 1, SMALL)])

    idle = decided(policy(floor=0.3), cluster)

    assert idle.reason is Reason.BALANCED
    assert idle.detail == "the busiest, n2, has 29 points, below the floor 30"
    assert moved(policy(floor=0.29), cluster) == [("vm", "n1")]


@pytest.mark.parametrize("form", Form)
def test_nothing_is_done_when_nobody_is_busy(form: Form) -> None:
    cluster = hosts({"n1": (0, 0), "n2": (0, 0)}, [vm("vm", "n2", 1, SMALL)])

    decision = decided(policy(form, threshold=0.0), cluster)

    assert (decision.reason, decision.detail) == (Reason.BALANCED, "nobody is busy")


@pytest.mark.parametrize("form", ORIGINAL)
def test_in_incus_an_overloaded_host_is_taken_for_idle_and_filled(form: Form) -> None:
    # Seen on 7.0.2: 80 % of the memory and 180 % load are 2 points.
    cluster = hosts(
        {"n1": (60, 9.6), "n2": (80, 28.8)}, [vm("vm", "n1", 1, SMALL)], threads=16
    )

    assert moved(policy(form), cluster) == [("vm", "n2")]


def test_in_the_corrected_form_an_overloaded_host_gives() -> None:
    figures = {"n1": (60, 9.6), "n2": (80, 28.8)}
    guests = [vm("one", "n1", 1, SMALL), vm("two", "n2", 1, SMALL)]

    assert moved(policy(), hosts(figures, guests)) == [("two", "n1")]


# Which hosts.


@pytest.mark.parametrize("form", Form)
def test_only_hosts_of_one_architecture_are_compared(form: Form) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    other = replace(cluster.nodes[N3], architecture="aarch64")
    same = {
        name: replace(n, architecture="x86_64") for name, n in cluster.nodes.items()
    }

    decision = decided(policy(form), replace(cluster, nodes={**same, N3: other}))

    assert decision.plan.steps == ()
    assert "n2 (25 points) and n1 (15)" in decision.detail


@pytest.mark.parametrize("form", Form)
def test_the_batch_is_over_all_architectures(form: Form) -> None:
    cluster = hosts(
        {"a1": (20, 1.6), "a2": (80, 8), "b1": (20, 1.6), "b2": (80, 8)},
        [vm("vm1", "a2", 1, SMALL), vm("vm2", "b2", 1, SMALL)],
    )
    nodes = {
        name: replace(each, architecture="x86_64" if name[0] == "a" else "aarch64")
        for name, each in cluster.nodes.items()
    }
    mixed = replace(cluster, nodes=nodes)

    assert moved(policy(form), mixed) == [("vm2", "b1")]
    assert moved(policy(form, batch=2), mixed) == [("vm2", "b1"), ("vm1", "a1")]


@pytest.mark.parametrize("form", Form)
def test_a_single_host_is_compared_with_nobody(form: Form) -> None:
    decision = decided(policy(form), hosts({"n1": (90, 14)}))

    assert decision.reason is Reason.BALANCED
    assert decision.detail == "there is nobody to compare"
    assert decision.before == {}


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("aside", [N1, N3])
def test_hosts_that_are_not_scheduled_neither_give_nor_receive(
    form: Form, aside: NodeId
) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL), vm("vm2", "n2", 1, SMALL)])
    manual = replace(cluster.nodes[aside], labels=frozenset({"manual"}))
    with_label = replace(cluster, nodes={**cluster.nodes, aside: manual})
    obeying = policy(form, unscheduled=("manual",))

    found = moved(obeying, with_label)

    assert found == ([("vm", "n2")] if aside == N1 else [("vm2", "n1")])


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("state", [NodeState.OFFLINE, NodeState.MAINTENANCE])
def test_hosts_that_are_not_online_are_left_out_even_unmeasured(
    form: Form, state: NodeState
) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    away = node("n1", None, state=state)

    assert moved(policy(form), replace(cluster, nodes={**cluster.nodes, N1: away})) == [
        ("vm", "n2")
    ]


@pytest.mark.parametrize("form", Form)
def test_one_host_without_measurements_stops_it(form: Form) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    silent = replace(cluster.nodes[N2], usage=Usage())

    decision = decided(
        policy(form), replace(cluster, nodes={**cluster.nodes, N2: silent})
    )

    assert decision.reason is Reason.NOT_MEASURED
    assert decision.detail == "node n2 has no usage (nodes.n2.usage: cpu, memory)"


def test_a_cluster_without_hosts_is_not_measured() -> None:
    decision = decided(policy(), hosts({}))

    assert decision.reason is Reason.NOT_MEASURED
    assert decision.detail == "no node takes part"


def with_guests(
    counts: dict[str, int], figures: dict[str, tuple[float, float]]
) -> Snapshot:
    guests = [
        vm(f"{name}-{number}", name, 1, SMALL)
        for name, count in counts.items()
        for number in range(count)
    ]
    return hosts(figures, guests)


@pytest.mark.parametrize(
    ("form", "target"),
    [*((form, "n2") for form in ORIGINAL), (Form.CORRECTED, "n1")],
)
def test_of_equally_idle_hosts_incus_fills_the_one_with_more_guests(
    form: Form, target: str
) -> None:
    cluster = with_guests(
        {"n1": 1, "n2": 2, "n3": 3}, {"n1": (20, 2), "n2": (20, 2), "n3": (80, 8)}
    )

    assert moved(policy(form), cluster) == [("n3-0", target)]


@pytest.mark.parametrize(
    ("form", "mover"),
    [*((form, "n3-0") for form in ORIGINAL), (Form.CORRECTED, "n2-0")],
)
def test_of_equally_busy_hosts_incus_empties_the_one_with_fewer_guests(
    form: Form, mover: str
) -> None:
    cluster = with_guests(
        {"n1": 9, "n2": 3, "n3": 2}, {"n1": (20, 2), "n2": (80, 8), "n3": (80, 8)}
    )

    assert moved(policy(form), cluster) == [(mover, "n1")]


# Which guests.


@pytest.mark.parametrize("form", Form)
def test_the_first_guest_by_name_that_fits_is_taken_and_not_the_best(
    form: Form,
) -> None:
    guests = [
        vm("b-small", "n3", 1, SMALL),
        vm("c-ideal", "n3", 6, 1 * GIB),
        vm("a-other", "n2", 1, SMALL),
    ]

    assert moved(policy(form), hosts(EXAMPLE, guests)) == [("b-small", "n1")]


@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("moves", [Mobility.STOPPED, Mobility.NEVER])
def test_only_guests_that_can_move_live_are_moved(form: Form, moves: Mobility) -> None:
    fixed = vm("a", "n3", 1, SMALL, moves=moves, obstacle="a gpu")
    cluster = hosts(EXAMPLE, [fixed, vm("b", "n3", 1, SMALL)])

    assert moved(policy(form), cluster) == [("b", "n1")]


@pytest.mark.parametrize("form", Form)
def test_containers_are_never_moved_not_even_live(form: Form) -> None:
    container = vm("ct", "n3", 1, SMALL, kind=GuestKind.CONTAINER)

    decision = decided(policy(form), hosts(EXAMPLE, [container]))

    assert decision.reason is Reason.NO_CANDIDATE
    assert decision.notes == ("stays on n3: ct: only virtual machines are moved",)


@pytest.mark.parametrize("form", Form)
def test_stopped_guests_stay_unlike_in_incus(form: Form) -> None:
    stopped = vm("vm", "n3", 1, SMALL, state=GuestState.STOPPED)

    assert moved(policy(form), hosts(EXAMPLE, [stopped])) == []


@pytest.mark.parametrize("form", Form)
def test_pinned_guests_stay_and_the_next_is_taken(form: Form) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]
    pinned = hosts(EXAMPLE, guests, [Pin(guests=guest_ids("a"))])

    assert moved(policy(form), pinned) == [("b", "n1")]


@pytest.mark.parametrize("form", ORIGINAL)
def test_incus_takes_a_guest_without_limits_to_need_a_core_and_a_gib(
    form: Form,
) -> None:
    cluster = hosts(EXAMPLE, [vm("vm", "n3", 0, 0)])

    (step,) = decided(policy(form), cluster).plan.steps

    assert "brings 1.00 cores and 1.00 GiB to n1" in step.why


def test_in_the_corrected_form_a_guest_without_cpu_limit_stays() -> None:
    decision = decided(policy(), hosts(EXAMPLE, [vm("vm", "n3", 0, GIB)]))

    assert decision.notes == ("left alone: vm: it has no cpu limit to be weighed by",)


def test_a_limit_that_is_exceeded_counts_as_what_is_used() -> None:
    greedy = vm("vm", "n3", 1, SMALL, usage=Usage(7.0, 1 * GIB))

    (step,) = decided(policy(), hosts(EXAMPLE, [greedy])).plan.steps

    assert "brings 7.00 cores and 1.00 GiB to n1" in step.why


def test_guests_may_count_for_what_they_use_instead_of_their_limits() -> None:
    idle = vm("vm", "n3", 16, 12 * GIB, usage=Usage(0.5, 1 * GIB))
    cluster = hosts(EXAMPLE, [idle])
    nodes = {
        name: replace(each, usage=replace(each.usage, cpu=each.load_average))
        for name, each in cluster.nodes.items()
    }
    measured = replace(cluster, nodes=nodes)

    assert moved(policy(), measured) == []
    assert moved(policy(mode=UsageMode.DYNAMIC), measured) == [("vm", "n1")]


def test_by_use_a_host_whose_busy_cores_are_not_known_is_not_measured() -> None:
    by_use = policy(mode=UsageMode.DYNAMIC)

    decision = decided(by_use, hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)]))

    assert decision.reason is Reason.NOT_MEASURED
    assert decision.detail == "nodes n1, n2, n3 have no cpu usage (nodes.n1.usage.cpu)"


# What tells how busy the processors are.


def busy(cores: float) -> Usage:
    return Usage(cores, 3 * GIB)


def test_busy_cores_count_where_not_every_host_tells_its_load_average() -> None:
    # By load average n1 is the busier, by busy cores n2.
    guests = [vm("one", "n1", 1, SMALL), vm("two", "n2", 1, SMALL)]
    capacity = Resources(16, 16 * GIB)
    nodes = {
        N1: node("n1", 0, capacity=capacity, usage=busy(1), load_average=15.0),
        N2: node("n2", 0, capacity=capacity, usage=busy(14), load_average=1.0),
    }
    told = Snapshot(NOON, nodes, {each.id: each for each in guests})
    untold = replace(told, nodes={**nodes, N2: replace(nodes[N2], load_average=None)})

    assert moved(policy(), told) == [("one", "n2")]
    assert moved(policy(), untold) == [("two", "n1")]
    assert moved(policy(cpu=CpuMeasure.BUSY_CORES), told) == [("two", "n1")]
    strict = decided(policy(cpu=CpuMeasure.LOAD_AVERAGE), untold)
    assert (strict.reason, strict.detail) == (
        Reason.NOT_MEASURED,
        "node n2 has no load average (nodes.n2.load_average)",
    )


# Which target.

IDLER = {"n1": (20, 1.6), "n2": (30, 3.2), "n3": (80, 8.0)}


def bound(name: str, *nodes: NodeId) -> NodeAffinity:
    return NodeAffinity(guests=guest_ids(name), nodes=dict.fromkeys(nodes, 1))


@pytest.mark.parametrize("form", [Form.CORRECTED, Form.INCUS_7_3, Form.INCUS_7_0_2])
def test_a_restricted_guest_goes_to_the_host_it_may_and_not_to_the_idlest(
    form: Form,
) -> None:
    rule = bound("vm", N2, N3)

    (step,) = decided(
        policy(form), hosts(IDLER, [vm("vm", "n3", 1, SMALL)], [rule])
    ).plan.steps

    assert step.action.target == N2  # type: ignore[union-attr]
    assert (
        "n1 (15) is less busy, but a rule forbids it: vm belongs on n2, n3" in step.why
    )


def test_incus_6_0_skips_a_guest_that_may_not_go_to_the_idlest_host() -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]

    found = moved(policy(Form.INCUS_6_0), hosts(IDLER, guests, [bound("a", N2, N3)]))

    assert found == [("b", "n1")]


@pytest.mark.parametrize("form", Form)
def test_a_guest_that_may_go_nowhere_stays_and_it_is_told_why(form: Form) -> None:
    decision = decided(
        policy(form), hosts(IDLER, [vm("vm", "n3", 1, SMALL)], [bound("vm", N3)])
    )

    assert decision.reason is Reason.NO_CANDIDATE
    assert decision.notes[0].startswith(
        "stays on n3: vm: nowhere to go; n1: a rule forbids it: vm belongs on n3"
    )


@pytest.mark.parametrize("form", Form)
def test_a_guest_must_be_apart_on_its_target_too(form: Form) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n1", 1, SMALL), vm("c", "n3", 1, SMALL)]
    rule = AntiAffinity(guests=guest_ids("a", "b"))

    found = moved(policy(form), hosts(IDLER, guests, [rule]))

    assert found == ([("c", "n1")] if form is Form.INCUS_6_0 else [("a", "n2")])


@pytest.mark.parametrize("form", Form)
def test_guests_that_stay_together_move_as_one_and_count_as_one(form: Form) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]
    rule = Affinity(guests=guest_ids("a", "b"))

    decision = decided(policy(form), hosts(IDLER, guests, [rule]))

    assert {str(each.action.guest) for each in decision.plan.steps} == {"a", "b"}  # type: ignore[union-attr]
    assert "a and b must stay together and move as one" in decision.plan.steps[0].why


# How much.

FIVE = [vm(f"vm{number}", "n3", 1, GIB) for number in range(1, 6)]


@pytest.mark.parametrize("form", Form)
def test_the_batch_ends_the_run(form: Form) -> None:
    assert len(moved(policy(form), hosts(EXAMPLE, FIVE))) == 1
    assert len(moved(policy(form, batch=2), hosts(EXAMPLE, FIVE))) == 2


@pytest.mark.parametrize("form", Form)
def test_a_batch_of_0_moves_nobody(form: Form) -> None:
    decision = decided(policy(form, batch=0), hosts(EXAMPLE, FIVE))

    assert decision.plan.steps == ()
    assert decision.reason is Reason.LIMIT_REACHED
    assert decision.detail.endswith("76% apart; the batch is used up")


def test_incus_7_0_2_fills_one_target_up_to_the_goal_and_compares_stale_points() -> (
    None
):
    # n1 goes 15 → 21 → 27 → 33 points; the fourth would make it 40, the goal.
    # The points of n3 stay at 65, and n2 counts as busier than n1 all the time.
    decision = decided(policy(Form.INCUS_7_0_2, batch=9), hosts(EXAMPLE, FIVE))

    assert [s.action.target for s in decision.plan.steps] == [N1] * 3  # type: ignore[union-attr]
    assert "→ 33 points" in decision.plan.steps[-1].why
    assert "n3 (65 points) and n1 (15)" in decision.plan.steps[-1].why
    assert decision.notes[0] == (
        "stays on n3: vm4: n1 would go from 33 to 40 points, and not stay below the "
        "goal 40"
    )


def test_the_corrected_form_gives_to_whoever_is_least_busy_after_each_move() -> None:
    # n1 goes 15 → 21 → 27; by then n2, with 25 points, is the least busy.
    decision = decided(policy(batch=9), hosts(EXAMPLE, FIVE))

    assert [s.action.target for s in decision.plan.steps][:3] == [N1, N1, N2]  # type: ignore[union-attr]


def test_the_corrected_form_counts_what_the_source_is_relieved_of() -> None:
    heavy = [
        vm(f"vm{number}", "n3", 4, 4 * GIB, usage=Usage(4.0, 4 * GIB))
        for number in (1, 2, 3)
    ]
    cluster = hosts({"n1": (0, 0.0), "n3": (80, 12.8)}, heavy)

    # 0 against 80: one makes it 25 against 55, two would make it 50 against 30.
    assert moved(policy(batch=9), cluster) == [("vm1", "n1")]
    decision = decided(policy(batch=9), cluster)
    assert decision.detail.endswith(
        "n3 (55 points) and n1 (25) are 54% apart; no guest may move to n1"
    )


def test_what_is_foretold_is_not_told_where_it_cannot_be_known() -> None:
    # What the guest uses of the processors was not measured.
    decision = decided(policy(), hosts(EXAMPLE, FIVE))

    assert decision.before["highest_score"] == 0.65
    assert decision.after == {}


# The cooldown.


def later(cluster: Snapshot, hours: float) -> Snapshot:
    return replace(cluster, taken_at=NOON + timedelta(hours=hours))


@pytest.mark.parametrize("form", Form)
def test_a_guest_that_was_moved_rests_for_six_hours(form: Form) -> None:
    first = decided(policy(form), hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)]))
    back = hosts({"n1": (80, 8.0), "n3": (20, 1.6)}, [vm("vm", "n1", 1, SMALL)])

    soon = policy(form).decide(later(back, 5.9), first.memory)
    then = policy(form).decide(later(back, 6), soon.memory)

    assert first.memory == {"vm": [NOON.isoformat(), "n1"]}
    assert soon.reason is Reason.NO_CANDIDATE
    assert soon.notes == ("stays on n1: vm: it was moved less than 21600 s ago",)
    assert then.plan.steps
    assert then.memory == {"vm": [later(back, 6).taken_at.isoformat(), "n3"]}


@pytest.mark.parametrize("form", Form)
def test_another_guest_is_taken_while_one_rests(form: Form) -> None:
    cluster = hosts(EXAMPLE, [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)])
    rested = policy(form).decide(cluster, {"a": [NOON.isoformat(), "n3"]})

    assert [str(each.action.guest) for each in rested.plan.steps] == ["b"]  # type: ignore[union-attr]


def test_a_guest_that_did_not_get_where_it_was_to_go_does_not_rest() -> None:
    first = decided(policy(), hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)]))

    again = policy().decide(hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)]), first.memory)

    assert again.plan == first.plan


def test_guests_that_are_gone_are_forgotten() -> None:
    memory = {"gone": [NOON.isoformat(), "n1"]}

    assert policy().decide(hosts(EXAMPLE), memory).memory == {}


@pytest.mark.parametrize(
    ("form", "found"),
    [(Form.CORRECTED, []), *((form, [("vm", "n1")]) for form in ORIGINAL)],
)
def test_incus_does_not_count_what_others_have_moved(
    form: Form, found: list[tuple[str, str]]
) -> None:
    by_hand = vm("vm", "n3", 1, SMALL, moved_at=NOON - timedelta(hours=5))

    assert moved(policy(form), hosts(EXAMPLE, [by_hand])) == found


def test_without_cooldown_nobody_rests() -> None:
    restless = policy(cooldown=0.0)
    memory = {"vm": [NOON.isoformat(), "n3"]}

    decision = restless.decide(hosts(EXAMPLE, [vm("vm", "n3", 1, SMALL)]), memory)

    assert decision.plan.steps


def test_the_cooldown_of_the_operator_binds_as_well() -> None:
    moved_lately = vm("vm", "n3", 1, SMALL, moved_at=NOON - timedelta(seconds=5))
    careful = ThresholdRebalance(cooldown=0.0, limits=Limits(memory_overbooking=9.0))

    assert moved(careful, hosts(EXAMPLE, [moved_lately])) == []


@pytest.mark.parametrize("form", Form)
def test_it_waits_while_a_guest_is_on_the_move_and_remembers_all(form: Form) -> None:
    on_the_way = vm("vm", "n3", 1, SMALL, migrating_to=N1)
    memory = {"vm": [NOON.isoformat(), "n1"]}

    decision = policy(form).decide(hosts(EXAMPLE, [on_the_way]), memory)

    assert decision.reason is Reason.MIGRATION_UNDER_WAY
    assert decision.memory == memory


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"threshold": 1.1}, "threshold must be a finite number in"),
        ({"threshold": float("nan")}, "threshold must be"),
        ({"floor": -0.1}, "floor must be"),
        ({"batch": -1}, "batch must be at least 0, not -1"),
        ({"cooldown": -1.0}, "cooldown must be"),
        ({"cooldown": float("inf")}, "cooldown must be"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, float], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        ThresholdRebalance(**settings)  # type: ignore[arg-type]


def test_many_that_stay_are_not_all_told() -> None:
    guests = [vm(f"vm{number}", "n3", 8, SMALL) for number in range(8)]

    notes = decided(policy(), hosts(EXAMPLE, guests)).notes

    assert len(notes) == 6
    assert notes[-1] == "stays on n3: 3 more"
    assert GuestId("vm0") in notes[0]
