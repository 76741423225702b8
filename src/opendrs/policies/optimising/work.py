"""From a snapshot to the decision about it, some iterations at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.model import GIB, GuestId, Snapshot
from opendrs.policies.base import Decision, Reason
from opendrs.policies.optimising.case import Case
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.planning import Planning, Task
from opendrs.policies.optimising.remains import remains
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.searches import SearchKind
from opendrs.policies.optimising.standing import Standing, change, improved
from opendrs.policies.optimising.valuation import distance, worth_of_each
from opendrs.policies.optimising.words import (
    MOST_COMPARED,
    Explanations,
)
from opendrs.policies.optimising.worth import Goal
from opendrs.policies.passage import Detours, Journey, Passage, passage
from opendrs.scoring import schedule

ROUNDS = 3  # times a plan is made anew without who cannot travel
MENDING = 100  # moves looked at for each unit when that is done
SHORTER = 5  # times a plan that takes too long is made anew
SHORTENED = 0.9  # of what time would allow for, what is transferred then
SHOWN = 0.05  # percent that a plan may be improved by from which that is shown
PORTIONS = 10  # in which that is searched for
PLAIN = "search: plain"
NOT_COMPILED = (
    f"{PLAIN}: compiled code not found; run opendrs compile once for better plans"
)
ASIDE = 0.5  # of what is transferred at the knee, what detours may cost besides
REASONS = {
    Goal.REPAIR: Reason.MENDS_RULES,
    Goal.CONTENTION: Reason.RELIEVES_OVERLOAD,
    Goal.EVENNESS: Reason.IMPROVES_BALANCE,
    Goal.PACKING: Reason.FREES_NODES,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan, and how the cluster is and stands after it."""

    case: Case
    planning: Planning
    way: Passage
    after: Standing
    snapshot: Snapshot

    @property
    def gib(self) -> float:
        """The memory that it transfers, in GiB."""
        return sum(each.memory for each in self.way.made) / GIB


