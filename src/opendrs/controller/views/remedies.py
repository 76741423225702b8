"""Changes after which a guest would be moved, or a plan would be made."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.arrays import SkipReason
from opendrs.controller.stay_reasons import StayReason
from opendrs.policies import DecisionReason

_CODES: Mapping[str, str] = {
    SkipReason.NOT_RUNNING: "start the guest; only running guests migrate",
    SkipReason.MIGRATION_IN_PROGRESS: "wait until its migration has ended",
    SkipReason.MANAGED_ELSEWHERE: (
        "turn off the other program that places it, or exclude the guest there"
    ),
    SkipReason.GUEST_LOCKED: "wait until the operation of the platform has ended",
    SkipReason.NODE_NOT_ONLINE: "bring its node online",
    SkipReason.NODE_NOT_MEASURED: "make the platform report the capacity and use of "
    "its node",
    SkipReason.PINNED: "remove it from the rule that pins it",
    SkipReason.MIGRATION_FAILED: (
        "wait until the given time; if it does not converge, raise "
        "limits.migration_timeout or the bandwidth"
    ),
    SkipReason.TAG_EXCLUDED: "remove the tag, or the rule that excludes it",
    SkipReason.CONTRADICTORY_RULES: (
        "change one of the rules that contradict each other"
    ),
    SkipReason.RECENTLY_STARTED: "wait until limits.min_uptime has elapsed",
    SkipReason.COOLDOWN: "wait until limits.cooldown has elapsed",
    SkipReason.NOT_HA_MANAGED: "put it under the HA manager, or use another policy",
    SkipReason.METRICS_MISSING: "make the platform report its use",
    SkipReason.NO_CPU_LIMIT: "set a CPU limit, or use the dynamic load model",
    SkipReason.MOBILITY_NONE: (
        "remove what binds it to its node, such as a local disk or a device"
    ),
    SkipReason.LOCAL_DISKS: (
        "allow the copy with limits.migrate_local_disks, or move the disk to shared "
        "storage"
    ),
    SkipReason.MOBILITY_COLD: "allow cold migration in the settings of the policy",
    SkipReason.GROUP_MEMBER_SKIPPED: (
        "let the other guest of its affinity rule leave first: see why that one stays"
    ),
    SkipReason.GROUP_ON_SEVERAL_NODES: (
        "bring the guests of its affinity group together on one node"
    ),
    SkipReason.NO_COMMON_NODE: (
        "free memory on a node that is allowed for all guests of its group"
    ),
    SkipReason.NO_FEASIBLE_NODE: (
        "free memory on an allowed node, add a node, or relax its rules"
    ),
    SkipReason.OVER_BUDGET: "raise the budget of migrations in [protection]",
    SkipReason.LAST_MIGRATED: "wait until another guest has been migrated",
    SkipReason.FAILURE_NOT_TOLERATED: (
        "free memory or add a node, so that limits.tolerated_failures and "
        "limits.tolerated_domain are kept"
    ),
    StayReason.IMMOVABLE: "remove the rule that excludes it from migration",
    StayReason.SOFT_RULE: "change or remove the soft rule",
    StayReason.NOT_CHOSEN: (
        "add a rule that requires another node; otherwise it stays, because other "
        "moves improve the cluster more, or none is needed"
    ),
    DecisionReason.METRICS_MISSING: "make the platform report the missing metrics",
    DecisionReason.MIGRATION_IN_PROGRESS: "wait until the migrations have ended",
    DecisionReason.HOLD_NOT_REACHED: "wait: the imbalance has to last for more cycles",
    DecisionReason.INTERVAL_NOT_ELAPSED: "wait until the interval has elapsed",
    DecisionReason.CLUSTER_SETTLING: "wait until the metrics are reliable again",
    DecisionReason.NO_CANDIDATE: (
        "relax rules, free memory, or add a node: no move is feasible"
    ),
    DecisionReason.IMPROVEMENT_TOO_SMALL: (
        "lower the least improvement in the settings of the policy"
    ),
    DecisionReason.MIGRATION_LIMIT_REACHED: (
        "raise the limit of migrations in the settings of the policy"
    ),
}


def remedy(code: str) -> str | None:
    """Return what would have to change, by the code of a reason; None if nothing.

    Args:
        code: A `SkipReason`, a `DecisionReason`, or a code of an explanation.
    """
    return _CODES.get(code)
