"""opendrs plan: the reasons of steps, and of what remains, are true."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opendrs.config import write_snapshot
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
)
from support.builders import cluster, guest_ids
from support.terminal import RunOpendrs


def test_plan_for_balance_names_no_repair_of_a_rule_that_remains(
    opendrs: RunOpendrs,
) -> None:
    # y cannot join x on the full node c: it leaves b for the balance alone.
    together = Affinity(guests=guest_ids("x", "y"))
    snapshot = cluster(
        nodes={"a": 0.0, "b": 0.8, "c": 0.9},
        guests={"x": ("c", 0.1), "y": ("b", 0.4), "v": ("c", 0.8), "w": ("b", 0.4)},
        rules=[together],
    )
    fixed = {
        name: guest if name == "y" else replace(guest, mobility=Mobility.NONE)
        for name, guest in snapshot.guests.items()
    }
    write_snapshot(replace(snapshot, guests=fixed), Path("c.json"))

    text = opendrs("plan", "c.json", "--policy", "optimize").out

    assert f"remain\ncannot be repaired: {together}" in text
    assert "repairs a violated rule" not in text


def test_move_within_a_rack_repairs_no_limit_of_the_rack(
    opendrs: RunOpendrs,
) -> None:
    # All nodes are in one rack. Moves to b balance the load, and repair nothing.
    limit = AntiAffinity(guests=guest_ids("x", "y"), domain="rack")
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.0},
        guests={"x": ("a", 0.2), "y": ("a", 0.2)},
        rules=[limit],
    )
    nodes = {
        name: replace(node, labels=frozenset({"rack=one"}))
        for name, node in snapshot.nodes.items()
    }
    write_snapshot(replace(snapshot, nodes=nodes), Path("c.json"))

    text = opendrs("plan", "c.json", "--policy", "optimize").out

    assert "plan: 1 migration" in text
    assert f'remain\ncannot be repaired: "{limit}"' in text
    assert "repairs a violated rule" not in text


def write_remaining_violation() -> None:
    """Write a cluster in which one of two violations remains with any budget.

    x and y could each move to b, which holds only one of them.
    """
    snapshot = cluster(
        nodes={"a": 0.8, "b": 0.5},
        guests={"x": ("a", 0.3), "y": ("a", 0.3), "z": ("b", 0.5), "w": ("a", 0.2)},
        rules=[
            NodeAffinity(guests=guest_ids(name), nodes={NodeId("b"): 0}, name=name)
            for name in ("x", "y")
        ],
    )
    guests = {
        name: guest if name in ("x", "y") else replace(guest, mobility=Mobility.NONE)
        for name, guest in snapshot.guests.items()
    }
    write_snapshot(replace(snapshot, guests=guests), Path("c.json"))


@pytest.mark.parametrize(
    "options",
    [
        ("--policy", "optimize"),
        ("--policy", "optimize", "--budget", "unlimited"),
        ("--policy", "auto-rebalance"),
        ("--policy", "repair"),
    ],
)
def test_no_repair_is_advised_after_one_without_a_budget(
    opendrs: RunOpendrs, options: tuple[str, ...]
) -> None:
    write_remaining_violation()

    text = opendrs("plan", "c.json", *options).out
    document = json.loads(opendrs("plan", "c.json", *options, "--format", "json").out)

    assert "remains violated: " in text
    assert "repair: opendrs" not in text
    assert document["violations"]["repair"] is None


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (("optimize", "--budget", "1 GiB"), "to try to repair: "),
        (("repair", "--set", "budget=1 GiB"), "to try to repair: "),
        (("optimize", "--set", 'priorities=["balance"]'), "to repair: "),
        (("balance", "--set", "repair_first=false"), "to repair: "),
    ],
)
def test_repair_is_advised_where_it_repairs_more(
    opendrs: RunOpendrs, options: tuple[str, ...], advice: str
) -> None:
    write_remaining_violation()

    text = opendrs("plan", "c.json", "--policy", *options).out

    assert f"\n{advice}opendrs plan c.json --policy repair\n" in text


@pytest.mark.parametrize(
    "options",
    [
        ("optimize", "--budget", "1 migrations"),
        ("optimize", "--set", 'priorities=["balance","repair"]'),
        ("balance", "--set", "max_migrations=1"),
    ],
)
def test_a_larger_budget_is_advised_only_where_it_is_unknown(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    # One migration repairs all that can be. A large cluster is not searched for that.
    write_remaining_violation()

    small = opendrs("plan", "c.json", "--policy", *options).out
    monkeypatch.setattr("opendrs.controller.repair_advice.MAX_PLACEMENTS", 0)
    large = opendrs("plan", "c.json", "--policy", *options).out

    assert "repair: opendrs" not in small
    assert "\nto try to repair: opendrs plan c.json --policy repair\n" in large


def test_a_rule_that_cannot_be_repaired_has_one_line(opendrs: RunOpendrs) -> None:
    # x could migrate to c alone, but y stays on the full node b.
    together = Affinity(guests=guest_ids("x", "y"))
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.9, "c": 0.0},
        guests={"x": ("a", 0.2), "y": ("b", 0.1), "z": ("b", 0.8)},
        rules=[together],
    )
    guests = {
        name: guest if name == "x" else replace(guest, mobility=Mobility.NONE)
        for name, guest in snapshot.guests.items()
    }
    write_snapshot(replace(snapshot, guests=guests), Path("c.json"))

    text = opendrs("plan", "c.json", "--policy", "optimize").out
    found = json.loads(
        opendrs("plan", "c.json", "--policy", "optimize", "--format", "json").out
    )

    [line] = [each for each in text.splitlines() if "cannot be repaired" in each]
    assert line.startswith(f"cannot be repaired: {together}: ")
    assert not [x for x in (line, *found["notes"]) if "could migrate" in x]


def test_the_same_line_is_printed_once(opendrs: RunOpendrs) -> None:
    # Two racks with two guests each: two violations, for the same reason.
    limit = AntiAffinity(guests=guest_ids("w", "x", "y", "z"), domain="rack")
    snapshot = cluster(
        nodes={"a": 0.2, "b": 0.2},
        guests={"w": ("a", 0.1), "x": ("a", 0.1), "y": ("b", 0.1), "z": ("b", 0.1)},
        rules=[limit],
    )
    nodes = {
        name: replace(node, labels=frozenset({f"rack={name}"}))
        for name, node in snapshot.nodes.items()
    }
    write_snapshot(replace(snapshot, nodes=nodes), Path("c.json"))

    text = opendrs("plan", "c.json", "--policy", "optimize").out

    assert "1 of 1 remain (2 violations)" in text
    assert text.count("cannot be repaired: ") == 1


def test_contradictory_rules_keep_no_guest_that_another_budget_migrates(
    opendrs: RunOpendrs,
) -> None:
    # The rack has too many of x, y, z in any placement, which stops no drain of a.
    limit = AntiAffinity(guests=guest_ids("x", "y", "z"), domain="rack", max_guests=2)
    snapshot = cluster(
        nodes={"a": 0.4, "b": 0.1},
        guests={"x": ("a", 0.2), "y": ("a", 0.2), "z": ("b", 0.1)},
        rules=[limit],
    )
    nodes = {
        name: replace(
            node,
            labels=frozenset({"rack=one"}),
            state=NodeState.MAINTENANCE if name == "a" else NodeState.ONLINE,
        )
        for name, node in snapshot.nodes.items()
    }
    write_snapshot(replace(snapshot, nodes=nodes), Path("c.json"))
    plan = ("plan", "c.json", "--policy", "optimize", "--budget")

    small, unlimited = opendrs(*plan, "1 migrations").out, opendrs(*plan, "unlimited")

    assert "plan: 2 migrations" in unlimited.out
    lines = [each for each in small.splitlines() if "maintenance of a: 1 guest" in each]
    assert [each.partition(" remains: ")[2][:24] for each in lines] == [
        "y: could migrate to b, b"
    ]


def test_a_node_in_maintenance_is_no_better_target(opendrs: RunOpendrs) -> None:
    # x makes room on c for y, which leaves a. Without y, a would be better than b.
    snapshot = cluster(
        nodes={"a": 0.6, "b": 0.5, "c": 0.5},
        guests={"x": ("c", 0.3), "y": ("a", 0.6), "v": ("b", 0.5), "w": ("c", 0.2)},
    )
    guests = {
        name: guest if name in ("x", "y") else replace(guest, mobility=Mobility.NONE)
        for name, guest in snapshot.guests.items()
    }
    drained = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    write_snapshot(
        replace(snapshot, guests=guests, nodes={**snapshot.nodes, drained.id: drained}),
        Path("c.json"),
    )

    text = opendrs("plan", "c.json", "--policy", "optimize").out

    assert "plan: 2 migrations" in text
    assert "better target a" not in text
