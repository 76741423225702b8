"""A cluster, and who is to go where in it, with what that asks and frees."""

from __future__ import annotations

import math

from opendrs.model import GuestId, Limits, Snapshot
from opendrs.policies.passage.journey import Journey
from opendrs.rules import NOBODY, CompiledRules, Room, need

Pair = tuple[float, float]  # bytes of measured and of promised memory

NOTHING: Pair = (0.0, 0.0)


def plus(one: Pair, other: Pair) -> Pair:
    """Return the sum of two rooms."""
    return one[0] + other[0], one[1] + other[1]


def minus(one: Pair, other: Pair) -> Pair:
    """Return what is left of *one*."""
    return one[0] - other[0], one[1] - other[1]


def least(one: Pair, other: Pair) -> Pair:
    """Return what there is in both rooms."""
    return min(one[0], other[0]), min(one[1], other[1])


def fits(small: Pair, large: Pair) -> bool:
    """Return whether there is room for *small* in *large*."""
    return small[0] <= large[0] and small[1] <= large[1]


class Scene:
    """A cluster, and what is allowed in it.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        names: The name of each node, in order.
        index: The place of each name.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.limits = limits
        self.names = tuple(sorted(snapshot.nodes))
        self.index = {name: place for place, name in enumerate(self.names)}


class Leg:
    """A journey, and what it asks and frees: from the beginning, or from a detour.

    Attributes:
        journey: The journey.
        name: Its name.
        target: The place of the node it goes to.
        need: What it asks there.
        freed: What each guest frees, and where.
        guests: The names of its guests.
        sources: The places of the nodes that its guests leave.
        strangers: From whom its guests must be apart.
        aside: Whether it leads to a node where its guests only wait.
        second: Whether it leads on from there.
    """

    __slots__ = (
        "aside",
        "freed",
        "guests",
        "journey",
        "name",
        "need",
        "second",
        "sources",
        "strangers",
        "target",
    )

    def __init__(
        self,
        journey: Journey,
        scene: Scene,
        *,
        aside: bool = False,
        second: bool = False,
    ) -> None:
        apart = scene.rules.apart
        self.journey = journey
        self.name = journey.name
        self.target = scene.index[journey.target]
        self.freed: tuple[tuple[int, GuestId, Pair], ...] = tuple(
            [
                (scene.index[guest.node], guest.id, asked(need([guest])))
                for guest in journey.guests
            ]
        )
        self.need = self.freed[0][2]
        for _, _, more in self.freed[1:]:
            self.need = plus(self.need, more)
        self.guests = tuple(guest.id for guest in journey.guests)
        self.sources = frozenset(node for node, _, _ in self.freed)
        self.strangers = NOBODY.union(
            *(apart.get(name, NOBODY) for name in self.guests)
        )
        self.aside = aside
        self.second = second


def asked(room: Room) -> Pair:
    """Return what is asked of a node; endless where that is not known."""
    return (
        math.inf if room.used is None else room.used,
        math.inf if room.promised is None else room.promised,
    )
