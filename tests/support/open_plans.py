"""Plans that wait for an approval."""

from __future__ import annotations

from opendrs.model import Step
from opendrs.ports import PlanRecord, PlanState
from support.builders import NOON


def open_plan(*steps: Step, run: str = "run one") -> PlanRecord:
    """Return a proposed plan with *steps*, decided in the cycle *run*."""
    return PlanRecord(
        id="k7w2x",
        run=run,
        created_at=NOON,
        lifetime=3600.0,
        policy="balance",
        reason="improves-balance",
        reason_detail="",
        steps=steps,
        groups=(),
        digest="d" * 64,
        snapshot="s" * 64,
        state=PlanState.PROPOSED,
        changed_at=NOON,
    )
