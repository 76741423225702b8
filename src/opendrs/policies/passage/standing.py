"""Who is where, and who still waits to go, while journeys are made one by one."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

from opendrs.model import GuestId
from opendrs.policies.passage.rooms import Rooms
from opendrs.policies.passage.scene import NOTHING, Leg, Scene, fits, plus


class Standing:
    """The cluster after the journeys made so far, and those that wait.

    Args:
        scene: The cluster in the beginning.
        rooms: The room of its nodes, which will be taken.
        legs: Who is to go where; those that come first go first.

    Attributes:
        scene: The cluster in the beginning.
        rooms: What is free on each node.
        present: Of those who must be apart from somebody, who is on each node.
        open: The leg that waits, by the name of its journey.
        waiting: The legs that wait to come to each node.
        leaving: The legs that wait to leave each node.
        expected: The bytes of measured memory that wait to come to each node.
        made: The legs that were made, in this order.
        changed: The nodes on which something has changed since this was last emptied.
    """

    def __init__(self, scene: Scene, rooms: Rooms, legs: Iterable[Leg]) -> None:
        self.scene = scene
        self.rooms = rooms
        self.present = self._present()
        self.open: dict[GuestId, Leg] = {}
        self.waiting: defaultdict[int, list[Leg]] = defaultdict(list)
        self.leaving: defaultdict[int, list[Leg]] = defaultdict(list)
        self.expected = array("d", bytes(8 * len(scene.names)))
        self.made: list[Leg] = []
        self.changed: set[int] = set()
        for leg in legs:
            self._wait(leg)

    def go_on(self, nodes: Iterable[int]) -> None:
        """Make what can be made on *nodes*, and then where that makes room.

        What one round frees counts in the next: so as little as possible waits.
        """
        while nodes:
            started = [
                leg
                for node in sorted(nodes)
                for leg in tuple(self.waiting[node])
                if self._start(leg)
            ]
            nodes = self._leave(started)

    def make(self, leg: Leg) -> bool:
        """Make *leg* if that can be, and nothing else; return whether it was."""
        made = self._start(leg)
        if made:
            self._leave([leg])
        return made

    def detour(self, leg: Leg, host: int) -> None:
        """Let the guests of *leg* wait on *host*, and go on with what that frees."""
        self.drop(leg)
        aside, rest = leg.journey.by_way_of(self.scene.names[host])
        first = Leg(aside, self.scene, aside=True)
        self._arrive(first)
        self._wait(Leg(rest, self.scene, second=True))
        self.go_on(self._leave([first]) | {leg.target})

    def drop(self, leg: Leg) -> None:
        """Let *leg* wait no longer."""
        del self.open[leg.name]
        self.waiting[leg.target].remove(leg)
        self.expected[leg.target] -= leg.need[0]
        for node in leg.sources:
            self.leaving[node].remove(leg)
        self.changed |= {leg.target, *leg.sources}

    def disturbed(self, leg: Leg, node: int) -> bool:
        """Return whether somebody is on *node* from whom *leg* must be apart."""
        return bool(leg.strangers) and not leg.strangers.isdisjoint(self.present[node])

    def welcome(self, leg: Leg) -> bool:
        """Return whether *leg* has a place once all have left who will.

        And all have come: where there is not room for all, nobody may rely on it.
        """
        home = passing = asked = NOTHING
        staying = set(self.present[leg.target])
        for other in self.leaving[leg.target]:
            for node, guest, freed in other.freed:
                if node == leg.target:
                    staying.discard(guest)
                    if other.second:
                        passing = plus(passing, freed)
                    else:
                        home = plus(home, freed)
        for other in self.waiting[leg.target]:
            asked = plus(asked, other.need)
        room = self.rooms.free(leg.target, home, passing)
        return fits(asked, room) and staying.isdisjoint(leg.strangers)

    def _start(self, leg: Leg) -> bool:
        """Make *leg* if that can be; return whether it was."""
        if not fits(leg.need, self.rooms.free(leg.target)):
            return False
        if self.disturbed(leg, leg.target):
            return False
        self.drop(leg)
        self._arrive(leg)
        return True

    def _arrive(self, leg: Leg) -> None:
        self.made.append(leg)
        self.rooms.come(leg.target, leg.need)
        self._admit(leg.target, leg.guests)
        self.changed.add(leg.target)

    def _leave(self, legs: Sequence[Leg]) -> set[int]:
        """Free what *legs* have left, and return where."""
        left = set()
        for leg in legs:
            for node, guest, freed in leg.freed:
                self.rooms.go(node, freed, home=not leg.second)
                self.present[node].discard(guest)
                left.add(node)
        self.changed |= left
        return left

    def _wait(self, leg: Leg) -> None:
        self.open[leg.name] = leg
        self.waiting[leg.target].append(leg)
        self.expected[leg.target] += leg.need[0]
        for node in leg.sources:
            self.leaving[node].append(leg)
        self.changed |= {leg.target, *leg.sources}

    def _present(self) -> defaultdict[int, set[GuestId]]:
        found: defaultdict[int, set[GuestId]] = defaultdict(set)
        guests = self.scene.snapshot.guests
        for name in self.scene.rules.apart:
            for node in guests[name].locations:
                found[self.scene.index[node]].add(name)
        return found

    def _admit(self, node: int, guests: Iterable[GuestId]) -> None:
        apart = self.scene.rules.apart
        self.present[node].update(name for name in guests if name in apart)
