"""Details of a report: moves, what was not done and why, results, energy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from opendrs.controller.views.figures import POWER
from opendrs.controller.views.history_entries import move_entry
from opendrs.ports import (
    CycleSummary,
    HistoryFilter,
    HistoryReader,
    Outcome,
    PlanRecord,
    PlanState,
    StepRecord,
)

MAX_MOVES = 500  # the newest that are listed
MAX_RESULTS = 50  # the newest plans whose result is compared with the prediction
MAX_POWER_GAP = 3_600.0  # seconds without a decision after which power is unknown
JOULES_PER_KWH = 3.6e6
_NOT_DONE = frozenset({Outcome.REJECTED, Outcome.FAILED, Outcome.ABORTED, Outcome.LOST})
_NOT_EXECUTED = frozenset(
    {PlanState.REJECTED, PlanState.EXPIRED, PlanState.CANCELLED, PlanState.FAILED}
)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Prediction and result of an executed plan.

    Attributes:
        run: The plan.
        decided_at: Time of the decision.
        metric: Name of the metric of the policy.
        before: Its value before the plan.
        predicted: Its value after the plan, as predicted.
        realized: Its value in the first cycle after the plan.
    """

    run: str
    decided_at: datetime
    metric: str
    before: float
    predicted: float
    realized: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDetails:
    """Details of a period.

    Attributes:
        moves: Started steps with prediction and result, the newest first.
        not_done: Number of steps that were not done, by outcome and cause.
        not_executed: Number of plans that were not executed, by state and cause.
        idle: Number of decisions without a plan, by reason.
        results: Predictions and results of plans, the newest first.
        energy: Energy of the nodes in kWh, by the power curves of consolidate; None if
            another policy decided.
        energy_hours: Hours for which it is known.
    """

    moves: Sequence[Mapping[str, Any]]
    not_done: Mapping[tuple[str, str], int]
    not_executed: Mapping[tuple[str, str], int]
    idle: Mapping[str, int]
    results: Sequence[PlanResult]
    energy: float | None
    energy_hours: float


def read_details(
    history: HistoryReader, plans: Iterable[PlanRecord], since: datetime
) -> ReportDetails:
    """Return the details of the time from *since* on.

    Args:
        history: The history.
        plans: All plans.
        since: Begin of the period.

    Raises:
        StoreError: The store cannot be read.
    """
    chosen = HistoryFilter(since=since)
    steps = history.steps(chosen, MAX_MOVES)
    cycles = list(history.cycles(chosen))
    ended = [plan for plan in plans if plan.created_at >= since]
    energy, hours = _energy(history, cycles)
    return ReportDetails(
        moves=[move_entry(history, each) for each in steps],
        not_done=_counts(_not_done(steps)),
        not_executed=_counts(
            (plan.state.value, plan.detail)
            for plan in ended
            if plan.state in _NOT_EXECUTED
        ),
        idle=dict(
            Counter(each.reason for each in cycles if not each.steps).most_common()
        ),
        results=list(_results(history, cycles)),
        energy=energy,
        energy_hours=hours,
    )


def _counts(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return dict(Counter(pairs).most_common())


def _not_done(steps: Iterable[StepRecord]) -> Iterator[tuple[str, str]]:
    for each in steps:
        if each.outcome in _NOT_DONE:
            yield each.outcome.value, each.detail


def _results(
    history: HistoryReader, cycles: Iterable[CycleSummary]
) -> Iterator[PlanResult]:
    """Yield the results of executed plans of which the next cycle has the metric."""
    count = 0
    for cycle in cycles:
        if not cycle.steps or count == MAX_RESULTS:
            continue
        ends = [each.ended_at for each in history.records_of(cycle.run)]
        known = [end for end in ends if end is not None]
        if not known or len(known) < len(ends):
            continue
        count += 1
        found = history.next_with_inputs(max(known))
        decision = history.decision(cycle)
        after = {} if found is None else history.decision(found).get("before", {})
        for name, predicted in decision.get("after", {}).items():
            before, realized = decision["before"].get(name), after.get(name)
            if before is not None and predicted is not None and realized is not None:
                yield PlanResult(
                    cycle.run, cycle.decided_at, name, before, predicted, realized
                )


def _energy(
    history: HistoryReader, cycles: Sequence[CycleSummary]
) -> tuple[float | None, float]:
    """Return the energy in kWh and the hours for which it is known.

    The power that a decision of consolidate estimates holds until the next cycle.
    """
    joules = seconds = 0.0
    for later, earlier in pairwise(cycles):
        elapsed = (later.decided_at - earlier.decided_at).total_seconds()
        power = history.decision(earlier).get("before", {}).get(POWER)
        if power is not None and 0 < elapsed <= MAX_POWER_GAP:
            joules += power * elapsed
            seconds += elapsed
    energy = joules / JOULES_PER_KWH if seconds else None
    return energy, seconds / 3600
