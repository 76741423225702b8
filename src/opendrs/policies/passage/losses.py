"""Which journeys cannot be made any more, and which is given up first."""

from __future__ import annotations

from collections.abc import Iterable

from opendrs.model import GuestId
from opendrs.policies.passage.scene import NOTHING, Leg, Pair, fits, plus
from opendrs.policies.passage.standing import Standing


class Losses:
    """The journeys that are given up.

    Who stays keeps its place: those who count on it must stay as well.

    Attributes:
        given_up: The legs that were given up, in this order.

    Args:
        standing: The cluster, which is watched.
    """

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self.given_up: list[Leg] = []
        self._order = sorted(
            ((leg.journey.value, name) for name, leg in standing.open.items()),
            reverse=True,
        )

    def give_up_the_hopeless(self, nodes: Iterable[int]) -> None:
        """Give up who cannot come to *nodes* whatever happens, and who counts on it."""
        pending = sorted(nodes)
        while pending:
            node = pending.pop()
            for leg in self._hopeless(node):
                pending += sorted(self._give_up(leg))

    def give_up_the_least_valuable(self) -> None:
        """Give up the least valuable of those who wait, and who counts on it."""
        while self._order:
            _, name = self._order.pop()
            if name in self._standing.open:
                leg = self._standing.open[name]
                self.give_up_the_hopeless(self._give_up(leg))
                return

    def _give_up(self, leg: Leg) -> frozenset[int]:
        self._standing.drop(leg)
        self.given_up.append(leg)
        return leg.sources

    def _hopeless(self, node: int) -> list[Leg]:
        """Return who cannot come to *node* even when all have left who will."""
        standing, home, passing = self._standing, NOTHING, NOTHING
        staying = set(standing.present[node])
        for leg in standing.leaving[node]:
            for source, guest, freed in leg.freed:
                if source == node:
                    staying.discard(guest)
                    if leg.second:
                        passing = plus(passing, freed)
                    else:
                        home = plus(home, freed)
        return self._left_over(node, standing.rooms.free(node, home, passing), staying)

    def _left_over(self, node: int, room: Pair, staying: set[GuestId]) -> list[Leg]:
        """Return who has no place where the more valuable have taken theirs."""
        lost, taken = [], NOTHING
        for leg in sorted(self._standing.waiting[node], key=_value, reverse=True):
            asked = plus(taken, leg.need)
            if fits(asked, room) and staying.isdisjoint(leg.strangers):
                taken = asked
                staying.update(leg.guests)
            else:
                lost.append(leg)
        return lost


def _value(leg: Leg) -> tuple[float, str]:
    return leg.journey.value, leg.journey.name
