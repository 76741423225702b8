"""The states a plan may pass through, the plain way, and what is wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from opendrs.model import (
    Affinity,
    GuestId,
    Limits,
    Migration,
    NodeId,
    Plan,
    Relocation,
    Snapshot,
    Step,
)
from oracles.placement import Break, breaks, placement

NOT_STARTED, UNDER_WAY, DONE = range(3)
FEW = 6  # up to so many units every state is looked at, and else a sample

State = tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """Steps that are started together."""

    steps: tuple[Step, ...]
    waits: frozenset[int]


def faults(snapshot: Snapshot, plan: Plan, limits: Limits) -> list[str]:
    """Return what is wrong in some state that *plan* may pass through."""
    found: list[str] = []
    parts = units(snapshot, plan)
    before = breaks(snapshot, placement(snapshot))
    for state in states(parts):
        found += _broken(snapshot, parts, state, before)
        found += _overfilled(snapshot, parts, state, limits)
    return found


def units(snapshot: Snapshot, plan: Plan) -> list[Unit]:
    """Return the steps of *plan*, those of guests kept together as one."""
    groups: list[list[Step]] = []
    for step in plan.steps:
        friends = [g for g in groups if any(_bound(snapshot, step, s) for s in g)]
        others = [g for g in groups if g not in friends]
        groups = [*others, [*(s for g in friends for s in g), step]]
    groups.sort(key=lambda group: plan.steps.index(group[0]))
    position = {step.id: i for i, group in enumerate(groups) for step in group}
    return [
        Unit(
            tuple(group),
            frozenset(position[name] for step in group for name in step.after),
        )
        for group in groups
    ]


def states(parts: Sequence[Unit]) -> Iterator[State]:
    """Yield the states in which nothing has started before what it waits for."""
    if len(parts) <= FEW:
        for state in product(range(3), repeat=len(parts)):
            if _reachable(parts, state):
                yield state
        return
    random = Random(len(parts))  # noqa: S311 - a sample, not a secret
    for _ in range(30):
        yield from _passage(parts, random)


def _passage(parts: Sequence[Unit], random: Random) -> Iterator[State]:
    """Yield the states of one way through: much is started before it ends."""
    state = [NOT_STARTED] * len(parts)
    while set(state) != {DONE}:
        starts = [
            i
            for i, part in enumerate(parts)
            if state[i] == NOT_STARTED and all(state[j] == DONE for j in part.waits)
        ]
        ends = [i for i, stage in enumerate(state) if stage == UNDER_WAY]
        eager = bool(starts) and (not ends or random.randrange(5) > 0)
        state[random.choice(starts if eager else ends)] += 1
        yield tuple(state)


def _reachable(parts: Sequence[Unit], state: State) -> bool:
    return all(
        state[i] == NOT_STARTED or all(state[j] == DONE for j in part.waits)
        for i, part in enumerate(parts)
    )


def _bound(snapshot: Snapshot, one: Step, other: Step) -> bool:
    """Return whether the guests are kept together, and go the same way."""
    pair = {move(one).guest, move(other).guest}
    ways = {(move(step).source, move(step).target) for step in (one, other)}
    return len(ways) == 1 and any(
        isinstance(rule, Affinity) and rule.strict and pair <= rule.guests
        for rule in snapshot.rules
    )


def move(step: Step) -> Migration | Relocation:
    assert isinstance(step.action, Migration | Relocation)
    return step.action


def _broken(
    snapshot: Snapshot, parts: Sequence[Unit], state: State, before: set[Break]
) -> list[str]:
    places: dict[GuestId, frozenset[NodeId]] = dict(placement(snapshot))
    for part, stage in zip(parts, state, strict=True):
        for step in part.steps:
            action = move(step)
            if stage == UNDER_WAY:
                places[action.guest] = frozenset({action.source, action.target})
            elif stage == DONE:
                places[action.guest] = frozenset({action.target})
    return [
        f"{sorted(guests)} break rule {position} in {state}"
        for position, guests in breaks(snapshot, places) - before
    ]


def _overfilled(
    snapshot: Snapshot, parts: Sequence[Unit], state: State, limits: Limits
) -> list[str]:
    """Return the nodes that have taken in more than they may hold.

    A guest under way counts on both nodes; what leaves frees no more than was
    measured on the node. Who leaves for the second time had arrived there before.
    """
    books = _Books(snapshot)
    stages = [
        (step, stage)
        for part, stage in zip(parts, state, strict=True)
        for step in part.steps
    ]
    done = [step for step, stage in stages if stage == DONE]
    at_home = {step.id for step in done if books.is_at_home(step)}
    for step in done:
        if step.id in at_home:
            books.leave(step)
    for step, stage in stages:
        if stage != NOT_STARTED:
            books.arrive(step)
    for step in done:
        if step.id not in at_home:
            books.leave(step)
    return [f"{name} is overfilled in {state}" for name in books.overfilled(limits)]


class _Books:
    """What is used and promised on each node, and who has taken anybody in."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._used = {name: node.usage.memory for name, node in snapshot.nodes.items()}
        self._promised = dict.fromkeys(snapshot.nodes, 0)
        for guest in snapshot.guests.values():
            for name in guest.locations:
                self._promised[name] += _promise(snapshot, guest.id)
        self._receiving: set[NodeId] = set()

    def is_at_home(self, step: Step) -> bool:
        return move(step).source == self._snapshot.guests[move(step).guest].node

    def leave(self, step: Step) -> None:
        source, guest = move(step).source, self._snapshot.guests[move(step).guest]
        left = (self._used[source] or 0) - (guest.usage.memory or 0)
        self._used[source] = max(0, left)
        self._promised[source] -= _promise(self._snapshot, guest.id)

    def arrive(self, step: Step) -> None:
        target, guest = move(step).target, self._snapshot.guests[move(step).guest]
        self._receiving.add(target)
        assert self._used[target] is not None
        assert guest.usage.memory is not None
        self._used[target] = (self._used[target] or 0) + guest.usage.memory
        self._promised[target] += _promise(self._snapshot, guest.id)

    def overfilled(self, limits: Limits) -> Iterator[NodeId]:
        for name in self._receiving:
            capacity = self._snapshot.nodes[name].capacity
            if (
                capacity is None
                or (self._used[name] or 0)
                > capacity.memory * (1 - limits.memory_headroom)
                or self._promised[name] > capacity.memory * limits.memory_overbooking
            ):
                yield name


def _promise(snapshot: Snapshot, name: GuestId) -> int:
    guest = snapshot.guests[name]
    if guest.limit is not None and guest.limit.memory > 0:
        return guest.limit.memory
    return guest.usage.memory or 0
