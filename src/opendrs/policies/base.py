"""What a policy is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Generic, Protocol, TypeVar

from opendrs.model import EMPTY_PLAN, Limits, Plan, Snapshot

MemoryT = TypeVar("MemoryT")
MemoryT_co = TypeVar("MemoryT_co", covariant=True)


class DecisionReason(StrEnum):
    """Why a policy decided as it did; shown to operators, so never renamed."""

    BALANCED = "balanced"
    MIGRATION_IN_PROGRESS = "migration-in-progress"
    METRICS_MISSING = "metrics-missing"
    HOLD_NOT_REACHED = "hold-not-reached"
    INTERVAL_NOT_ELAPSED = "interval-not-elapsed"
    CLUSTER_SETTLING = "cluster-settling"
    NO_CANDIDATE = "no-candidate"
    IMPROVEMENT_TOO_SMALL = "improvement-too-small"
    MIGRATION_LIMIT_REACHED = "migration-limit-reached"
    IMPROVES_BALANCE = "improves-balance"
    ALREADY_CONSOLIDATED = "already-consolidated"
    RELIEVES_OVERLOAD = "relieves-overload"
    SAVES_POWER = "saves-power"
    NO_PRESSURE = "no-pressure"
    RELIEVES_PRESSURE = "relieves-pressure"
    REPAIRS_RULES = "repairs-rules"
    VACATES_NODES = "vacates-nodes"


@dataclass(frozen=True, slots=True)
class Decision(Generic[MemoryT_co]):
    """What a policy wants done, why, and what it wants to remember.

    Attributes:
        reason: Why.
        memory: Given back to the policy in the next cycle; JSON-able.
        plan: What to do; empty to leave the cluster alone.
        detail: The reason in a sentence, with the numbers.
        before: The cluster as it is, in the policy's own measures by name.
        after: The same once the plan is done.
        notes: What else the operator should know: who was left alone and why.
    """

    reason: DecisionReason
    memory: MemoryT_co
    plan: Plan = EMPTY_PLAN
    detail: str = ""
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Policy(Protocol[MemoryT]):
    """Decides what to do about a snapshot.

    The same snapshot and memory always give the same decision: a policy reads
    no clock, draws no unseeded random number, and does no input or output. It
    is a frozen dataclass whose fields are its settings.

    Attributes:
        name: What operators call it; never renamed.
        limits: What the operator allows, whatever the policy would like.
    """

    name: ClassVar[str]

    @property
    def limits(self) -> Limits:
        """Return what the operator allows."""

    def initial_memory(self) -> MemoryT:
        """Return the memory of a policy that has seen nothing yet."""

    def decide(self, snapshot: Snapshot, memory: MemoryT) -> Decision[MemoryT]:
        """Return what to do about *snapshot*."""


PERCENT = 100
MAX_IMBALANCE = 10.0  # with all load on one node, above it from 102 nodes on
MAX_WEIGHT = 1e6


def require_ratio(name: str, value: float, maximum: float = math.inf) -> None:
    """Check a setting that is a ratio, from 0 up to *maximum*.

    Raises:
        ValueError: It is negative, larger, or not a number.
    """
    if not 0 <= value <= maximum or math.isinf(value):
        bound = "0 or more" if math.isinf(maximum) else f"in [0, {maximum:g}]"
        is_percentage = 1 < value <= PERCENT and maximum <= MAX_IMBALANCE
        hint = f"; {value:g} % is {value / PERCENT:g}" if is_percentage else ""
        raise ValueError(f"{name} must be a finite number {bound}, not {value}{hint}")
