"""Policies that plan for the load expected over a horizon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.controller.replay import replay
from opendrs.controller.serialization import cycle_record
from opendrs.errors import ModelError
from opendrs.metrics import LoadModel
from opendrs.model import (
    GIB,
    Forecast,
    GuestId,
    LiveMigration,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, Decision, DecisionReason, Policy
from opendrs.policies.forecast import ExpectedLoad
from opendrs.policies.optimize import Optimize
from support.builders import NOON, cluster

HOURS_2 = 7200.0
POLICIES = (Balance(forecast_horizon=HOURS_2), Optimize(forecast_horizon=HOURS_2))


def with_forecasts(
    snapshot: Snapshot, forecasts: Mapping[str, tuple[float, float]]
) -> Snapshot:
    """Return *snapshot* with expected and most cores of guests."""
    guests = dict(snapshot.guests)
    for name, (expected, upper) in forecasts.items():
        forecast = Forecast(expected=Usage(expected), upper=Usage(upper))
        guests[GuestId(name)] = replace(guests[GuestId(name)], forecast=forecast)
    return replace(snapshot, guests=guests)


def with_equal_memory(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with the same memory on all nodes, and little of each guest."""
    nodes = {
        name: replace(node, usage=Usage(node.usage.cpu, 40 * GIB))
        for name, node in snapshot.nodes.items()
    }
    guests = {
        name: replace(guest, usage=Usage(guest.usage.cpu, GIB))
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def migrations(decision: Decision[Any]) -> list[tuple[str, str]]:
    return [
        (step.action.guest, step.action.target)
        for step in decision.plan.steps
        if isinstance(step.action, LiveMigration)
    ]


# Nodes of 10 cores. On a, 8 cores are busy, because peak uses 6 in place of 2.
PEAK = with_equal_memory(
    cluster(
        {"a": 0.8, "b": 0.4}, {"peak": ("a", 0.6), "x": ("a", 0.2), "y": ("b", 0.4)}
    )
)
PEAK_ENDS = with_forecasts(PEAK, {"peak": (2.0, 2.5)})
# On a, 8 cores are busy; b has the least load, but may need 7.5 cores more.
UNCERTAIN = with_equal_memory(
    cluster(
        {"a": 0.8, "b": 0.2, "c": 0.4},
        {
            **{f"g{number}": ("a", 0.2) for number in range(4)},
            "burst": ("b", 0.2),
            "c1": ("c", 0.4),
        },
    )
)
MAY_BURST = with_forecasts(UNCERTAIN, {"burst": (2.0, 9.5)})


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_short_peak_moves_nothing_and_the_decision_says_so(
    policy: Policy[None],
) -> None:
    decision = policy.decide(PEAK_ENDS, None)

    # Expected are 2 + 2 cores on a and 4 on b.
    assert decision.reason is DecisionReason.FORECAST_DELAYS
    assert migrations(decision) == []
    assert "the next 2 h" in decision.detail
    assert "0.000 is not above" in decision.detail
    assert decision.before["highest_cpu"] == pytest.approx(0.4)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_move_that_the_expected_load_does_not_improve_is_delayed(
    policy: Policy[None],
) -> None:
    peaks = {"p1": ("a", 0.3), "p2": ("a", 0.3), "x": ("b", 0.2)}
    busy = with_equal_memory(cluster({"a": 0.6, "b": 0.2}, peaks))
    snapshot = with_forecasts(busy, {"p1": (1.0, 1.5), "p2": (1.0, 1.5), "x": (2.5, 3)})

    decision = policy.decide(snapshot, None)

    # 6 cores on a and 2 on b; expected are 2 and 2.5, which a guest of 1 worsens.
    assert decision.reason is DecisionReason.FORECAST_DELAYS
    assert migrations(decision) == []
    assert "1 migration" in decision.detail
    assert "the next 2 h: imbalance" in decision.detail


def test_a_search_without_a_plan_for_any_load_is_not_delayed() -> None:
    peaks = {"p1": ("a", 0.6), "x": ("b", 0.2)}
    busy = with_equal_memory(cluster({"a": 0.6, "b": 0.2}, peaks))
    snapshot = with_forecasts(busy, {"p1": (5.0, 5.5)})

    decision = Optimize(forecast_horizon=HOURS_2).decide(snapshot, None)

    assert decision.reason is DecisionReason.NO_CANDIDATE


@pytest.mark.parametrize("policy", [Balance(), Optimize()], ids=lambda each: each.name)
def test_without_a_horizon_the_measured_load_counts(policy: Policy[None]) -> None:
    decision = policy.decide(PEAK_ENDS, None)

    assert decision.plan.steps
    assert decision == policy.decide(PEAK, None)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_rise_is_met_before_it_happens(policy: Policy[None]) -> None:
    even = with_equal_memory(
        cluster(
            {"a": 0.4, "b": 0.4},
            {"w1": ("a", 0.2), "w2": ("a", 0.2), "y": ("b", 0.4)},
        )
    )
    rising = with_forecasts(even, {"w1": (5.0, 5.5), "w2": (4.0, 4.5), "y": (1.0, 1.0)})

    decision = policy.decide(rising, None)

    # 9 cores on a and 1 on b are expected: one guest that needs 4 or 5 moves.
    assert len(migrations(decision)) == 1
    assert decision.after["highest_cpu"] < 0.65


def test_balance_avoids_a_target_that_may_be_overloaded() -> None:
    decision = Balance(forecast_horizon=HOURS_2).decide(MAY_BURST, None)

    # With 2 more cores, b may need 4 + 7.5 = 11.5 of its 10 cores.
    assert {target for _, target in migrations(decision)} == {"c"}
    assert any(
        "b may need 11.5 cores of 10.0 cores (expected 4.0 cores)" in note
        for note in decision.notes
    )
    plain = Balance().decide(MAY_BURST, None)
    assert "b" in {target for _, target in migrations(plain)}


def test_optimize_leaves_the_margin_of_the_forecast_free() -> None:
    decision = Optimize(forecast_horizon=HOURS_2, budget="unlimited").decide(
        MAY_BURST, None
    )

    # b may need 7.5 cores more than expected, so 2.5 of 10 are its threshold.
    assert "b" not in {target for _, target in migrations(decision)}
    plain = Optimize(budget="unlimited").decide(MAY_BURST, None)
    assert "b" in {target for _, target in migrations(plain)}


def test_errors_of_independent_forecasts_add_as_squares() -> None:
    # 3 and 4 cores of error on a: 5. Nothing is forecast on b.
    snapshot = with_forecasts(PEAK, {"peak": (2.0, 5.0), "x": (1.0, 5.0)})

    margins = ExpectedLoad.of(snapshot, HOURS_2).cpu_margins()

    assert margins == pytest.approx({"a": 5.0, "b": 0.0})


def test_margins_together_are_at_most_half_of_the_free_cores() -> None:
    # 3 and 8 cores of error on a and b, of 10 cores each. The guests are expected to
    # need 12 of the 20 cores, so margins of 4 cores can be left.
    snapshot = cluster({"a": 0.5, "b": 0.7}, {"x": ("a", 0.5), "y": ("b", 0.7)})
    uncertain = with_forecasts(snapshot, {"x": (5.0, 8.0), "y": (7.0, 15.0)})

    margins = ExpectedLoad.of(uncertain, HOURS_2).cpu_margins()

    assert margins == pytest.approx({"a": 12 / 11, "b": 32 / 11})


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_without_forecasts_the_measured_load_counts_and_a_note_says_so(
    policy: Policy[None],
) -> None:
    decision = policy.decide(PEAK, None)

    plain = replace(policy, forecast_horizon=0.0).decide(PEAK, None)  # type: ignore[type-var]
    assert decision.plan == plain.plan
    assert decision.notes[0] == "forecast: history too short; the measured load counts"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_recorded_decision_with_a_forecast_is_replayed_exactly(
    policy: Policy[None],
) -> None:
    for snapshot in (PEAK_ENDS, MAY_BURST):
        decision = policy.decide(snapshot, None)
        record = cycle_record(
            "run", NOON, snapshot, policy=policy, memory=None, decision=decision
        )

        assert recorded_snapshot_from(snapshot_document(snapshot), "x") == snapshot
        assert replay(record).is_same


@pytest.mark.parametrize("policy_type", [Balance, Optimize])
@pytest.mark.parametrize("seconds", [-1.0, 86_401.0, float("nan")])
def test_horizon_out_of_range_is_an_error(policy_type: Any, seconds: float) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="forecast_horizon: expected 0 to 86400 s"):
        policy_type(forecast_horizon=seconds)


@pytest.mark.parametrize("policy_type", [Balance, Optimize])
def test_limits_are_not_forecast(policy_type: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="expected 0 with load_model static"):
        policy_type(forecast_horizon=HOURS_2, load_model=LoadModel.STATIC)


@pytest.mark.parametrize(
    ("expected", "upper"),
    [(Usage(2.0), Usage(1.0)), (Usage(2.0), Usage()), (Usage(), Usage(None, 1))],
)
def test_forecast_with_an_impossible_bound_is_an_error(
    expected: Usage, upper: Usage
) -> None:
    with pytest.raises(ModelError, match="forecast: "):
        Forecast(expected=expected, upper=upper)
