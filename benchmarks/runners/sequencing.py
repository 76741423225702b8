"""Sequencing of moves: CPU time, detours, dropped moves and dependencies.

    .venv/bin/python benchmarks/runners/sequencing.py
    .venv/bin/python benchmarks/runners/sequencing.py --sizes 1000x20000 --fill
    0.95,0.98

Clusters are drawn with a fixed seed: guests of 1 to 64 GiB, most of them small, on
nodes whose memory is filled to the given fraction. One guest in four is to move to
another node, drawn so that all targets fit in the end. Above 98 % some guests find no
target in 100 draws and stay, even if their memory has been assigned to others. One
guest in ten has an anti-affinity with two others. Each row runs in its own process, so
its peak memory is its own.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
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
    Plan,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.planning import GroupMove, sequence_moves
from opendrs.rules import CompiledRules, compile_rules

SIZES = ((10, 200), (100, 2000), (1000, 20000), (10000, 200000))
FILLS = (0.6, 0.9, 0.95, 0.97, 0.98, 0.99)
LIMITS = Limits(memory_headroom=0.0)
HEADS = (
    "nodes x guests",
    "filled",
    "moves",
    "seconds",
    "detours",
    "dropped",
    "dependencies",
    "longest chain",
    "MiB",
)
TRIES = 100  # draws of a target per guest


@dataclass(frozen=True)
class Row:
    """Measurements of one cluster."""

    moves: int
    seconds: float
    detours: int
    dropped: int
    waits: int
    longest_chain: int
    mebibytes: int


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=sizes, default=SIZES)
    parser.add_argument("--fill", type=fills, default=FILLS)
    options = parser.parse_args()
    print("| " + " | ".join(HEADS) + " |")
    print("|---|" + "---:|" * (len(HEADS) - 1))
    for nodes, guests in options.sizes:
        for fill in options.fill:
            with ProcessPoolExecutor(1, get_context("spawn")) as one:
                row = one.submit(measure, nodes, guests, fill).result()
            print(
                f"| {nodes:,} x {guests:,} | {fill:.0%} | {row.moves:,} "
                f"| {row.seconds:.2f} | {row.detours:,} | {row.dropped:,} "
                f"| {row.waits:,} | {row.longest_chain:,} | {row.mebibytes:,} |",
                flush=True,
            )


def sizes(text: str) -> list[tuple[int, int]]:
    """Parse pairs such as 10x200,100x2000."""
    pairs = [each.split("x") for each in text.split(",")]
    return [(int(nodes), int(guests)) for nodes, guests in pairs]


def fills(text: str) -> list[float]:
    """Parse fractions such as 0.9,0.95."""
    return [float(each) for each in text.split(",")]


def measure(nodes: int, guests: int, fill: float) -> Row:
    """Sequence the moves of one generated cluster and measure it."""
    random = Random(f"{nodes}:{guests}:{fill}")  # noqa: S311 - drawn, not a secret
    snapshot = random_cluster(random, nodes, guests, fill)
    rules = compile_rules(snapshot)
    moves = [*random_moves(random, snapshot, rules)]
    begin = time.process_time()
    sequenced = sequence_moves(moves, snapshot, rules, LIMITS)
    return Row(
        moves=len(moves),
        seconds=time.process_time() - begin,
        detours=len(sequenced.detours),
        dropped=len(sequenced.dropped),
        waits=sum(len(step.depends_on) for step in sequenced.plan.steps),
        longest_chain=longest_chain(sequenced.plan),
        mebibytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )


def random_cluster(random: Random, nodes: int, guests: int, fill: float) -> Snapshot:
    """Return a cluster in which *fill* of the memory of each node is used."""
    used = [0] * nodes
    everybody: dict[GuestId, Guest] = {}
    for number in range(guests):
        place = random.randrange(nodes)
        memory = int(min(64.0, max(1.0, random.lognormvariate(1.5, 1.0))) * GIB)
        used[place] += memory
        name = GuestId(f"vm{number:06}")
        everybody[name] = Guest(
            id=name,
            node=NodeId(f"n{place:05}"),
            kind=GuestKind.VM,
            state=GuestState.RUNNING,
            usage=Usage(1.0, memory),
            mobility=Mobility.LIVE,
        )
    names = sorted(everybody)
    return Snapshot(
        taken_at=datetime(2026, 11, 21, 12, tzinfo=UTC),
        nodes={
            NodeId(f"n{place:05}"): Node(
                id=NodeId(f"n{place:05}"),
                capacity=Resources(32, int(max(taken, GIB) / fill)),
                usage=Usage(16.0, taken),
                state=NodeState.ONLINE,
            )
            for place, taken in enumerate(used)
        },
        guests=everybody,
        rules=tuple(
            AntiAffinity(guests=frozenset(random.sample(names, 3)))
            for _ in range(guests // 30)
        ),
    )


def random_moves(
    random: Random, snapshot: Snapshot, rules: CompiledRules
) -> Iterator[GroupMove]:
    """Yield targets for one guest in four; the largest are assigned first."""
    chosen = random.sample(sorted(snapshot.guests), len(snapshot.guests) // 4)
    chosen.sort(key=lambda name: -memory(snapshot, name))
    free = {
        node.id: node.capacity.memory if node.capacity else 0
        for node in snapshot.nodes.values()
    }
    there: dict[NodeId, set[GuestId]] = {name: set() for name in free}

    def put(name: GuestId, node: NodeId) -> None:
        free[node] -= memory(snapshot, name)
        there[node].add(name)

    for name in snapshot.guests.keys() - set(chosen):
        put(name, snapshot.guests[name].node)
    nodes = sorted(free)
    for name in chosen:
        guest, anti_affine = snapshot.guests[name], rules.apart.get(name, frozenset())
        drawn_nodes = (random.choice(nodes) for _ in range(TRIES))
        target = next(
            (
                node
                for node in drawn_nodes
                if free[node] >= memory(snapshot, name)
                and anti_affine.isdisjoint(there[node])
            ),
            guest.node,
        )
        put(name, target)
        if target != guest.node:
            yield GroupMove((guest,), target, "as drawn", random.random())


def memory(snapshot: Snapshot, name: GuestId) -> int:
    """Return the memory that a guest uses, in bytes."""
    return snapshot.guests[name].usage.memory or 0


def longest_chain(plan: Plan) -> int:
    """Return the number of steps in the longest chain of dependencies."""
    depth: dict[str, int] = {}
    for step in plan.steps:
        depth[step.id] = 1 + max((depth[each] for each in step.depends_on), default=0)
    return max(depth.values(), default=0)


if __name__ == "__main__":
    main()
