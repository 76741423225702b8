"""Records of cycles, as the controller makes them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from opendrs.controller.serialization import cycle_record
from opendrs.model import Snapshot
from opendrs.policies import Balance, Policy
from opendrs.ports import CycleRecord
from support.builders import NOON


def decided(
    snapshot: Snapshot,
    policy: Policy[Any] | None = None,
    run: str = "run",
    at: datetime = NOON,
) -> CycleRecord:
    """Return the record of the decision of *policy* about *snapshot*."""
    policy = policy or Balance()
    memory = policy.initial_memory()
    decision = policy.decide(snapshot, memory)
    return cycle_record(
        run, at, snapshot, policy=policy, memory=memory, decision=decision
    )