class Work:
    """Work on the decision about one case; it can be had at any moment.

    The same case and calls give the same decisions.
    """

    def __init__(self, case: Case) -> None:
        task = Task(
            scene=case.scene,
            worth=case.worth,
            budget=case.budget,
            seed=case.seed,
            search=case.search,
        )
        self._planning = Planning(task)
        self._case = case
        if self._planning.search is SearchKind.PLAIN:
            # All of the decision is made by the search that was chosen now.
            why = PLAIN if case.search is SearchKind.PLAIN else NOT_COMPILED
            told = any(each.startswith(PLAIN) for each in case.notes)
            notes = case.notes if told else (*case.notes, why)
            self._case = replace(case, search=SearchKind.PLAIN, notes=notes)

    @property
    def units(self) -> int:
        """How many units there are."""
        return len(self._case.scene.parties)

    @property
    def extent(self) -> int:
        """As if how many units were looked at; another number where few may move."""
        return self._planning.extent

    @property
    def exhausted(self) -> bool:
        """Whether nothing more can be found, however long it is looked for."""
        return self._planning.exhausted

    def improve(self, iterations: int, progress: float) -> None:
        """Look at *iterations* moves, after which *progress* of all work is done."""
        self._planning.improve(iterations, progress)

    def decision(self) -> Decision[None]:
        """Return what is decided now."""
        draft = self._draft()
        case = draft.case
        goal = improved(case.before, draft.after, case.priorities, case.margin)
        if goal is None or not draft.way.plan.steps:
            return self._nothing(draft)
        reason = REASONS[goal]
        if goal is Goal.REPAIR and draft.after.broken == case.before.broken:
            reason = Reason.RELIEVES_OVERLOAD
        return Decision(
            reason,
            None,
            draft.way.plan,
            f"{change(case.before, draft.after)}; {self._cost(draft)}",
            case.before.figures,
            draft.after.figures,
            (
                *case.notes,
                *draft.way.notes,
                *_gap(draft),
                *remains(case, draft.snapshot),
            ),
        )

    def _nothing(self, draft: Draft) -> Decision[None]:
        case = draft.case
        if draft.way.plan.steps:
            reason = Reason.GAIN_BELOW_MARGIN
            why = (
                f"the best plan would not gain {case.margin:.0%}: "
                f"{change(case.before, draft.after)}"
            )
        else:
            reason = Reason.NO_CANDIDATE
            why = "no guest may go where it would be better"
            if math.isfinite(case.budget.minutes):
                why += f", or not within {case.budget.minutes:g} min"
        return Decision(
            reason,
            None,
            detail=why,
            before=case.before.figures,
            after=case.before.figures,
            notes=(*case.notes, *draft.way.notes, *remains(case, case.snapshot)),
        )

    def _draft(self) -> Draft:
        """Return the best plan that does not take longer than it may.

        One that does is made anew with so much less to transfer, and without those who
        cannot be gathered for so little. Where that does not help, there is none.
        """
        case, draft = self._case, self._possible(self._planning)
        allowed = 60 * case.budget.minutes
        if math.isinf(allowed):
            return draft
        for shorter in range(SHORTER + 1):
            seconds = schedule(draft.way.plan, case.snapshot, case.limits).seconds
            if seconds <= allowed:
                return draft
            if shorter == SHORTER:
                break
            gib = SHORTENED * allowed / seconds * draft.gib
            less = case.within(gib)
            if not less.parties.all:
                break
            work = Work(less)
            for portion in range(PORTIONS):
                work.improve(MENDING * self.units, (portion + 1) / PORTIONS)
            draft = work._possible(work._planning)
        nobody = passage([], case.snapshot, case.rules, case.limits)
        return Draft(case, self._planning, nobody, case.before, case.snapshot)

    def _possible(self, planning: Planning) -> Draft:
        """Return the best plan of which all steps can be made in some order."""
        draft = self._way(planning)
        for _ in range(ROUNDS):
            lost = self._units_of(draft.way.given_up)
            if not lost:
                break
            planning = planning.without(lost)
            planning.improve(MENDING * self.units, 1.0)
            draft = self._way(planning)
        return draft

    def _way(self, planning: Planning) -> Draft:
        case = self._case
        journeys = [*self._journeys(planning)]
        way = passage(
            journeys, case.snapshot, case.rules, case.limits, self._detours(journeys)
        )
        after = case.snapshot.after(*(step.action for step in way.plan.steps))
        return Draft(case, planning, way, case.standing(after), after)

    def _journeys(self, planning: Planning) -> Iterator[Journey]:
        scene, assignment = self._case.scene, planning.assignment
        units = _travelling(scene, assignment)
        worth = worth_of_each(planning.problem, assignment, units)
        told = set(np.argsort(-worth, kind="stable")[:MOST_COMPARED].tolist())
        waits = self._case.before.calm.waits
        words = Explanations(scene, planning.problem, assignment, waits)
        for place, unit in enumerate(units):
            target = scene.nodes[assignment[unit]]
            guests = tuple(
                each for each in scene.parties[unit].guests if each.node != target
            )
            why = words.of(unit, compared=place in told)
            yield Journey(guests, target, why, float(worth[place]))

    def _detours(self, journeys: Sequence[Journey]) -> Detours:
        memory = sum(each.memory for each in journeys)
        moves = sum(len(each.guests) for each in journeys)
        budget = self._case.budget
        return Detours(
            memory=ASIDE * memory if budget.knee else budget.gib * GIB - memory,
            moves=budget.moves - moves,
        )

    def _units_of(self, journeys: Sequence[Journey]) -> list[int]:
        lost: set[GuestId] = {guest.id for each in journeys for guest in each.guests}
        return [
            unit
            for unit, party in enumerate(self._case.scene.parties)
            if any(guest.id in lost for guest in party.guests)
        ]

    def _cost(self, draft: Draft) -> str:
        moves = sum(len(each.guests) for each in draft.way.made)
        return f"{moves} move{'s' * (moves != 1)}, {draft.gib:.1f} GiB"


def _travelling(scene: Scene, assignment: Indices) -> list[int]:
    """Return the units of which somebody is not where the unit is to be.

    Those who may not be on the home of their unit are not gathered there.
    """
    found = []
    for unit, node in enumerate(assignment.tolist()):
        name = scene.nodes[node]
        goers = [each for each in scene.parties[unit].guests if each.node != name]
        home = node == scene.origin[unit]
        there = scene.snapshot.nodes[name]
        if goers and not (home and not scene.targets.suits(goers, there)):
            found.append(unit)
    return found


def _gap(draft: Draft) -> Iterator[str]:
    """Yield how near to the best possible *draft* is."""
    case = draft.case
    scale = len(case.scene.nodes) * (case.worth.cpu + case.worth.memory)
    if scale > 0:
        planning = draft.planning
        load = case.scene.taken_in(draft.snapshot)
        least = planning.bound() / math.sqrt(scale)
        here = distance(planning.problem, load) / math.sqrt(scale)
        measure = "imbalance" if _alike(case) else "distance from an even load"
        better = 100 * max(0.0, here - least) / here if here > 0 else 0.0
        limit = f"more than {better:.1f} % better" if better >= SHOWN else "better"
        yield (
            f"bound: no plan that moves as much is {limit}: {measure} {here:.4f}, "
            f"lower bound {least:.4f}"
        )


def _alike(case: Case) -> bool:
    """Return whether nodes are of one size, and both resources count the same.

    Then the mean load is the even load, and the distance from it is the unevenness.
    """
    size = case.scene.size
    return case.worth.cpu == case.worth.memory and bool((size == size[0]).all())
