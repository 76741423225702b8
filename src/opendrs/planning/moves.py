"""Moves to be sequenced, with the memory that they require and free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from opendrs.arrays import migrations_of
from opendrs.model import Guest, GuestId, Limits, Migration, Mobility, NodeId, Snapshot
from opendrs.rules import NO_GUESTS, AvailableMemory, CompiledRules, required_memory


@dataclass(frozen=True, slots=True)
class GroupMove:
    """Guests that go to one node together, from one node or several.

    Attributes:
        guests: Who goes; each of them is elsewhere.
        target: Where to.
        detail: The reason, in words for the operator.
        value: What it is worth, in any unit; the least valuable is given up first.
    """

    guests: tuple[Guest, ...]
    target: NodeId
    detail: str
    value: float = 0.0

    @property
    def name(self) -> GuestId:
        """Return the name of its first guest, which tells it from the others."""
        return self.guests[0].id

    @property
    def memory(self) -> int:
        """Return how many bytes are transferred."""
        return sum(guest.usage.memory or 0 for guest in self.guests)

    @property
    def is_live(self) -> bool:
        """Return whether nobody must be stopped for it."""
        return all(guest.effective_mobility is Mobility.LIVE for guest in self.guests)

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """Return what is to be done."""
        return migrations_of(self.guests, self.target)

    def split_via(self, staging_node: NodeId) -> tuple[GroupMove, GroupMove]:
        """Return the detour to *staging_node*, and the journey from there."""
        detail = f"waits on {staging_node} until {self.target} has room for it"
        staged = tuple(replace(guest, node=staging_node) for guest in self.guests)
        return replace(self, target=staging_node, detail=detail), replace(
            self, guests=staged
        )


@dataclass(frozen=True, slots=True)
class NodePowerAction:
    """A node that is woken or put to sleep, and why."""

    node: NodeId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetourBudget:
    """What may be transferred besides, so that guests wait on a third node.

    Attributes:
        memory: How many bytes.
        migrations: How many guests.
    """

    memory: float = float("inf")
    migrations: float = float("inf")


MemoryPair = tuple[float, float]  # bytes of measured and of promised memory
NO_MEMORY: MemoryPair = (0.0, 0.0)


def plus(one: MemoryPair, other: MemoryPair) -> MemoryPair:
    """Return the sum of two rooms."""
    return one[0] + other[0], one[1] + other[1]


def minus(one: MemoryPair, other: MemoryPair) -> MemoryPair:
    """Return what is left of *one*."""
    return one[0] - other[0], one[1] - other[1]


def minimum(one: MemoryPair, other: MemoryPair) -> MemoryPair:
    """Return what there is in both rooms."""
    return min(one[0], other[0]), min(one[1], other[1])


def fits(small: MemoryPair, large: MemoryPair) -> bool:
    """Return whether there is room for *small* in *large*."""
    return small[0] <= large[0] and small[1] <= large[1]


class SequencingProblem:
    """A cluster, and what is allowed in it.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        node_ids: The name of each node, in order.
        index: The place of each name.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.limits = limits
        self.node_ids = tuple(sorted(snapshot.nodes))
        self.index = {name: index for index, name in enumerate(self.node_ids)}


class PendingMove:
    """A journey, and what it asks and frees: from the beginning, or from a detour.

    Attributes:
        group_move: The journey.
        name: Its name.
        target: The place of the node it goes to.
        required: What it asks there.
        freed: What each guest frees, and where.
        guests: The names of its guests.
        sources: The places of the nodes that its guests leave.
        anti_affine: From whom its guests must be apart.
        is_detour: Whether it leads to a node where its guests only wait.
        from_detour: Whether it leads on from there.
    """

    __slots__ = (
        "anti_affine",
        "freed",
        "from_detour",
        "group_move",
        "guests",
        "is_detour",
        "name",
        "required",
        "sources",
        "target",
    )

    def __init__(
        self,
        group_move: GroupMove,
        problem: SequencingProblem,
        *,
        is_detour: bool = False,
        from_detour: bool = False,
    ) -> None:
        apart = problem.rules.apart
        self.group_move = group_move
        self.name = group_move.name
        self.target = problem.index[group_move.target]
        self.freed: tuple[tuple[int, GuestId, MemoryPair], ...] = tuple(
            [
                (
                    problem.index[guest.node],
                    guest.id,
                    memory_pair(required_memory([guest])),
                )
                for guest in group_move.guests
            ]
        )
        self.required = self.freed[0][2]
        for _, _, required in self.freed[1:]:
            self.required = plus(self.required, required)
        self.guests = tuple(guest.id for guest in group_move.guests)
        self.sources = frozenset(node for node, _, _ in self.freed)
        self.anti_affine = NO_GUESTS.union(
            *(apart.get(name, NO_GUESTS) for name in self.guests)
        )
        self.is_detour = is_detour
        self.from_detour = from_detour


def memory_pair(memory: AvailableMemory) -> MemoryPair:
    """Return what is asked of a node; endless where that is not known."""
    return (
        math.inf if memory.measured is None else memory.measured,
        math.inf if memory.committed is None else memory.committed,
    )
