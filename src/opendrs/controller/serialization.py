"""Plain (JSON) form of plans, decisions and cycle records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from opendrs.config import snapshot_document
from opendrs.controller.cycle import Evaluation
from opendrs.model import ACTION_KINDS, Action, PowerOff, PowerOn, Snapshot, Step
from opendrs.policies import Decision, Policy
from opendrs.ports import CycleRecord
from opendrs.rules import Violation, violation_change


def action_document(action: Action) -> dict[str, object]:
    """Return *action* as plain values; switching a node has only a target."""
    if isinstance(action, PowerOn | PowerOff):
        guest, source, target = None, None, action.node
    else:
        guest, source, target = action.guest, action.source, action.target
    return {
        "kind": ACTION_KINDS[type(action)],
        "guest": guest,
        "source": source,
        "target": target,
    }


def step_document(step: Step) -> dict[str, object]:
    """Return one step as plain values."""
    return {
        "id": step.id,
        **action_document(step.action),
        "depends_on": list(step.depends_on),
        "detail": step.detail,
    }


def plan_document(
    policy: str, decision: Decision[Any], snapshot: Snapshot
) -> dict[str, object]:
    """Return the decision of a policy about *snapshot* as plain values."""
    steps = decision.plan.steps
    change = violation_change(
        snapshot, snapshot.apply(*(each.action for each in steps))
    )
    return {
        "policy": policy,
        "reason": decision.reason.value,
        "detail": decision.detail,
        "notes": list(decision.notes),
        "before": dict(decision.before),
        "after": dict(decision.after),
        "violations": {
            "before": violation_documents(change.before),
            "after": violation_documents(change.after),
        },
        "steps": [step_document(step) for step in steps],
    }


def violation_documents(violations: Iterable[Violation]) -> list[dict[str, object]]:
    """Return violations of rules as plain values."""
    return [
        {
            "rule": each.rule.describe(),
            "strict": each.strict,
            "guests": sorted(each.guests),
            "nodes": sorted(each.nodes),
        }
        for each in violations
    ]


def cycle_record(
    run: str,
    now: datetime,
    snapshot: Snapshot,
    policy: Policy[Any],
    evaluation: Evaluation[Any],
) -> CycleRecord:
    """Return what is kept of a cycle.

    The same policy with these settings, this memory and this snapshot decides the
    same again.

    Args:
        run: What the execution of its plan is called.
        now: When it was decided.
        snapshot: What was decided about.
        policy: What decided.
        evaluation: What it remembered, and what it decided.
    """
    decision = evaluation.decision
    return CycleRecord(
        run=run,
        decided_at=now,
        document={
            "settings": _plain(asdict(policy)),  # type: ignore[call-overload]  # they are dataclasses
            "memory": _plain(evaluation.memory),
            "snapshot": snapshot_document(snapshot),
            "decision": _plain(plan_document(policy.name, decision, snapshot)),
        },
    )


def _plain(value: object) -> object:
    """Return *value* as JSON has it: what is not finite is unknown there."""
    return json.loads(json.dumps(value, default=str), parse_constant=_unknown)


def _unknown(name: str) -> None:
    """Return nothing, for a number that JSON does not have."""
