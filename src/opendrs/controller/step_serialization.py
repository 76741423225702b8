"""Plain (JSON) form of actions, steps, approvals and skipped guests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opendrs.model import (
    ACTION_KINDS,
    Action,
    DiskMove,
    PowerOff,
    PowerOn,
    Step,
    format_timestamp,
)
from opendrs.ports import PlanApproval


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


def concerns(action: Action, subject: str) -> bool:
    """Return whether *action* moves the guest *subject*, or uses that node."""
    document = action_document(action)
    return subject in (document["guest"], document["source"], document["target"])


def _disk_document(move: DiskMove) -> dict[str, object]:
    return {
        "name": move.disk,
        "source": move.source_storage,
        "target": move.target_storage,
    }


def moves_disk(action: Mapping[str, Any]) -> bool:
    """Return whether *action* as plain values moves a disk, and its guest stays."""
    return bool(action.get("disk"))


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


def skipped_groups(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the guests that a recorded decision skipped, by reason and detail.

    Guests that cannot leave a node in maintenance have the reason of the drain: for
    other policies, the state of their node is one.

    Args:
        document: The document of a cycle record.
    """
    remaining = document.get("drain", {}).get("remaining", ())
    drained = {guest for group in remaining for guest in group["guests"]}
    others = (
        {**group, "guests": [each for each in group["guests"] if each not in drained]}
        for group in document["decision"].get("skipped", ())
    )
    return [*remaining, *(group for group in others if group["guests"])]


def plain(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return *value* as plain JSON values; numbers that are not finite become None."""
    return json.loads(json.dumps(value, default=str), parse_constant=_unknown)


def _unknown(name: str) -> None:
    """Return None for a number that JSON cannot represent."""
