"""Moves to be sequenced, with the resources that they require and free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import le

from opendrs.arrays import (
    ClusterArrays,
    DomainChange,
    ResourceAmounts,
    domain_change,
    migrations_of,
)
from opendrs.model import (
    Guest,
    GuestId,
    Migration,
    Mobility,
    NodeId,
    copied_size,
    has_mapped_copies,
)
from opendrs.rules import NO_GUESTS


@dataclass(frozen=True, slots=True)
class GroupMove:
    """Move of a group of guests to one node, from one or several nodes.

    Attributes:
        guests: Guests that move; none of them is on the target.
        target: Target node.
        detail: Why the group is moved, for the operator.
        value: Value of the move, in any unit; the least valuable move is dropped first.
        copied: Bytes of local disks that it copies.
    """

    guests: tuple[Guest, ...]
    target: NodeId
    detail: str
    value: float = 0.0
    copied: int = 0

    @property
    def name(self) -> GuestId:
        """Return the name of its first guest, which identifies the move."""
        return self.guests[0].id

    @property
    def memory(self) -> int:
        """Return the number of bytes to transfer."""
        return self.copied + sum(guest.usage.memory or 0 for guest in self.guests)

    @property
    def is_live(self) -> bool:
        """Return whether all guests can migrate live."""
        return all(guest.effective_mobility is Mobility.LIVE for guest in self.guests)

    @property
    def can_detour(self) -> bool:
        """Return whether the guests may wait on a staging node.

        They must migrate live, and their disks must keep their storage: from another
        one they could not be copied on.
        """
        return self.is_live and not any(map(has_mapped_copies, self.guests))

    @property
    def migrations(self) -> tuple[Migration, ...]:
        """Return the migrations of the guests."""
        return migrations_of(self.guests, self.target)

    def split_via(self, staging_node: NodeId) -> tuple[GroupMove, GroupMove]:
        """Return the detour to *staging_node*, and the move from there on."""
        detail = f"detour: on {staging_node} until {self.target} has enough memory"
        staged = tuple(replace(guest, node=staging_node) for guest in self.guests)
        return replace(self, target=staging_node, detail=detail), replace(
            self, guests=staged
        )


@dataclass(frozen=True, slots=True)
class NodePowerAction:
    """Power-on or power-off of a node.

    Attributes:
        node: The node.
        detail: Reason, for the operator.
    """

    node: NodeId
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetourBudget:
    """Limit of the additional transfers for detours.

    Attributes:
        memory: Bytes.
        migrations: Guests.
    """

    memory: float = float("inf")
    migrations: float = float("inf")


NO_AMOUNTS: ResourceAmounts = (0.0, 0.0, 0.0)
WITHOUT_SPACE = 3  # amounts where no local disk is copied; they have a faster way


def plus(one: ResourceAmounts, other: ResourceAmounts) -> ResourceAmounts:
    """Return the sum of two amounts."""
    if len(one) == len(other) == WITHOUT_SPACE:
        return one[0] + other[0], one[1] + other[1], one[2] + other[2]
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0.0))


def minus(one: ResourceAmounts, other: ResourceAmounts) -> ResourceAmounts:
    """Return the difference of two amounts."""
    if len(one) == len(other) == WITHOUT_SPACE:
        return one[0] - other[0], one[1] - other[1], one[2] - other[2]
    return tuple(a - b for a, b in zip_longest(one, other, fillvalue=0.0))


def minimum(one: ResourceAmounts, other: ResourceAmounts) -> ResourceAmounts:
    """Return the minimum of two amounts, for each resource that one of them has."""
    if len(one) == len(other) == WITHOUT_SPACE:
        return min(one[0], other[0]), min(one[1], other[1]), min(one[2], other[2])
    return tuple(map(min, zip_longest(one, other, fillvalue=math.inf)))


def fits(small: ResourceAmounts, large: ResourceAmounts) -> bool:
    """Return whether *small* fits into *large*, for each resource.

    What is absent in *small* is 0, and what is absent in *large* is unlimited.
    """
    if not (small[0] <= large[0] and small[1] <= large[1] and small[2] <= large[2]):
        return False
    if len(large) == WITHOUT_SPACE:
        return True
    space = large[WITHOUT_SPACE:]
    return all(map(le, small[WITHOUT_SPACE:] or (0.0,) * len(space), space))


class PendingMove:
    """Move to be sequenced, with the memory that it requires and frees.

    Attributes:
        group_move: The move.
        name: Name of the move.
        target: Index of the target node.
        required: Memory required on the target.
        freed: Index of the source, guest and freed amounts, for each guest.
        guests: Names of the guests.
        sources: Indices of the source nodes.
        anti_affine: Guests with anti-affinity to its guests.
        in_domains: Change of the guests in failure domains with a limit.
        is_detour: Whether it leads to a staging node.
        from_detour: Whether it leads from a staging node to the target.
    """

    __slots__ = (
        "anti_affine",
        "freed",
        "from_detour",
        "group_move",
        "guests",
        "in_domains",
        "is_detour",
        "name",
        "required",
        "sources",
        "target",
    )

    def __init__(
        self,
        group_move: GroupMove,
        cluster: ClusterArrays,
        *,
        is_detour: bool = False,
        from_detour: bool = False,
    ) -> None:
        apart = cluster.rules.apart
        self.group_move = group_move
        if cluster.space.names:
            nodes, guests = cluster.snapshot.nodes, group_move.guests
            copied = sum(copied_size(guest, nodes[guest.node]) for guest in guests)
            self.group_move = replace(group_move, copied=copied)
        self.name = group_move.name
        self.target = cluster.index[group_move.target]
        amounts = [cluster.amounts_of(guest) for guest in group_move.guests]
        self.freed: tuple[tuple[int, GuestId, ResourceAmounts], ...] = tuple(
            [
                (cluster.index[guest.node], guest.id, freed)
                for guest, (_, freed) in zip(group_move.guests, amounts, strict=True)
            ]
        )
        self.required = amounts[0][0]
        for required, _ in amounts[1:]:
            self.required = plus(self.required, required)
        self.guests = tuple(guest.id for guest in group_move.guests)
        self.sources = frozenset(node for node, _, _ in self.freed)
        self.anti_affine = NO_GUESTS.union(
            *(apart.get(name, NO_GUESTS) for name in self.guests)
        )
        self.in_domains: DomainChange = domain_change(
            cluster.rules, group_move.guests, group_move.target
        )
        self.is_detour = is_detour
        self.from_detour = from_detour
