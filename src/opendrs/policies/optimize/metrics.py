"""Metrics of a cluster for the goals of plans."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendrs.metrics import ImbalanceMetric, LoadModel, NodeLoad, imbalance, node_loads
from opendrs.model import GIB, Limits, NodeId, Snapshot
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.objective import Goal
from opendrs.rules import (
    ViolationCount,
    available_memory,
    count_strict,
    drained_nodes,
    violations,
)

ROUNDING = 1e-9  # differences below this are rounding
IMBALANCE = "imbalance (RMS of CPU CV and memory CV)"
DEVIATION = "RMS deviation from the balanced load"  # nodes or weights differ
"""Label of `ClusterMetrics.imbalance`; other policies use the CV of the mean load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Metrics of a cluster.

    Attributes:
        violated: Violated strict rules.
        overfull_gib: Memory above what nodes may hold, in GiB.
        contention: Unmet demand; 1 is the mean usage of a node.
        waiting_cores: Unmet demand for cores.
        waiting_gib: Unmet demand for memory, in GiB.
        imbalance: Quadratic mean of the coefficients of variation of CPU and memory
            load.
        used_nodes: Nodes with guests.
        thresholds: Loads above which demand counts as unmet.
        figures: The same and further metrics by name, for the operator.
    """

    violated: ViolationCount
    overfull_gib: float
    contention: float
    waiting_cores: float
    waiting_gib: float
    imbalance: float
    used_nodes: int
    thresholds: ContentionThresholds
    figures: Mapping[str, float]

    @property
    def violations(self) -> int:
        """Number of violations of strict rules."""
        return self.violated.violations

    def goal_values(self, goal: Goal) -> tuple[float, ...]:
        """Return the values to minimize for *goal*."""
        match goal:
            case Goal.REPAIR:
                return (float(self.violations), self.overfull_gib)
            case Goal.CONTENTION:
                return (self.contention,)
            case Goal.BALANCE:
                return (self.imbalance,)
            case Goal.CONSOLIDATION:
                return (float(self.used_nodes),)


def measure_cluster(
    snapshot: Snapshot,
    load_model: LoadModel,
    limits: Limits,
    thresholds: ContentionThresholds,
) -> ClusterMetrics:
    """Return the metrics of *snapshot*.

    Nodes that are drained count for no load, imbalance or number of nodes: that they
    are empty afterwards is no imbalance.

    Args:
        snapshot: Cluster; every online node must have metrics.
        load_model: Load that counts.
        limits: Limits of the operator.
        thresholds: Loads above which demand counts as unmet.
    """
    loads = node_loads(snapshot, load_model)
    drained = drained_nodes(snapshot)
    kept = {name: load for name, load in loads.items() if name not in drained}
    cpu = [load.cpu for load in kept.values()]
    memory = [load.memory for load in kept.values()]
    variations = [imbalance(each, ImbalanceMetric.CV) for each in (cpu, memory)]
    homes = {guest.node for guest in snapshot.guests.values() if guest.is_active}
    violated = count_strict(violations(snapshot))
    overfull = _overfull(snapshot, limits, loads)
    waiting, short = thresholds.cores_above(loads), thresholds.bytes_above(loads) / GIB
    mean = [load.mean for load in kept.values()]
    return ClusterMetrics(
        violated=violated,
        overfull_gib=overfull,
        contention=thresholds.contention(loads),
        waiting_cores=waiting,
        waiting_gib=short,
        imbalance=math.hypot(*variations) / math.sqrt(2),
        used_nodes=len(homes & set(kept)),
        thresholds=thresholds,
        figures={
            "imbalance": imbalance(mean, ImbalanceMetric.CV),
            "cpu_imbalance": variations[0],
            "memory_imbalance": variations[1],
            "highest_cpu": max(cpu, default=0.0),
            "highest_memory": max(memory, default=0.0),
            "broken_rules": float(violated.rules),
            "overfull_gib": overfull,
            "waiting_cores": waiting,
            "waiting_gib": short,
            "used_nodes": float(len(homes & set(kept))),
        },
    )


def first_improved_goal(
    before: ClusterMetrics,
    after: ClusterMetrics,
    priorities: Sequence[Goal],
    min_improvement: float,
) -> Goal | None:
    """Return the first goal that *after* improves; None if there is none.

    No earlier goal may get worse. Balance and contention must improve by the fraction
    *min_improvement*; other goals by any amount.
    """
    for goal in priorities:
        least = min_improvement if goal in (Goal.BALANCE, Goal.CONTENTION) else 0.0
        for was, then in zip(
            before.goal_values(goal), after.goal_values(goal), strict=True
        ):
            if was - then > max(least * was, ROUNDING):
                return goal
            if then - was > ROUNDING * max(1.0, was):
                return None
    return None


def _overfull(
    snapshot: Snapshot, limits: Limits, loads: Mapping[NodeId, NodeLoad]
) -> float:
    """Return the memory above what nodes may hold, in GiB; unknown memory counts 0."""
    left = available_memory(snapshot, limits)
    over = ((-(left[n].measured or 0.0), -(left[n].committed or 0.0)) for n in loads)
    return sum(max(0.0, *each) for each in over) / GIB


def describe_change(before: ClusterMetrics, after: ClusterMetrics) -> str:
    """Return a description of the change of the metrics."""
    parts = [f"{IMBALANCE} {before.imbalance:.3f} → {after.imbalance:.3f}"]
    if before.violations or after.violations:
        violated = f"{before.violated} → {after.violated}"
        parts.insert(0, f"violated strict rules {violated}")
    if before.overfull_gib > 0 or after.overfull_gib > 0:
        parts.append(
            f"memory above the limit {before.overfull_gib:.1f} → "
            f"{after.overfull_gib:.1f} GiB"
        )
    if before.waiting_cores > 0 or after.waiting_cores > 0:
        parts.append(
            f"unmet CPU demand {before.waiting_cores:.1f} → "
            f"{after.waiting_cores:.1f} cores"
        )
    if before.waiting_gib > 0 or after.waiting_gib > 0:
        parts.append(
            f"unmet memory demand {before.waiting_gib:.1f} → "
            f"{after.waiting_gib:.1f} GiB"
        )
    if before.used_nodes != after.used_nodes:
        parts.append(f"nodes with guests {before.used_nodes} → {after.used_nodes}")
    return ", ".join(parts)
