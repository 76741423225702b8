"""Nodes are emptied whole, or not at all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, guest_ids
from opendrs.model import AntiAffinity
from opendrs.policies import Optimize, Reason
from opendrs.policies.optimising.engine import faults
from opendrs.policies.optimising.packing import packed
from opendrs.policies.optimising.worth import Goal
from oracles.drawn_problems import drawn_problem

PACKING = Optimize(
    priorities=(Goal.REPAIR, Goal.CONTENTION, Goal.PACKING), budget="unlimited"
)
SCATTERED = cluster(
    nodes=dict.fromkeys("abcdef", 0.2),
    guests={f"{name}{i}": (name, 0.05) for name in "abcdef" for i in range(4)},
)


def test_guests_are_packed_on_as_few_nodes_as_carry_them() -> None:
    # By hand: 1.2 nodes of load, at most 0.85 of each: two nodes.
    decision = PACKING.decide(SCATTERED, None)

    assert decision.reason is Reason.FREES_NODES
    assert (decision.before["used_nodes"], decision.after["used_nodes"]) == (6, 2)
    assert decision.after["highest_cpu"] <= 0.85


def test_no_node_is_emptied_by_half_for_a_small_budget() -> None:
    # By hand: a node holds four guests of 5 GiB; for 39 GiB one can be emptied.
    decision = Optimize(
        priorities=(Goal.REPAIR, Goal.CONTENTION, Goal.PACKING), budget="39 GiB"
    ).decide(SCATTERED, None)

    assert decision.after["used_nodes"] == 5
    assert len(decision.plan.steps) == 4


def test_guests_that_must_be_apart_keep_their_nodes() -> None:
    names = [f"{name}0" for name in "abcd"]
    rule = AntiAffinity(guests=guest_ids(*names))
    snapshot = cluster(
        nodes=dict.fromkeys("abcdef", 0.2),
        guests={f"{name}{i}": (name, 0.05) for name in "abcdef" for i in range(4)},
        rules=(rule,),
    )

    assert PACKING.decide(snapshot, None).after["used_nodes"] == 4


def test_room_for_the_loss_of_a_node_keeps_nodes_in_use() -> None:
    # By hand: six nodes less one fill each to 5/6 of its memory at most.
    roomy = Optimize(
        priorities=(Goal.REPAIR, Goal.PACKING),
        budget="unlimited",
        busy=1.0,
        spare=3,
    ).decide(SCATTERED, None)

    assert roomy.after["highest_memory"] <= 0.5
    assert roomy.after["used_nodes"] == 3


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_what_is_packed_is_feasible_and_uses_no_more_nodes(seed: int) -> None:
    problem = drawn_problem(seed)

    found = packed(problem, problem.origin)

    assert len(np.unique(found)) <= len(np.unique(problem.origin))
    # It knows nothing of groups that need or spread: snapshots have none.
    told = [fault for fault in faults(problem, found) if "stands" not in fault]
    assert told == []
