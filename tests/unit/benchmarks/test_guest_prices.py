"""Lagrangian bound with guest prices: no plan is below it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import Floats
from opendrs.optimizer.bounds.lagrangian.data import DIMENSIONS
from runners.guest_prices.bound import SearchSpace, maximize
from runners.guest_prices.choices import (
    BRANCHES,
    Choices,
    GuestPrices,
    NodeProblems,
    RelaxedCluster,
    best_choices,
)

DIRECTION = np.array([0.6, 0.8])


def problems_of(seed: int) -> NodeProblems:
    """Return the choices of a node: eight guests, two of them its own."""
    draw = np.random.default_rng(seed)
    return NodeProblems(
        offsets=2 * draw.normal(size=(1, 2)),
        scale=np.ones((1, 2)),
        demand=draw.uniform(0, 2, (8, 2)),
        origin=np.array([0, 0, 1, 1, 1, 1, 1, 1]),
        costs=draw.normal(size=(2, 8)) * draw.choice([0.1, 1.0, 3.0]),
    )


def costs(problems: NodeProblems, chosen: tuple[bool, ...]) -> float:
    """Return the cost of a choice of one node, in plain loops."""
    x, y = float(problems.offsets[0, 0]), float(problems.offsets[0, 1])
    paid = 0.0
    for guest, takes in enumerate(chosen):
        if takes:
            leaves = problems.origin[guest] == 0
            x += float(problems.demand[guest, 0]) * (1 if leaves else -1)
            y += float(problems.demand[guest, 1]) * (1 if leaves else -1)
            paid += float(problems.costs[int(leaves), guest])
    return x * x + y * y + paid


@given(st.integers(0, 10_000), st.integers(0, 8))
@settings(max_examples=30, deadline=None)
def test_best_choices_bound_is_below_all_choices(seed: int, few: int) -> None:
    problems = problems_of(seed)
    least = min(costs(problems, each) for each in product((False, True), repeat=8))
    tangents, chosen = np.zeros((1, 2)), np.zeros((1, 8), np.bool_)

    below = best_choices(problems, tangents, chosen, few)[0]
    found = best_choices(problems, tangents, chosen, BRANCHES)[0]

    assert below <= least + 1e-9
    assert found == pytest.approx(least)
    assert costs(problems, tuple(chosen[0].tolist())) == pytest.approx(least)


def cluster_of(seed: int) -> RelaxedCluster:
    """Return five guests on three nodes of different capacity."""
    draw = np.random.default_rng(seed)
    capacity, demand = draw.uniform(5, 15, (3, 2)), draw.uniform(0, 4, (5, 2))
    origin = draw.integers(0, 2, 5)
    load = draw.uniform(0, 2, (3, 2))
    np.add.at(load, origin, demand)
    return RelaxedCluster(
        capacity=capacity,
        share=load / capacity,
        demand=demand,
        origin=origin,
        measures=np.array([np.ones(5), demand[:, 1]]),
        budgets=np.array([2.0, 4.0]),
    )


def squares(cluster: RelaxedCluster) -> list[tuple[float, Floats]]:
    """Return the weighted squares of each plan, and its mean used fractions."""
    found = []
    for places in product(range(3), repeat=5):
        share = cluster.share.copy()
        used = np.zeros(2)
        for guest, place in enumerate(places):
            home = cluster.origin[guest]
            if place != home:
                used += cluster.measures[:, guest]
                share[home] -= cluster.demand[guest] / cluster.capacity[home]
                share[place] += cluster.demand[guest] / cluster.capacity[place]
        if (used <= cluster.budgets).all():
            mean = share.mean(axis=0)
            square = np.square(share.std(axis=0) / mean)
            found.append((float(DIRECTION @ square), mean))
    return found


def drawn(seed: int) -> GuestPrices:
    """Return random prices."""
    draw = np.random.default_rng(seed)
    return GuestPrices(
        draw.normal(0, 0.05, 5),
        draw.uniform(0, 0.03, 2),
        draw.normal(0, 0.05, DIMENSIONS),
    )


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_bound_is_below_the_squares_of_all_plans(seed: int) -> None:
    cluster = cluster_of(seed)
    plans = squares(cluster)
    middle = plans[seed % len(plans)][1]
    means = np.array([0.99 * middle, 1.01 * middle])
    choices = Choices(cluster, DIRECTION, means)
    least = min(
        square
        for square, mean in plans
        if (means[0] <= mean).all() and (mean <= means[1]).all()
    )
    begin = choices.stabilize(drawn(seed)).flat
    positive = np.array([False] * 5 + [True] * 2 + [False] * DIMENSIONS)

    found, prices = maximize(
        choices.at, begin, SearchSpace(cluster.scale, positive), 30
    )

    assert choices.at(drawn(seed).flat)[0] <= least + 1e-9
    assert choices.at(begin)[0] <= found <= least + 1e-9
    assert choices.at(prices)[0] == pytest.approx(found)


@given(st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_bound_is_concave_with_this_supergradient(seed: int) -> None:
    cluster = cluster_of(seed)
    means = cluster.share.mean(axis=0) * np.array([[0.98], [1.02]])
    choices = Choices(cluster, DIRECTION, means)
    here, there = drawn(seed).flat, drawn(seed + 1).flat

    value, slope = choices.at(here)

    assert choices.at(there)[0] <= value + slope @ (there - here) + 1e-9


def test_mean_prices_keep_the_ideal_in_another_box() -> None:
    cluster = cluster_of(1)
    one, other = (
        Choices(cluster, DIRECTION, cluster.share.mean(axis=0) * np.array(sides))
        for sides in ([[0.9], [1.0]], [[1.0], [1.1]])
    )

    ideal = one.ideal(np.array([0.01, -0.02]))

    assert other.ideal(other.mean_prices(ideal)) == pytest.approx(ideal)


def test_maximize_finds_the_highest_point() -> None:
    # By hand: 3 - |x - 1| - 2 |y - 1| is highest at (1, 1), and 3 - x - y at (0, 0),
    # since no point may be negative.
    def pyramid(point: Floats) -> tuple[float, Floats]:
        away = point - 1
        height = np.array([1.0, 2.0])
        return 3 - float(height @ np.abs(away)), -height * np.sign(away)

    def falling(point: Floats) -> tuple[float, Floats]:
        return 3 - float(point.sum()), -np.ones(2)

    space = SearchSpace(np.ones(2), np.ones(2, np.bool_))

    assert maximize(pyramid, np.array([0.5, 0.0]), space, 400)[0] == pytest.approx(
        3, abs=0.05
    )
    assert maximize(falling, np.ones(2), space, 400)[0] == pytest.approx(3)
