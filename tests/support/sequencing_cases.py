"""Small clusters whose guests exchange nodes, by hand and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Plan,
    Rule,
    Snapshot,
)
from opendrs.planning import DetourBudget, GroupMove, SequencedPlan, sequence_moves
from opendrs.rules import compile_rules
from support.builders import cluster, guest

NO_HEADROOM = Limits(memory_headroom=0.0)
UNLIMITED_DETOURS = DetourBudget()
NO_DETOURS = DetourBudget(migrations=0)


def small_cluster(nodes: dict[str, float], placement: str, *rules: Rule) -> Snapshot:
    """Return a cluster; *placement* is like "x:a y:b:0.5" (default size 0.3)."""
    parts = [each.split(":") for each in placement.split()]
    guests = {p[0]: (p[1], float(p[2]) if len(p) > 2 else 0.3) for p in parts}
    return cluster({**nodes}, {**guests}, rules)


def group_move(snapshot: Snapshot, text: str, value: float = 1.0) -> GroupMove:
    """Return a move of guests to a node; *text* is like "x b" or "x,y b"."""
    names, target = text.split()
    guests = tuple(snapshot.guests[GuestId(name)] for name in names.split(","))
    return GroupMove(guests, NodeId(target), "because", value)


def sequence_texts(
    snapshot: Snapshot, *texts: str, detours: DetourBudget = UNLIMITED_DETOURS
) -> SequencedPlan:
    """Return the sequenced plan of moves of equal value."""
    return sequence(snapshot, [group_move(snapshot, text) for text in texts], detours)


def sequence(
    snapshot: Snapshot,
    moves: Sequence[GroupMove],
    detours: DetourBudget = UNLIMITED_DETOURS,
) -> SequencedPlan:
    """Return the sequenced plan of *moves*."""
    return sequence_moves(
        moves, snapshot, compile_rules(snapshot), NO_HEADROOM, detours
    )


def move_texts(moves: Iterable[GroupMove]) -> list[str]:
    """Return *moves* in the notation of `group_move`."""
    return [f"{','.join(g.id for g in each.guests)} {each.target}" for each in moves]


def dependencies(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the dependencies of each step."""
    return {step.id: step.depends_on for step in plan.steps}


@dataclass(frozen=True)
class SequencingCase:
    """Cluster with the moves to sequence."""

    snapshot: Snapshot
    moves: tuple[GroupMove, ...]


@st.composite
def sequencing_cases(draw: st.DrawFn, *, pairs: bool = True) -> SequencingCase:
    """Draw a cluster with little memory to spare, and where all should end.

    Args:
        draw: What draws.
        pairs: Whether some guests must move together.
    """
    names = "abcde"[: draw(st.integers(3, 5))]
    sizes = draw(st.lists(st.sampled_from([2, 3, 4, 5]), min_size=4, max_size=9))
    before = _draw_placement(draw, sizes, names)
    after = _draw_placement(draw, sizes[: len(before)], names)
    groups = [
        _move_group(f"g{i}", where, size, twins=pairs and draw(st.integers(0, 3)) == 0)
        for i, (size, where) in enumerate(zip(sizes, before, strict=False))
    ][: len(after)]  # for the others there is no place in the end
    guests = [each for group in groups for each in group]
    rules: list[Rule] = [
        Affinity(guests=frozenset(each.id for each in group))
        for group in groups
        if group[1:]
    ]
    if groups[1:]:
        first = [group[0] for group in groups]  # what binds one binds its twin
        rules += draw(st.lists(_anti_affinity_rules(first), max_size=2))
    used = {
        name: sum(each.usage.cpu or 0.0 for each in guests if each.node == name) / 10
        for name in names
    }
    snapshot = replace(
        cluster({**used}, {}, rules), guests={each.id: each for each in guests}
    )
    return SequencingCase(
        snapshot,
        tuple(
            GroupMove(group, NodeId(where), "because", float(draw(st.integers(0, 3))))
            for group, where in zip(groups, after, strict=True)
            if group[0].node != where
        ),
    )


def _move_group(name: str, node: str, size: int, *, twins: bool) -> tuple[Guest, ...]:
    """Return one guest of *size* tenths of a node, or two of that total size."""
    if not twins:
        return (guest(name, node, size / 10),)
    return (
        guest(f"{name}a", node, size // 2 / 10),
        guest(f"{name}b", node, (size - size // 2) / 10),
    )


def _draw_placement(draw: st.DrawFn, sizes: Sequence[int], names: str) -> list[str]:
    """Draw a node for each guest from the first two with enough memory.

    Some nodes are then full, and others have memory for detours. Drawing ends when a
    guest does not fit.
    """
    free = dict.fromkeys(names, 10)
    placement: list[str] = []
    for size in sizes:
        fitting = [name for name in names if free[name] >= size]
        if not fitting:
            break
        placement.append(draw(st.sampled_from(fitting[:2])))
        free[placement[-1]] -= size
    return placement


def _anti_affinity_rules(guests: Sequence[Guest]) -> st.SearchStrategy[Rule]:
    some = st.frozensets(
        st.sampled_from([each.id for each in guests]), min_size=2, max_size=3
    )
    return st.builds(AntiAffinity, guests=some)
