"""Metrics of a cluster for the goals of plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opendrs.metrics import ImbalanceMetric, LoadModel, demand, node_loads
from opendrs.model import (
    GIB,
    NO_RESOURCES,
    Guest,
    Limits,
    NodeId,
    Snapshot,
)
from opendrs.policies.load_metrics import load_metrics
from opendrs.policies.optimize.balance_measure import EQUAL_WEIGHTS, BalanceMeasure
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.objective import Goal
from opendrs.rules import (
    MILLICORES,
    AvailableMemory,
    ViolationCount,
    available_memory,
    balanced_loads,
    compared_loads,
    count_strict,
    drained_nodes,
    split_drains,
    usable_memory,
    violations,
)

ROUNDING = 1e-9  # differences below this are rounding
IMBALANCE = "imbalance (RMS deviation from the balanced load)"
"""Label of `ClusterMetrics.imbalance`; other policies use the CV of the mean load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetrics:
    """Metrics of a cluster.

    Attributes:
        violated: Violated strict rules, without those that drain nodes.
        to_drain: Guests on nodes that are drained.
        overfull_gib: Memory above what nodes may hold, in GiB.
        overfull_cores: Committed CPU above what nodes may hold, in cores; None if no
            node limits it.
        overfull_loads: Further loads above their thresholds, as parts of the capacities
            of the nodes; None if none is limited.
        contention: Unmet demand; 1 is the mean usage of a node.
        waiting_cores: Unmet demand for cores.
        waiting_gib: Unmet demand for memory, in GiB.
        imbalance: RMS deviation of the node loads from the balanced load, relative to
            it: what the goal balance minimizes, with its weights. For nodes of one size
            and equal weights it is the quadratic mean of the coefficients of variation
            of CPU and memory load.
        balance: How that is measured, before and after a plan.
        used_nodes: Nodes with guests.
        thresholds: Loads above which demand counts as unmet.
        load_figures: Imbalances and highest loads by name, for the operator.
    """

    violated: ViolationCount
    to_drain: int
    overfull_gib: float
    overfull_cores: float | None
    overfull_loads: float | None
    contention: float
    waiting_cores: float
    waiting_gib: float
    imbalance: float
    balance: BalanceMeasure
    used_nodes: int
    thresholds: ContentionThresholds
    load_figures: Mapping[str, float]

    @property
    def figures(self) -> dict[str, float]:
        """The metrics by name, for the operator."""
        return {
            **self.load_figures,
            "broken_rules": float(self.violated.rules),
            "overfull_gib": self.overfull_gib,
            **_known_figures(
                overfull_cores=self.overfull_cores, overfull_loads=self.overfull_loads
            ),
            "waiting_cores": self.waiting_cores,
            "waiting_gib": self.waiting_gib,
            "used_nodes": float(self.used_nodes),
        }

    @property
    def violations(self) -> int:
        """Number of violations of strict rules, with guests to drain."""
        return self.violated.violations + self.to_drain

    def goal_values(self, goal: Goal) -> tuple[float, ...]:
        """Return the values to minimize for *goal*."""
        match goal:
            case Goal.REPAIR:
                above = (self.overfull_gib, self.overfull_cores, self.overfull_loads)
                return (float(self.violations), *(each or 0.0 for each in above))
            case Goal.CONTENTION:
                return (self.contention,)
            case Goal.BALANCE:
                return (self.imbalance,)
            case Goal.CONSOLIDATION:
                return (float(self.used_nodes),)

    def satisfies(self, goals: Collection[Goal], threshold: float) -> bool:
        """Return True if none of *goals* can be improved.

        Args:
            goals: Goals of a plan.
            threshold: Imbalance up to which the goal balance is reached.
        """
        return not (
            Goal.CONSOLIDATION in goals
            or (Goal.REPAIR in goals and any(self.goal_values(Goal.REPAIR)))
            or (Goal.CONTENTION in goals and self.contention > 0)
            or (Goal.BALANCE in goals and self.imbalance > threshold)
        )


def measure_cluster(  # noqa: PLR0913, PLR0917 - the cluster and its limits
    snapshot: Snapshot,
    load_model: LoadModel,
    limits: Limits,
    thresholds: ContentionThresholds,
    weights: tuple[float, ...] = EQUAL_WEIGHTS,
    fill: float = 1.0,
    balance: BalanceMeasure | None = None,
    departing: Iterable[Guest] = (),
) -> ClusterMetrics:
    """Return the metrics of *snapshot*.

    Nodes that are drained do not count.

    Args:
        snapshot: Cluster; every online node must have metrics.
        load_model: Load that counts.
        limits: Limits of the operator.
        thresholds: Loads above which demand counts as unmet.
        weights: Weights of the balance of CPU load, of memory load, and of
            `balanced_loads`, or of the first two.
        fill: Fraction of its memory to which each node may be filled.
        balance: Measure of the cluster before the plan; None if *snapshot* is that
            cluster.
        departing: Guests that may migrate, which leave the drained nodes.
    """
    further = balanced_loads(snapshot, limits)
    loads = node_loads(snapshot, load_model, further)
    drained = drained_nodes(snapshot)
    kept = {name: load for name, load in loads.items() if name not in drained}
    violated, to_drain = _violated(snapshot)
    left = available_memory(snapshot, limits)
    if balance is None:
        moved = (
            (each.node, demand(each, load_model) or NO_RESOURCES, each.loads)
            for each in departing
        )
        balance = BalanceMeasure.of(snapshot, loads, kept, weights, further, moved)
    return ClusterMetrics(
        violated=violated,
        to_drain=to_drain,
        overfull_gib=_overfull_gib(snapshot, left, limits, fill, loads),
        overfull_cores=_overfull_cores([left[name] for name in loads]),
        overfull_loads=_overfull_loads(snapshot, limits, loads),
        contention=thresholds.contention(loads),
        waiting_cores=thresholds.cores_above(loads),
        waiting_gib=thresholds.bytes_above(loads) / GIB,
        imbalance=balance.deviation(snapshot, kept),
        balance=balance,
        used_nodes=_used_nodes(snapshot, kept),
        thresholds=thresholds,
        load_figures=load_metrics(kept, ImbalanceMetric.CV),
    )


