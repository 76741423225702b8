"""Small clusters in which guests are to change places, by hand and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from builders import cluster, guest
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
from opendrs.policies.passage import Detours, Journey, Passage, passage
from opendrs.rules import compile_rules

ALL = Limits(memory_headroom=0.0)
ANY = Detours()
NONE = Detours(moves=0)


def scene(nodes: dict[str, float], at: str, *rules: Rule) -> Snapshot:
    """Return guests of 0.3 each, or as told; *at* is like "x:a y:b:0.5"."""
    parts = [each.split(":") for each in at.split()]
    guests = {p[0]: (p[1], float(p[2]) if len(p) > 2 else 0.3) for p in parts}
    return cluster({**nodes}, {**guests}, rules)


def journey(snapshot: Snapshot, way: str, value: float = 1.0) -> Journey:
    """Return who goes where; *way* is like "x b" or "x,y b"."""
    names, target = way.split()
    who = tuple(snapshot.guests[GuestId(name)] for name in names.split(","))
    return Journey(who, NodeId(target), "because", value)


def through(snapshot: Snapshot, *ways: str, detours: Detours = ANY) -> Passage:
    """Return the way through for journeys that are worth the same."""
    return found(snapshot, [journey(snapshot, way) for way in ways], detours)


def found(
    snapshot: Snapshot, journeys: Sequence[Journey], detours: Detours = ANY
) -> Passage:
    """Return the way through."""
    return passage(journeys, snapshot, compile_rules(snapshot), ALL, detours)


def ways(journeys: Iterable[Journey]) -> list[str]:
    """Return *journeys* as they are given by hand."""
    return [f"{','.join(g.id for g in each.guests)} {each.target}" for each in journeys]


def waits(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return what each step waits for."""
    return {step.id: step.after for step in plan.steps}


@dataclass(frozen=True)
class Upheaval:
    """A cluster, and who is to go where in it."""

    snapshot: Snapshot
    journeys: tuple[Journey, ...]


@st.composite
def upheavals(draw: st.DrawFn, *, pairs: bool = True) -> Upheaval:
    """Draw a cluster with little memory to spare, and where all should end.

    Args:
        draw: What draws.
        pairs: Whether some guests must move together.
    """
    names = "abcde"[: draw(st.integers(3, 5))]
    sizes = draw(st.lists(st.sampled_from([2, 3, 4, 5]), min_size=4, max_size=9))
    before = _placed(draw, sizes, names)
    after = _placed(draw, sizes[: len(before)], names)
    units = [
        _unit(f"g{i}", where, size, twins=pairs and draw(st.integers(0, 3)) == 0)
        for i, (size, where) in enumerate(zip(sizes, before, strict=False))
    ][: len(after)]  # for the others there is no place in the end
    guests = [each for unit in units for each in unit]
    rules: list[Rule] = [
        Affinity(guests=frozenset(each.id for each in unit))
        for unit in units
        if unit[1:]
    ]
    if units[1:]:
        first = [unit[0] for unit in units]  # what binds one binds its twin
        rules += draw(st.lists(_apart(first), max_size=2))
    used = {
        name: sum(each.usage.cpu or 0.0 for each in guests if each.node == name) / 10
        for name in names
    }
    snapshot = replace(
        cluster({**used}, {}, rules), guests={each.id: each for each in guests}
    )
    return Upheaval(
        snapshot,
        tuple(
            Journey(unit, NodeId(where), "because", float(draw(st.integers(0, 3))))
            for unit, where in zip(units, after, strict=True)
            if unit[0].node != where
        ),
    )


def _unit(name: str, where: str, size: int, *, twins: bool) -> tuple[Guest, ...]:
    """Return one guest of *size* tenths of a node, or two that make up for it."""
    if not twins:
        return (guest(name, where, size / 10),)
    return (
        guest(f"{name}a", where, size // 2 / 10),
        guest(f"{name}b", where, (size - size // 2) / 10),
    )


def _placed(draw: st.DrawFn, sizes: Sequence[int], names: str) -> list[str]:
    """Draw one of the first two nodes with room for each guest, until there is none.

    So that some nodes are full, and others have room for who steps aside.
    """
    free = dict.fromkeys(names, 10)
    places: list[str] = []
    for size in sizes:
        roomy = [name for name in names if free[name] >= size]
        if not roomy:
            break
        places.append(draw(st.sampled_from(roomy[:2])))
        free[places[-1]] -= size
    return places


def _apart(guests: Sequence[Guest]) -> st.SearchStrategy[Rule]:
    some = st.frozensets(
        st.sampled_from([each.id for each in guests]), min_size=2, max_size=3
    )
    return st.builds(AntiAffinity, guests=some)
