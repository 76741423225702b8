"""An imbalanced cluster with rules, whose load follows its guests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from support import command_cluster
from support.command_cluster import State

GIB = 2**30
CORES, MEMORY = 32.0, 128 * GIB
_OVERHEAD = {"cpu": 0.5, "memory": 2 * GIB}  # of a node without guests


def create(path: Path, *, seconds: float, nodes: int = 12, guests: int = 6) -> None:
    """Write the state of a cluster whose third node has twice the load of the others.

    Args:
        path: The file of the state.
        seconds: Duration of a migration.
        nodes: Number of nodes.
        guests: Number of guests of each node; the third has more.
    """
    width = len(str(nodes))
    names = [f"node{number:0{width}d}" for number in range(1, nodes + 1)]
    places = [name for name in names for _ in range(guests)] + [names[2]] * 8
    every = {
        f"vm:{number}": _guest(number, node)
        for number, node in enumerate(places, start=101)
    }
    every["vm:103"]["mobility"] = "none"
    every["vm:103"]["mobility_detail"] = "a local device"
    every["vm:104"]["tags"] = ["database"]
    rules = [
        {"kind": "pin", "name": "license", "guests": ["vm:102"]},
        {
            "kind": "node-affinity",
            "name": "fast-disks",
            "guests": ["vm:114"],
            "nodes": {names[2]: 1, names[4]: 1},
        },
        {
            "kind": "anti-affinity",
            "name": "web-apart",
            "guests": ["vm:113", "vm:119", "vm:125"],
        },
        {
            "kind": "affinity",
            "name": "shop-together",
            "guests": ["vm:131", "vm:132"],
        },
        {
            "kind": "anti-affinity",
            "name": "db-apart",
            "strict": False,
            "guests": ["vm:107", "vm:108"],
        },
    ]
    snapshot = {
        "format": "opendrs-snapshot/1",
        "nodes": _nodes(names),
        "guests": every,
        "rules": rules,
    }
    durations = dict.fromkeys(every, seconds)
    command_cluster.create(path, snapshot, durations, overhead=_OVERHEAD)


def _nodes(names: Sequence[str]) -> State:
    rack = max(6, len(names) // 20)  # nodes of a rack
    return {
        name: {
            "state": "online",
            "capacity": {"cpu": CORES, "memory": MEMORY},
            "failure_domain": f"rack{position // rack + 1}",
            "cpu_model": "x86-64-v3",
        }
        for position, name in enumerate(names)
    }


def _guest(number: int, node: str) -> State:
    share = 0.5 + (number * 7 % 10) / 20  # different guests, the same on each run
    return {
        "node": node,
        "kind": "vm",
        "state": "running",
        "limit": {"cpu": 4.0, "memory": 16 * GIB},
        "usage": {"cpu": 2.4 * share, "memory": int(9 * GIB * share)},
        "mobility": "live",
        "uptime": 86_400.0,
        "dirty_rate": 2e7,
    }
