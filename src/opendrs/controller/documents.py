"""Actions, steps and decisions as plain values, as programs are shown them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opendrs.model import (
    Action,
    Migration,
    PowerOff,
    PowerOn,
    Relocation,
    Snapshot,
    Step,
)
from opendrs.policies import Decision
from opendrs.rules import Violation, violation_change

KINDS: dict[type[Action], str] = {
    Migration: "migrate",
    Relocation: "relocate",
    PowerOn: "power-on",
    PowerOff: "power-off",
}


def action_document(action: Action) -> dict[str, object]:
    """Return *action* as plain values; switching a node has only a target."""
    if isinstance(action, PowerOn | PowerOff):
        guest, source, target = None, None, action.node
    else:
        guest, source, target = action.guest, action.source, action.target
    return {
        "kind": KINDS[type(action)],
        "guest": guest,
        "source": source,
        "target": target,
    }


def step_document(step: Step) -> dict[str, object]:
    """Return one step as plain values."""
    return {
        "id": step.id,
        **action_document(step.action),
        "after": list(step.after),
        "why": step.why,
    }


def plan_document(
    policy: str, decision: Decision[Any], snapshot: Snapshot
) -> dict[str, object]:
    """Return the decision of a policy about *snapshot* as plain values."""
    steps = decision.plan.steps
    change = violation_change(
        snapshot, snapshot.after(*(each.action for each in steps))
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


def violation_documents(found: Iterable[Violation]) -> list[dict[str, object]]:
    """Return violations of rules as plain values."""
    return [
        {
            "rule": each.rule.described(),
            "strict": each.strict,
            "guests": sorted(each.guests),
            "nodes": sorted(each.nodes),
        }
        for each in found
    ]
