"""Run of a decision: from a snapshot to a plan, some iterations at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.model import GIB, GuestId, Snapshot
from opendrs.optimizer import (
    Indices,
    IterationLimit,
    SearchKind,
    StoppingCriterion,
    imbalance_distance,
    loss_of_return,
)
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
    IMBALANCE,
    ClusterMetrics,
    describe_change,
    first_improved_goal,
)
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.plan_search import PlanSearch, SearchTask

MAX_REPLANS = 3  # searches without the groups that sequencing dropped
REPLAN_ITERATIONS = 100  # moves per group of such a search
MAX_SHORTENINGS = 5  # searches for a plan that takes less time
SHORTENING_FACTOR = 0.9  # transfer of such a plan, relative to what the time allows
MIN_SHOWN_GAP = 0.05  # percent below which the gap to the lower bound is shown as none
SEARCH_ROUNDS = 10  # portions in which the search for a shorter plan runs
PLAIN_NOTE = "search: plain"
NOT_COMPILED_NOTE = (
    f"{PLAIN_NOTE}: compiled code not found; run opendrs compile once for better plans"
)
DETOUR_SHARE = 0.5  # of the transfer at the knee, which detours may add
REASONS = {
    Goal.REPAIR: DecisionReason.REPAIRS_RULES,
    Goal.CONTENTION: DecisionReason.RELIEVES_OVERLOAD,
    Goal.BALANCE: DecisionReason.IMPROVES_BALANCE,
    Goal.CONSOLIDATION: DecisionReason.VACATES_NODES,
}


@dataclass(frozen=True, slots=True)
class CandidatePlan:
    """A sequenced plan with its result.

    Attributes:
        context: Decision context of the plan.
        search: Search that found it.
        sequenced: Its steps, detours and dropped moves.
        after: Metrics of the cluster after it.
        snapshot: Snapshot after it.
    """

    context: OptimizeContext
    search: PlanSearch
    sequenced: SequencedPlan
    after: ClusterMetrics
    snapshot: Snapshot

    @property
    def gib(self) -> float:
        """Memory that the plan transfers, in GiB."""
        return sum(each.memory for each in self.sequenced.ordered_moves) / GIB


class OptimizeRun:
    """Anytime computation of a decision.

    The same context and calls give the same decision. A decision is available at any
    time.
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
            # Later searches of this decision are plain as well.
            note = (
                PLAIN_NOTE if context.search is SearchKind.PLAIN else NOT_COMPILED_NOTE
            )
            noted = any(each.startswith(PLAIN_NOTE) for each in context.notes)
            notes = context.notes if noted else (*context.notes, note)
            self._context = replace(context, search=SearchKind.PLAIN, notes=notes)

    @property
    def group_count(self) -> int:
        """Number of move groups."""
        return len(self._context.cluster.groups)

    @property
    def search_size(self) -> int:
        """Number of groups to which the number of iterations is proportional."""
        return self._search.search_size

    @property
    def exhausted(self) -> bool:
        """True if nothing more can be found."""
        return self._search.exhausted

    def improve(self, iterations: int, progress: float) -> None:
        """Evaluate *iterations* moves, after which *progress* of the search is done."""
        self._search.improve(iterations, progress)

    def search(self, stop: StoppingCriterion) -> None:
        """Search until *stop* ends the search or nothing more can be found."""
        for portion in stop.portions():
            if self.exhausted:
                break
            self.improve(portion.iterations, portion.progress)

    def decision(self) -> Decision[None]:
        """Return the decision for the best plan so far."""
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
            f"{describe_change(context.before, candidate.after)}; "
            f"{self._describe_cost(candidate)}",
            context.before.figures,
            candidate.after.figures,
            (
                *context.notes,
                *candidate.sequenced.notes,
                *_bound_note(candidate),
                *unresolved_notes(context, candidate.snapshot),
            ),
            context.groups.skipped,
        )

    def _empty_decision(self, candidate: CandidatePlan) -> Decision[None]:
        context = candidate.context
        if candidate.sequenced.plan.steps:
            reason = DecisionReason.IMPROVEMENT_TOO_SMALL
            detail = (
                f"the best plan gains less than {context.min_improvement:.0%}: "
                f"{describe_change(context.before, candidate.after)}"
            )
        else:
            reason = DecisionReason.NO_CANDIDATE
            detail = "no feasible migration improves a goal"
            if math.isfinite(context.budget.minutes):
                detail += f" within {context.budget.minutes:g} min"
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
            skipped=context.groups.skipped,
        )

    def _candidate(self) -> CandidatePlan:
        """Return the best plan within the budget of time.

        A plan that takes too long is searched again with less to transfer, and without
        the groups that cannot be gathered for that. If no plan is short enough, it is
        empty.
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
            iterations = REPLAN_ITERATIONS * self.group_count * SEARCH_ROUNDS
            run.search(IterationLimit(iterations, SEARCH_ROUNDS))
            candidate = run._feasible_candidate(run._search)
        empty = sequence_moves([], context.snapshot, context.rules, context.limits)
        return CandidatePlan(
            context, self._search, empty, context.before, context.snapshot
        )

    def _feasible_candidate(self, search: PlanSearch) -> CandidatePlan:
        """Return the best plan with an order in which every step is safe."""
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
        return f"{moves} migration{'s' * (moves != 1)}, {candidate.gib:.1f} GiB"


def _moved_groups(cluster: EncodedCluster, assignment: Indices) -> list[int]:
    """Return the groups with a guest that is not on the node of *assignment*.

    Guests that their home node does not allow are not gathered there.
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
    """Yield a note with the gap between *candidate* and the lower bound."""
    context = candidate.context
    scale = len(context.cluster.node_ids) * (
        context.weights.cpu_balance + context.weights.memory_balance
    )
    if scale > 0:
        search = candidate.search
        load = context.cluster.load_in(candidate.snapshot)
        least = search.bound() / math.sqrt(scale)
        reached = imbalance_distance(search.problem, load) / math.sqrt(scale)
        measure = (
            IMBALANCE if _is_uniform(context) else "distance from the balanced load"
        )
        better = 100 * max(0.0, reached - least) / reached if reached > 0 else 0.0
        limit = (
            f"more than {better:.1f} % better" if better >= MIN_SHOWN_GAP else "better"
        )
        yield (
            f"bound: no plan that migrates at most as much is {limit}; {measure}: "
            f"{reached:.4f} with this plan, at least {least:.4f} with any such plan"
        )


def _is_uniform(context: OptimizeContext) -> bool:
    """Return True if nodes have one size and both resources the same weight.

    Then the mean load is the balanced load, and the distance from it is the imbalance.
    """
    size = context.cluster.total_capacity
    return context.weights.cpu_balance == context.weights.memory_balance and bool(
        (size == size[0]).all()
    )
