"""Hypothesis strategies for imbalanced clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Node,
    NodeAffinity,
    NodeId,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from support.builders import cluster, guest, node

SIZES = [Resources(10, 100 * GIB), Resources(10, 100 * GIB), Resources(20, 200 * GIB)]


@st.composite
def imbalanced_clusters(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster whose guests are mostly on its first node, with few rules."""
    names = "abcd"[: draw(st.integers(2, 4))]
    node_names = st.sampled_from(names[0] * 6 + names[1:])
    guests = [
        _guest(draw, f"g{number}", draw(node_names))
        for number in range(draw(st.integers(3, 8)))
    ]
    ids = [each.id for each in guests]
    rules = draw(st.lists(_rule(ids, [NodeId(name) for name in names]), max_size=3))
    empty = cluster({}, {}, rules)
    nodes = [_node(draw, name, guests) for name in names]
    return replace(
        empty,
        nodes={each.id: each for each in nodes},
        guests={each.id: each for each in guests},
    )


def _guest(draw: st.DrawFn, name: str, node_name: str) -> Guest:
    cpu, memory = draw(st.integers(0, 15)) / 10, draw(st.integers(1, 12))
    unused = draw(st.sampled_from([0, 0, 2]))
    return guest(
        name,
        node_name,
        0,
        usage=Usage(cpu, memory * GIB),
        limit=Resources(draw(st.sampled_from([1, 2, 4])), (memory + unused) * GIB),
    )


def _node(draw: st.DrawFn, name: str, guests: Sequence[Guest]) -> Node:
    guests_on_node = [each for each in guests if each.node == name]
    base = draw(st.sampled_from([0, 0, 10, 40]))
    usage = Usage(
        sum(each.usage.cpu or 0 for each in guests_on_node) + base / 20,
        sum(each.usage.memory or 0 for each in guests_on_node) + base * GIB,
    )
    size, rack = draw(st.sampled_from(SIZES)), draw(st.sampled_from(["1", "2", "3"]))
    return node(name, 0, capacity=size, usage=usage, labels=frozenset({f"rack={rack}"}))


def _rule(
    guests: Sequence[GuestId], nodes: Sequence[NodeId]
) -> st.SearchStrategy[Rule]:
    some = st.frozensets(st.sampled_from(guests), min_size=2, max_size=3)
    strict = st.sampled_from([True, True, False])
    priorities = st.dictionaries(
        st.sampled_from(nodes), st.integers(0, 2), min_size=1, max_size=3
    )
    return st.one_of(
        st.builds(AntiAffinity, guests=some, strict=strict),
        st.builds(
            AntiAffinity,
            guests=some,
            strict=strict,
            domain=st.sampled_from(["", "rack"]),
            max_guests=st.integers(1, 2),
        ),
        st.builds(Affinity, guests=some, strict=strict),
        st.builds(
            NodeAffinity,
            guests=st.frozensets(st.sampled_from(guests), min_size=1, max_size=2),
            nodes=priorities,
            strict=strict,
        ),
    )
