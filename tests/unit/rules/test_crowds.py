"""Guests that must all be apart, and are too many."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from builders import cluster, guest_ids
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
from opendrs.rules import compile_rules
from opendrs.rules.crowds import Crowd, crowd_around

PAIRS = tuple(
    AntiAffinity(guests=guest_ids(*pair), name=f"{pair[0]} not {pair[1]}")
    for pair in combinations(["w", "x", "y", "z"], 2)
)


def hall(*rules: Rule) -> Snapshot:
    return cluster(
        nodes={"a": 0.4, "b": 0.0, "c": 0.0},
        guests=dict.fromkeys(("v", "w", "x", "y", "z"), ("a", 0.1)),
        rules=rules,
    )


def found(snapshot: Snapshot, rule: AntiAffinity) -> Crowd | None:
    return crowd_around(rule, snapshot, compile_rules(snapshot))


def test_pairs_that_together_need_more_nodes_than_there_are_are_a_crowd() -> None:
    crowd = found(hall(*PAIRS), PAIRS[-1])

    assert crowd is not None
    assert crowd.guests == {"w", "x", "y", "z"}
    assert crowd.nodes == {"a", "b", "c"}
    assert (crowd.most, crowd.rules) == (3, PAIRS)


@pytest.mark.parametrize("lacking", range(6))
def test_one_pair_less_and_there_is_room_for_all(lacking: int) -> None:
    rules = tuple(rule for i, rule in enumerate(PAIRS) if i != lacking)

    assert all(found(hall(*rules), rule) is None for rule in rules)


def test_nodes_that_are_off_or_closed_by_a_rule_hold_nobody_apart() -> None:
    apart = AntiAffinity(guests=guest_ids("x", "y"))
    home = NodeAffinity(guests=guest_ids("x", "y"), nodes={NodeId(n): 0 for n in "ab"})
    snapshot = hall(apart, home)
    off = replace(snapshot.nodes[NodeId("b")], state=NodeState.OFFLINE)

    crowd = found(replace(snapshot, nodes={**snapshot.nodes, off.id: off}), apart)

    assert found(snapshot, apart) is None
    assert crowd is not None
    assert crowd.nodes == {"a"}
    assert crowd.most == 1


def test_who_is_stopped_needs_no_node() -> None:
    snapshot = hall(*PAIRS)
    off = replace(snapshot.guests[GuestId("w")], state=GuestState.STOPPED)
    guests = {**snapshot.guests, off.id: off}

    assert found(replace(snapshot, guests=guests), PAIRS[-1]) is None
