"""From moves in any order to a plan of which every interleaving is safe.

A move can be made once there is room for it on its target, and nobody is there from
whom it must be apart. Moves that wait for one another in a circle are freed by a
detour: a guest waits on a third node until its place is free. Where there is no such
node, the least valuable of them is given up.

Source:
    The circles: Hermenier et al., Entropy: a consolidation manager for clusters (2009).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opendrs.model import (
    Guest,
    GuestId,
    Limits,
    Migration,
    Mobility,
    Move,
    NodeId,
    Relocation,
    Snapshot,
)
from opendrs.rules import NOBODY, CompiledRules, Room, Targets, need, room_when_empty

NOTHING_ASKED = Room(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Journey:
    """Guests that go to one node together, from one node or several.

    Attributes:
        guests: Who goes; each of them is elsewhere.
        target: Where to.
        value: What it is worth; the least valuable is given up first.
        why: The reason, in words for the operator.
    """

    guests: tuple[Guest, ...]
    target: NodeId
    value: float
    why: str

    @property
    def memory(self) -> int:
        """How many bytes are transferred."""
        return sum(guest.usage.memory or 0 for guest in self.guests)

    @property
    def moves(self) -> tuple[Move, ...]:
        """What is to be done."""
        return tuple(
            Migration(guest.id, guest.node, self.target)
            if guest.mobility is Mobility.LIVE
            else Relocation(guest.id, guest.node, self.target)
            for guest in self.guests
        )


@dataclass(frozen=True, slots=True)
class Passage:
    """A way through.

    Attributes:
        journeys: In an order in which they can be made one by one. Who goes twice
            makes a detour.
        given_up: Those that could not be made.
    """

    journeys: tuple[Journey, ...]
    given_up: tuple[Journey, ...]


def passage(
    journeys: Sequence[Journey],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    detours: float,
) -> Passage:
    """Return *journeys* in an order in which they can be made one by one.

    Args:
        journeys: The moves; in the end, all of them together must be safe.
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        detours: The bytes that may be transferred besides, for detours.
    """
    walk = _Walk(snapshot, rules, limits)
    walk.take(journeys)
    while walk.waiting:
        longest = detours - walk.detoured
        if not walk.step_aside(longest):
            walk.give_up()
    return Passage(tuple(walk.made), tuple(walk.given_up))


class Rooms:
    """The room of each node, while guests come and go.

    What a guest frees that seems to use more than its node does is no more than the
    node has: the room is what was free and has been freed, up to that of the empty
    node, less what has arrived.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self._free = dict(Targets(snapshot, rules, limits).room)
        self._most = {
            name: room_when_empty(node, limits) for name, node in snapshot.nodes.items()
        }
        self._taken: defaultdict[NodeId, Room] = defaultdict(lambda: NOTHING_ASKED)

    def come(self, node: NodeId, asked: Room) -> None:
        """Take *asked* of *node*."""
        self._taken[node] = self._taken[node].minus(asked)

    def go(self, node: NodeId, freed: Room) -> None:
        """Free *freed* of *node*."""
        self._free[node] = self._free[node].plus(freed, self._most[node])

    def suffices(self, node: NodeId, asked: Room, freed: Room = NOTHING_ASKED) -> bool:
        """Return whether *node* has the room, once *freed* is free as well."""
        free = self._free[node].plus(freed, self._most[node])
        left = free.minus(asked)
        taken = self._taken[node]
        return not (
            left.used is None
            or left.promised is None
            or left.used + (taken.used or 0.0) < 0
            or left.promised + (taken.promised or 0.0) < 0
        )


