"""A plan with its steps: reasons, outcomes, and estimated times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opendrs.controller.step_serialization import approval_document, step_document
from opendrs.controller.views.state import plan_summary
from opendrs.model import Limits, StepId, format_timestamp
from opendrs.planning import estimate_starts
from opendrs.ports import HistoryReader, PlanRecord, StepRecord


@dataclass(frozen=True, slots=True)
class PlanEstimates:
    """Estimated times of the steps of a plan.

    Attributes:
        starts: Seconds from the start of the plan to that of a step; those that are
            unknown are absent.
        seconds: Duration of each step; None if unknown.
    """

    starts: Mapping[StepId, float]
    seconds: Mapping[str, float | None]

    @property
    def total(self) -> float | None:
        """Return the seconds until the last known end; None if none is known."""
        ends = [at + (self.seconds[step] or 0) for step, at in self.starts.items()]
        return max(ends, default=None)


def plan_estimates(
    plan: PlanRecord, history: HistoryReader, limits: Limits
) -> PlanEstimates:
    """Return the estimated times of the steps of *plan*, which the record contains.

    Args:
        plan: The plan.
        history: The history.
        limits: Limits of parallel migrations.

    Raises:
        StoreError: The store cannot be read.
    """
    cycle = history.cycle_of(plan.run)
    seconds = {} if cycle is None else history.estimates(cycle)
    return PlanEstimates(estimate_starts(plan.steps, seconds, limits), seconds)


def plan_view(
    plan: PlanRecord, history: HistoryReader, limits: Limits
) -> dict[str, Any]:
    """Return *plan* with its steps as plain values.

    Args:
        plan: The plan.
        history: The history, which has the estimates and the outcomes.
        limits: Limits of parallel migrations, for the estimated starts.

    Raises:
        StoreError: The store cannot be read.
    """
    cycle = history.cycle_of(plan.run)
    decision = {} if cycle is None else history.decision(cycle)
    records = {each.step: each for each in history.records_of(plan.run)}
    estimates = plan_estimates(plan, history, limits)
    approval = plan.approval
    return {
        **plan_summary(plan),
        "run": plan.run,
        "detail": plan.detail,
        "changed_at": format_timestamp(plan.changed_at),
        "approval": approval_document(approval),
        "groups": [list(group) for group in plan.groups],
        "before": dict(decision.get("before", {})),
        "after": dict(decision.get("after", {})),
        "steps": [
            {
                **step_document(step),
                "approved": None if approval is None else step.id in approval.steps,
                **_outcome(records.get(step.id)),
                "estimated_start": estimates.starts.get(step.id),
                "estimated_seconds": estimates.seconds.get(step.id),
            }
            for step in plan.steps
        ],
    }


def _outcome(record: StepRecord | None) -> dict[str, Any]:
    if record is None:
        return {
            "outcome": None,
            "outcome_detail": None,
            "started_at": None,
            "ended_at": None,
        }
    ended = record.ended_at
    return {
        "outcome": record.outcome,
        "outcome_detail": record.detail or None,
        "started_at": format_timestamp(record.intended_at),
        "ended_at": None if ended is None else format_timestamp(ended),
    }
