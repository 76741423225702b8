"""What each step must wait for, so that every interleaving is safe.

A step relies on nothing but what it waits for: all else may be under way with it,
whatever that waits for itself. So what makes a step safe can be read off its own
waits, and it stays safe when steps elsewhere fail or are taken out of the plan.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from opendrs.model import Action, GuestId, NodeId, Plan, PowerOff, PowerOn, Step, StepId
from opendrs.policies.passage.journey import Switch
from opendrs.policies.passage.rooms import Rooms
from opendrs.policies.passage.scene import NOTHING, Leg, Pair, fits, least, plus


def interleaved(
    legs: Iterable[Leg],
    rooms: Rooms,
    *,
    wake: Iterable[Switch] = (),
    sleep: Iterable[Switch] = (),
) -> Plan:
    """Return *legs* as a plan in which every interleaving is safe.

    A step waits only where it must. Where there is not room on the target until
    somebody has left, it waits for those who leave soonest, and for no more of them
    than it needs. It waits for those who came before and could not be there together
    with it; and for those who leave from whom it must be apart. No step waits for
    what it could do without: take out a wait, and some step is not safe any more.

    Args:
        legs: In an order in which they can be made one by one.
        rooms: The room of the nodes in the beginning, which will be taken.
        wake: Nodes that are woken first: all who come there wait for that.
        sleep: Nodes that are put to sleep once all have left; nobody comes there.
    """
    waits = _Waits(rooms)
    for switch in wake:
        waits.wake(switch)
    for leg in legs:
        waits.add(leg)
    for switch in sleep:
        waits.put_to_sleep(switch)
    return Plan(tuple(waits.steps))


@dataclass(frozen=True, slots=True)
class _Departure:
    """Who leaves a node, with which step, and what that frees."""

    step: int
    guest: GuestId
    freed: Pair
    home: bool


@dataclass(slots=True)
class _Arrival:
    """Who comes to a node.

    Attributes:
        step: With which step.
        most: What may come to the node while that is under way: in all, with what has
            come before, and with what it takes itself.
    """

    step: int
    most: Pair


@dataclass(slots=True)
class _Gate:
    """What wakes a node, all who come there, and all who leave it.

    Attributes:
        wakes: The step that wakes it.
        arrivals: Who comes.
        departures: Who leaves.
        come: What all arrivals take.
        most: The least of what any of them allows.
    """

    wakes: list[int] = field(default_factory=list)
    arrivals: list[_Arrival] = field(default_factory=list)
    departures: list[_Departure] = field(default_factory=list)
    come: Pair = NOTHING
    most: Pair = (math.inf, math.inf)


class _Waits:
    """The plan so far.

    Attributes:
        steps: The steps.
    """

    def __init__(self, rooms: Rooms) -> None:
        self.steps: list[Step] = []
        self._rooms = rooms
        self._gates: defaultdict[NodeId, _Gate] = defaultdict(_Gate)
        self._implied: list[int] = []  # of each step: a bit for each it waits for
        self._end: list[float] = []  # of each step: bytes transferred until then
        self._last: dict[GuestId, int] = {}

    def wake(self, switch: Switch) -> None:
        """Add the step that wakes a node."""
        step = self._append(PowerOn(switch.node), (), switch.why)
        self._gates[switch.node].wakes.append(step)

    def put_to_sleep(self, switch: Switch) -> None:
        """Add the step that puts a node to sleep."""
        left = (each.step for each in self._gates[switch.node].departures)
        self._append(PowerOff(switch.node), self._reduced(left), switch.why)

    def add(self, leg: Leg) -> None:
        """Add the steps of *leg*."""
        gate = self._gates[leg.journey.target]
        self._rooms.come(leg.target, leg.need)
        needed = [*self._before(leg, gate)]
        after = self._reduced((*needed, *self._soonest(leg, gate, needed)))
        implied = self._closure(after)
        gate.come = plus(gate.come, leg.need)
        if implied:
            for each in gate.arrivals:
                if implied >> each.step & 1:
                    each.most = plus(each.most, leg.need)
        most = plus(gate.come, self._spare(leg, gate, implied))
        gate.most = least(gate.most, most)
        for move, (_, guest, freed) in zip(leg.journey.moves, leg.freed, strict=True):
            step = self._append(move, after, leg.journey.why, size=freed[0])
            self._last[guest] = step
            gate.arrivals.append(_Arrival(step, most))
            leaving = _Departure(step, guest, freed, home=not leg.second)
            self._gates[move.source].departures.append(leaving)

    def _before(self, leg: Leg, gate: _Gate) -> Iterator[int]:
        """Yield what must be done before *leg*, whatever room there is."""
        yield from gate.wakes
        for guest in leg.guests:
            if guest in self._last:
                yield self._last[guest]
        for leaving in gate.departures:
            if leaving.guest in leg.strangers:
                yield leaving.step
        together = plus(gate.come, leg.need)
        if not fits(together, gate.most):
            for coming in gate.arrivals:
                if not fits(together, coming.most):
                    yield coming.step

    def _soonest(self, leg: Leg, gate: _Gate, needed: Sequence[int]) -> list[int]:
        """Return who must have left to make room, besides what is *needed*."""
        chosen: list[int] = []
        done = self._closure(needed)
        if self._suffices(leg, gate, done):
            return chosen
        leaving = sorted((self._end[each.step], each.step) for each in gate.departures)
        for _, step in leaving:
            if not done >> step & 1:
                chosen.append(step)
                done |= self._closure([step])
                if self._suffices(leg, gate, done):
                    break
        for step in chosen[-2::-1]:
            fewer = [each for each in chosen if each != step]
            if self._suffices(leg, gate, self._closure((*needed, *fewer))):
                chosen = fewer
        return chosen

    def _suffices(self, leg: Leg, gate: _Gate, done: int) -> bool:
        """Return whether there is room for *leg* and all before it once *done*."""
        return fits(NOTHING, self._spare(leg, gate, done))

    def _spare(self, leg: Leg, gate: _Gate, done: int) -> Pair:
        """Return the room left when all have come, and those of *done* have left."""
        home = passing = NOTHING
        for each in gate.departures:
            if done >> each.step & 1:
                if each.home:
                    home = plus(home, each.freed)
                else:
                    passing = plus(passing, each.freed)
        return self._rooms.free(leg.target, home, passing)

    def _append(
        self, action: Action, after: tuple[int, ...], why: str, *, size: float = 0.0
    ) -> int:
        """Add a step that transfers *size* bytes, and return which it is."""
        step = len(self.steps)
        names = tuple(_name(each) for each in after)
        self.steps.append(Step(_name(step), action, names, why))
        self._implied.append(self._closure(after))
        begin = max((self._end[each] for each in after), default=0.0)
        self._end.append(begin + size)
        return step

    def _closure(self, steps: Iterable[int]) -> int:
        """Return *steps* and all that they wait for, as bits."""
        closure = 0
        for each in steps:
            closure |= self._implied[each] | 1 << each
        return closure

    def _reduced(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return those of *steps* for which none of the others waits, in order."""
        distinct = sorted(set(steps))
        implied = 0
        for each in distinct:
            implied |= self._implied[each]
        return tuple(each for each in distinct if not implied >> each & 1)


def _name(step: int) -> StepId:
    return StepId(str(step + 1))
