"""Objective and problem of plans, also on nodes too full to sequence every move."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    EMPTY_PLAN,
    GIB,
    Affinity,
    NodeAffinity,
    NodeId,
    Pin,
    Snapshot,
    Usage,
)
from opendrs.optimizer import (
    IterationLimit,
    Objective,
    Portion,
    Problem,
    freeze_groups,
    solve,
    with_bound,
)
from opendrs.optimizer.bounds.lower_bound import lower_bound
from opendrs.optimizer.bounds.polytope import nearest_point
from opendrs.optimizer.evaluation import COSTS
from opendrs.optimizer.problem import select_budgets
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.contention import contention_thresholds, unmet_demand
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import movable_groups
from opendrs.policies.optimize.objective import (
    MIGRATIONS_ROW,
    TERMS,
    Goal,
    encode_problem,
    plan_objective,
)
from opendrs.rules import compile_rules
from support.builders import cluster, guest_ids

ROOT = Path(__file__).parents[4]
MODE = LoadModel.DYNAMIC
PILE = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"large": ("a", 0.4), "middle": ("a", 0.3), "small": ("a", 0.1)},
)
LARGE, MIDDLE = 0, 1


def crowded(seed: int) -> Snapshot:
    """Return three nodes that are so full that a swap rarely finds swap space."""
    draw = np.random.default_rng(seed)
    load: dict[str, float | None] = {}
    guests: dict[str, tuple[str, float | None]] = {}
    for name in "abc":
        left = int(draw.integers(70, 95))
        load[name] = left / 100
        while left > 0:
            part = min(left, int(draw.integers(8, 45)))
            left -= part
            guests[f"g{len(guests)}"] = (name, part / 100)
    return cluster(nodes=load, guests=guests)


def motley(alike: float) -> Snapshot:
    """Return a cluster of guests whose demands may be correlated or not."""
    draw = np.random.default_rng(6)
    normal = draw.normal(size=(500, 2))
    normal[:, 1] = alike * normal[:, 0] + (1 - alike) * normal[:, 1]
    taken = np.exp(0.8 * normal)
    taken *= 7 / taken.sum(axis=0)
    where = draw.choice(20, 500, p=draw.dirichlet(np.full(20, 5.0)))
    plain = cluster(
        nodes={f"n{number:02}": 0.0 for number in range(20)},
        guests={f"g{one:03}": (f"n{node:02}", 0.01) for one, node in enumerate(where)},
    )
    guests, nodes = dict(plain.guests), dict(plain.nodes)
    for (name, guest), (cpu, memory) in zip(plain.guests.items(), taken, strict=True):
        usage = Usage(cpu=10 * cpu, memory=int(100 * GIB * memory))
        guests[name] = replace(guest, usage=usage)
        there = nodes[guest.node]
        both = Usage(
            cpu=(there.usage.cpu or 0) + 10 * cpu,
            memory=(there.usage.memory or 0) + int(100 * GIB * memory),
        )
        nodes[guest.node] = replace(there, usage=both)
    return replace(plain, guests=guests, nodes=nodes)


def balance_problem(snapshot: Snapshot, budget: str) -> Problem:
    """Return the problem of a plan with the goal balance only."""
    rules = compile_rules(snapshot)
    mobility = MobilityFilter(load_model=MODE, allow_cold_migration=False)
    groups = movable_groups(snapshot, rules, DEFAULT_LIMITS, mobility)
    objective = plan_objective(
        [Goal.BALANCE],
        cpu_weight=1.0,
        memory_weight=1.0,
        soft_rule_penalty=0.0,
        migration_cost_weight=0.0,
        mean_memory=1.0,
    )
    return encode_problem(
        EncodedCluster(snapshot, rules, groups.groups, DEFAULT_LIMITS, MODE),
        Budget.parse(budget),
        objective=objective,
        thresholds=contention_thresholds(
            snapshot, MODE, 1.0, unmet_demand(snapshot, 1.0)
        ),
    )


class RecordedSizes:
    """Stopping criterion that ends at once and records the size of the search."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def portions(self, size: int) -> Generator[Portion]:
        """Record *size*; yield nothing."""
        self.sizes.append(size)
        yield from ()


def search_sizes(snapshot: Snapshot, budget: str) -> list[int]:
    """Return the size of the search; empty if there is none."""
    stop = RecordedSizes()
    solve(balance_problem(snapshot, budget), stop, seed=0)
    return stop.sizes


