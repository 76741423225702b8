"""Replay of recorded decisions: the same inputs must give the same decision."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.config.policy_loading import build_policy, recorded_limits, without_none
from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.controller.agent_requests import repair_before_requests
from opendrs.controller.serialization import plan_document
from opendrs.controller.step_serialization import plain
from opendrs.errors import ConfigurationError, StoreError
from opendrs.model import Snapshot
from opendrs.optimizer import END_OF_SEARCH, Portion
from opendrs.policies import (
    Decision,
    Drain,
    Policy,
    Return,
    completed,
    first_repair,
)
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize
from opendrs.ports import CycleRecord


@dataclass(frozen=True, slots=True)
class ReplayedDecision:
    """A recorded decision, and the one that its record gives now.

    Attributes:
        run: Name of the execution of its plan.
        decided_at: Time of the recorded decision.
        policy: Name of the policy.
        recorded: The recorded decision as plain values.
        repeated: The decision now, as plain values.
    """

    run: str
    decided_at: datetime
    policy: str
    recorded: Mapping[str, Any]
    repeated: Mapping[str, Any]

    @property
    def is_same(self) -> bool:
        """Return True if both decisions are equal in every byte of their JSON form."""
        return json.dumps(self.recorded) == json.dumps(self.repeated)


def replay(cycle: CycleRecord) -> ReplayedDecision:
    """Decide again on the recorded snapshot, settings and memory of *cycle*.

    Raises:
        StoreError: The record is damaged, or of a version or policy that this program
            does not have.
    """
    document: Mapping[str, Any] = cycle.document
    try:
        recorded = document["decision"]
        policy = _policy(recorded["policy"], document["settings"])
        snapshot = recorded_snapshot_from(document["snapshot"], cycle.run)
        decision = _decide(policy, snapshot, document)
        schedule = str(recorded.get("schedule", ""))
        repeated = plain(plan_document(policy.name, decision, snapshot, schedule))
    except (ConfigurationError, LookupError, TypeError, ValueError) as error:
        raise StoreError(
            f"store: cycle {cycle.run}: cannot be replayed: {error}"
        ) from error
    return ReplayedDecision(
        cycle.run, cycle.decided_at, policy.name, recorded, repeated
    )


def _policy(name: str, settings: Mapping[str, Any]) -> Policy[Any]:
    """Return the policy with the recorded settings; None stands for no setting."""
    values = without_none(settings)
    del values["limits"]
    for policy in (Drain, Return):
        if name == policy.name:
            return policy(limits=recorded_limits(settings))
    return build_policy(name, values, recorded_limits(settings))


def _decide(
    policy: Policy[Any], snapshot: Snapshot, document: Mapping[str, Any]
) -> Decision[Any]:
    memory = document["memory"]
    if document.get("repair_first"):
        repair = _first_repair(policy, snapshot, memory)
        if repair is None:
            raise ValueError("repair_first: nothing is repaired now")
        return repair
    if isinstance(policy, Optimize) and "search" in document:
        portions = [Portion(*portion) for portion in document["search"]]
        return policy.decide_until(snapshot, RecordedPortions(portions))
    if isinstance(policy, Consolidate) and "requests" in memory:
        return policy.decide_requests(snapshot, memory)
    decision = policy.decide(snapshot, memory)
    if isinstance(policy, Drain | Return):
        return decision
    return completed(policy, snapshot, decision)


def _first_repair(
    policy: Policy[Any],
    snapshot: Snapshot,
    memory: Any,  # noqa: ANN401 - of any policy
) -> Decision[Any] | None:
    if isinstance(policy, Consolidate) and "requests" in memory:
        return repair_before_requests(policy, snapshot, memory)
    return first_repair(policy, snapshot, memory)


class RecordedPortions:
    """Stopping criterion: the portions of searches that a time limit has ended.

    Args:
        portions: The portions of all searches, in their order.
    """

    def __init__(self, portions: list[Portion]) -> None:
        self._portions = iter(portions)

    def portions(self, size: int) -> Generator[Portion]:
        """Yield the portions of the next search."""
        del size
        for each in self._portions:
            if each == END_OF_SEARCH:
                return
            yield each
