"""CPU time of `balance` by the size of a group of guests with anti-affinity.

    make bench-anti-affinity
    python benchmarks/runners/anti_affinity.py --sizes 75 150 300 600 --json

Each cluster has as many nodes as guests, and one strict anti-affinity rule among all
guests. At first, ten guests share each of the first nodes, so that each move changes
what is allowed for every other guest. A candidate is a pair of a guest and a node. No
rule is repaired first.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from random import Random

from opendrs.model import (
    GIB,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIZES = (75, 150, 300, 600, 1200)
PER_NODE = 10  # guests on each node that has any
MOVES = 100  # migrations of a plan with a limit, the default of `balance`


def clique(size: int) -> Snapshot:
    """Return a cluster of *size* nodes and as many guests, all to be apart."""
    random = Random(size)  # noqa: S311 - drawn, not a secret
    guests = [_guest(number, random) for number in range(size)]
    nodes = [_node(number, guests) for number in range(size)]
    rule = AntiAffinity(guests=frozenset(each.id for each in guests), name="apart")
    return Snapshot(
        taken_at=NOON,
        nodes={node.id: node for node in nodes},
        guests={guest.id: guest for guest in guests},
        rules=(rule,),
    )


def _guest(number: int, random: Random) -> Guest:
    limit = Resources(4, random.randint(2, 12) * GIB)
    return Guest(
        id=GuestId(f"g{number:04}"),
        node=NodeId(f"n{number // PER_NODE:04}"),
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=limit,
        usage=Usage(random.uniform(0.1, 3.0), limit.memory),
        mobility=Mobility.LIVE,
    )


def _node(number: int, guests: list[Guest]) -> Node:
    name = NodeId(f"n{number:04}")
    used = [guest.usage.resources for guest in guests if guest.node == name]
    known = [each for each in used if each is not None]
    return Node(
        id=name,
        capacity=Resources(32, 128 * GIB),
        usage=Usage(sum(each.cpu for each in known), sum(e.memory for e in known)),
        state=NodeState.ONLINE,
    )


def measure(size: int, moves: int) -> dict[str, float]:
    """Return the CPU time of one decision for a group of *size* guests."""
    snapshot = clique(size)
    policy = Balance(
        max_migrations=moves,
        threshold=0.0,
        min_improvement=0.0,
        limits=Limits(memory_overcommit=4.0),
    )
    started = time.process_time()
    decision = policy.decide(snapshot, None)
    seconds = time.process_time() - started
    steps = len(decision.plan.steps)
    return {
        "guests": size,
        "candidates": size * size,
        "moves": steps,
        "seconds": round(seconds, 3),
        "microseconds_per_candidate": round(1e6 * seconds / size**2, 2),
    }


def main() -> None:
    """Print one line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--moves", type=int, default=MOVES, help="limit")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    Balance().decide(clique(PER_NODE), None)  # imports are not measured
    rows = [measure(size, options.moves) for size in options.sizes]
    if options.json:
        print(json.dumps(rows))
        return
    print(*rows[0], sep="\t")
    for row in rows:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
