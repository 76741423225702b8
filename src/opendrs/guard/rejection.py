"""Rejections: a closed list of reasons, each with a detail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RejectionReason(StrEnum):
    """Reason why an action may not start. The values are stable.

    The last three come from limits of parallel migrations: the action may start later.
    """

    STALE_PLAN = "stale-plan"
    """The cluster has changed since the plan: the action does not apply."""
    MIGRATION_NOT_ALLOWED = "migration-not-allowed"
    """A rule or the mobility of the guest does not allow it to migrate."""
    MANAGED_ELSEWHERE = "managed-elsewhere"
    """Another program decides on the placement of the guest."""
    GUEST_LOCKED = "guest-locked"
    """An operation of the platform locks the guest."""
    TARGET_OFFLINE = "target-offline"
    """The target node is not online."""
    CPU_INCOMPATIBLE = "cpu-incompatible"
    """The processor of the target is not compatible with the guest."""
    STORAGE_MISSING = "storage-missing"
    """The target does not have a storage that the guest has a disk on."""
    METRICS_MISSING = "metrics-missing"
    """A required metric or capacity is unknown."""
    INSUFFICIENT_MEMORY = "insufficient-memory"
    """The target does not have enough memory with the headroom."""
    MEMORY_OVERCOMMITTED = "memory-overcommitted"
    """The limits on the target would exceed memory_overcommit."""
    LOCAL_DISKS = "local-disks"
    """A disk is on a storage of its node alone, and the limits forbid its copy."""
    DISK_MOVE_NOT_ALLOWED = "disk-move-not-allowed"
    """No group of storages in the limits contains both storages of the disk."""
    INSUFFICIENT_STORAGE = "insufficient-storage"
    """The target does not have enough free space for copies of disks."""
    CPU_OVERCOMMITTED = "cpu-overcommitted"
    """The CPU limits of the guests on the target would exceed cpu_overcommit."""
    LOAD_EXCEEDED = "load-exceeded"
    """A further load of the target would exceed its threshold."""
    RULE_VIOLATED = "rule-violated"
    """The action would violate a strict rule."""
    FAILURE_NOT_TOLERATED = "failure-not-tolerated"
    """After the action, a failure that the limits name would not be tolerated."""
    COOLDOWN = "cooldown"
    """The guest was migrated, or the node powered on, within the cooldown."""
    RECENTLY_STARTED = "recently-started"
    """The guest was started within the minimum uptime."""
    NODE_UNREACHABLE = "node-unreachable"
    """A node that the action involves is unreachable."""
    NODE_NOT_EMPTY = "node-not-empty"
    """The node to power off has guests."""
    BUDGET_EXCEEDED = "budget-exceeded"
    """A budget of migrations or of memory is spent for now."""
    BREAKER_OPEN = "breaker-open"
    """Too many steps failed: the circuit breaker has opened."""
    NODE_MIGRATION_LIMIT = "node-migration-limit"
    """Too many migrations from or to a node. Retried later."""
    NETWORK_MIGRATION_LIMIT = "network-migration-limit"
    """Too many migrations over a network. Retried later."""
    CLUSTER_MIGRATION_LIMIT = "cluster-migration-limit"
    """Too many migrations in the cluster. Retried later."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Reason why an action may not start now.

    Attributes:
        reason: Code of the reason.
        detail: The reason as a sentence, with names and numbers.
    """

    reason: RejectionReason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"
