"""Anti-affinity among more guests than nodes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from opendrs.model import (
    AntiAffinity,
    GuestId,
    GuestState,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
)
from opendrs.rules import (
    InfeasibleAntiAffinity,
    compile_rules,
    find_infeasible_anti_affinity,
)
from support.builders import cluster, guest_ids

PAIRS = tuple(
    AntiAffinity(guests=guest_ids(*pair), name=f"{pair[0]} not {pair[1]}")
    for pair in combinations(["w", "x", "y", "z"], 2)
)


def five_guests(*rules: Rule) -> Snapshot:
    return cluster(
        nodes={"a": 0.4, "b": 0.0, "c": 0.0},
        guests=dict.fromkeys(("v", "w", "x", "y", "z"), ("a", 0.1)),
        rules=rules,
    )


def infeasible(snapshot: Snapshot, rule: AntiAffinity) -> InfeasibleAntiAffinity | None:
    return find_infeasible_anti_affinity(rule, snapshot, compile_rules(snapshot))


def test_pairs_needing_more_nodes_than_exist_are_infeasible() -> None:
    result = infeasible(five_guests(*PAIRS), PAIRS[-1])

    assert result is not None
    assert result.guests == {"w", "x", "y", "z"}
    assert result.nodes == {"a", "b", "c"}
    assert (result.max_separated, result.rules) == (3, PAIRS)


@pytest.mark.parametrize("omitted", range(6))
def test_one_pair_less_is_feasible(omitted: int) -> None:
    rules = tuple(rule for i, rule in enumerate(PAIRS) if i != omitted)

    assert all(infeasible(five_guests(*rules), rule) is None for rule in rules)


def test_offline_and_forbidden_nodes_do_not_count() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    home = NodeAffinity(guests=guest_ids("x", "y"), nodes={NodeId(n): 0 for n in "ab"})
    snapshot = five_guests(apart, home)
    off = replace(snapshot.nodes[NodeId("b")], state=NodeState.OFFLINE)

    result = infeasible(replace(snapshot, nodes={**snapshot.nodes, off.id: off}), apart)

    assert infeasible(snapshot, apart) is None
    assert result is not None
    assert result.nodes == {"a"}
    assert result.max_separated == 1


@pytest.mark.parametrize("most", [1, 2])
def test_guests_may_stay_on_a_node_that_a_rule_forbids(most: int) -> None:
    """One guest more than b may hold stays on a, where it violates only `home`."""
    names = guest_ids(*"vwx"[: most + 1])
    apart = AntiAffinity(guests=names, max_guests=most)
    home = NodeAffinity(guests=names, nodes={NodeId("b"): 0})

    assert infeasible(five_guests(apart, home), apart) is None


def test_stopped_guest_needs_no_node() -> None:
    snapshot = five_guests(*PAIRS)
    off = replace(snapshot.guests[GuestId("w")], state=GuestState.STOPPED)
    guests = {**snapshot.guests, off.id: off}

    assert infeasible(replace(snapshot, guests=guests), PAIRS[-1]) is None
