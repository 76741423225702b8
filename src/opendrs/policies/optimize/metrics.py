"""How a cluster stands, in the measures that plans are made for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendrs.metrics import ImbalanceMetric, LoadModel, NodeLoad, imbalance, node_loads
from opendrs.model import GIB, Limits, NodeId, Snapshot
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.objective import Goal
from opendrs.rules import available_memory, violations

ROUNDING = 1e-9  # differences below this are rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """How a cluster stands.

    Attributes:
        violations: Breaches of strict rules.
        overfull_gib: Memory over what nodes may hold, in GiB.
        contention: What is waited for, where 1 is what is taken of a node on average.
        waiting_cores: Cores that are waited for.
        waiting_gib: Memory that is waited for, in GiB.
        imbalance: The quadratic mean of the coefficients of variation of cpu and of
            memory load.
        used_nodes: Nodes with guests on them.
        thresholds: Up to which loads nobody is taken to wait.
        figures: The same and more by name, for the operator.
    """

    violations: int
    overfull_gib: float
    contention: float
    waiting_cores: float
    waiting_gib: float
    imbalance: float
    used_nodes: int
    thresholds: ContentionThresholds
    figures: Mapping[str, float]

    def goal_values(self, goal: Goal) -> tuple[float, ...]:
        """Return what is to become less for *goal*."""
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
    """Return how *snapshot* stands.

    Args:
        snapshot: The cluster; every online node must be measured.
        load_model: What counts as load.
        limits: What the operator allows.
        thresholds: Up to which loads nobody is taken to wait.
    """
    loads = node_loads(snapshot, load_model)
    cpu = [load.cpu for load in loads.values()]
    memory = [load.memory for load in loads.values()]
    variations = [imbalance(each, ImbalanceMetric.CV) for each in (cpu, memory)]
    homes = {guest.node for guest in snapshot.guests.values() if guest.is_active}
    broken = sum(found.strict for found in violations(snapshot))
    overfull = _overfull(snapshot, limits, loads)
    waiting, short = thresholds.cores_above(loads), thresholds.bytes_above(loads) / GIB
    mean = [load.mean for load in loads.values()]
    return ClusterMetrics(
        violations=broken,
        overfull_gib=overfull,
        contention=thresholds.contention(loads),
        waiting_cores=waiting,
        waiting_gib=short,
        imbalance=math.hypot(*variations) / math.sqrt(2),
        used_nodes=len(homes & set(loads)),
        thresholds=thresholds,
        figures={
            "imbalance": imbalance(mean, ImbalanceMetric.CV),
            "cpu_imbalance": variations[0],
            "memory_imbalance": variations[1],
            "highest_cpu": max(cpu, default=0.0),
            "highest_memory": max(memory, default=0.0),
            "broken_rules": float(broken),
            "overfull_gib": overfull,
            "waiting_cores": waiting,
            "waiting_gib": short,
            "used_nodes": float(len(homes & set(loads))),
        },
    )


def first_improved_goal(
    before: ClusterMetrics,
    after: ClusterMetrics,
    priorities: Sequence[Goal],
    min_improvement: float,
) -> Goal | None:
    """Return the first goal for which *after* is better; None if it is not at all.

    What comes before that goal must not be worse. Evenness and contention must be
    better by *min_improvement*, a part of what they were; what is broken, by anything.
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
    """Return the memory over what nodes may hold; of what is not known, none is."""
    left = available_memory(snapshot, limits)
    over = ((-(left[n].measured or 0.0), -(left[n].committed or 0.0)) for n in loads)
    return sum(max(0.0, *each) for each in over) / GIB


def describe_change(before: ClusterMetrics, after: ClusterMetrics) -> str:
    """Return in words what becomes of *before*."""
    parts = [f"unevenness {before.imbalance:.3f} → {after.imbalance:.3f}"]
    if before.violations or after.violations:
        parts.insert(0, f"broken rules {before.violations} → {after.violations}")
    if before.overfull_gib > 0 or after.overfull_gib > 0:
        parts.append(
            f"memory over the limit {before.overfull_gib:.1f} → {after.overfull_gib:.1f} GiB"
        )
    if before.waiting_cores > 0 or after.waiting_cores > 0:
        parts.append(
            f"cores waited for {before.waiting_cores:.1f} → {after.waiting_cores:.1f}"
        )
    if before.waiting_gib > 0 or after.waiting_gib > 0:
        parts.append(
            f"memory waited for {before.waiting_gib:.1f} → {after.waiting_gib:.1f} GiB"
        )
    if before.used_nodes != after.used_nodes:
        parts.append(f"nodes in use {before.used_nodes} → {after.used_nodes}")
    return ", ".join(parts)
