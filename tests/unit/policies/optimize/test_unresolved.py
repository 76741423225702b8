"""Notes on violations and overfull nodes that a plan cannot repair."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Rule,
    Snapshot,
)
from opendrs.policies.optimize import Optimize, Repair
from support.builders import CAPACITY, cluster, guest_ids

FOUR = ("w", "x", "y", "z")


def crowded(*rules: Rule, off: str = "") -> Snapshot:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.0, "c": 0.0},
        guests=dict.fromkeys(FOUR, ("a", 0.1)),
        rules=rules,
    )
    nodes = {
        name: replace(node, state=NodeState.OFFLINE) if name == off else node
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes)


@pytest.mark.parametrize(
    ("snapshot", "note"),
    [
        (
            crowded(
                *(
                    AntiAffinity(guests=guest_ids(*pair), name="-".join(pair))
                    for pair in combinations(FOUR, 2)
                )
            ),
            (
                'cannot be repaired: "w-x", "w-y", "w-z" and 3 more: w, x, y and 1 '
                "more must run on different nodes, and the nodes allowed for them "
                "(a, b, c) suffice for 3 of 4"
            ),
        ),
        (
            crowded(AntiAffinity(guests=guest_ids(*FOUR[:3]), name="three"), off="c"),
            (
                'cannot be repaired: "three": w, x, y must run on different nodes, and '
                "the nodes allowed for them (a, b) suffice for 2 of 3"
            ),
        ),
        (
            crowded(
                NodeAffinity(guests=guest_ids("x"), nodes={NodeId("c"): 0}, name="c!"),
                off="c",
            ),
            (
                "cannot be repaired: c!: x: no feasible node: b: forbidden by the "
                'rule "c!"; c: node state offline'
            ),
        ),
        (
            crowded(
                NodeAffinity(guests=guest_ids("x"), nodes={NodeId("c"): 0}, name="c!"),
                Pin(guests=guest_ids("x"), name="stay"),
            ),
            'cannot be repaired: c!: x: not migrated: pinned by the rule "stay"',
        ),
        (
            cluster(
                nodes={"a": 0.6, "b": 0.6},
                guests={"x": ("a", 0.6), "y": ("b", 0.6)},
                rules=(Affinity(guests=guest_ids("x", "y"), name="pair"),),
            ),
            (
                "cannot be repaired: pair: x and y fit together on no node: a, b: "
                "insufficient memory: 25.0 GiB short"
            ),
        ),
    ],
)
def test_optimize_notes_reason_of_infeasible_rule(
    snapshot: Snapshot, note: str
) -> None:
    assert note in Optimize().decide(snapshot, None).notes


def test_optimize_repairs_infeasible_anti_affinity_partly() -> None:
    pairs = tuple(AntiAffinity(guests=guest_ids(*p)) for p in combinations(FOUR, 2))

    decision = Optimize().decide(crowded(*pairs), None)

    assert decision.before["broken_rules"] == 6
    assert decision.after["broken_rules"] == 1


def test_optimize_notes_repairs_that_exceed_the_budget() -> None:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.4, "c": 0.0, "d": 0.0},
        guests={name: ("ab"[name > "x"], 0.2) for name in "wxyz"},
        rules=(
            AntiAffinity(guests=guest_ids("w", "x"), name="first"),
            AntiAffinity(guests=guest_ids("y", "z"), name="second"),
        ),
    )

    decision = Optimize(budget="1 migrations").decide(snapshot, None)

    (note,) = (each for each in decision.notes if "could migrate to" in each)
    assert note.startswith("not repaired: ")
    assert decision.detail.endswith("; 1 migration, 20.0 GiB")


def test_a_guest_that_is_to_join_another_needs_no_memory_for_that_one() -> None:
    # By hand: v stays on a, where w has room, but v would not have it twice. The one
    # migration that is allowed repairs the other rule.
    snapshot = cluster(
        nodes={"a": 0.8, "b": 0.1, "c": 0.3},
        guests={
            "v": ("a", 0.4),
            "k": ("a", 0.4),
            "w": ("b", 0.1),
            "x": ("c", 0.2),
            "y": ("c", 0.1),
        },
        rules=(
            Affinity(guests=guest_ids("v", "w"), name="near"),
            AntiAffinity(guests=guest_ids("x", "y"), name="far"),
            Pin(guests=guest_ids("v", "k")),
        ),
    )

    notes = Repair(budget="1 migrations").decide(snapshot, None).notes

    (note,) = (each for each in notes if each.startswith("not repaired: near: "))
    assert "w: could migrate to a, but no plan" in note


def test_optimize_notes_affinity_repair_over_budget() -> None:
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.4},
        guests={"x": ("a", 0.4), "y": ("b", 0.2), "z": ("b", 0.2)},
        rules=(Affinity(guests=guest_ids("x", "y"), name="pair"),),
    )

    notes = Optimize(budget="1 GiB").decide(snapshot, None).notes

    assert any(note.startswith("not repaired: pair: x, y: ") for note in notes)


def test_optimize_notes_infeasible_anti_affinity_once() -> None:
    pairs = tuple(AntiAffinity(guests=guest_ids(*p)) for p in combinations(FOUR, 2))

    notes = Optimize(budget="0 migrations, 1 GiB").decide(crowded(*pairs), None).notes
    more = Optimize(budget="1 migrations").decide(crowded(*pairs), None).notes

    assert sum(each.startswith("cannot be repaired") for each in more) == 1
    assert not any(each.startswith("cannot be repaired") for each in notes)


def test_optimize_notes_missing_cluster_memory() -> None:
    # 196 GiB are in use, and of 200 GiB 190 may be.
    snapshot = cluster(
        nodes={"a": 0.98, "b": 0.98}, guests={"x": ("a", 0.3), "y": ("b", 0.3)}
    )

    notes = Optimize().decide(snapshot, None).notes

    assert [re.findall(r"[\d.]+ GiB", note) for note in notes] == [
        ["6.0 GiB"],
        ["3.0 GiB", "33.0 GiB"],
        ["3.0 GiB", "33.0 GiB"],
    ]


def test_optimize_notes_guest_larger_than_every_node() -> None:
    snapshot = cluster(nodes={"a": 0.2, "b": 0.0}, guests={"x": ("a", 0.2)})
    huge = Resources(4, 120 * GIB)
    guests = {
        GuestId("x"): replace(snapshot.guests[GuestId("x")], limit=huge),
    }

    notes = Optimize().decide(replace(snapshot, guests=guests), None).notes

    assert CAPACITY.memory == 100 * GIB
    assert any("a, by 20.0 GiB: " in note for note in notes)


def test_optimize_notes_first_overfull_nodes() -> None:
    names = [f"n{i}" for i in range(8)]
    snapshot = cluster(nodes=dict.fromkeys(names, 0.98), guests={"x": (names[0], 0.3)})

    notes = Optimize().decide(snapshot, None).notes

    assert (
        sum(each.startswith("still above the memory limit: n") for each in notes) == 5
    )
    assert notes[-1] == "still above the memory limit: 3 more nodes"
    assert notes[-2].endswith(": used by the node itself, not by guests")