def _violated(snapshot: Snapshot) -> tuple[ViolationCount, int]:
    """Return the violated strict rules, and the number of guests to drain."""
    rules, drains = split_drains(violations(snapshot))
    return count_strict(rules), len(drains)


def _known_figures(**figures: float | None) -> dict[str, float]:
    """Return the figures that are not None."""
    return {name: each for name, each in figures.items() if each is not None}


def _used_nodes(snapshot: Snapshot, nodes: Collection[NodeId]) -> int:
    """Return the number of *nodes* with guests."""
    used = {guest.node for guest in snapshot.guests.values() if guest.is_active}
    return len(used & set(nodes))


def _overfull_loads(
    snapshot: Snapshot, limits: Limits, nodes: Iterable[NodeId]
) -> float | None:
    """Return the loads of *nodes* above the thresholds; None without a threshold."""
    limited = [
        (load, load.threshold)
        for load in compared_loads(snapshot, limits)
        if load.threshold is not None
    ]
    if not limited:
        return None
    return sum(
        max(0.0, (load.used_fraction(snapshot.nodes[name]) or 0.0) - threshold)
        for name in nodes
        for load, threshold in limited
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


def worsened_goal(
    before: ClusterMetrics, after: ClusterMetrics, goals: Sequence[Goal]
) -> Goal | None:
    """Return the first of *goals* that *after* worsens; None if there is none."""
    for goal in goals:
        values = zip(before.goal_values(goal), after.goal_values(goal), strict=True)
        if any(then - was > ROUNDING * max(1.0, was) for was, then in values):
            return goal
    return None


def _overfull_gib(
    snapshot: Snapshot,
    left: Mapping[NodeId, AvailableMemory],
    limits: Limits,
    fill: float,
    nodes: Iterable[NodeId],
) -> float:
    """Return the memory above what *nodes* may hold, in GiB; unknown memory counts 0.

    A node holds no more than the fraction *fill* of its memory.
    """
    total = 0.0
    for name in nodes:
        measured, committed = left[name].measured or 0.0, left[name].committed or 0.0
        node = snapshot.nodes[name]
        capacity = 0 if node.capacity is None else node.capacity.memory
        usable = usable_memory(node, limits).measured or 0.0
        reserve = max(0.0, usable - fill * capacity)
        total += max(0.0, reserve - measured, -committed)
    return total / GIB


def _overfull_cores(left: Sequence[AvailableMemory]) -> float | None:
    """Return the committed CPU above what nodes may hold; None without a limit."""
    if all(each.has_unlimited_cpu for each in left):
        return None
    return sum(max(0.0, -(each.millicores or 0.0)) for each in left) / MILLICORES


def describe_repair(before: ClusterMetrics, after: ClusterMetrics) -> str:
    """Return the change of the violated strict rules and of the guests to drain."""
    parts = []
    if before.to_drain or after.to_drain:
        parts.append(f"guests to drain {before.to_drain} → {after.to_drain}")
    if before.violated.rules or after.violated.rules or not parts:
        parts.insert(0, f"violated strict rules {before.violated} → {after.violated}")
    return ", ".join(parts)


def describe_change(before: ClusterMetrics, after: ClusterMetrics) -> str:
    """Return a description of the change of the metrics."""
    parts = [f"{IMBALANCE} {before.imbalance:.3f} → {after.imbalance:.3f}"]
    if before.violations or after.violations:
        parts.insert(0, describe_repair(before, after))
    if before.overfull_gib > 0 or after.overfull_gib > 0:
        parts.append(
            f"memory above what nodes may hold {before.overfull_gib:.1f} → "
            f"{after.overfull_gib:.1f} GiB"
        )
    above = before.overfull_loads or 0.0, after.overfull_loads or 0.0
    if max(above) > 0:
        parts.append(
            f"further loads above their thresholds {above[0]:.1%} → {above[1]:.1%} of "
            "a node"
        )
    cores = before.overfull_cores or 0.0, after.overfull_cores or 0.0
    if max(cores) > 0:
        parts.append(
            f"committed CPU above what nodes may hold {cores[0]:g} → {cores[1]:g} cores"
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
