"""Who steps aside, and where to, when all that is left waits for one another."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from opendrs.model import GuestId, NodeId
from opendrs.policies.passage.journey import Detours
from opendrs.policies.passage.scene import Leg, Pair, fits, minus
from opendrs.policies.passage.standing import Standing
from opendrs.rules import Targets

# Whether it does not suffice, bytes that lie idle, -bytes, name, stamp.
Offer = tuple[bool, float, int, str, int, Leg]


class Asides:
    """The detours that free somebody, first those that leave least room idle.

    To step aside for somebody of nearly one's own size needs few detours in all: in
    trials, half as many as to let the smallest step aside first.

    Args:
        standing: The cluster, which is watched.
        allowed: What all detours together may cost.
    """

    def __init__(self, standing: Standing, allowed: Detours) -> None:
        self._standing = standing
        self._hosts = _Hosts(standing)
        self._memory, self._moves = allowed.memory, allowed.moves
        self._offers: list[Offer] = []
        self._homeless: list[tuple[float, Offer]] = []  # first who needs least
        self._stamps: dict[Leg, int] = {}
        self._seen = 0

    def step_aside(self) -> bool:
        """Make the best detour; return whether there is one."""
        self._refresh()
        while self._offers:
            offer = heapq.heappop(self._offers)
            leg = offer[-1]
            if self._stale(offer) or not self._affordable(leg):
                continue
            host = self._hosts.best(leg) if self._standing.welcome(leg) else None
            if host is None:
                heapq.heappush(self._homeless, (leg.need[0], offer))
                continue
            self._memory -= leg.journey.memory
            self._moves -= len(leg.guests)
            self._standing.detour(leg, host)
            return True
        return False

    def _stale(self, offer: Offer) -> bool:
        *_, stamp, leg = offer
        waits = self._standing.open.get(leg.name) is leg
        return not waits or self._stamps[leg] != stamp

    def _affordable(self, leg: Leg) -> bool:
        return leg.journey.memory <= self._memory and len(leg.guests) <= self._moves

    def _refresh(self) -> None:
        """Look again where something has changed, and for hosts where none was."""
        changed = sorted(self._standing.changed)
        self._standing.changed.clear()
        for node in changed:
            wishes = self._wishes(node)
            for leg in self._standing.leaving[node]:
                self._offer(leg, wishes)
        most = self._standing.rooms.most_free() if changed else 0.0
        while self._homeless and self._homeless[0][0] <= most:
            heapq.heappush(self._offers, heapq.heappop(self._homeless)[1])

    def _wishes(self, node: int) -> list[_Wish]:
        """Return what those who wait to come to *node* lack there."""
        standing = self._standing
        free, there = standing.rooms.free(node), standing.present[node]
        return [
            _Wish(minus(leg.need, free), leg.need[0], leg.strangers & there)
            for leg in standing.waiting[node]
        ]

    def _offer(self, leg: Leg, wishes: Sequence[_Wish]) -> None:
        """Note what it costs that *leg* steps aside, if that helps anybody."""
        self._seen += 1
        self._stamps[leg] = self._seen
        if leg.second or not leg.journey.live or len(leg.sources) > 1:
            return
        costs = [cost for wish in wishes if (cost := wish.cost(leg.need, leg.guests))]
        if costs:
            size = leg.journey.memory
            offer = (*min(costs), -size, leg.name, self._seen, leg)
            heapq.heappush(self._offers, offer)


class _Wish(NamedTuple):
    """What somebody lacks on a node.

    Attributes:
        lacking: The room that is missing; 0 or less where there is enough.
        size: The measured memory it will take.
        strangers: Who is there from whom it must be apart.
    """

    lacking: Pair
    size: float
    strangers: frozenset[GuestId]

    def cost(self, freed: Pair, guests: Iterable[GuestId]) -> tuple[bool, float] | None:
        """Return what it costs that *guests* go and free *freed*; None if no help.

        Whether others must go as well, and then how many bytes in all; or else how
        many lie idle when this one has come.
        """
        lacking, size, strangers = self
        if max(lacking) <= 0 and strangers.isdisjoint(guests):
            return None
        if fits(lacking, freed) and strangers.issubset(guests):
            return False, freed[0] - size
        return True, max(*lacking, freed[0])


class _Hosts:
    """The nodes on which guests can wait."""

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        scene = standing.scene
        self._suits = Targets(scene.snapshot, scene.rules, scene.limits)
        self._open: dict[GuestId, frozenset[NodeId]] = {}

    def best(self, leg: Leg) -> int | None:
        """Return the node that has most to spare for those it expects; or None."""
        roomy = self._standing.rooms.roomy(leg.need)
        spare = self._standing.rooms.spare(roomy, self._standing.expected)
        for place in roomy[np.argsort(-spare, kind="stable")].tolist():
            if self._may_wait(leg, place):
                return int(place)
        return None

    def _may_wait(self, leg: Leg, place: int) -> bool:
        scene, unit = self._standing.scene, leg.journey.guests
        node = scene.snapshot.nodes[self._standing.scene.names[place]]
        return (
            node.id not in (unit[0].node, leg.journey.target)
            and node.id in self._allowed(unit[0].id)
            and self._suits.suits(unit, node)
            and not self._standing.disturbed(leg, place)
        )

    def _allowed(self, guest: GuestId) -> Container[NodeId]:
        """Return where rules let *guest* be, found once: that takes long."""
        rules = self._standing.scene.rules
        if guest not in rules.nodes and guest not in rules.rankings:
            return self._standing.scene.index
        if guest not in self._open:
            self._open[guest] = self._suits.preferred(guest)
        return self._open[guest]
