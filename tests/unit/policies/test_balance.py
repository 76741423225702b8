"""Policy balance."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from opendrs.metrics import ImbalanceMetric, LoadModel
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    Affinity,
    AntiAffinity,
    ColdMigration,
    GuestId,
    GuestKind,
    LiveMigration,
    Mobility,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
    format_count,
)
from opendrs.policies import Balance, Decision, DecisionReason
from opendrs.policies.load_metrics import SelectionMethod
from support.builders import cluster, guest_ids

A, B, C = (NodeId(name) for name in "abc")
FOUR = {f"g{i}": ("a", 0.2) for i in range(1, 5)}
PILED = cluster({"a": 0.8, "b": 0.0, "c": 0.0, "d": 0.0}, {**FOUR})


def migration(guest: str, source: str, target: str) -> LiveMigration:
    return LiveMigration(GuestId(guest), NodeId(source), NodeId(target))


def actions(decision: Decision[Any]) -> list[object]:
    return [step.action for step in decision.plan.steps]


def with_guest(snapshot: Snapshot, name: str, **changes: Any) -> Snapshot:  # noqa: ANN401
    changed = replace(snapshot.guests[GuestId(name)], **changes)
    return replace(snapshot, guests={**snapshot.guests, changed.id: changed})


def test_the_defaults_mean_the_same_at_any_size() -> None:
    # docs/decisions/0003
    policy = Balance()

    assert policy.imbalance_metric is ImbalanceMetric.CV
    assert (policy.threshold, policy.min_improvement) == (0.1, 0.1)


def test_balance_plans_all_moves_to_threshold() -> None:
    decision = Balance().decide(PILED, None)

    assert decision.reason is DecisionReason.IMPROVES_BALANCE
    assert actions(decision) == [
        migration("g1", "a", "b"),
        migration("g2", "a", "c"),
        migration("g3", "a", "d"),
    ]
    assert decision.after["imbalance"] == pytest.approx(0, abs=1e-9)
    assert decision.before["imbalance"] == pytest.approx(math.sqrt(3))


def test_imbalance_at_threshold_gives_empty_plan() -> None:
    # By hand: loads 0.55 and 0.45 have a coefficient of variation of 0.1.
    level = cluster({"a": 0.5625, "b": 0.4375}, {"vm": ("a", 0.05)})

    decision = Balance(threshold=0.125).decide(level, None)

    assert (decision.reason, decision.plan) == (DecisionReason.BALANCED, EMPTY_PLAN)
    assert decision.before == decision.after
    assert decision.before["imbalance"] == pytest.approx(0.125)


def test_stops_when_a_move_gains_less_than_the_margin() -> None:
    # By hand: 0.9 and 0.1 have imbalance 0.8; after 0.1 moved, 0.6: a quarter less.
    snapshot = cluster({"a": 0.9, "b": 0.1}, {"vm": ("a", 0.1)})

    enough = Balance(min_improvement=0.24).decide(snapshot, None)
    not_enough = Balance(min_improvement=0.26).decide(snapshot, None)

    assert enough.reason is DecisionReason.IMPROVES_BALANCE
    assert not_enough.reason is DecisionReason.IMPROVEMENT_TOO_SMALL
    assert not_enough.detail.endswith("; the next move would reduce it by only 25.0%")


def test_the_margin_is_shared_among_the_nodes() -> None:
    # By hand: 0.8 against three times 0.2 has mean 0.35 and deviation 0.26;
    # after 0.05 moved it is 0.232, 10.8 % less: half of a margin of 21.5 %.
    snapshot = cluster({"a": 0.8, "b": 0.2, "c": 0.2, "d": 0.2}, {"vm": ("a", 0.05)})

    def reason(margin: float) -> DecisionReason:
        return Balance(min_improvement=margin).decide(snapshot, None).reason

    gain = 1 - 0.23184 / 0.25981
    assert reason(2 * gain - 0.01) is DecisionReason.IMPROVES_BALANCE
    assert reason(2 * gain + 0.01) is DecisionReason.IMPROVEMENT_TOO_SMALL


def test_a_margin_of_0_still_wants_a_gain() -> None:
    # Moving the only guest would but exchange the nodes.
    snapshot = cluster({"a": 0.5, "b": 0.0}, {"vm": ("a", 0.5)})

    assert Balance(min_improvement=0.0).decide(snapshot, None).reason is (
        DecisionReason.IMPROVEMENT_TOO_SMALL
    )


@pytest.mark.parametrize(("moves", "expected"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_max_migrations_limits_plan(moves: int, expected: int) -> None:
    decision = Balance(max_migrations=moves).decide(PILED, None)

    assert len(decision.plan.steps) == expected
    assert (
        f"the limit of {format_count(moves, 'migration')} is" in decision.detail
    ) is (moves < 3)
    if not moves:
        assert decision.reason is DecisionReason.MIGRATION_LIMIT_REACHED


def test_guests_that_stay_together_count_one_by_one() -> None:
    pair = replace(PILED, rules=(Affinity(guests=guest_ids("g1", "g2")),))

    assert actions(Balance(max_migrations=1).decide(pair, None)) == []
    assert len(Balance(max_migrations=2).decide(pair, None).plan.steps) == 2


def test_no_movable_guest_gives_no_candidate() -> None:
    decision = Balance().decide(cluster({"a": 0.8, "b": 0.2}, {}), None)

    assert (decision.reason, decision.plan) == (DecisionReason.NO_CANDIDATE, EMPTY_PLAN)


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (cluster({"a": None, "b": 0.1}, {}), DecisionReason.METRICS_MISSING),
        (
            cluster({"a": 0.8, "b": 0.1}, {"x": ("a", 0.2)}, moving={"x": "b"}),
            DecisionReason.MIGRATION_IN_PROGRESS,
        ),
    ],
)
def test_incomplete_snapshot_gives_empty_plan(
    snapshot: Snapshot, reason: DecisionReason
) -> None:
    decision = Balance().decide(snapshot, None)

    assert (decision.reason, decision.plan) == (reason, EMPTY_PLAN)
    assert decision.before == decision.after == {}


def test_containers_stay_unless_they_may_be_relocated() -> None:
    container = {"kind": GuestKind.CONTAINER, "mobility": Mobility.COLD}
    snapshot = cluster({"a": 0.8, "b": 0.2}, {"ct": ("a", 0.3)})
    snapshot = with_guest(snapshot, "ct", **container)

    stays = Balance().decide(snapshot, None)
    goes = Balance(allow_cold_migration=True).decide(snapshot, None)

    assert stays.reason is DecisionReason.NO_CANDIDATE
    assert stays.notes == (
        "guest skipped: ct: container, and cold migration is not allowed",
    )
    assert actions(goes) == [ColdMigration(GuestId("ct"), A, B)]


def test_unplaceable_guests_are_noted_with_reason() -> None:
    apart = AntiAffinity(guests=guest_ids("big", "small"))
    snapshot = cluster(
        {"a": 0.8, "b": 0.1, "c": 0.0},
        {"big": ("a", 0.5), "small": ("b", 0.1)},
        rules=[apart],
    )
    off = replace(snapshot.nodes[C], state=NodeState.OFFLINE)
    decision = Balance().decide(
        replace(snapshot, nodes={**snapshot.nodes, C: off}), None
    )

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert decision.notes == (
        (
            "no feasible node for big: b: anti-affinity of big to small; "
            "c: node state offline"
        ),
        (
            "no feasible node for small: a: anti-affinity of small to big; "
            "c: node state offline"
        ),
    )


def test_guests_without_ha_are_moved() -> None:
    snapshot = with_guest(PILED, "g1", ha_managed=False)

    assert migration("g1", "a", "b") in actions(Balance().decide(snapshot, None))


def test_each_guest_moves_at_most_once() -> None:
    decision = Balance(min_improvement=0.0, threshold=0.0).decide(PILED, None)

    guests = [step.action.guest for step in decision.plan.steps]  # type: ignore[union-attr]
    assert len(set(guests)) == len(guests)


def test_topsis_prefers_what_evens_memory() -> None:
    plain = cluster({"a": 0.8, "b": 0.2}, {"cpu": ("a", 0.1), "memory": ("a", 0.1)})
    snapshot = with_guest(plain, "cpu", usage=Usage(4.5, 10 * GIB))
    snapshot = with_guest(snapshot, "memory", usage=Usage(1.0, 40 * GIB))

    brute = Balance(max_migrations=1).decide(snapshot, None)
    topsis = Balance(max_migrations=1, method=SelectionMethod.TOPSIS).decide(
        snapshot, None
    )

    assert actions(brute) == [migration("cpu", "a", "b")]
    assert actions(topsis) == [migration("memory", "a", "b")]


def test_static_load_model_skips_guest_without_cpu_limit() -> None:
    # Such a guest weighs a whole node wherever it is, so that moving it changes
    # nothing: taken to be light, it would go to and fro for ever.
    plain = cluster({"a": 0.5, "b": 0.0}, {"free": ("a", 0.4)})
    snapshot = with_guest(plain, "free", limit=Resources(0, 40 * GIB))

    decision = Balance(load_model=LoadModel.STATIC, min_improvement=0.0).decide(
        snapshot, None
    )

    assert decision.plan == EMPTY_PLAN
    assert decision.notes == ("guest skipped: free: no CPU limit",)


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": -0.1},
        {"threshold": math.nan},
        {"min_improvement": 1.1},
        {"min_improvement": -0.1},
        {"max_migrations": -1},
    ],
)
def test_settings_out_of_range_raise_error(settings: dict[str, Any]) -> None:
    (name,) = settings

    with pytest.raises(ValueError, match=f"^{name}: expected "):
        Balance(**settings)
