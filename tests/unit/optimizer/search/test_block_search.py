"""Search without compiled code for large clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opendrs.optimizer import GroupSets, IndexLists, Problem
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.feasibility import infeasibilities
from opendrs.optimizer.search import block_search
from opendrs.optimizer.search.block_search import BlockSearch
from support.oracles.random_problems import random_problem

SEEDS = st.integers(0, 10_000)


def drawn(seed: int, nodes: int = 12, groups: int = 60) -> Problem:
    """Return a random problem with only the terms that snapshots have."""
    problem = random_problem(seed, nodes, groups)
    count = len(problem.group_sets)
    return replace(
        problem,
        group_sets=replace(
            problem.group_sets,
            spread=np.zeros(count, np.int64),
            needs=IndexLists.of([[]] * count),
        ),
        transient=np.zeros(3, np.bool_),
        ratio_terms=(),
        use_cost=np.zeros(nodes),
        pair_cost=None,
        set_move_weight=0.0,
        budgets=problem.budgets / 2,
    )


def level(nodes: int, groups: int, **changes: object) -> Problem:
    """Return groups of one size on the first half of the nodes."""
    given: dict[str, object] = {
        "capacity": np.full((nodes, 1), 100.0),
        "demand": np.full((groups, 1), 5.0),
        "origin": np.arange(groups) % (nodes // 2),
        "class_of": np.zeros(groups, np.int64),
        "allowed": np.ones((1, nodes), np.bool_),
        "target_load": np.full(1, 0.05 * groups / nodes),
        "imbalance_weight": np.ones(1),
    }
    return Problem(**(given | changes))  # type: ignore[arg-type]


@given(SEEDS, st.sampled_from([20, 80, 1_000_000]))
@settings(max_examples=60)
def test_block_search_is_feasible_and_never_worse(seed: int, cells: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_search, "MAX_UNDIVIDED_SIZE", cells)
        patch.setattr(block_search, "MAX_BLOCK_SIZE", cells)
        problem = drawn(seed)
        search = BlockSearch(problem, problem.origin, seed)

        search.descend()
        while not search.exhausted:
            before = search.best.cost
            best = search.run(20_000, 1.0)
            if best.cost == before:
                break

    assert infeasibilities(problem, search.best.assignment) == []
    assert search.best.cost <= cost(problem, problem.origin)
    assert search.best.cost == pytest.approx(cost(problem, search.best.assignment))


def test_block_search_is_deterministic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block_search, "MAX_UNDIVIDED_SIZE", 100)
    problem = drawn(7)

    found = [
        BlockSearch(problem, problem.origin, 3).descend().assignment.tolist()
        for _ in range(2)
    ]

    assert found[0] == found[1]


def test_blocks_have_similar_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block_search, "MAX_UNDIVIDED_SIZE", 50)
    monkeypatch.setattr(block_search, "MAX_BLOCK_SIZE", 64)
    problem = level(nodes=20, groups=80)

    best = BlockSearch(problem, problem.origin).descend()

    # Five blocks of two full and two empty nodes: each can be balanced by itself.
    assert np.bincount(best.assignment).tolist() == [4] * 20


def test_block_search_repairs_across_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block_search, "MAX_UNDIVIDED_SIZE", 50)
    monkeypatch.setattr(block_search, "MAX_BLOCK_SIZE", 50)
    nodes, groups = 20, 80
    allowed = np.ones((2, nodes), np.bool_)
    allowed[1] = np.arange(nodes) == 13
    problem = level(
        nodes,
        groups,
        class_of=(np.arange(groups) == 5).astype(np.int64),
        allowed=allowed,
        placement_cost=np.where(allowed, 0.0, 1e4),
    )

    best = BlockSearch(problem, problem.origin).descend()

    assert best.assignment[5] == 13


def test_block_search_repairs_large_anti_affinity_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(block_search, "MAX_UNDIVIDED_SIZE", 50)
    monkeypatch.setattr(block_search, "MAX_BLOCK_SIZE", 50)
    together = [0, 10, 20, 30, 1, 2, 3]  # the first four are on node 0
    problem = level(
        nodes=20,
        groups=80,
        group_sets=GroupSets.anti_affine([together], strict=True, weight=1e4),
    )

    best = BlockSearch(problem, problem.origin).descend()

    assert len(set(best.assignment[together].tolist())) == len(together)


@pytest.mark.parametrize("moves", [3, 10])
def test_block_search_uses_and_keeps_the_budget(
    moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_search, "MAX_UNDIVIDED_SIZE", 50)
    monkeypatch.setattr(block_search, "MAX_BLOCK_SIZE", 50)
    problem = level(
        nodes=20,
        groups=80,
        budget_weights=np.ones((1, 80)),
        budgets=np.array([float(moves)]),
    )
    search = BlockSearch(problem, problem.origin)

    while not search.exhausted:
        search.run(1, 1.0)

    moved = int((search.best.assignment != problem.origin).sum())
    assert infeasibilities(problem, search.best.assignment) == []
    assert moves // 2 < moved <= moves


def test_block_search_keeps_unused_nodes_empty() -> None:
    problem = level(nodes=6, groups=12, use_cost=np.full(6, 100.0))

    best = BlockSearch(problem, problem.origin).descend()

    assert set(best.assignment.tolist()) <= {0, 1, 2}
