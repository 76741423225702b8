"""Plain (JSON) form of plans, decisions and cycle records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from opendrs.arrays import skipped_by_reason
from opendrs.config import snapshot_document
from opendrs.model import (
    ACTION_KINDS,
    Action,
    DiskMove,
    Limits,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    format_timestamp,
)
from opendrs.optimizer import Portion
from opendrs.planning import estimate_duration, link_bandwidth
from opendrs.policies import Decision, Policy
from opendrs.ports import CycleRecord, PlanApproval
from opendrs.rules import Violation, violation_change


def action_document(action: Action) -> dict[str, object]:
    """Return *action* as plain values; a power action has only a target.

    The move of a disk has its node as source and target, and the storages of the disk.
    """
    if isinstance(action, PowerOn | PowerOff):
        guest, source, target = None, None, action.node
    else:
        guest, source, target = action.guest, action.source, action.target
    return {
        "kind": ACTION_KINDS[type(action)],
        "guest": guest,
        "source": source,
        "target": target,
        **({"disk": _disk_document(action)} if isinstance(action, DiskMove) else {}),
    }


def _disk_document(move: DiskMove) -> dict[str, object]:
    return {
        "name": move.disk,
        "source": move.source_storage,
        "target": move.target_storage,
    }


def document_path(action: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what *action* as plain values moves, from where, and to where.

    As `path_of`, with empty texts for what a power action does not have.
    """
    guest, disk = action["guest"] or "", action.get("disk")
    if disk:
        return f"{guest} ({disk['name']})", disk["source"], disk["target"]
    return guest, action["source"] or "", action["target"] or ""


def approval_document(approval: PlanApproval | None) -> dict[str, object] | None:
    """Return *approval* of a plan as plain values; None without one."""
    if approval is None:
        return None
    return {
        "user": approval.user,
        "at": format_timestamp(approval.at),
        "steps": list(approval.steps),
    }


def step_document(step: Step) -> dict[str, object]:
    """Return *step* as plain values."""
    return {
        "id": step.id,
        **action_document(step.action),
        "depends_on": list(step.depends_on),
        "detail": step.detail,
    }


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
        "skipped": [
            {"reason": each.reason.value, "detail": each.detail, "guests": guests}
            for each, guests in skipped_by_reason(decision.skipped).items()
        ],
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


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return *value* as plain JSON values; numbers that are not finite become None."""
    return json.loads(json.dumps(value, default=str), parse_constant=_unknown)


def _unknown(name: str) -> None:
    """Return None for a number that JSON cannot represent."""