def test_weights_are_lexicographic_and_every_term_is_a_cost() -> None:
    objective = plan_objective(
        [Goal.REPAIR, Goal.BALANCE, Goal.CONSOLIDATION],
        cpu_weight=2.0,
        memory_weight=0.5,
        soft_rule_penalty=0.1,
        migration_cost_weight=0.01,
        mean_memory=4.0,
    )

    # By hand: 100 for each goal below; soft rules and GiB are on the scale of balance.
    assert [(each.name, each.priority, each.weight) for each in objective.terms] == [
        ("violation", 0, 10_000.0),
        ("overfull_memory", 0, 10_000.0),
        ("contention", None, 0.0),
        ("cpu_balance", 1, 200.0),
        ("memory_balance", 1, 50.0),
        ("used_node", 2, 1.0),
        ("soft_rule", 1, 10.0),
        ("transfer", 1, 0.25),
    ]
    names = {each.name for each in COSTS}
    assert all(names.issuperset(each.costs) for each in objective.terms)


def test_term_without_definition_has_no_weight() -> None:
    with pytest.raises(KeyError):
        Objective(()).weight("violation")


def test_goals_and_units_of_the_terms_are_documented() -> None:
    page = (ROOT / "docs" / "explanation" / "optimize.md").read_text()

    for goal, name, unit, _ in TERMS:
        assert f"| `{name}` | {goal} | {unit} |" in page


@pytest.mark.parametrize("seed", [26, 49, 91, 99])
def test_optimize_bound_note_states_reached_imbalance(seed: int) -> None:
    policy = Optimize(
        budget="unlimited",
        min_improvement=0.0,
        threshold=0.0,
        migration_cost_weight=0.0,
    )

    decision = policy.decide(crowded(seed), None)

    figures = decision.after
    reached = np.hypot(figures["cpu_imbalance"], figures["memory_imbalance"]) / 2**0.5
    (bound,) = [
        note
        for note in decision.notes
        if note.startswith("distance from the optimum: ")
    ]
    assert f": {reached:.4f} with this plan; " in bound


def test_bound_ignores_frozen_groups() -> None:
    problem = balance_problem(PILE, "1 migrations")

    found = solve(freeze_groups(problem, [LARGE]), IterationLimit(1000, 1), seed=0)

    # By hand: the middle guest leaves 0.5 and 0.3; the large one would balance them.
    assert found.assignment.tolist() == [0, 1, 0]
    assert found.bound is None
    assert with_bound(problem, found).bound == pytest.approx(0.0, abs=1e-9)


def test_frozen_groups_stay() -> None:
    problem = freeze_groups(balance_problem(PILE, "unlimited"), [LARGE, MIDDLE])

    found = solve(problem, IterationLimit(1000, 1), seed=0)

    assert found.assignment.tolist() == [0, 0, 1]


def test_optimize_infeasible_affinity_gives_empty_plan() -> None:
    # Only b can hold all of them, and one belongs on a, which is full.
    guests = {"one": ("a", 0.1), "two": ("b", 0.2), "large": ("a", 0.8)}
    rules = (
        Affinity(guests=guest_ids("one", "two")),
        NodeAffinity(guests=guest_ids("one"), nodes={NodeId("a"): 0}),
        Pin(guests=guest_ids("large")),
    )
    snapshot = cluster(nodes={"a": 0.9, "b": 0.2}, guests=guests, rules=rules)

    decision = Optimize(threshold=0.0, min_improvement=0.0).decide(snapshot, None)

    assert decision.plan == EMPTY_PLAN


@pytest.mark.parametrize(
    ("budget", "extent"),
    [("5 migrations", 90), ("20 migrations", 180), ("unlimited", 60)],
)
def test_search_size_of_small_cluster_grows_with_few_migrations(
    budget: str, extent: int
) -> None:
    pile = cluster(
        nodes={"a": 0.9, "b": 0.0},
        guests={f"g{number}": ("a", 0.015) for number in range(60)},
    )

    assert search_sizes(pile, budget) == [extent]


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_bound_is_at_least_the_polytope_bound(alike: float) -> None:
    problem = balance_problem(motley(alike), "25 migrations")
    found = solve(problem, IterationLimit(20_000, 1), seed=0)
    migrations = select_budgets(problem, np.array([MIGRATIONS_ROW]))

    divided = nearest_point(migrations, 50, 0.005)

    assert lower_bound(problem, found.assignment) >= divided.bound


def test_search_without_remaining_budget_does_not_start() -> None:
    torn = cluster(
        nodes={"a": 0.7, "b": 0.1},
        guests={"x": ("a", 0.3), "y": ("b", 0.1), "z": ("a", 0.4)},
        rules=(Affinity(guests=guest_ids("x", "y")),),
    )

    assert search_sizes(torn, "1 migrations") == []
    assert search_sizes(torn, "2 migrations") == [2]