class _Walk:
    """The journeys made so far, and the cluster after them."""

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._suits = Targets(snapshot, rules, limits)
        self._rooms = Rooms(snapshot, rules, limits)
        self._place = {
            name: guest.node for name, guest in snapshot.guests.items() if guest.present
        }
        self._aside: set[GuestId] = set()
        self._waiting: defaultdict[NodeId, list[Journey]] = defaultdict(list)
        self.made: list[Journey] = []
        self.given_up: list[Journey] = []
        self.detoured = 0

    @property
    def waiting(self) -> list[Journey]:
        """The journeys that cannot be made yet."""
        return [journey for row in self._waiting.values() for journey in row]

    def take(self, journeys: Sequence[Journey]) -> None:
        """Make all of *journeys* that can be made, and let the others wait."""
        for journey in journeys:
            self._waiting[journey.target].append(journey)
        self._go_on([*self._waiting])

    def give_up(self) -> None:
        """Give up the least valuable journey of those that wait."""
        least = min(self.waiting, key=lambda each: (each.value, each.guests[0].id))
        self._waiting[least.target].remove(least)
        self.given_up.append(least)

    def step_aside(self, most: float) -> bool:
        """Make one detour of at most *most* bytes; return whether there is one."""
        candidates = sorted(
            (
                journey
                for journey in self.waiting
                if journey.memory <= most and self._is_in_the_way(journey)
            ),
            key=lambda each: (not self._frees(each), each.memory, each.guests[0].id),
        )
        for journey in candidates:
            host = self._host(journey)
            if host is not None:
                self._detour(journey, host)
                return True
        return False

    def _go_on(self, nodes: list[NodeId]) -> None:
        """Make what can be made on *nodes*, and then where that makes room."""
        while nodes:
            target = nodes.pop()
            for journey in [*self._waiting[target]]:
                if self._possible(journey):
                    self._waiting[target].remove(journey)
                    nodes += self._make(journey)

    def _make(self, journey: Journey) -> list[NodeId]:
        self.made.append(journey)
        self._rooms.come(journey.target, need(journey.guests))
        for guest in journey.guests:
            self._rooms.go(guest.node, need([guest]))
            self._place[guest.id] = journey.target
        return [guest.node for guest in journey.guests]

    def _possible(self, journey: Journey) -> bool:
        return self._rooms.suffices(
            journey.target, need(journey.guests)
        ) and not self._disturbed(journey, journey.target)

    def _disturbed(self, journey: Journey, node: NodeId) -> bool:
        return any(
            self._place.get(other) == node
            for guest in journey.guests
            for other in self._rules.apart.get(guest.id, NOBODY)
        )

    def _is_in_the_way(self, journey: Journey) -> bool:
        """Return whether others wait to come where the guests still are."""
        sources = {guest.node for guest in journey.guests}
        return (
            len(sources) == 1
            and journey.guests[0].id not in self._aside
            and bool(self._waiting[min(sources)])
        )

    def _frees(self, journey: Journey) -> bool:
        """Return whether somebody can come once the guests have gone."""
        source, freed = journey.guests[0].node, need(journey.guests)
        return any(
            self._rooms.suffices(source, need(other.guests), freed)
            for other in self._waiting[source]
        )

    def _host(self, journey: Journey) -> NodeId | None:
        """Return the node where the guests can wait that has fewest to expect."""
        asked = need(journey.guests)
        hosts = [
            (len(self._waiting[node.id]), node.id)
            for node in self._snapshot.nodes.values()
            if node.id not in (journey.guests[0].node, journey.target)
            and self._rooms.suffices(node.id, asked)
            and self._suits.unsuitable(journey.guests, node) is None
            and not self._disturbed(journey, node.id)
            and not self._expects_strangers(journey, node.id)
        ]
        return min(hosts)[1] if hosts else None

    def _expects_strangers(self, journey: Journey, node: NodeId) -> bool:
        """Return whether somebody is to come to *node* who must be apart."""
        strangers = NOBODY.union(
            *(self._rules.apart.get(guest.id, NOBODY) for guest in journey.guests)
        )
        return any(
            guest.id in strangers
            for other in self._waiting[node]
            for guest in other.guests
        )

    def _detour(self, journey: Journey, host: NodeId) -> None:
        self._waiting[journey.target].remove(journey)
        why = f"waits on {host} until {journey.target} has room for it"
        aside = replace(journey, target=host, why=why)
        moved = tuple(replace(guest, node=host) for guest in journey.guests)
        self._waiting[journey.target].append(replace(journey, guests=moved))
        self._aside |= {guest.id for guest in moved}
        self.detoured += journey.memory
        self._go_on([*self._make(aside), journey.target])
