"""opendrs plan: the reasons of steps, and of what remains, are true."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opendrs.config import write_snapshot
from opendrs.model import Affinity, AntiAffinity, Mobility
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
