"""Sequencing of moves into a plan that is safe in every interleaving.

A move can start when its target has enough memory, no anti-affine guest, and a place in
each failure domain with a limit. Moves that wait for each other in a cycle are resolved
by a detour: one guest waits on a staging node. If there is no staging node, the least
valuable move is dropped. Among moves that do not wait for each other, guests of a high
priority migrate last.

Source:
    Cycles: Hermenier et al., Entropy: a consolidation manager for clusters (2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from heapq import heappop, heappush
from itertools import islice
from random import Random

from opendrs.arrays import ClusterArrays
from opendrs.model import (
    GIB,
    NORMAL_PRIORITY,
    Action,
    GuestId,
    Limits,
    Migration,
    NodeId,
    Plan,
    Snapshot,
    Step,
    StepId,
    format_list,
)
from opendrs.planning.dependencies import add_dependencies
from opendrs.planning.moves import (
    DetourBudget,
    GroupMove,
    NodePowerAction,
    PendingMove,
)
from opendrs.planning.state import FreeMemory, SequencingState
from opendrs.planning.swap_space import DetourSelector
from opendrs.rules import CompiledRules, FeasibilityChecker

UNLIMITED_DETOURS = DetourBudget()
MAX_RANDOM_ORDERS = 20  # random orders that are tried if the others drop moves
MAX_ORDERED_MOVES = 5000  # total over all random orders; more take too long
MAX_SHORTAGES = 3  # dropped moves for which a note names what the target lacks


@dataclass(frozen=True, slots=True)
class SequencedPlan:
    """Result of the sequencing.

    Attributes:
        plan: Steps with their dependencies.
        ordered_moves: Moves in an order in which they are possible one after another. A
            move with a detour is included twice.
        detours: Moves of them that lead to a staging node.
        dropped: Moves that were not possible. Their guests stay on their node, or on
            the staging node.
        cluster: The cluster before the plan, for the notes; None for no details.
    """

    plan: Plan
    ordered_moves: tuple[GroupMove, ...]
    detours: tuple[GroupMove, ...]
    dropped: tuple[GroupMove, ...]
    cluster: ClusterArrays | None = field(default=None, compare=False, repr=False)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return the actions, in order."""
        return tuple(step.action for step in self.plan.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes about detours and dropped moves."""
        return (*self._detour_notes(), *self._dropped_notes())

    def _detour_notes(self) -> Iterable[str]:
        if self.detours:
            names = [guest.id for each in self.detours for guest in each.guests]
            size = sum(each.memory for each in self.detours) / GIB
            yield (
                "detours over a staging node, because of cyclic dependencies: "
                f"{format_list(names)} ({size:.1f} GiB of additional transfer)"
            )

    def _dropped_notes(self) -> Iterable[str]:
        waiting = {guest.id for each in self.detours for guest in each.guests}
        names = [guest.id for each in self.dropped for guest in each.guests]
        if unmoved := [name for name in names if name not in waiting]:
            yield (
                f"dropped, because there is no safe sequence: {format_list(unmoved)}"
                f"{''.join(self._shortages())}"
            )
        if staged := [name for name in names if name in waiting]:
            yield (
                "dropped after a detour, because there is no safe sequence: "
                f"{format_list(staged)} stay on the staging node"
            )

    def _shortages(self) -> Iterator[str]:
        """Yield what the targets of the first dropped moves lack after the plan."""
        cluster = self.cluster
        if cluster is None:
            return
        moved = (each for each in self.actions if isinstance(each, Migration))
        after = cluster.snapshot.apply(*moved)
        feasibility = FeasibilityChecker(after, cluster.rules, cluster.limits)
        for move in self.dropped[:MAX_SHORTAGES]:
            guests = [after.guests[each.id] for each in move.guests]
            displaced = [each for each in guests if each.node != move.target]
            detail = feasibility.rejection(displaced, move.target)
            if detail is not None:
                names = format_list([each.id for each in displaced], separator=" and ")
                yield f"; {names} to {move.target}, after the plan: {detail}"


def sequence_moves(
    moves: Sequence[GroupMove],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    detours: DetourBudget = UNLIMITED_DETOURS,
) -> SequencedPlan:
    """Return a plan of *moves* that is safe in every interleaving.

    Args:
        moves: The moves, in any order; no guest is in two of them. Moves that exceed
            the memory of their target or violate anti-affinity after all moves are
            dropped.
        snapshot: The cluster.
        rules: Its compiled rules.
        limits: Limits of the operator.
        detours: Limit of the additional transfers for detours (default unlimited).
    """
    return sequence_moves_in(ClusterArrays(snapshot, rules, limits), moves, detours)


def sequence_moves_in(
    cluster: ClusterArrays, moves: Sequence[GroupMove], detours: DetourBudget
) -> SequencedPlan:
    """Return the same for a cluster that is compiled, for several plans.

    Args:
        cluster: The cluster, without a load model: all of its nodes.
        moves: The moves, as for `sequence_moves`.
        detours: Limit of the additional transfers for detours.
    """
    pending = [
        PendingMove(each, cluster) for each in sorted(moves, key=lambda each: each.name)
    ]
    known = [move for move in pending if max(move.required) < math.inf]
    unknown = [move for move in pending if max(move.required) == math.inf]
    free_memory = FreeMemory(cluster)
    attempts = []
    for order in _orders(known):
        attempts.append(
            _SequencingAttempt(
                SequencingState(cluster, deepcopy(free_memory), order), detours
            )
        )
        if not attempts[-1].dropped:
            break
    best = min(attempts, key=_SequencingAttempt.cost)
    plan = add_dependencies(best.completed, free_memory, cluster.free_places)
    plan, completed = _by_priority(plan, best.completed, cluster.priorities)
    return SequencedPlan(
        plan=plan,
        ordered_moves=tuple(move.group_move for move in completed),
        detours=tuple(move.group_move for move in completed if move.is_detour),
        dropped=tuple(move.group_move for move in (*unknown, *best.dropped)),
        cluster=cluster,
    )


def _orders(moves: Sequence[PendingMove]) -> Iterator[Sequence[PendingMove]]:
    """Yield orders to try: the first one needs no dropped move in most cases.

    None of the others is always best. The fewer moves there are, the more orders are
    tried.
    """
    yield sorted(moves, key=lambda move: (move.required[0], move.name))
    yield sorted(moves, key=lambda move: (-move.required[0], move.name))
    yield sorted(moves, key=lambda move: (-move.group_move.value, move.name))
    for seed in range(min(MAX_RANDOM_ORDERS, MAX_ORDERED_MOVES // max(1, len(moves)))):
        random = Random(seed)  # noqa: S311 - not used for security
        yield random.sample(moves, len(moves))


class _SequencingAttempt:
    """Sequencing of moves that are tried in one order.

    Attributes:
        completed: Moves that were made, in this order.
        dropped: Moves that were dropped.
    """

    def __init__(self, state: SequencingState, detours: DetourBudget) -> None:
        self.completed = state.completed
        self.dropped: list[PendingMove] = []
        moves = state.pending.values()
        cheapest = iter(
            sorted(moves, key=lambda move: (move.group_move.value, move.name))
        )
        selector = DetourSelector(state, detours)
        state.advance({move.target for move in moves})
        while state.pending:
            if not selector.make_best_detour():
                name = next(
                    move.name for move in cheapest if move.name in state.pending
                )
                self.dropped.append(state.pending[name])
                state.drop(state.pending[name])

    def cost(self) -> tuple[float, int]:
        """Return the value of the dropped moves, and the bytes of detours."""
        return (
            math.fsum(move.group_move.value for move in self.dropped),
            sum(move.group_move.memory for move in self.completed if move.is_detour),
        )


def sequence_in_order(  # noqa: PLR0913 - moves, cluster, and power actions
    moves: Sequence[GroupMove],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    *,
    power_on: Iterable[NodePowerAction] = (),
    power_off: Iterable[NodePowerAction] = (),
) -> SequencedPlan:
    """Return a plan that makes *moves* in order and is safe in every interleaving.

    Args:
        moves: The moves, in order; no guest is in two of them. A move is dropped if its
            target has too little memory, or an anti-affine guest, after all moves
            before it.
        snapshot: The cluster; nodes to power on are online in it.
        rules: Its compiled rules.
        limits: Limits of the operator.
        power_on: Nodes to power on first; omitted if no move targets them.
        power_off: Nodes to power off after all guests have left; omitted if a dropped
            move leaves a guest on them. No move targets them, and their other guests
            are stopped.
    """
    cluster = ClusterArrays(snapshot, rules, limits)
    pending = [PendingMove(each, cluster) for each in moves]
    free_memory = FreeMemory(cluster)
    state = SequencingState(cluster, deepcopy(free_memory), pending)
    dropped = tuple(move.group_move for move in pending if not state.try_move(move))
    ordered_moves = tuple(move.group_move for move in state.completed)
    targets = {each.target for each in ordered_moves}
    occupied: set[NodeId] = {guest.node for each in dropped for guest in each.guests}
    plan = add_dependencies(
        state.completed,
        free_memory,
        cluster.free_places,
        power_on=[each for each in power_on if each.node in targets],
        power_off=[each for each in power_off if each.node not in occupied],
    )
    return SequencedPlan(plan, ordered_moves, (), dropped, cluster)


def one_after_the_other(sequenced: SequencedPlan) -> SequencedPlan:
    """Return *sequenced* with moves each of which waits for the one before it.

    Args:
        sequenced: Plan of `sequence_in_order` without power actions.
    """
    left = iter(sequenced.plan.steps)
    steps: list[Step] = []
    before: tuple[StepId, ...] = ()
    for move in sequenced.ordered_moves:
        together = [
            replace(step, depends_on=before) for step in islice(left, len(move.guests))
        ]
        steps += together
        before = tuple(step.id for step in together)
    return replace(sequenced, plan=Plan(tuple(steps)))


def sequence_path(cluster: ClusterArrays, moves: Sequence[GroupMove]) -> SequencedPlan:
    """Return a plan of *moves*, each of which is safe after those before it.

    Args:
        cluster: The cluster, without a load model: all of its nodes.
        moves: The moves, in order. A guest may move several times; all moves but its
            last one are detours.
    """
    last = {each.name: index for index, each in enumerate(moves)}
    seen: set[GuestId] = set()
    pending = []
    for index, move in enumerate(moves):
        is_detour = last[move.name] != index
        from_detour = move.name in seen
        pending.append(
            PendingMove(move, cluster, is_detour=is_detour, from_detour=from_detour)
        )
        seen.add(move.name)
    plan = add_dependencies(pending, FreeMemory(cluster), cluster.free_places)
    plan, pending = _by_priority(plan, pending, cluster.priorities)
    return SequencedPlan(
        plan=plan,
        ordered_moves=tuple(move.group_move for move in pending),
        detours=tuple(move.group_move for move in pending if move.is_detour),
        dropped=(),
        cluster=cluster,
    )


def _by_priority(
    plan: Plan, moves: list[PendingMove], priorities: Mapping[GuestId, float]
) -> tuple[Plan, list[PendingMove]]:
    """Return *plan* and *moves* with guests of a high priority as late as possible.

    The dependencies stay. Of moves that do not wait for each other, those of the lowest
    priority come first, and the others in the same order as before.

    Args:
        plan: The plan: a step for each guest of each move.
        moves: The moves in the order of the plan.
        priorities: Priorities of guests that are not normal.
    """
    weights = [
        max(priorities.get(guest, NORMAL_PRIORITY) for guest in move.guests)
        for move in moves
    ]
    if len(set(weights)) <= 1:
        return plan, moves
    steps = iter(plan.steps)
    steps_of = [[*islice(steps, len(move.guests))] for move in moves]
    move_of = {step.id: index for index, own in enumerate(steps_of) for step in own}
    waits_for = {
        index: {move_of[each] for step in own for each in step.depends_on}
        for index, own in enumerate(steps_of)
    }
    order = _lightest_first(waits_for, weights)
    sorted_steps = [step for index in order for step in steps_of[index]]
    position = {step.id: number for number, step in enumerate(sorted_steps, start=1)}
    renamed = tuple(
        replace(
            step,
            id=StepId(str(position[step.id])),
            depends_on=tuple(
                StepId(str(number))
                for number in sorted(position[each] for each in step.depends_on)
            ),
        )
        for step in sorted_steps
    )
    return Plan(renamed), [moves[index] for index in order]


def _lightest_first(
    waits_for: Mapping[int, set[int]], weights: Sequence[float]
) -> list[int]:
    """Return the topological order with the least weight first, then the least index.

    Args:
        waits_for: Indices that precede each index.
        weights: Weight of each index.
    """
    sorter = TopologicalSorter(waits_for)
    sorter.prepare()
    order: list[int] = []
    ready: list[tuple[float, int]] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heappush(ready, (weights[index], index))
        _, index = heappop(ready)
        order.append(index)
        sorter.done(index)
    return order
