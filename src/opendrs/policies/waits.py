"""What each step must wait for, so that every interleaving is safe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from opendrs.model import GuestId, Limits, NodeId, Plan, Snapshot, Step, StepId
from opendrs.policies.passage import Journey, Rooms
from opendrs.rules import NOBODY, CompiledRules, Room, need


def interleaved(
    journeys: Iterable[Journey],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
) -> Plan:
    """Return *journeys* as a plan in which every interleaving is safe.

    A step waits only where it must, and for no more than it needs. Where there is not
    room on the target until somebody has left, or somebody is there from whom the
    guest must be apart, it waits for those who leave; and for those who arrived with
    less room to spare, so that no step counts on what it does not wait for.

    Args:
        journeys: In an order in which they can be made one by one. A guest may go
            twice.
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
    """
    waits = _Waits(snapshot, rules, limits)
    for journey in journeys:
        waits.add(journey)
    return Plan(tuple(waits.steps))


@dataclass(frozen=True, slots=True)
class _Departure:
    """Somebody who leaves a node, and what that frees."""

    step: int
    guest: GuestId
    freed: Room


@dataclass(slots=True)
class _Gate:
    """Where guests arrive on one node.

    Attributes:
        waits: The steps that all arrivals from now on wait for.
        arrived: The steps that came since this was last more.
        leaving: Who leaves, and is not waited for.
    """

    waits: tuple[int, ...] = ()
    arrived: list[int] = field(default_factory=list)
    leaving: list[_Departure] = field(default_factory=list)


class _Waits:
    """The plan so far.

    Attributes:
        steps: The steps.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self.steps: list[Step] = []
        self._rules = rules
        self._rooms = Rooms(snapshot, rules, limits)
        self._gates: defaultdict[NodeId, _Gate] = defaultdict(_Gate)
        self._ancestors: list[int] = []  # of each step, a bit for each it waits for
        self._depth: list[int] = []
        self._last: dict[GuestId, int] = {}

    def add(self, journey: Journey) -> None:
        """Add the steps of *journey*."""
        gate, asked = self._gates[journey.target], need(journey.guests)
        disturbing = self._disturbing(journey, gate)
        if not self._rooms.suffices(journey.target, asked):
            self._wait_for_room(journey, gate, disturbing)
        self._rooms.come(journey.target, asked)
        left = (each.step for each in disturbing)
        hops = (self._last[g.id] for g in journey.guests if g.id in self._last)
        after = self._reduced((*gate.waits, *left, *hops))
        names = tuple(_name(each) for each in after)
        for guest, move in zip(journey.guests, journey.moves, strict=True):
            step = self._step(after)
            self.steps.append(Step(_name(step), move, names, journey.why))
            gate.arrived.append(step)
            self._last[guest.id] = step
            departure = _Departure(step, guest.id, need([guest]))
            self._gates[guest.node].leaving.append(departure)

    def _disturbing(self, journey: Journey, gate: _Gate) -> list[_Departure]:
        """Return who leaves from whom the guests of *journey* must be apart."""
        strangers = NOBODY.union(
            *(self._rules.apart.get(guest.id, NOBODY) for guest in journey.guests)
        )
        return [each for each in gate.leaving if each.guest in strangers]

    def _wait_for_room(
        self, journey: Journey, gate: _Gate, disturbing: Sequence[_Departure]
    ) -> None:
        """Let all that arrive from now on wait for room, and for who has come."""
        awaited = [*disturbing]
        for each in self._soonest(gate, awaited):
            if self._rooms.suffices(
                journey.target, need(journey.guests), _sum(awaited)
            ):
                break
            awaited.append(each)
        left = (each.step for each in awaited)
        gate.waits = self._reduced((*gate.waits, *left, *gate.arrived))
        gate.arrived = []
        gate.leaving = [each for each in gate.leaving if each not in awaited]
        for each in awaited:
            self._rooms.go(journey.target, each.freed)

    def _soonest(
        self, gate: _Gate, chosen: Sequence[_Departure]
    ) -> Iterator[_Departure]:
        """Yield who else leaves: first who waits least, and then who frees most."""
        yield from sorted(
            (each for each in gate.leaving if each not in chosen),
            key=lambda each: (self._depth[each.step], -(each.freed.used or 0.0)),
        )

    def _step(self, after: Iterable[int]) -> int:
        step = len(self._ancestors)
        ancestors, depth = 0, 0
        for earlier in after:
            ancestors |= self._ancestors[earlier] | 1 << earlier
            depth = max(depth, self._depth[earlier] + 1)
        self._ancestors.append(ancestors)
        self._depth.append(depth)
        return step

    def _reduced(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return those of *steps* for which none of the others waits, in order."""
        distinct = sorted(set(steps))
        implied = 0
        for each in distinct:
            implied |= self._ancestors[each]
        return tuple(each for each in distinct if not implied >> each & 1)


def _name(step: int) -> StepId:
    return StepId(str(step + 1))


def _sum(departures: Iterable[_Departure]) -> Room:
    used = sum(each.freed.used or 0.0 for each in departures)
    promised = sum(each.freed.promised or 0.0 for each in departures)
    return Room(used, promised)
