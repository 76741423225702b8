"""What is kept of a cycle, so that its decision can be made again."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from opendrs.controller.cycle import Judgement
from opendrs.controller.documents import plan_document
from opendrs.model import Snapshot
from opendrs.platforms.file import document
from opendrs.policies import Policy
from opendrs.ports import CycleRecord


def cycle_record(
    run: str,
    now: datetime,
    snapshot: Snapshot,
    policy: Policy[Any],
    judgement: Judgement[Any],
) -> CycleRecord:
    """Return what is kept of a cycle.

    The same policy with these settings, this memory and this snapshot decides the
    same again.

    Args:
        run: What the execution of its plan is called.
        now: When it was decided.
        snapshot: What was decided about.
        policy: What decided.
        judgement: What it remembered, and what it decided.
    """
    decision = judgement.decision
    return CycleRecord(
        run=run,
        decided_at=now,
        document={
            "settings": _plain(asdict(policy)),  # type: ignore[call-overload]  # they are dataclasses
            "memory": _plain(judgement.memory),
            "snapshot": document(snapshot),
            "decision": _plain(plan_document(policy.name, decision, snapshot)),
        },
    )


def _plain(value: object) -> object:
    """Return *value* as JSON has it: what is not finite is unknown there."""
    return json.loads(json.dumps(value, default=str), parse_constant=_unknown)


def _unknown(name: str) -> None:
    """Return nothing, for a number that JSON does not have."""
