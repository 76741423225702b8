"""From a snapshot to the decision about it, some iterations at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.model import GIB, GuestId, Snapshot
from opendrs.optimizer import Indices, SearchKind, imbalance_distance, loss_of_return
from opendrs.planning import (
    DetourBudget,
    GroupMove,
    SequencedPlan,
    estimate_schedule,
    sequence_moves,
)
from opendrs.policies.base import Decision, DecisionReason
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.explanations import (
    MAX_COMPARED,
    MoveExplanations,
    unresolved_notes,
)
from opendrs.policies.optimize.metrics import (
    ClusterMetrics,
    describe_change,
    first_improved_goal,
)
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.plan_search import PlanSearch, SearchTask

MAX_REPLANS = 3  # times a plan is made anew without who cannot travel
REPLAN_ITERATIONS = 100  # moves looked at for each unit when that is done
MAX_SHORTENINGS = 5  # times a plan that takes too long is made anew
SHORTENING_FACTOR = 0.9  # of what time would allow for, what is transferred then
MIN_SHOWN_GAP = 0.05  # percent that a plan may be improved by from which that is shown
SEARCH_ROUNDS = 10  # in which that is searched for
PLAIN_NOTE = "search: plain"
NOT_COMPILED_NOTE = (
    f"{PLAIN_NOTE}: compiled code not found; run opendrs compile once for better plans"
)
DETOUR_SHARE = 0.5  # of what is transferred at the knee, what detours may cost besides
REASONS = {
    Goal.REPAIR: DecisionReason.REPAIRS_RULES,
    Goal.CONTENTION: DecisionReason.RELIEVES_OVERLOAD,
    Goal.BALANCE: DecisionReason.IMPROVES_BALANCE,
    Goal.CONSOLIDATION: DecisionReason.VACATES_NODES,
}


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A plan, and how the cluster is and stands after it."""

    context: OptimizeContext
    search: PlanSearch
    sequenced: SequencedPlan
    after: ClusterMetrics
    snapshot: Snapshot

    @property
    def gib(self) -> float:
        """The memory that it transfers, in GiB."""
        return sum(each.memory for each in self.sequenced.ordered_moves) / GIB


