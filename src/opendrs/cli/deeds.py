"""Actions in words."""

from __future__ import annotations

from opendrs.cli.figures import arrow
from opendrs.cli.screen import visible
from opendrs.model import Action, PowerOff, PowerOn


def deed(action: Action) -> str:
    """Return *action* in words."""
    if isinstance(action, PowerOn):
        return f"wake {visible(action.node)}"
    if isinstance(action, PowerOff):
        return f"put {visible(action.node)} to sleep"
    way = f"{visible(action.source)} {arrow()} {visible(action.target)}"
    return f"{visible(action.guest)} {way}"
