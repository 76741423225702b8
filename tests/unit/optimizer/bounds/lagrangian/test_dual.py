"""Lagrangian bound: no placement within the budgets is more balanced."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import Floats, Problem, cost_breakdown
from opendrs.optimizer.bounds.lagrangian import subproblems
from opendrs.optimizer.bounds.lagrangian.data import BoundData
from opendrs.optimizer.bounds.lagrangian.dual import (
    DualFunction,
    StopRule,
    maximize_concave,
    maximize_dual,
)

SEEDS = st.integers(0, 100_000)
ALL = np.array([[0.0, 0.0], [10.0, 10.0]])  # means of shares that all plans have


def drawn(seed: int, nodes: int = 3, groups: int = 6) -> Problem:
    """Return a problem with imbalance cost only, small enough for enumeration."""
    draw = np.random.default_rng(seed)
    demand = draw.integers(0, 9, (groups, 2)) * draw.integers(1, 4, (groups, 1))
    capacity = draw.integers(40, 80, (nodes, 2)).astype(float)
    base = draw.integers(-1, 3, (nodes, 2)).astype(float)
    total = (demand.sum(axis=0) + base.sum(axis=0)) / capacity.sum(axis=0)
    return Problem(
        capacity=capacity,
        demand=demand.astype(float),
        origin=draw.integers(0, int(draw.integers(1, nodes + 1)), groups),
        class_of=draw.integers(0, 3, groups),
        allowed=draw.random((3, nodes)) < 0.8,
        base_load=base,
        target_load=total * draw.choice([1.0, 0.9]),
        imbalance_weight=np.array([[1.0, 2.0], [0.0, 3.0], [5.0, 0.0]][seed % 3]),
        budget_weights=np.array([np.ones(groups), demand[:, 1].astype(float)]),
        budgets=np.array(
            [
                float(draw.integers(0, groups + 1)),
                float(draw.integers(0, demand[:, 1].sum() + 1)),
            ]
        ),
    )


def within(problem: Problem) -> Floats:
    """Return the used fractions of all placements within budgets; shape (K, N, R)."""
    every = np.array([*product(range(problem.node_count), repeat=problem.group_count)])
    away = every != problem.origin
    allowed = problem.allowed[problem.class_of[None], every] | ~away
    moved = away @ problem.budget_weights.T
    may = allowed.all(axis=1) & (moved <= problem.budgets).all(axis=1)
    there = every[may][:, :, None] == np.arange(problem.node_count)
    load = np.einsum("kgn,gr->knr", there, problem.demand) + problem.base_load
    found: Floats = load / problem.capacity
    return found


def costs(problem: Problem, shares: Floats) -> Floats:
    away = np.square(shares - problem.target_load)
    found: Floats = (away * problem.imbalance_weight).sum(axis=(1, 2))
    return found


@given(SEEDS, st.sampled_from([1, 8, 30, 1000]))
@settings(max_examples=100)
def test_lagrangian_bound_is_below_all_placements(seed: int, sets: int) -> None:
    problem = drawn(seed)

    found = maximize_dual(BoundData.of(problem, sets), 80)

    least = costs(problem, within(problem)).min()
    assert found.cost <= least + 1e-9


@given(SEEDS, st.sampled_from([1, 8, 30, 1000]), st.data())
@settings(max_examples=100)
def test_dual_at_any_multipliers_is_a_bound(
    seed: int, sets: int, data: st.DataObject
) -> None:
    problem = drawn(seed)
    not_negative = st.floats(0, 0.2)
    any_price = st.floats(-1, 1)
    prices = data.draw(st.tuples(*[not_negative] * 3, *[any_price] * 4))
    ground = BoundData.of(problem, sets)

    value, _ = DualFunction(ground, ALL).evaluate(np.array(prices))

    least = costs(problem, within(problem)).min()
    assert value <= least + 1e-9


@given(SEEDS, st.sampled_from([1, 8, 1000]), st.data())
@settings(max_examples=50)
def test_dual_is_independent_of_earlier_evaluations(
    seed: int, sets: int, data: st.DataObject
) -> None:
    ground = BoundData.of(drawn(seed, groups=9), sets)
    likely = [*[st.floats(0, 0.2)] * 3, *[st.floats(-1, 1)] * 4]
    before, prices = (np.array(data.draw(st.tuples(*likely))) for _ in range(2))
    choices = DualFunction(ground, ALL)
    choices.evaluate(before)

    value, _ = choices.evaluate(prices)

    assert value == pytest.approx(
        DualFunction(ground, ALL).evaluate(prices)[0], abs=1e-9
    )


@pytest.mark.parametrize("seed", range(8))
def test_dual_is_independent_of_batch_size(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = BoundData.of(drawn(seed, groups=12), 8)
    prices = np.array([0.001, 0.002, 0.001, 0.01, -0.02, 0.0, 0.0])
    together, _ = DualFunction(ground, ALL).evaluate(prices)
    monkeypatch.setattr(subproblems, "BATCH_SIZE", 1)

    assert DualFunction(ground, ALL).evaluate(prices)[0] == pytest.approx(
        together, abs=1e-12
    )


@given(SEEDS)
@settings(max_examples=40)
def test_dual_with_means_bounds_placements_within_them(seed: int) -> None:
    problem = drawn(seed)
    active = np.flatnonzero(problem.imbalance_weight)
    shares = within(problem)
    mean = shares.mean(axis=1)[:, active]
    low, high = np.quantile(mean, [0.3, 0.6], axis=0)
    means = np.zeros((2, 2))
    means[:, : len(active)] = low, high

    least = maximize_dual(BoundData.of(problem, 1000), 80, means)

    inside = ((low <= mean) & (mean <= high)).all(axis=1)
    assert (costs(problem, shares[inside]) >= least.cost - 1e-9).all()


def test_lagrangian_bound_of_one_move_is_exact() -> None:
    # By hand: of 6, 3 and 1 of 20 on one node, the 3 moves. Then 7 and 3 are 2 from the
    # balanced load each, 1/10 of the capacity; 2 * (1/10)^2 = 0.02. Parts of the 6
    # would be better, and so would two moves.
    problem = Problem(
        capacity=np.full((2, 1), 20.0),
        demand=np.array([[6.0], [3.0], [1.0]]),
        origin=np.zeros(3, np.int64),
        class_of=np.array([1, 0, 0]),
        allowed=np.array([[True, True], [False, False]]),
        target_load=np.array([0.25]),
        imbalance_weight=np.ones(1),
        budget_weights=np.ones((1, 3)),
        budgets=np.ones(1),
    )

    found = maximize_dual(BoundData.of(problem, 100), 200)

    assert found.cost == pytest.approx(0.02, rel=0.02)


def test_lagrangian_bound_without_budget_is_the_present_distance() -> None:
    problem = drawn(3)
    still = Problem(
        capacity=problem.capacity,
        demand=problem.demand,
        origin=problem.origin,
        class_of=problem.class_of,
        allowed=problem.allowed,
        target_load=problem.target_load,
        imbalance_weight=problem.imbalance_weight,
        budget_weights=np.ones((1, problem.group_count)),
        budgets=np.zeros(1),
    )

    found = maximize_dual(BoundData.of(still, 100), 300)

    assert found.cost == pytest.approx(
        cost_breakdown(still, still.origin).imbalance, rel=0.01
    )


def test_dual_from_found_multipliers_is_not_lower() -> None:
    ground = BoundData.of(drawn(4, nodes=4, groups=30), 1000)
    found = maximize_dual(ground, 200)

    again = maximize_dual(ground, 2, start=found.multipliers)

    # Each of the four nodes ignores an improvement of less than MIN_IMPROVEMENT.
    assert again.cost >= found.cost - 4 * subproblems.MIN_IMPROVEMENT


def test_bound_data_with_three_resources_raises() -> None:
    problem = Problem(
        capacity=np.ones((1, 3)),
        demand=np.ones((1, 3)),
        origin=np.zeros(1, np.int64),
        class_of=np.zeros(1, np.int64),
        allowed=np.ones((1, 1), np.bool_),
        imbalance_weight=np.ones(3),
    )

    with pytest.raises(ValueError, match="at most 2 resources, got 3"):
        BoundData.of(problem, 10)


@pytest.mark.parametrize("peak", [-2.0, 3.0])
def test_maximize_concave_stops_at_small_gain(peak: float) -> None:
    def looked_at(enough: float) -> tuple[int, float]:
        looks = 0

        def hill(point: Floats) -> tuple[float, Floats]:
            nonlocal looks
            looks += 1
            away = point - peak
            return 10.0 - float(away @ away), -2.0 * away

        none = np.zeros(2, np.bool_)
        ending = StopRule(max_evaluations=100, min_gain=enough)
        found, _ = maximize_concave(hill, np.zeros(2), np.ones(2), none, ending)
        return looks, found

    all_looks, highest = looked_at(0.0)
    looks, found = looked_at(0.01)

    assert looks < all_looks / 2
    assert 9.9 < found <= highest <= 10.0
