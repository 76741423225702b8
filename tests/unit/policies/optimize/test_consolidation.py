"""Consolidation: nodes are drained completely or not at all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.model import AntiAffinity
from opendrs.optimizer.feasibility import infeasibilities
from opendrs.optimizer.search.initial_solution import vacate_nodes
from opendrs.policies import DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from support.builders import cluster, guest_ids
from support.oracles.random_problems import random_problem

CONSOLIDATE = Optimize(
    priorities=(Goal.REPAIR, Goal.CONTENTION, Goal.CONSOLIDATION), budget="unlimited"
)
SCATTERED = cluster(
    nodes=dict.fromkeys("abcdef", 0.2),
    guests={f"{name}{i}": (name, 0.05) for name in "abcdef" for i in range(4)},
)


def test_consolidation_uses_the_fewest_nodes() -> None:
    # By hand: 1.2 nodes of load, at most 0.85 of each: two nodes.
    decision = CONSOLIDATE.decide(SCATTERED, None)

    assert decision.reason is DecisionReason.VACATES_NODES
    assert (decision.before["used_nodes"], decision.after["used_nodes"]) == (6, 2)
    assert decision.after["highest_cpu"] <= 0.85


def test_consolidation_small_budget_vacates_whole_nodes_only() -> None:
    # By hand: a node holds four guests of 5 GiB; with 39 GiB one can be drained.
    decision = Optimize(
        priorities=(Goal.REPAIR, Goal.CONTENTION, Goal.CONSOLIDATION), budget="39 GiB"
    ).decide(SCATTERED, None)

    assert decision.after["used_nodes"] == 5
    assert len(decision.plan.steps) == 4


def test_consolidation_keeps_nodes_for_anti_affinity() -> None:
    names = [f"{name}0" for name in "abcd"]
    rule = AntiAffinity(guests=guest_ids(*names))
    snapshot = cluster(
        nodes=dict.fromkeys("abcdef", 0.2),
        guests={f"{name}{i}": (name, 0.05) for name in "abcdef" for i in range(4)},
        rules=(rule,),
    )

    assert CONSOLIDATE.decide(snapshot, None).after["used_nodes"] == 4


def test_consolidation_tolerated_node_failures_keep_nodes_in_use() -> None:
    # By hand: six nodes less one fill each to 5/6 of its memory at most.
    roomy = Optimize(
        priorities=(Goal.REPAIR, Goal.CONSOLIDATION),
        budget="unlimited",
        contention_threshold=1.0,
        tolerated_node_failures=3,
    ).decide(SCATTERED, None)

    assert roomy.after["highest_memory"] <= 0.5
    assert roomy.after["used_nodes"] == 3


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_vacate_nodes_is_feasible_and_uses_no_more_nodes(seed: int) -> None:
    problem = random_problem(seed)

    found = vacate_nodes(problem, problem.origin)

    assert len(np.unique(found)) <= len(np.unique(problem.origin))
    # Spread and needs are ignored: snapshots have none.
    messages = [
        message
        for message in infeasibilities(problem, found)
        if "locations" not in message and "neighborhood" not in message
    ]
    assert messages == []
