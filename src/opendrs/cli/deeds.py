"""Actions in words, and as plain values."""

from __future__ import annotations

from opendrs.cli.figures import arrow
from opendrs.cli.screen import visible
from opendrs.model import Action, Migration, PowerOff, PowerOn, Relocation

KINDS: dict[type[Action], str] = {
    Migration: "migrate",
    Relocation: "relocate",
    PowerOn: "power-on",
    PowerOff: "power-off",
}


def deed(action: Action) -> str:
    """Return *action* in words."""
    if isinstance(action, PowerOn):
        return f"wake {visible(action.node)}"
    if isinstance(action, PowerOff):
        return f"put {visible(action.node)} to sleep"
    way = f"{visible(action.source)} {arrow()} {visible(action.target)}"
    return f"{visible(action.guest)} {way}"


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
