"""Properties of policies that plan for a forecast."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.guard import check
from opendrs.model import Forecast, Snapshot, Usage
from opendrs.policies import Balance, DecisionReason, Policy
from opendrs.policies.optimize import Optimize
from opendrs.rules import new_violations
from support.imbalanced_clusters import imbalanced_clusters
from support.oracles.interleavings import migration_of, step_units, unsafe_states
from support.strategies import snapshots

HORIZON = 7200.0
POLICIES: st.SearchStrategy[Policy[Any]] = st.sampled_from(
    [
        Balance(forecast_horizon=HORIZON),
        Balance(forecast_horizon=HORIZON, threshold=0.3),
        Optimize(forecast_horizon=HORIZON, iterations_per_group=10),
        Optimize(forecast_horizon=HORIZON, budget="unlimited", iterations_per_group=10),
    ]
)
CLUSTERS = snapshots() | imbalanced_clusters()
FACTORS = (0.0, 0.5, 1.0, 3.0)


def with_forecasts(snapshot: Snapshot, random: Random) -> Snapshot:
    """Return *snapshot* with forecasts of some guests, for some resources."""
    guests = dict(snapshot.guests)
    for name, guest in sorted(snapshot.guests.items()):
        cpu, memory = guest.usage.cpu, guest.usage.memory
        expected = Usage(
            None if cpu is None or random.random() < 0.2 else cpu * _factor(random),
            None
            if memory is None or random.random() < 0.2
            else int(memory * _factor(random)),
        )
        spread = _factor(random)
        upper = Usage(
            None if expected.cpu is None else expected.cpu * (1 + spread),
            None if expected.memory is None else int(expected.memory * (1 + spread)),
        )
        if expected != Usage():
            forecast = Forecast(expected=expected, upper=upper)
            guests[name] = replace(guest, forecast=forecast)
    return replace(snapshot, guests=guests)


def _factor(random: Random) -> float:
    return random.choice(FACTORS)


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_plans_for_a_forecast_are_safe_by_what_is_measured(
    policy: Policy[Any], snapshot: Snapshot, random: Random
) -> None:
    forecast = with_forecasts(snapshot, random)

    decision = policy.decide(forecast, None)

    event(str(decision.reason))
    steps = decision.plan.steps
    after = snapshot.apply(*(step.action for step in steps))
    assert new_violations(snapshot, after) == ()
    assert unsafe_states(snapshot, decision.plan, policy.limits) == []
    for unit in step_units(snapshot, decision.plan):
        if not unit.depends_on:
            moves = tuple(migration_of(step) for step in unit.steps)
            assert check(moves, snapshot, policy.limits) is None


@given(POLICIES, CLUSTERS, st.randoms(use_true_random=False))
def test_a_forecast_delays_only_what_the_measured_load_requires(
    policy: Policy[Any], snapshot: Snapshot, random: Random
) -> None:
    forecast = with_forecasts(snapshot, random)
    plain = replace(policy, forecast_horizon=0.0)  # type: ignore[type-var]

    decision = policy.decide(forecast, None)

    if decision.reason is DecisionReason.FORECAST_DELAYS:
        assert not decision.plan.steps
        present = plain.decide(forecast, None)
        assert present.reason is not DecisionReason.BALANCED


@given(POLICIES, CLUSTERS)
def test_without_forecasts_the_plan_is_that_for_the_measured_load(
    policy: Policy[Any], snapshot: Snapshot
) -> None:
    plain = replace(policy, forecast_horizon=0.0)  # type: ignore[type-var]

    found, expected = policy.decide(snapshot, None), plain.decide(snapshot, None)

    assert (found.plan, found.reason) == (expected.plan, expected.reason)
