"""The reason of a decision as people read it; JSON and logs have its code."""

from __future__ import annotations

from opendrs.policies import Reason

_TEXTS = {
    Reason.NO_CANDIDATE: "no feasible move",
    Reason.ALREADY_CONSOLIDATED: "already consolidated",
}


def reason_text(reason: Reason) -> str:
    """Return *reason* in words."""
    return _TEXTS.get(reason, reason.value)
