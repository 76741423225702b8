"""Rejections: a closed list of reasons, each with a detail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RejectionReason(StrEnum):
    """Why something may not start; shown to operators, so never renamed.

    The last three come from the budget: they mean "wait", not "no".
    """

    STALE_PLAN = "stale-plan"
    MIGRATION_NOT_ALLOWED = "migration-not-allowed"
    TARGET_OFFLINE = "target-offline"
    CPU_INCOMPATIBLE = "cpu-incompatible"
    METRICS_MISSING = "metrics-missing"
    INSUFFICIENT_MEMORY = "insufficient-memory"
    MEMORY_OVERCOMMITTED = "memory-overcommitted"
    RULE_VIOLATED = "rule-violated"
    COOLDOWN = "cooldown"
    RECENTLY_STARTED = "recently-started"
    NODE_UNREACHABLE = "node-unreachable"
    NODE_NOT_EMPTY = "node-not-empty"
    NODE_MIGRATION_LIMIT = "node-migration-limit"
    NETWORK_MIGRATION_LIMIT = "network-migration-limit"
    CLUSTER_MIGRATION_LIMIT = "cluster-migration-limit"


@dataclass(frozen=True, slots=True)
class Rejection:
    """What speaks against starting something now.

    Attributes:
        reason: Which of the reasons it is.
        detail: The reason in a sentence, with names and numbers.
    """

    reason: RejectionReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
