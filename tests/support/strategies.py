"""Hypothesis strategies for clusters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, timedelta
from typing import TypeVar

from hypothesis import strategies as st

from opendrs.model import (
    GIB,
    NO_LOADS,
    Affinity,
    Allocation,
    AntiAffinity,
    Disk,
    DomainAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestPriority,
    GuestState,
    Mobility,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Storage,
    TagExclusion,
    Usage,
)
from opendrs.rules import with_chosen
from support.builders import NOON

Draw = st.DrawFn
T = TypeVar("T")

NO_GUESTS = frozenset[GuestId]()
TAGS = ("fixed", "web")
RACKS = (frozenset[str](), frozenset({"rack=1"}), frozenset({"rack=2"}))
_SIXTEENTHS = st.integers(0, 16)
_AMOUNTS = st.floats(0, 1e18)
_BYTES = st.integers(0, 10**18)
_WORDS = st.text(min_size=1, max_size=8)


def mostly(usual: T, *unusual: T) -> st.SearchStrategy[T]:
    """Return *usual* with a probability of 7/8, otherwise one of *unusual*."""
    return st.sampled_from([usual] * 7 * len(unusual) + list(unusual))


@st.composite
def snapshots(  # noqa: PLR0913 - what is drawn, each by its name
    draw: Draw,
    *,
    rules: bool = True,
    measured: bool = False,
    settled: bool = False,
    details: bool = False,
    storages: bool = False,
) -> Snapshot:
    """Draw a cluster of three to six nodes and up to ten guests.

    Most guests are on the first node, so that migrations are often necessary. A node
    uses what its guests use and a little more, up to its capacity.

    Args:
        rules: Whether to draw rules of all kinds, possibly contradictory.
        measured: Whether every capacity, limit and usage is known.
        settled: Whether all nodes are online and all guests run without migration;
            otherwise states vary, and a guest may be migrating.
        details: Whether optional fields are drawn as well, with unusual names and
            numbers: for serialization, not for decisions.
        storages: Whether nodes have storages, some of which others lack, and guests
            have disks on them.
    """
    names = [NodeId(f"node{number}") for number in range(1, draw(st.integers(3, 6)))]
    guests = _guests(draw, names, settled=settled)
    nodes = [_node(draw, name, guests, settled=settled) for name in names]
    if not measured:
        nodes = [_partly_measured_node(draw, node) for node in nodes]
        guests = [_partly_measured_guest(draw, guest) for guest in guests]
    if details:
        nodes = [draw(_detailed_node(node)) for node in nodes]
        guests = [draw(_detailed_guest(guest)) for guest in guests]
    if storages:
        nodes = [replace(node, storages=draw(_NODE_STORAGES)) for node in nodes]
        guests = [replace(guest, disks=draw(_GUEST_DISKS)) for guest in guests]
    bound = draw(st.lists(_rule(names, guests), max_size=4)) if rules else []
    return with_chosen(
        Snapshot(
            taken_at=NOON + timedelta(seconds=draw(st.integers(0, 86_400))),
            nodes={node.id: node for node in nodes},
            guests={guest.id: guest for guest in guests},
            rules=tuple(rule for rule in bound if rule is not None),
        )
    )


def _guests(draw: Draw, names: Sequence[NodeId], *, settled: bool) -> list[Guest]:
    count = draw(st.integers(0, 10))
    guests = [
        _guest(draw, number, names, settled=settled)
        for number in range(101, 101 + count)
    ]
    if guests and not settled and draw(st.integers(0, 5)) == 5:
        guests[0] = draw(_migrating(guests[0], names))
    return guests


def _migrating(guest: Guest, names: Iterable[NodeId]) -> st.SearchStrategy[Guest]:
    others = [name for name in names if name != guest.node]
    targets = st.sampled_from(others)
    running = replace(guest, state=GuestState.RUNNING)
    return st.builds(replace, st.just(running), migrating_to=targets)


def _guest(draw: Draw, number: int, names: Sequence[NodeId], *, settled: bool) -> Guest:
    kind = draw(mostly(GuestKind.VM, GuestKind.CONTAINER))
    state = GuestState.RUNNING
    if not settled:
        state = draw(mostly(state, *GuestState))
    limit = Resources(draw(st.integers(1, 4)), draw(st.integers(1, 8)) * GIB)
    usage = Usage(
        limit.cpu * draw(_SIXTEENTHS) / 16, limit.memory * draw(_SIXTEENTHS) // 16
    )
    return Guest(
        id=GuestId(f"{'vm' if kind is GuestKind.VM else 'ct'}:{number}"),
        node=draw(st.one_of(st.just(names[0]), st.sampled_from(names))),
        kind=kind,
        state=state,
        limit=limit,
        usage=usage if state is not GuestState.STOPPED else Usage(0.0, 0),
        mobility=draw(mostly(Mobility.LIVE, None, *Mobility)),
        tags=frozenset(draw(st.sets(st.sampled_from(TAGS), max_size=1))),
    )


def _node(draw: Draw, name: NodeId, guests: Iterable[Guest], *, settled: bool) -> Node:
    capacity = Resources(
        draw(st.sampled_from([8, 16, 32])), draw(st.sampled_from([32, 64, 128])) * GIB
    )
    used = Resources(draw(_SIXTEENTHS) / 16, draw(_SIXTEENTHS) * GIB // 4)
    for guest in guests:
        if guest.node == name and guest.usage.resources is not None:
            used = used.plus(guest.usage.resources)
    state = NodeState.ONLINE
    if not settled:
        state = draw(mostly(state, *NodeState))
    return Node(
        id=name,
        capacity=capacity,
        usage=Usage(min(used.cpu, capacity.cpu), min(used.memory, capacity.memory)),
        state=state,
        architecture=draw(mostly("x86_64", "aarch64", None)),
        labels=draw(st.sampled_from(RACKS)),
    )


def _partly(draw: Draw, usage: Usage) -> Usage:
    known = draw(mostly((True, True), (False, True), (True, False), (False, False)))
    return Usage(usage.cpu if known[0] else None, usage.memory if known[1] else None)


def _partly_measured_node(draw: Draw, node: Node) -> Node:
    capacity = draw(mostly(node.capacity, None))
    return replace(node, usage=_partly(draw, node.usage), capacity=capacity)


def _partly_measured_guest(draw: Draw, guest: Guest) -> Guest:
    limit = draw(mostly(guest.limit, None))
    return replace(guest, usage=_partly(draw, guest.usage), limit=limit)


def _rule(
    names: Sequence[NodeId], guests: Sequence[Guest]
) -> st.SearchStrategy[Rule | None]:
    """Return a rule of any kind about these guests, or None without guests."""
    titles, strict = st.sampled_from(["", "a rule"]), st.booleans()
    exclusions = st.builds(
        TagExclusion,
        tags=st.frozensets(st.sampled_from(TAGS), min_size=1),
        name=titles,
        origin=titles,
    )
    if not guests:
        return st.one_of(exclusions, st.none())
    one = _some(guests, 1)
    priorities = st.dictionaries(
        st.sampled_from(names), st.integers(0, 3), min_size=1, max_size=len(names)
    )
    tags = mostly(frozenset[str](), frozenset(TAGS))
    node_affinities = st.builds(
        NodeAffinity,
        guests=one,
        nodes=priorities,
        strict=strict,
        name=titles,
        tags=tags,
        labels=mostly(*RACKS),
        exclusive=st.booleans(),
    )
    weighed = st.builds(
        NodeAffinity,
        guests=one,
        nodes=priorities,
        strict=st.just(value=False),
        weight=st.sampled_from([0.5, 3.0]),
    )
    node_affinities = node_affinities | weighed
    pins: st.SearchStrategy[Rule] = st.one_of(
        st.builds(Pin, guests=one, name=titles),
        st.builds(
            GuestPriority,
            value=st.sampled_from((0.5, 2.0, 3.25)),
            guests=one,
            tags=st.frozensets(st.sampled_from(TAGS)),
            origin=titles,
        ),
    )
    if len(guests) == 1:
        return st.one_of(exclusions, pins, node_affinities)
    two = _some(guests, 2)
    together = st.builds(Affinity, guests=two, strict=strict, name=titles)
    apart = st.builds(AntiAffinity, guests=two, strict=strict, name=titles, tags=tags)
    spread = st.builds(
        AntiAffinity,
        guests=two,
        strict=strict,
        name=titles,
        domain=st.sampled_from(["", "rack"]),
        max_guests=st.integers(1, 2),
    )
    within = st.builds(
        DomainAffinity,
        guests=two,
        strict=strict,
        name=titles,
        domain=st.just("rack"),
        tags=tags,
    )
    return st.one_of(
        exclusions, pins, node_affinities, together, within, apart, spread, _sides(one)
    )


@st.composite
def _sides(draw: Draw, some: st.SearchStrategy[frozenset[GuestId]]) -> Rule:
    """Draw a rule about two sides, each of guests or of those with a tag."""
    guests, others = draw(some), draw(some)
    tag, other_tag = draw(st.permutations(TAGS))
    by_tags = draw(mostly((False, False), (True, False), (False, True), (True, True)))
    return MutualAntiAffinity(
        guests=NO_GUESTS if by_tags[0] else guests,
        tags=frozenset({tag} if by_tags[0] else ()),
        other_guests=NO_GUESTS if by_tags[1] else others - guests,
        other_tags=frozenset({other_tag} if by_tags[1] or others <= guests else ()),
        strict=draw(st.booleans()),
        name=draw(st.sampled_from(["", "a rule"])),
    )


def _some(guests: Sequence[Guest], least: int) -> st.SearchStrategy[frozenset[GuestId]]:
    ids = [guest.id for guest in guests]
    return st.frozensets(st.sampled_from(ids), min_size=least, max_size=3)


def _optional(values: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | values


_FRACTIONS = st.floats(0, 1)
_STALLS = st.builds(Stall, some=_optional(_FRACTIONS), full=_optional(_FRACTIONS))
_PRESSURES = st.builds(Pressure, cpu=_STALLS, memory=_STALLS, io=_STALLS)
_LABELS = st.frozensets(_WORDS, max_size=2)


_STORAGES = st.builds(
    lambda name, shared, amounts: Storage(
        id=name, shared=shared, capacity=amounts[1], free=amounts[0]
    ),
    _WORDS,
    _optional(st.booleans()),
    st.tuples(_BYTES, _BYTES).map(sorted),
)
_DISKS = st.builds(
    Disk,
    storage=_WORDS,
    size=_optional(_BYTES),
    target_storage=_optional(_WORDS),
)
_SHARED_OR_LOCAL = st.booleans() | st.none()
_NODE_STORAGES = _optional(
    st.dictionaries(st.sampled_from("stu"), _SHARED_OR_LOCAL).map(
        lambda drawn: tuple(
            Storage(id=name, shared=shared) for name, shared in drawn.items()
        )
    )
)
_GUEST_DISKS = _optional(
    st.lists(
        st.builds(
            Disk,
            storage=st.sampled_from("st"),
            target_storage=mostly(None, "u"),
        ),
        max_size=2,
    ).map(tuple)
)


_LOADS = st.dictionaries(
    _WORDS.filter(lambda name: name not in {"cpu", "memory"}),
    st.floats(0, 1e18, exclude_min=True),
    max_size=2,
).map(lambda drawn: drawn or NO_LOADS)


def _detailed_node(node: Node) -> st.SearchStrategy[Node]:
    return st.builds(
        replace,
        st.just(node),
        usage=st.builds(Usage, _optional(_AMOUNTS), _optional(_BYTES)),
        architecture=_optional(_WORDS),
        cpu_model=_optional(_WORDS),
        labels=_LABELS,
        load_average=_optional(_AMOUNTS),
        pressure=_PRESSURES,
        ksm_shared=_optional(_BYTES),
        powered_on_at=_optional(st.datetimes(timezones=st.just(UTC))),
        allocation=st.builds(
            Allocation,
            cpu_ratio=_optional(_AMOUNTS),
            memory_ratio=_optional(_AMOUNTS),
            reserved_cpu=_optional(_AMOUNTS),
            reserved_memory=_optional(_BYTES),
        ),
        groups=_LABELS,
        failure_domain=_optional(_WORDS),
        storages=_optional(st.lists(_STORAGES, max_size=2).map(tuple)),
        jobs=_optional(st.lists(_WORDS, max_size=2).map(tuple)),
        loads=_LOADS,
        load_capacities=_LOADS,
    )


def _detailed_guest(guest: Guest) -> st.SearchStrategy[Guest]:
    return st.builds(
        replace,
        st.just(guest),
        usage=st.builds(Usage, _optional(_AMOUNTS), _optional(_BYTES)),
        limit=_optional(st.builds(Resources, _AMOUNTS, _BYTES)),
        pressure=_PRESSURES,
        uptime=_optional(_AMOUNTS),
        mobility_detail=_optional(_WORDS),
        ha_managed=_optional(st.booleans()),
        tags=_LABELS,
        cpu_model=_optional(_WORDS),
        migrated_at=_optional(st.datetimes(timezones=st.just(UTC))),
        dirty_rate=_optional(_AMOUNTS),
        managed_by=_optional(_WORDS),
        lock=_optional(_WORDS),
        disks=_optional(st.lists(_DISKS, max_size=2).map(tuple)),
        loads=_LOADS,
    )
