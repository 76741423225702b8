"""Threshold-rebalance moves guests from the busiest host to less busy ones.

The cases are those known of Incus, most of them seen on running clusters; the
guests use next to nothing, as the stopped ones there did.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.metrics import LoadModel
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
from opendrs.policies import DecisionReason
from opendrs.policies.threshold_rebalance import (
    CpuMetric,
    IncusVersion,
    ThresholdRebalance,
)
from support.builders import NOON, guest_ids, node
from unit.policies.threshold_rebalance.incus_clusters import (
    EXAMPLE,
    GENEROUS,
    decide,
    incus_cluster,
    migrations_of,
    vm,
)

MIB = 1 << 20
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
EXACT = [IncusVersion.CORRECTED, IncusVersion.INCUS_7_0_2]
SWAPPED = [IncusVersion.INCUS_6_0, IncusVersion.INCUS_7_3]
ORIGINAL = [compatibility for compatibility in IncusVersion if compatibility.is_incus]
SMALL = 128 * MIB


def policy(
    compatibility: IncusVersion = IncusVersion.CORRECTED, **settings: object
) -> ThresholdRebalance:
    return ThresholdRebalance(compatibility=compatibility, limits=GENEROUS, **settings)  # type: ignore[arg-type]


def numbers_in(text: str) -> list[str]:
    """Return the numbers of *text*, without those in names such as n1."""
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)


# The worked example.


@pytest.mark.parametrize("compatibility", EXACT)
def test_guest_keeping_target_below_goal_is_moved(compatibility: IncusVersion) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 1, 7 * GIB)])

    decision = decide(policy(compatibility), cluster)

    assert migrations_of(policy(compatibility), cluster) == [("vm", "n1")]
    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert numbers_in(decision.plan.steps[0].detail) == [
        *("65", "15", "76"),  # scores of n3 and n1, and their difference in percent
        *("1.00", "7.00", "15", "39", "40"),  # demand, score of n1, goal
    ]


@pytest.mark.parametrize("compatibility", EXACT)
@pytest.mark.parametrize(("cpu", "memory"), [(1, 7372 * MIB), (8, SMALL)])
def test_guest_raising_target_to_goal_is_skipped(
    compatibility: IncusVersion, cpu: float, memory: int
) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", cpu, memory)])

    decision = decide(policy(compatibility), cluster)

    assert decision.reason is DecisionReason.NO_CANDIDATE
    (note,) = decision.notes
    assert numbers_in(note) == ["15", "40", "40"]


@pytest.mark.parametrize("compatibility", EXACT)
def test_a_guest_of_seven_cores_is_moved_where_eight_are_too_many(
    compatibility: IncusVersion,
) -> None:
    assert migrations_of(
        policy(compatibility), incus_cluster(EXAMPLE, [vm("vm", "n3", 7, SMALL)])
    )


@pytest.mark.parametrize("compatibility", SWAPPED)
def test_before_7_0_2_a_guest_of_any_size_is_moved(compatibility: IncusVersion) -> None:
    # 64 GiB and 32 cores, to a host that has 16 of each.
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 32, 64 * GIB)])

    assert migrations_of(policy(compatibility), cluster) == [("vm", "n1")]
    for other in EXACT:
        assert migrations_of(policy(other), cluster) == []


def test_no_version_overcommits_memory() -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 32, 64 * GIB)])

    for compatibility in SWAPPED:
        assert (
            migrations_of(ThresholdRebalance(compatibility=compatibility), cluster)
            == []
        )


# The threshold.


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_nothing_is_done_below_the_threshold(compatibility: IncusVersion) -> None:
    cluster = incus_cluster({"n1": (41, 8), "n2": (50, 8)}, [vm("vm", "n2", 1, SMALL)])

    decision = decide(policy(compatibility), cluster)

    assert decision.reason is DecisionReason.BALANCED
    assert numbers_in(decision.detail) == ["50", "45", "10", "20"]
    assert decision.before == decision.after
    assert decision.before == {
        "difference": 0.1,
        "highest_score": 0.5,
        "lowest_score": 0.45,
    }


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_the_threshold_is_relative_so_that_5_against_4_is_enough(
    compatibility: IncusVersion,
) -> None:
    cluster = incus_cluster({"n1": (8, 0), "n2": (10, 0)}, [vm("vm", "n2", 1, SMALL)])

    assert decide(policy(compatibility), cluster).reason is DecisionReason.NO_CANDIDATE
    above = policy(compatibility, threshold=0.21)
    assert decide(above, cluster).reason is DecisionReason.BALANCED


def test_nodes_below_min_load_are_not_balanced() -> None:
    cluster = incus_cluster({"n1": (0, 0), "n2": (58, 0)}, [vm("vm", "n2", 1, SMALL)])

    idle = decide(policy(min_load=0.3), cluster)

    assert idle.reason is DecisionReason.BALANCED
    assert numbers_in(idle.detail) == ["29", "30"]
    assert migrations_of(policy(min_load=0.29), cluster) == [("vm", "n1")]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_idle_nodes_give_empty_plan(compatibility: IncusVersion) -> None:
    cluster = incus_cluster({"n1": (0, 0), "n2": (0, 0)}, [vm("vm", "n2", 1, SMALL)])

    decision = decide(policy(compatibility, threshold=0.0), cluster)

    assert decision.reason is DecisionReason.BALANCED
    assert decision.plan.steps == ()


@pytest.mark.parametrize("compatibility", ORIGINAL)
def test_in_incus_an_overloaded_host_is_taken_for_idle_and_filled(
    compatibility: IncusVersion,
) -> None:
    # Seen on 7.0.2: 80 % of the memory and 180 % load are a score of 2.
    cluster = incus_cluster(
        {"n1": (60, 9.6), "n2": (80, 28.8)}, [vm("vm", "n1", 1, SMALL)], threads=16
    )

    assert migrations_of(policy(compatibility), cluster) == [("vm", "n2")]


def test_in_the_corrected_form_an_overloaded_host_gives() -> None:
    figures = {"n1": (60, 9.6), "n2": (80, 28.8)}
    guests = [vm("one", "n1", 1, SMALL), vm("two", "n2", 1, SMALL)]

    assert migrations_of(policy(), incus_cluster(figures, guests)) == [("two", "n1")]


# Which hosts.


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_only_hosts_of_one_architecture_are_compared(
    compatibility: IncusVersion,
) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    other = replace(cluster.nodes[N3], architecture="aarch64")
    same = {
        name: replace(n, architecture="x86_64") for name, n in cluster.nodes.items()
    }

    decision = decide(
        policy(compatibility), replace(cluster, nodes={**same, N3: other})
    )

    assert decision.plan.steps == ()
    assert numbers_in(decision.detail)[:2] == ["25", "15"]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_the_batch_is_over_all_architectures(compatibility: IncusVersion) -> None:
    cluster = incus_cluster(
        {"a1": (20, 1.6), "a2": (80, 8), "b1": (20, 1.6), "b2": (80, 8)},
        [vm("vm1", "a2", 1, SMALL), vm("vm2", "b2", 1, SMALL)],
    )
    nodes = {
        name: replace(each, architecture="x86_64" if name[0] == "a" else "aarch64")
        for name, each in cluster.nodes.items()
    }
    mixed = replace(cluster, nodes=nodes)

    assert migrations_of(policy(compatibility), mixed) == [("vm2", "b1")]
    assert migrations_of(policy(compatibility, max_migrations=2), mixed) == [
        ("vm2", "b1"),
        ("vm1", "a1"),
    ]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_single_node_gives_empty_plan(compatibility: IncusVersion) -> None:
    decision = decide(policy(compatibility), incus_cluster({"n1": (90, 14)}))

    assert decision.reason is DecisionReason.BALANCED
    assert decision.before == {}


@pytest.mark.parametrize("compatibility", IncusVersion)
@pytest.mark.parametrize("excluded", [N1, N3])
def test_excluded_nodes_are_neither_source_nor_target(
    compatibility: IncusVersion, excluded: NodeId
) -> None:
    cluster = incus_cluster(
        EXAMPLE, [vm("vm", "n3", 1, SMALL), vm("vm2", "n2", 1, SMALL)]
    )
    manual = replace(cluster.nodes[excluded], labels=frozenset({"manual"}))
    with_label = replace(cluster, nodes={**cluster.nodes, excluded: manual})
    obeying = policy(compatibility, excluded_labels=("manual",))

    found = migrations_of(obeying, with_label)

    assert found == ([("vm", "n2")] if excluded == N1 else [("vm2", "n1")])


@pytest.mark.parametrize("compatibility", IncusVersion)
@pytest.mark.parametrize("state", [NodeState.OFFLINE, NodeState.MAINTENANCE])
def test_hosts_that_are_not_online_are_left_out_even_unmeasured(
    compatibility: IncusVersion, state: NodeState
) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    away = node("n1", None, state=state)

    assert migrations_of(
        policy(compatibility), replace(cluster, nodes={**cluster.nodes, N1: away})
    ) == [("vm", "n2")]


def with_silent_host(name: NodeId) -> Snapshot:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    silent = replace(cluster.nodes[name], usage=Usage(), load_average=None)
    return replace(cluster, nodes={**cluster.nodes, name: silent})


@pytest.mark.parametrize(
    "compatibility", [each for each in IncusVersion if each.is_incus]
)
def test_host_without_metrics_ends_a_run_of_incus(compatibility: IncusVersion) -> None:
    decision = decide(policy(compatibility), with_silent_host(N2))

    assert decision.reason is DecisionReason.METRICS_MISSING
    assert "nodes.n2.usage: cpu, memory" in decision.detail


def test_corrected_form_leaves_out_a_host_without_metrics() -> None:
    decision = decide(policy(), with_silent_host(N2))

    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert migrations_of(policy(), with_silent_host(N2)) == [("vm", "n1")]
    assert decision.unmeasured == (N2,)
    assert "nodes.n2.usage: cpu, memory" in decision.notes[0]
    assert decision.before


def test_one_measured_host_is_not_compared() -> None:
    one = with_silent_host(N2)
    silent = replace(one.nodes[N1], usage=Usage(), load_average=None)

    decision = decide(policy(), replace(one, nodes={**one.nodes, N1: silent}))

    assert decision.reason is DecisionReason.METRICS_MISSING


def test_a_cluster_without_hosts_is_not_measured() -> None:
    decision = decide(policy(), incus_cluster({}))

    assert decision.reason is DecisionReason.METRICS_MISSING


def with_guests(
    counts: dict[str, int], figures: dict[str, tuple[float, float]]
) -> Snapshot:
    guests = [
        vm(f"{name}-{number}", name, 1, SMALL)
        for name, count in counts.items()
        for number in range(count)
    ]
    return incus_cluster(figures, guests)


@pytest.mark.parametrize(
    ("compatibility", "target"),
    [
        *((compatibility, "n2") for compatibility in ORIGINAL),
        (IncusVersion.CORRECTED, "n1"),
    ],
)
def test_incus_target_among_equal_hosts_has_most_guests(
    compatibility: IncusVersion, target: str
) -> None:
    cluster = with_guests(
        {"n1": 1, "n2": 2, "n3": 3}, {"n1": (20, 2), "n2": (20, 2), "n3": (80, 8)}
    )

    assert migrations_of(policy(compatibility), cluster) == [("n3-0", target)]


@pytest.mark.parametrize(
    ("compatibility", "mover"),
    [
        *((compatibility, "n3-0") for compatibility in ORIGINAL),
        (IncusVersion.CORRECTED, "n2-0"),
    ],
)
def test_incus_source_among_equal_hosts_has_fewest_guests(
    compatibility: IncusVersion, mover: str
) -> None:
    cluster = with_guests(
        {"n1": 9, "n2": 3, "n3": 2}, {"n1": (20, 2), "n2": (80, 8), "n3": (80, 8)}
    )

    assert migrations_of(policy(compatibility), cluster) == [(mover, "n1")]


# Which guests.


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_the_first_guest_by_name_that_fits_is_taken_and_not_the_best(
    compatibility: IncusVersion,
) -> None:
    guests = [
        vm("b-small", "n3", 1, SMALL),
        vm("c-ideal", "n3", 6, 1 * GIB),
        vm("a-other", "n2", 1, SMALL),
    ]

    assert migrations_of(policy(compatibility), incus_cluster(EXAMPLE, guests)) == [
        ("b-small", "n1")
    ]


@pytest.mark.parametrize("compatibility", IncusVersion)
@pytest.mark.parametrize("mobility", [Mobility.COLD, Mobility.NONE])
def test_only_guests_that_can_move_live_are_moved(
    compatibility: IncusVersion, mobility: Mobility
) -> None:
    fixed = vm("a", "n3", 1, SMALL, mobility=mobility, mobility_detail="a gpu")
    cluster = incus_cluster(EXAMPLE, [fixed, vm("b", "n3", 1, SMALL)])

    assert migrations_of(policy(compatibility), cluster) == [("b", "n1")]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_container_is_not_moved(compatibility: IncusVersion) -> None:
    container = vm("ct", "n3", 1, SMALL, kind=GuestKind.CONTAINER)

    decision = decide(policy(compatibility), incus_cluster(EXAMPLE, [container]))

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert decision.plan.steps == ()


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_stopped_guests_stay_unlike_in_incus(compatibility: IncusVersion) -> None:
    stopped = vm("vm", "n3", 1, SMALL, state=GuestState.STOPPED)

    assert migrations_of(policy(compatibility), incus_cluster(EXAMPLE, [stopped])) == []


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_pinned_guests_stay_and_the_next_is_taken(compatibility: IncusVersion) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]
    pinned = incus_cluster(EXAMPLE, guests, [Pin(guests=guest_ids("a"))])

    assert migrations_of(policy(compatibility), pinned) == [("b", "n1")]


@pytest.mark.parametrize("compatibility", ORIGINAL)
def test_incus_guest_without_limits_counts_one_core_and_one_gib(
    compatibility: IncusVersion,
) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("vm", "n3", 0, 0)])

    (step,) = decide(policy(compatibility), cluster).plan.steps

    assert "1.00 cores" in step.detail
    assert "1.00 GiB" in step.detail


def test_corrected_form_skips_guest_without_cpu_limit() -> None:
    decision = decide(policy(), incus_cluster(EXAMPLE, [vm("vm", "n3", 0, GIB)]))

    assert decision.notes == ("guest skipped: vm: no CPU limit",)


def test_usage_above_limit_counts_as_demand() -> None:
    greedy = vm("vm", "n3", 1, SMALL, usage=Usage(7.0, 1 * GIB))

    (step,) = decide(policy(), incus_cluster(EXAMPLE, [greedy])).plan.steps

    assert "7.00 cores" in step.detail
    assert "1.00 GiB" in step.detail


def test_dynamic_load_model_counts_usage_instead_of_limits() -> None:
    idle = vm("vm", "n3", 16, 12 * GIB, usage=Usage(0.5, 1 * GIB))
    cluster = incus_cluster(EXAMPLE, [idle])
    nodes = {
        name: replace(each, usage=replace(each.usage, cpu=each.load_average))
        for name, each in cluster.nodes.items()
    }
    measured = replace(cluster, nodes=nodes)

    assert migrations_of(policy(), measured) == []
    assert migrations_of(policy(load_model=LoadModel.DYNAMIC), measured) == [
        ("vm", "n1")
    ]


def test_dynamic_load_model_needs_busy_cores() -> None:
    by_use = policy(load_model=LoadModel.DYNAMIC)

    decision = decide(by_use, incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)]))

    assert decision.reason is DecisionReason.METRICS_MISSING
    assert "nodes.n1.usage.cpu" in decision.detail


# Measures of processor load.


def busy(cores: float) -> Usage:
    return Usage(cores, 3 * GIB)


def test_auto_cpu_metric_falls_back_to_busy_cores() -> None:
    # By load average n1 is the busier, by busy cores n2.
    guests = [vm("one", "n1", 1, SMALL), vm("two", "n2", 1, SMALL)]
    capacity = Resources(16, 16 * GIB)
    nodes = {
        N1: node("n1", 0, capacity=capacity, usage=busy(1), load_average=15.0),
        N2: node("n2", 0, capacity=capacity, usage=busy(14), load_average=1.0),
    }
    measured = Snapshot(NOON, nodes, {each.id: each for each in guests})
    untold = replace(
        measured, nodes={**nodes, N2: replace(nodes[N2], load_average=None)}
    )

    assert migrations_of(policy(), measured) == [("one", "n2")]
    assert migrations_of(policy(), untold) == [("two", "n1")]
    assert migrations_of(policy(cpu_metric=CpuMetric.BUSY_CORES), measured) == [
        ("two", "n1")
    ]
    strict = decide(policy(cpu_metric=CpuMetric.LOAD_AVERAGE), untold)
    assert strict.reason is DecisionReason.METRICS_MISSING
    assert "nodes.n2.load_average" in strict.detail


# Which target.

IDLER = {"n1": (20, 1.6), "n2": (30, 3.2), "n3": (80, 8.0)}


def bound(name: str, *nodes: NodeId) -> NodeAffinity:
    return NodeAffinity(guests=guest_ids(name), nodes=dict.fromkeys(nodes, 1))


@pytest.mark.parametrize(
    "compatibility",
    [IncusVersion.CORRECTED, IncusVersion.INCUS_7_3, IncusVersion.INCUS_7_0_2],
)
def test_node_affinity_selects_allowed_host_over_least_loaded(
    compatibility: IncusVersion,
) -> None:
    rule = bound("vm", N2, N3)

    (step,) = decide(
        policy(compatibility), incus_cluster(IDLER, [vm("vm", "n3", 1, SMALL)], [rule])
    ).plan.steps

    assert step.action.target == N2  # type: ignore[union-attr]
    assert "target n1 (score 15) is infeasible: " in step.detail


def test_incus_6_0_skips_a_guest_that_may_not_go_to_the_idlest_host() -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]

    found = migrations_of(
        policy(IncusVersion.INCUS_6_0),
        incus_cluster(IDLER, guests, [bound("a", N2, N3)]),
    )

    assert found == [("b", "n1")]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_unplaceable_guest_is_noted_with_reason(compatibility: IncusVersion) -> None:
    decision = decide(
        policy(compatibility),
        incus_cluster(IDLER, [vm("vm", "n3", 1, SMALL)], [bound("vm", N3)]),
    )

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert decision.notes[0].startswith(
        "stays on n3: vm: no feasible node; n1: "
        'forbidden by the rule "node affinity of vm to n3"'
    )


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_a_guest_must_be_apart_on_its_target_too(compatibility: IncusVersion) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n1", 1, SMALL), vm("c", "n3", 1, SMALL)]
    rule = AntiAffinity(guests=guest_ids("a", "b"))

    found = migrations_of(policy(compatibility), incus_cluster(IDLER, guests, [rule]))

    assert found == (
        [("c", "n1")] if compatibility is IncusVersion.INCUS_6_0 else [("a", "n2")]
    )


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_affinity_group_is_moved_and_counted_as_one(
    compatibility: IncusVersion,
) -> None:
    guests = [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)]
    rule = Affinity(guests=guest_ids("a", "b"))

    decision = decide(policy(compatibility), incus_cluster(IDLER, guests, [rule]))

    assert {str(each.action.guest) for each in decision.plan.steps} == {"a", "b"}  # type: ignore[union-attr]


# How much.

FIVE = [vm(f"vm{number}", "n3", 1, GIB) for number in range(1, 6)]


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_the_batch_ends_the_run(compatibility: IncusVersion) -> None:
    assert len(migrations_of(policy(compatibility), incus_cluster(EXAMPLE, FIVE))) == 1
    assert (
        len(
            migrations_of(
                policy(compatibility, max_migrations=2), incus_cluster(EXAMPLE, FIVE)
            )
        )
        == 2
    )


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_zero_max_migrations_gives_empty_plan(compatibility: IncusVersion) -> None:
    decision = decide(
        policy(compatibility, max_migrations=0), incus_cluster(EXAMPLE, FIVE)
    )

    assert decision.plan.steps == ()
    assert decision.reason is DecisionReason.MIGRATION_LIMIT_REACHED
    assert decision.detail.endswith(
        "differ by 76%; the limit of 0 migrations is reached"
    )


def test_incus_7_0_2_fills_one_target_up_to_the_goal_and_compares_stale_scores() -> (
    None
):
    # n1 goes 15 → 21 → 27 → 33; the fourth would make it 40, the goal.
    # The score of n3 stays at 65, and n2 counts as busier than n1 all the time.
    decision = decide(
        policy(IncusVersion.INCUS_7_0_2, max_migrations=9), incus_cluster(EXAMPLE, FIVE)
    )

    assert [s.action.target for s in decision.plan.steps] == [N1] * 3  # type: ignore[union-attr]
    last = numbers_in(decision.plan.steps[-1].detail)
    assert last[:2] == ["65", "15"]
    assert last[-2:] == ["33", "40"]
    assert numbers_in(decision.notes[0]) == ["33", "40", "40"]


def test_corrected_version_ranks_nodes_after_each_move() -> None:
    # n1 goes 15 → 21 → 27; by then n2, with a score of 25, is the least busy.
    decision = decide(policy(max_migrations=9), incus_cluster(EXAMPLE, FIVE))

    assert [s.action.target for s in decision.plan.steps][:3] == [N1, N1, N2]  # type: ignore[union-attr]


def test_the_corrected_form_counts_what_the_source_is_relieved_of() -> None:
    heavy = [
        vm(f"vm{number}", "n3", 4, 4 * GIB, usage=Usage(4.0, 4 * GIB))
        for number in (1, 2, 3)
    ]
    cluster = incus_cluster({"n1": (0, 0.0), "n3": (80, 12.8)}, heavy)

    # 0 against 80: one makes it 25 against 55, two would make it 50 against 30.
    assert migrations_of(policy(max_migrations=9), cluster) == [("vm1", "n1")]
    decision = decide(policy(max_migrations=9), cluster)
    assert numbers_in(decision.detail)[-3:] == ["55", "25", "54"]


def test_metrics_after_are_omitted_when_unknown() -> None:
    # What the guest uses of the processors was not measured.
    decision = decide(policy(), incus_cluster(EXAMPLE, FIVE))

    assert decision.before["highest_score"] == 0.65
    assert decision.after == {}


# The cooldown.


def later(cluster: Snapshot, hours: float) -> Snapshot:
    return replace(cluster, taken_at=NOON + timedelta(hours=hours))


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_migrated_guest_is_not_moved_for_six_hours(
    compatibility: IncusVersion,
) -> None:
    first = decide(
        policy(compatibility), incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)])
    )
    back = incus_cluster({"n1": (80, 8.0), "n3": (20, 1.6)}, [vm("vm", "n1", 1, SMALL)])

    soon = policy(compatibility).decide(later(back, 5.9), first.memory)
    then = policy(compatibility).decide(later(back, 6), soon.memory)

    assert first.memory == {"vm": [NOON.isoformat(), "n1"]}
    assert soon.reason is DecisionReason.NO_CANDIDATE
    assert "21600 s" in soon.notes[0]
    assert then.plan.steps
    assert then.memory == {"vm": [later(back, 6).taken_at.isoformat(), "n3"]}


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_another_guest_is_taken_while_one_rests(compatibility: IncusVersion) -> None:
    cluster = incus_cluster(EXAMPLE, [vm("a", "n3", 1, SMALL), vm("b", "n3", 1, SMALL)])
    rested = policy(compatibility).decide(cluster, {"a": [NOON.isoformat(), "n3"]})

    assert [str(each.action.guest) for each in rested.plan.steps] == ["b"]  # type: ignore[union-attr]


def test_a_guest_that_did_not_get_where_it_was_to_go_does_not_rest() -> None:
    first = decide(policy(), incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)]))

    again = policy().decide(
        incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)]), first.memory
    )

    assert again.plan == first.plan


def test_guests_that_are_gone_are_forgotten() -> None:
    memory = {"gone": [NOON.isoformat(), "n1"]}

    assert policy().decide(incus_cluster(EXAMPLE), memory).memory == {}


@pytest.mark.parametrize(
    ("compatibility", "found"),
    [
        (IncusVersion.CORRECTED, []),
        *((compatibility, [("vm", "n1")]) for compatibility in ORIGINAL),
    ],
)
def test_incus_does_not_count_what_others_have_moved(
    compatibility: IncusVersion, found: list[tuple[str, str]]
) -> None:
    by_hand = vm("vm", "n3", 1, SMALL, migrated_at=NOON - timedelta(hours=5))

    assert (
        migrations_of(policy(compatibility), incus_cluster(EXAMPLE, [by_hand])) == found
    )


def test_zero_cooldown_skips_no_guest() -> None:
    restless = policy(cooldown=0.0)
    memory = {"vm": [NOON.isoformat(), "n3"]}

    decision = restless.decide(
        incus_cluster(EXAMPLE, [vm("vm", "n3", 1, SMALL)]), memory
    )

    assert decision.plan.steps


def test_the_cooldown_of_the_operator_binds_as_well() -> None:
    moved_lately = vm("vm", "n3", 1, SMALL, migrated_at=NOON - timedelta(seconds=5))
    careful = ThresholdRebalance(cooldown=0.0, limits=Limits(memory_overcommit=9.0))

    assert migrations_of(careful, incus_cluster(EXAMPLE, [moved_lately])) == []


@pytest.mark.parametrize("compatibility", IncusVersion)
def test_it_waits_while_a_guest_is_on_the_move_and_remembers_all(
    compatibility: IncusVersion,
) -> None:
    migrating = vm("vm", "n3", 1, SMALL, migrating_to=N1)
    memory = {"vm": [NOON.isoformat(), "n1"]}

    decision = policy(compatibility).decide(incus_cluster(EXAMPLE, [migrating]), memory)

    assert decision.reason is DecisionReason.MIGRATION_IN_PROGRESS
    assert decision.memory == memory


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.1}, "threshold: expected a finite number in"),
        ({"threshold": float("nan")}, "threshold: expected"),
        ({"min_load": -0.1}, "min_load: expected"),
        ({"max_migrations": -1}, "max_migrations: expected at least 0, got -1"),
        ({"cooldown": -1.0}, "cooldown: expected"),
        ({"cooldown": float("inf")}, "cooldown: expected"),
    ],
)
def test_settings_out_of_range_raise_error(
    settings: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ThresholdRebalance(**settings)  # type: ignore[arg-type]


def test_notes_about_skipped_guests_are_limited() -> None:
    guests = [vm(f"vm{number}", "n3", 8, SMALL) for number in range(8)]

    notes = decide(policy(), incus_cluster(EXAMPLE, guests)).notes

    assert len(notes) == 6
    assert notes[-1].endswith(": 3 more")
    assert GuestId("vm0") in notes[0]
