"""Sequencing of moves into a plan that is safe in every interleaving.

A move can start when its target has enough memory and no anti-affine guest. Moves
that wait for each other in a cycle are resolved by a detour: one guest waits on a
staging node. If there is no staging node, the least valuable move is dropped.

Source:
The cycles: Hermenier et al., Entropy: a consolidation manager for clusters (2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from opendrs.model import GIB, Action, Limits, NodeId, Plan, Snapshot, format_list
from opendrs.planning.dependencies import add_dependencies
from opendrs.planning.moves import (
    DetourBudget,
    GroupMove,
    NodePowerAction,
    PendingMove,
    SequencingProblem,
)
from opendrs.planning.state import FreeMemory, SequencingState
from opendrs.planning.swap_space import DetourSelector
from opendrs.rules import CompiledRules

UNLIMITED_DETOURS = DetourBudget()
MAX_RANDOM_ORDERS = 20  # orders that are drawn where the others give something up
MAX_ORDERED_MOVES = 5000  # in all of them; more take too long


@dataclass(frozen=True, slots=True)
class SequencedPlan:
    """A way through.

    Attributes:
        plan: The steps, and what each must wait for.
        ordered_moves: The journeys in an order in which they can be made one by one. Who makes
            a detour is in it twice.
        detours: Those of them that lead to a node where guests only wait.
        dropped: Those that could not be made. Their guests stay where they are, or
            on the node where they wait.
    """

    plan: Plan
    ordered_moves: tuple[GroupMove, ...]
    detours: tuple[GroupMove, ...]
    dropped: tuple[GroupMove, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return what is done, in order."""
        return tuple(step.action for step in self.plan.steps)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what goes astray and what was given up, in words."""
        return (*self._detour_notes(), *self._dropped_notes())

    def _detour_notes(self) -> Iterable[str]:
        if self.detours:
            names = [guest.id for each in self.detours for guest in each.guests]
            size = sum(each.memory for each in self.detours) / GIB
            yield (
                f"by way of a third node, because they wait for one another: "
                f"{format_list(names)} ({size:.1f} GiB besides)"
            )

    def _dropped_notes(self) -> Iterable[str]:
        waiting = {guest.id for each in self.detours for guest in each.guests}
        names = [guest.id for each in self.dropped for guest in each.guests]
        if unmoved := [name for name in names if name not in waiting]:
            yield (
                f"given up, because there is no safe way: {format_list(unmoved)} "
                "stay where they are"
            )
        if staged := [name for name in names if name in waiting]:
            yield (
                f"given up halfway, because there is no safe way on: "
                f"{format_list(staged)} stay on the node where they wait"
            )


def sequence_moves(
    moves: Sequence[GroupMove],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    detours: DetourBudget = UNLIMITED_DETOURS,
) -> SequencedPlan:
    """Return a way to make *moves* that is safe in every interleaving.

    Args:
        moves: The moves, in any order; no guest is in two of them. Of those for
            which there is no room or that must be apart once all are made, some are
            given up.
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        detours: What may be transferred besides, for detours.
    """
    problem = SequencingProblem(snapshot, rules, limits)
    pending = [
        PendingMove(each, problem) for each in sorted(moves, key=lambda each: each.name)
    ]
    known = [move for move in pending if max(move.required) < math.inf]
    unknown = [move for move in pending if max(move.required) == math.inf]
    free_memory = FreeMemory(problem)
    attempts = []
    for order in _orders(known):
        attempts.append(
            _SequencingAttempt(
                SequencingState(problem, deepcopy(free_memory), order), detours
            )
        )
        if not attempts[-1].dropped:
            break
    best = min(attempts, key=_SequencingAttempt.cost)
    return SequencedPlan(
        plan=add_dependencies(best.completed, free_memory),
        ordered_moves=tuple(move.group_move for move in best.completed),
        detours=tuple(move.group_move for move in best.completed if move.is_detour),
        dropped=tuple(move.group_move for move in (*unknown, *best.dropped)),
    )


def _orders(moves: Sequence[PendingMove]) -> Iterator[Sequence[PendingMove]]:
    """Yield orders in which to try: the first finds a way for all in most cases.

    Of the others, now one and now another is best. The fewer there are to order, the
    more orders are tried.
    """
    yield sorted(moves, key=lambda move: (move.required[0], move.name))
    yield sorted(moves, key=lambda move: (-move.required[0], move.name))
    yield sorted(moves, key=lambda move: (-move.group_move.value, move.name))
    for seed in range(min(MAX_RANDOM_ORDERS, MAX_ORDERED_MOVES // max(1, len(moves)))):
        random = Random(seed)  # noqa: S311 - an order, not a secret
        yield random.sample(moves, len(moves))


class _SequencingAttempt:
    """One way through, all steps one after another.

    Attributes:
        completed: What was made, in this order.
        dropped: What was not.
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
        """Return what is lost, and the bytes that go astray."""
        return (
            math.fsum(move.group_move.value for move in self.dropped),
            sum(move.group_move.memory for move in self.completed if move.is_detour),
        )


def sequence_in_order(  # noqa: PLR0913 - journeys, the cluster they are for, and its nodes
    moves: Sequence[GroupMove],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    *,
    power_on: Iterable[NodePowerAction] = (),
    power_off: Iterable[NodePowerAction] = (),
) -> SequencedPlan:
    """Return a way to make *moves* one after another, as safe in any other order.

    Args:
        moves: The moves in their order; no guest is in two of them. One for which
            there is no room on its target once all before it are made, or that finds
            somebody there from whom it must be apart, is given up.
        snapshot: The cluster, in which nodes to wake stand as if they were.
        rules: Its rules.
        limits: What the operator allows.
        power_on: Nodes that are woken first, if anybody comes there.
        power_off: Nodes that are put to sleep once all have left, unless somebody was to
            leave and stays. Nobody comes there, and who is not on a journey does not
            run.
    """
    problem = SequencingProblem(snapshot, rules, limits)
    pending = [PendingMove(each, problem) for each in moves]
    free_memory = FreeMemory(problem)
    state = SequencingState(problem, deepcopy(free_memory), pending)
    dropped = tuple(move.group_move for move in pending if not state.try_move(move))
    ordered_moves = tuple(move.group_move for move in state.completed)
    targets = {each.target for each in ordered_moves}
    occupied: set[NodeId] = {guest.node for each in dropped for guest in each.guests}
    plan = add_dependencies(
        state.completed,
        free_memory,
        power_on=[each for each in power_on if each.node in targets],
        power_off=[each for each in power_off if each.node not in occupied],
    )
    return SequencedPlan(
        plan=plan, ordered_moves=ordered_moves, detours=(), dropped=dropped
    )
