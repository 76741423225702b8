"""Protocol of a policy, and its decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Generic, Protocol, TypeVar

from opendrs.arrays import SkippedGuest
from opendrs.model import EMPTY_PLAN, GuestId, Limits, NodeId, Plan, Snapshot

MemoryT = TypeVar("MemoryT")
MemoryT_co = TypeVar("MemoryT_co", covariant=True)

# Names of policies that other packages treat specially.
CONSOLIDATE, DRAIN, RETURN = "consolidate", "drain", "return"


class DecisionReason(StrEnum):
    """Reason of a decision. The values are stable."""

    BALANCED = "balanced"
    """The imbalance is below the threshold."""
    MIGRATION_IN_PROGRESS = "migration-in-progress"
    """Migrations are in progress."""
    METRICS_MISSING = "metrics-missing"
    """A required metric is unknown."""
    HOLD_NOT_REACHED = "hold-not-reached"
    """The imbalance has not lasted for enough cycles."""
    INTERVAL_NOT_ELAPSED = "interval-not-elapsed"
    """The interval of the policy has not elapsed."""
    CLUSTER_SETTLING = "cluster-settling"
    """The cluster changed too recently to rely on its metrics."""
    NO_CANDIDATE = "no-candidate"
    """No migration is possible."""
    IMPROVEMENT_TOO_SMALL = "improvement-too-small"
    """The improvement is smaller than required."""
    MIGRATION_LIMIT_REACHED = "migration-limit-reached"
    """The policy has reached its limit of migrations."""
    IMPROVES_BALANCE = "improves-balance"
    """The plan improves the balance."""
    ALREADY_CONSOLIDATED = "already-consolidated"
    """No further node can be drained."""
    RELIEVES_OVERLOAD = "relieves-overload"
    """The plan relieves overloaded nodes."""
    SAVES_POWER = "saves-power"
    """The plan drains or powers off nodes."""
    NO_PRESSURE = "no-pressure"
    """No guest is starved."""
    RELIEVES_PRESSURE = "relieves-pressure"
    """The plan relieves a starved guest."""
    REPAIRS_RULES = "repairs-rules"
    """The plan repairs violated rules."""
    REPAIRS_SOFT_RULES = "repairs-soft-rules"
    """The plan repairs violated soft rules."""
    RESTORES_TOLERANCE = "restores-tolerance"
    """The plan makes failures tolerated that were not."""
    RULES_HOLD = "rules-hold"
    """No strict rule is violated."""
    VACATES_NODES = "vacates-nodes"
    """The plan moves all guests off some nodes."""
    DRAINS_NODES = "drains-nodes"
    """The plan moves guests off nodes in maintenance."""
    NODES_EMPTY = "nodes-empty"
    """Every node in maintenance is empty."""
    LOAD_BELOW_GATE = "load-below-gate"
    """No node is loaded enough for a migration for balance, by the limits."""
    FORECAST_DELAYS = "forecast-delays"
    """The load that is expected over the horizon requires no migration."""
    RELIEVES_STORAGE = "relieves-storage"
    """The plan moves disks away from storages that are too full."""
    RETURNS_GUESTS = "returns-guests"
    """The plan returns guests to the node that they were drained from."""


UNDECIDED = frozenset(
    {
        DecisionReason.CLUSTER_SETTLING,
        DecisionReason.HOLD_NOT_REACHED,
        DecisionReason.INTERVAL_NOT_ELAPSED,
        DecisionReason.METRICS_MISSING,
        DecisionReason.MIGRATION_IN_PROGRESS,
    }
)
"""Reasons of a policy that waits, and decides in a later cycle."""


_REASON_TEXTS = {
    DecisionReason.METRICS_MISSING: "metrics missing",
    DecisionReason.MIGRATION_IN_PROGRESS: "waiting",
    DecisionReason.HOLD_NOT_REACHED: "the imbalance has not lasted long enough",
    DecisionReason.INTERVAL_NOT_ELAPSED: "the interval has not elapsed",
    DecisionReason.CLUSTER_SETTLING: "the cluster changed too recently",
    DecisionReason.NO_CANDIDATE: "no feasible move",
    DecisionReason.IMPROVEMENT_TOO_SMALL: "the improvement is too small",
    DecisionReason.MIGRATION_LIMIT_REACHED: "the limit of migrations is reached",
    DecisionReason.IMPROVES_BALANCE: "improves the balance",
    DecisionReason.ALREADY_CONSOLIDATED: "already consolidated",
    DecisionReason.RELIEVES_OVERLOAD: "relieves or prevents overload",
    DecisionReason.SAVES_POWER: "drains nodes to save power",
    DecisionReason.NO_PRESSURE: "no guest is starved",
    DecisionReason.RELIEVES_PRESSURE: "relieves a starved guest",
    DecisionReason.REPAIRS_RULES: "repairs violated rules",
    DecisionReason.REPAIRS_SOFT_RULES: "repairs violated soft rules",
    DecisionReason.RESTORES_TOLERANCE: "makes more failures tolerated",
    DecisionReason.RULES_HOLD: "nothing to repair",
    DecisionReason.VACATES_NODES: "moves all guests off some nodes",
    DecisionReason.DRAINS_NODES: "drains nodes in maintenance",
    DecisionReason.NODES_EMPTY: "every node in maintenance is empty",
    DecisionReason.LOAD_BELOW_GATE: "no node is loaded enough to balance",
    DecisionReason.FORECAST_DELAYS: "delayed by the forecast",
    DecisionReason.RELIEVES_STORAGE: "moves disks away from full storages",
    DecisionReason.RETURNS_GUESTS: "returns guests to a node that was drained",
}


def reason_text(reason: DecisionReason) -> str:
    """Return *reason* in words; the codes are for programs."""
    return _REASON_TEXTS.get(reason, reason.value)


@dataclass(frozen=True, slots=True)
class Decision(Generic[MemoryT_co]):
    """Result of a policy for one snapshot.

    Attributes:
        reason: Code of the reason.
        memory: Memory for the next cycle; valid JSON.
        plan: Plan; empty if nothing is to be done.
        detail: The reason as a sentence, with the numbers.
        before: Metrics of the policy for the cluster now, by name.
        after: The same metrics after the plan.
        notes: Further information for the operator, such as skipped guests.
        skipped: Why each skipped guest is not migrated; empty if not evaluated.
        repair_first: True if the plan is the repair that precedes the policy, which
            has not decided yet.
        unmeasured: Nodes that are left out because a metric of them is unknown.
    """

    reason: DecisionReason
    memory: MemoryT_co
    plan: Plan = EMPTY_PLAN
    detail: str = ""
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    skipped: Mapping[GuestId, SkippedGuest] = field(default_factory=dict)
    repair_first: bool = False
    unmeasured: tuple[NodeId, ...] = ()


class Policy(Protocol[MemoryT]):
    """Policy that decides which guests to migrate.

    The same snapshot and memory always give the same decision: a policy reads no clock,
    uses no unseeded random numbers, and does no input or output. It is a frozen
    dataclass whose fields are its settings.

    Attributes:
        name: Name in the configuration; stable.
        limits: Limits of the operator.
    """

    name: ClassVar[str]

    @property
    def limits(self) -> Limits:
        """Return the limits of the operator."""

    def initial_memory(self) -> MemoryT:
        """Return the memory before the first cycle."""

    def decide(self, snapshot: Snapshot, memory: MemoryT) -> Decision[MemoryT]:
        """Return the decision for *snapshot*."""


PERCENT = 100
MAX_IMBALANCE = 10.0  # all load on one node exceeds it with 102 nodes or more
MAX_WEIGHT = 1e6


def require_ratio(name: str, value: float, maximum: float = math.inf) -> None:
    """Check that a setting is a ratio from 0 to *maximum*.

    Raises:
        ValueError: The value is negative, larger, or not a number.
    """
    if not 0 <= value <= maximum or math.isinf(value):
        bound = "of at least 0" if math.isinf(maximum) else f"in [0, {maximum:g}]"
        is_percentage = 1 < value <= PERCENT and maximum <= MAX_IMBALANCE
        hint = f"; {value:g} % is {value / PERCENT:g}" if is_percentage else ""
        raise ValueError(f"{name}: expected a finite number {bound}, got {value}{hint}")
