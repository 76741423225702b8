"""Dependencies of steps, so that every interleaving is safe.

A step relies only on its own dependencies: any other step may be in progress at the
same time. It stays safe if other steps fail or are removed from the plan.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opendrs.arrays import Domain, ResourceAmounts
from opendrs.model import (
    Action,
    GuestId,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Relocation,
    Step,
    StepId,
)
from opendrs.planning.moves import (
    NO_AMOUNTS,
    NodePowerAction,
    PendingMove,
    fits,
    minimum,
    plus,
)
from opendrs.planning.state import FreeMemory
from opendrs.rules import NO_GUESTS, CompiledRules


def add_dependencies(
    moves: Iterable[PendingMove],
    free_memory: FreeMemory,
    free_places: Mapping[Domain, int],
    *,
    power_on: Iterable[NodePowerAction] = (),
    power_off: Iterable[NodePowerAction] = (),
) -> Plan:
    """Return *moves* as a plan in which every interleaving is safe.

    The dependencies of a step are minimal: without any one of them, some step is not
    safe. They are the departures that free enough memory on its target, the earliest
    first, the departures of anti-affine guests, the earliest departures that free
    enough places in a failure domain with a limit, and earlier arrivals that do not fit
    on the target together with it.

    Args:
        moves: Moves in an order in which they are possible one after another.
        free_memory: Free memory of the nodes before the plan; it is modified.
        free_places: Further guests that each domain with a limit may hold before it.
        power_on: Nodes to power on first; moves to them depend on it.
        power_off: Nodes to power off after all guests have left; no move targets them.
    """
    builder = _PlanBuilder(free_memory, free_places)
    for power_action in power_on:
        builder.power_on(power_action)
    for move in moves:
        builder.add(move)
    for power_action in power_off:
        builder.power_off(power_action)
    return Plan(tuple(builder.steps))


def with_relocations(
    plan: Plan, relocations: Iterable[tuple[Relocation, str]], rules: CompiledRules
) -> Plan:
    """Return *plan* with relocations of stopped guests after its steps.

    A stopped guest uses no memory, so that it waits for no departure. It waits for the
    guests of its strict affinity that come from other nodes: beside them it can start.
    Those from its own node start together with it.

    Args:
        plan: Steps of the running guests.
        relocations: The relocations, each with why.
        rules: Compiled rules of the cluster.
    """
    steps = list(plan.steps)
    for index, (relocation, detail) in enumerate(relocations, start=1):
        together = rules.together.get(relocation.guest, NO_GUESTS)
        awaited = tuple(
            step.id
            for step in plan.steps
            if not isinstance(step.action, PowerOn | PowerOff)
            and step.action.guest in together
            and step.action.source != relocation.source
        )
        steps.append(Step(StepId(f"r{index}"), relocation, awaited, detail))
    return Plan(tuple(steps))


@dataclass(frozen=True, slots=True)
class _Departure:
    """Departure of a guest from a node.

    Attributes:
        step: Index of its step.
        guest: The guest.
        freed: Memory that it frees.
        initial: Whether the guest was on the node before the plan.
    """

    step: int
    guest: GuestId
    freed: ResourceAmounts
    initial: bool


@dataclass(slots=True)
class _Arrival:
    """Arrival of a guest on a node.

    Attributes:
        step: Index of its step.
        limit: Most memory that may arrive on the node, in total with earlier arrivals
            and with this one, while this step is in progress.
    """

    step: int
    limit: ResourceAmounts


@dataclass(slots=True)
class _NodeQueue:
    """Power-on, arrivals and departures of a node.

    Attributes:
        power_on_steps: Indices of the steps that power it on.
        arrivals: Arrivals so far.
        departures: Departures so far.
        arriving: Memory of all arrivals.
        limit: Smallest limit of the arrivals.
    """

    power_on_steps: list[int] = field(default_factory=list)
    arrivals: list[_Arrival] = field(default_factory=list)
    departures: list[_Departure] = field(default_factory=list)
    arriving: ResourceAmounts = NO_AMOUNTS
    limit: ResourceAmounts = (math.inf, math.inf, math.inf)


class _PlanBuilder:
    """Plan under construction.

    Attributes:
        steps: Steps so far.
    """

    def __init__(
        self, free_memory: FreeMemory, free_places: Mapping[Domain, int]
    ) -> None:
        self.steps: list[Step] = []
        self._free_memory = free_memory
        self._free_places = dict(free_places)  # without those that departures free
        self._left: defaultdict[Domain, list[int]] = defaultdict(list)  # steps
        self._queues: defaultdict[NodeId, _NodeQueue] = defaultdict(_NodeQueue)
        self._transitive: list[int] = []  # per step: bit set of its dependencies
        self._end: list[float] = []  # per step: bytes transferred until its end
        self._last: dict[GuestId, int] = {}

    def power_on(self, power_action: NodePowerAction) -> None:
        """Add the step that powers on a node."""
        step = self._append(PowerOn(power_action.node), (), power_action.detail)
        self._queues[power_action.node].power_on_steps.append(step)

    def power_off(self, power_action: NodePowerAction) -> None:
        """Add the step that powers off a node."""
        departed = (each.step for each in self._queues[power_action.node].departures)
        self._append(
            PowerOff(power_action.node), self._reduce(departed), power_action.detail
        )

    def add(self, move: PendingMove) -> None:
        """Add the steps of *move*."""
        queue = self._queues[move.group_move.target]
        self._free_memory.reserve(move.target, move.required)
        required = [*self._required_steps(move, queue)]
        required += self._freed_places(move, required)
        depends_on = self._reduce(
            (*required, *self._earliest_departures(move, queue, required))
        )
        transitive = self._closure(depends_on)
        queue.arriving = plus(queue.arriving, move.required)
        if transitive:
            for each in queue.arrivals:
                if transitive >> each.step & 1:
                    each.limit = plus(each.limit, move.required)
        limit = plus(queue.arriving, self._surplus(move, queue, transitive))
        queue.limit = minimum(queue.limit, limit)
        for migration, (_, guest, freed) in zip(
            move.group_move.migrations, move.freed, strict=True
        ):
            step = self._append(
                migration, depends_on, move.group_move.detail, size=freed[0]
            )
            self._last[guest] = step
            queue.arrivals.append(_Arrival(step, limit))
            departure = _Departure(step, guest, freed, initial=not move.from_detour)
            self._queues[migration.source].departures.append(departure)
            for domain, left in move.in_domains.departures.items():
                if guest in left:
                    self._left[domain].append(step)

    def _required_steps(self, move: PendingMove, queue: _NodeQueue) -> Iterator[int]:
        """Yield the dependencies of *move* that are not for free memory."""
        yield from queue.power_on_steps
        for guest in move.guests:
            if guest in self._last:
                yield self._last[guest]
        for departure in queue.departures:
            if departure.guest in move.anti_affine:
                yield departure.step
        together = plus(queue.arriving, move.required)
        if not fits(together, queue.limit):
            for arrival in queue.arrivals:
                if not fits(together, arrival.limit):
                    yield arrival.step

    def _freed_places(self, move: PendingMove, required: Sequence[int]) -> list[int]:
        """Return the departures that free places for *move*, besides *required*.

        All arrivals so far may be in progress or done, so each of them has a place.
        """
        chosen: list[int] = []
        for domain, count in move.in_domains.arrivals.items():
            self._free_places[domain] -= count
            missing = -self._free_places[domain]
            done = self._closure((*required, *chosen))
            left = sorted((self._end[step], step) for step in self._left[domain])
            missing -= sum(done >> step & 1 for _, step in left)
            for _, step in left:
                if missing > 0 and not done >> step & 1:
                    chosen.append(step)
                    before, done = done, done | self._closure([step])
                    missing -= sum((done & ~before) >> each & 1 for _, each in left)
        return chosen

    def _earliest_departures(
        self, move: PendingMove, queue: _NodeQueue, required: Sequence[int]
    ) -> list[int]:
        """Return the departures that must precede *move*, besides *required*."""
        chosen: list[int] = []
        done = self._closure(required)
        if self._has_memory(move, queue, done):
            return chosen
        departures = sorted(
            (self._end[each.step], each.step) for each in queue.departures
        )
        for _, step in departures:
            if not done >> step & 1:
                chosen.append(step)
                done |= self._closure([step])
                if self._has_memory(move, queue, done):
                    break
        for step in chosen[-2::-1]:
            remaining = [each for each in chosen if each != step]
            if self._has_memory(move, queue, self._closure((*required, *remaining))):
                chosen = remaining
        return chosen

    def _has_memory(self, move: PendingMove, queue: _NodeQueue, done: int) -> bool:
        """Return whether *move* and all before it fit once *done* have ended."""
        return min(self._surplus(move, queue, done)) >= 0

    def _surplus(
        self, move: PendingMove, queue: _NodeQueue, done: int
    ) -> ResourceAmounts:
        """Return the memory left after all arrivals and the departures in *done*."""
        initial = arrived = NO_AMOUNTS
        for each in queue.departures:
            if done >> each.step & 1:
                if each.initial:
                    initial = plus(initial, each.freed)
                else:
                    arrived = plus(arrived, each.freed)
        return self._free_memory.free(move.target, initial, arrived)

    def _append(
        self,
        action: Action,
        depends_on: tuple[int, ...],
        detail: str,
        *,
        size: float = 0.0,
    ) -> int:
        """Add a step that transfers *size* bytes, and return its index."""
        step = len(self.steps)
        names = tuple(_step_id(each) for each in depends_on)
        self.steps.append(Step(_step_id(step), action, names, detail))
        self._transitive.append(self._closure(depends_on))
        start = max((self._end[each] for each in depends_on), default=0.0)
        self._end.append(start + size)
        return step

    def _closure(self, steps: Iterable[int]) -> int:
        """Return *steps* and all their transitive dependencies, as a bit set."""
        closure = 0
        for each in steps:
            closure |= self._transitive[each] | 1 << each
        return closure

    def _reduce(self, steps: Iterable[int]) -> tuple[int, ...]:
        """Return *steps* without those that others of them depend on, in order."""
        distinct = sorted(set(steps))
        transitive = 0
        for each in distinct:
            transitive |= self._transitive[each]
        return tuple(each for each in distinct if not transitive >> each & 1)


def _step_id(step: int) -> StepId:
    return StepId(str(step + 1))