class OptimizeRun:
    """Work on the decision about one case; it can be had at any moment.

    The same case and calls give the same decisions.
    """

    def __init__(self, context: OptimizeContext) -> None:
        task = SearchTask(
            cluster=context.cluster,
            weights=context.weights,
            budget=context.budget,
            seed=context.seed,
            search=context.search,
        )
        self._search = PlanSearch(task)
        self._context = context
        if self._search.search is SearchKind.PLAIN:
            # All of the decision is made by the search that was chosen now.
            note = (
                PLAIN_NOTE if context.search is SearchKind.PLAIN else NOT_COMPILED_NOTE
            )
            noted = any(each.startswith(PLAIN_NOTE) for each in context.notes)
            notes = context.notes if noted else (*context.notes, note)
            self._context = replace(context, search=SearchKind.PLAIN, notes=notes)

    @property
    def group_count(self) -> int:
        """How many units there are."""
        return len(self._context.cluster.groups)

    @property
    def search_size(self) -> int:
        """As if how many units were looked at; another number where few may move."""
        return self._search.search_size

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be found, however long it is looked for."""
        return self._search.exhausted

    def improve(self, iterations: int, progress: float) -> None:
        """Look at *iterations* moves, after which *progress* of all work is done."""
        self._search.improve(iterations, progress)

    def decision(self) -> Decision[None]:
        """Return what is decided now."""
        candidate = self._candidate()
        context = candidate.context
        goal = first_improved_goal(
            context.before, candidate.after, context.priorities, context.min_improvement
        )
        if goal is None or not candidate.sequenced.plan.steps:
            return self._empty_decision(candidate)
        reason = REASONS[goal]
        if (
            goal is Goal.REPAIR
            and candidate.after.violations == context.before.violations
        ):
            reason = DecisionReason.RELIEVES_OVERLOAD
        return Decision(
            reason,
            None,
            candidate.sequenced.plan,
            f"{describe_change(context.before, candidate.after)}; {self._describe_cost(candidate)}",
            context.before.figures,
            candidate.after.figures,
            (
                *context.notes,
                *candidate.sequenced.notes,
                *_bound_note(candidate),
                *unresolved_notes(context, candidate.snapshot),
            ),
        )

    def _empty_decision(self, candidate: CandidatePlan) -> Decision[None]:
        context = candidate.context
        if candidate.sequenced.plan.steps:
            reason = DecisionReason.IMPROVEMENT_TOO_SMALL
            detail = (
                f"the best plan would not gain {context.min_improvement:.0%}: "
                f"{describe_change(context.before, candidate.after)}"
            )
        else:
            reason = DecisionReason.NO_CANDIDATE
            detail = "no guest may go where it would be better"
            if math.isfinite(context.budget.minutes):
                detail += f", or not within {context.budget.minutes:g} min"
        return Decision(
            reason,
            None,
            detail=detail,
            before=context.before.figures,
            after=context.before.figures,
            notes=(
                *context.notes,
                *candidate.sequenced.notes,
                *unresolved_notes(context, context.snapshot),
            ),
        )

    def _candidate(self) -> CandidatePlan:
        """Return the best plan that does not take longer than it may.

        One that does is made anew with so much less to transfer, and without those who
        cannot be gathered for so little. Where that does not help, there is none.
        """
        context, candidate = self._context, self._feasible_candidate(self._search)
        allowed = 60 * context.budget.minutes
        if math.isinf(allowed):
            return candidate
        for shorter in range(MAX_SHORTENINGS + 1):
            seconds = estimate_schedule(
                candidate.sequenced.plan, context.snapshot, context.limits
            ).seconds
            if seconds <= allowed:
                return candidate
            if shorter == MAX_SHORTENINGS:
                break
            gib = SHORTENING_FACTOR * allowed / seconds * candidate.gib
            smaller = context.within(gib)
            if not smaller.groups.groups:
                break
            run = OptimizeRun(smaller)
            for portion in range(SEARCH_ROUNDS):
                run.improve(
                    REPLAN_ITERATIONS * self.group_count, (portion + 1) / SEARCH_ROUNDS
                )
            candidate = run._feasible_candidate(run._search)
        empty = sequence_moves([], context.snapshot, context.rules, context.limits)
        return CandidatePlan(
            context, self._search, empty, context.before, context.snapshot
        )

    def _feasible_candidate(self, search: PlanSearch) -> CandidatePlan:
        """Return the best plan of which all steps can be made in some order."""
        candidate = self._sequence(search)
        for _ in range(MAX_REPLANS):
            dropped = self._groups_of(candidate.sequenced.dropped)
            if not dropped:
                break
            search = search.without(dropped)
            search.improve(REPLAN_ITERATIONS * self.group_count, 1.0)
            candidate = self._sequence(search)
        return candidate

    def _sequence(self, search: PlanSearch) -> CandidatePlan:
        context = self._context
        moves = [*self._group_moves(search)]
        sequenced = sequence_moves(
            moves, context.snapshot, context.rules, context.limits, self._detours(moves)
        )
        after = context.snapshot.apply(*(step.action for step in sequenced.plan.steps))
        return CandidatePlan(context, search, sequenced, context.measure(after), after)

    def _group_moves(self, search: PlanSearch) -> Iterator[GroupMove]:
        cluster, assignment = self._context.cluster, search.assignment
        groups = _moved_groups(cluster, assignment)
        value = loss_of_return(search.problem, assignment, groups)
        compared = set(np.argsort(-value, kind="stable")[:MAX_COMPARED].tolist())
        waits = self._context.before.thresholds.waits
        explanations = MoveExplanations(cluster, search.problem, assignment, waits)
        for index, group in enumerate(groups):
            target = cluster.node_ids[assignment[group]]
            guests = tuple(
                each for each in cluster.groups[group].guests if each.node != target
            )
            detail = explanations.explain(group, compared=index in compared)
            yield GroupMove(guests, target, detail, float(value[index]))

    def _detours(self, group_moves: Sequence[GroupMove]) -> DetourBudget:
        memory = sum(each.memory for each in group_moves)
        moves = sum(len(each.guests) for each in group_moves)
        budget = self._context.budget
        return DetourBudget(
            memory=DETOUR_SHARE * memory if budget.knee else budget.gib * GIB - memory,
            migrations=budget.migrations - moves,
        )

    def _groups_of(self, moves: Sequence[GroupMove]) -> list[int]:
        guests: set[GuestId] = {guest.id for each in moves for guest in each.guests}
        return [
            index
            for index, group in enumerate(self._context.cluster.groups)
            if any(guest.id in guests for guest in group.guests)
        ]

    def _describe_cost(self, candidate: CandidatePlan) -> str:
        moves = sum(len(each.guests) for each in candidate.sequenced.ordered_moves)
        return f"{moves} move{'s' * (moves != 1)}, {candidate.gib:.1f} GiB"


def _moved_groups(cluster: EncodedCluster, assignment: Indices) -> list[int]:
    """Return the units of which somebody is not where the unit is to be.

    Those who may not be on the home of their unit are not gathered there.
    """
    moved = []
    for group, node in enumerate(assignment.tolist()):
        name = cluster.node_ids[node]
        displaced = [each for each in cluster.groups[group].guests if each.node != name]
        home = node == cluster.origin[group]
        there = cluster.snapshot.nodes[name]
        if displaced and not (
            home and not cluster.feasibility.is_compatible(displaced, there)
        ):
            moved.append(group)
    return moved


def _bound_note(candidate: CandidatePlan) -> Iterator[str]:
    """Yield how near to the best possible *candidate* is."""
    context = candidate.context
    scale = len(context.cluster.node_ids) * (
        context.weights.cpu_balance + context.weights.memory_balance
    )
    if scale > 0:
        search = candidate.search
        load = context.cluster.load_in(candidate.snapshot)
        least = search.bound() / math.sqrt(scale)
        reached = imbalance_distance(search.problem, load) / math.sqrt(scale)
        measure = "imbalance" if _is_uniform(context) else "distance from an even load"
        better = 100 * max(0.0, reached - least) / reached if reached > 0 else 0.0
        limit = (
            f"more than {better:.1f} % better" if better >= MIN_SHOWN_GAP else "better"
        )
        yield (
            f"bound: no plan that moves as much is {limit}: {measure} {reached:.4f}, "
            f"lower bound {least:.4f}"
        )


def _is_uniform(context: OptimizeContext) -> bool:
    """Return whether nodes are of one size, and both resources count the same.

    Then the mean load is the even load, and the distance from it is the unevenness.
    """
    size = context.cluster.total_capacity
    return context.weights.cpu_balance == context.weights.memory_balance and bool(
        (size == size[0]).all()
    )
