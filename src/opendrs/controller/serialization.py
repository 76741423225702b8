"""Plain (JSON) form of decisions and cycle records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from opendrs.arrays import SkippedGuest, skipped_by_reason
from opendrs.config import snapshot_document
from opendrs.controller.step_serialization import plain, step_document
from opendrs.model import GuestId, Limits, NodeId, Snapshot
from opendrs.optimizer import Portion
from opendrs.planning import estimate_duration, link_bandwidth
from opendrs.policies import Decision, Policy
from opendrs.ports import CycleRecord
from opendrs.rules import Violation, violation_change


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """Drains at the time of a decision.

    Attributes:
        nodes: Nodes that operators drain; others may be in maintenance as well.
        remaining: Guests that cannot leave a node in maintenance.
    """

    nodes: frozenset[NodeId]
    remaining: Mapping[GuestId, SkippedGuest]


def plan_document(
    policy: str, decision: Decision[Any], snapshot: Snapshot, schedule: str = ""
) -> dict[str, object]:
    """Return the decision of a policy about *snapshot* as plain values.

    With a *schedule*, it contains the name of that entry.
    """
    steps = decision.plan.steps
    change = violation_change(
        snapshot, snapshot.apply(*(each.action for each in steps))
    )
    return {
        "policy": policy,
        "reason": decision.reason.value,
        "detail": decision.detail,
        "notes": list(decision.notes),
        "skipped": _skipped_documents(decision.skipped),
        **({"unmeasured": [*decision.unmeasured]} if decision.unmeasured else {}),
        "before": dict(decision.before),
        "after": dict(decision.after),
        "violations": {
            "before": violation_documents(change.before),
            "after": violation_documents(change.after),
        },
        "steps": [step_document(step) for step in steps],
        **({"schedule": schedule} if schedule else {}),
    }


def _skipped_documents(
    skipped: Mapping[GuestId, SkippedGuest],
) -> list[dict[str, object]]:
    return [
        {"reason": each.reason.value, "detail": each.detail, "guests": guests}
        for each, guests in skipped_by_reason(skipped).items()
    ]


def _drain_document(drain: DrainReport) -> dict[str, object]:
    return {
        "nodes": sorted(drain.nodes),
        "remaining": _skipped_documents(drain.remaining),
    }


def violation_documents(violations: Iterable[Violation]) -> list[dict[str, object]]:
    """Return *violations* as plain values."""
    return [
        {
            "rule": each.rule.describe(),
            "strict": each.strict,
            "guests": sorted(each.guests),
            "nodes": sorted(each.nodes),
        }
        for each in violations
    ]


def cycle_record(  # noqa: PLR0913 - the inputs and the result of a decision
    run: str,
    decided_at: datetime,
    snapshot: Snapshot,
    *,
    policy: Policy[Any],
    memory: object,
    decision: Decision[Any],
    search: Sequence[Portion] = (),
    schedule: str = "",
    drain: DrainReport | None = None,
) -> CycleRecord:
    """Return the record of a cycle.

    It contains the settings, memory and snapshot that reproduce the decision, and the
    estimated durations of the steps.

    Args:
        run: Name of the execution of the plan.
        decided_at: Time of the decision.
        snapshot: The snapshot that was evaluated.
        policy: The policy.
        memory: Memory of the policy before the decision.
        decision: The decision.
        search: Portions of a search that a time limit has ended; empty without one.
        schedule: Name of the entry of the schedule that it was decided for, or empty.
        drain: The nodes that operators drained then; None if none was in maintenance.
    """
    return CycleRecord(
        run=run,
        decided_at=decided_at,
        document={
            "settings": plain(asdict(policy)),  # type: ignore[call-overload]  # a dataclass
            "memory": plain(memory),
            "snapshot": snapshot_document(snapshot),
            "decision": plain(plan_document(policy.name, decision, snapshot, schedule)),
            **({"search": plain(list(search))} if search else {}),
            **({"repair_first": True} if decision.repair_first else {}),
            **({} if drain is None else {"drain": _drain_document(drain)}),
            **_estimates(decision, snapshot, policy.limits),
        },
    )


def _estimates(
    decision: Decision[Any], snapshot: Snapshot, limits: Limits
) -> dict[str, object]:
    """Return the estimated seconds of each step alone, for `history`."""
    bandwidth, _ = link_bandwidth(snapshot, limits)
    seconds = {
        str(step.id): estimate_duration(step.action, snapshot, bandwidth).seconds
        for step in decision.plan.steps
    }
    return {"estimates": seconds} if seconds else {}
