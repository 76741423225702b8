"""Objective of a plan: priorities, weights, and the problem for the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from opendrs.model import Affinity, AntiAffinity, GuestId
from opendrs.optimizer import Floats, GroupSets, IndexLists, Problem
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.encoding import (
    CPU,
    RESOURCES,
    EncodedCluster,
    safe_divide,
)
from opendrs.policies.optimize.placement_costs import NO_TARGETS, PlacementCosts

PRIORITY_FACTOR = 100.0  # weight of a goal relative to the next one


class Goal(StrEnum):
    """Goals of a plan; names in the configuration, stable.

    `repair`: no violated strict rules, no memory above what nodes may hold.
    `contention`: no unmet demand for cores or memory. `balance`: equal loads.
    `consolidation`: few nodes with guests.
    """

    REPAIR = "repair"
    CONTENTION = "contention"
    BALANCE = "balance"
    CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveWeights:
    """Weights of the objective; 1 is the cost of a node with twice the balanced load.

    Attributes:
        violation: Guest that violates a strict rule, and the balanced load of a node as
            memory above the limit.
        contention: Balanced load of a node as unmet demand.
        cpu_balance: Squared deviation of a node from the balanced CPU load, relative to
            it.
        memory_balance: The same for memory.
        used_node: Node with guests.
        soft_rule: Guest that violates a soft rule.
        thresholds: Loads above which demand counts as unmet.
        gib: GiB of migration cost.
    """

    violation: float
    contention: float
    cpu_balance: float
    memory_balance: float
    used_node: float
    soft_rule: float
    thresholds: ContentionThresholds
    gib: float


def goal_weight(goal: Goal, priorities: Sequence[Goal]) -> float:
    """Return the weight of *goal*: 1 for the last, PRIORITY_FACTOR times the next.

    A goal that is not among the priorities has the weight 0.
    """
    if goal not in priorities:
        return 0.0
    return float(PRIORITY_FACTOR ** (len(priorities) - 1 - priorities.index(goal)))


def encode_problem(cluster: EncodedCluster, weights: ObjectiveWeights) -> Problem:
    """Return the problem for the optimizer, without a budget."""
    classes = PlacementCosts(cluster)
    class_of = [
        classes.class_of(each.guests) if each.is_free and known else NO_TARGETS
        for each, known in zip(
            cluster.groups, cluster.movable.is_known.tolist(), strict=True
        )
    ]
    per_balanced_load = safe_divide(
        np.ones(RESOURCES), cluster.balanced_load * cluster.capacity.mean(axis=0)
    )
    imbalance_weight = np.zeros(RESOURCES)
    imbalance_weight[CPU], imbalance_weight[cluster.memory_resource] = (
        weights.cpu_balance,
        weights.memory_balance,
    )
    safety, excess = _contention(cluster, weights, per_balanced_load)
    return Problem(
        capacity=cluster.capacity,
        demand=cluster.movable.demand,
        origin=cluster.origin,
        class_of=np.array(class_of, np.int64),
        allowed=classes.allowed,
        base_load=cluster.base_load,
        group_sets=_group_sets(cluster, weights),
        overload_weight=np.array([0.0, weights.violation, weights.violation])
        * per_balanced_load,
        safety_capacity=safety,
        excess_weight=excess,
        target_load=cluster.balanced_load,
        imbalance_weight=safe_divide(
            imbalance_weight, np.square(cluster.balanced_load)
        ),
        use_cost=np.full(len(cluster.node_ids), weights.used_node),
        placement_cost=classes.placement_cost(weights.violation, weights.soft_rule),
        move_cost=weights.gib * cluster.movable.migration_cost,
    )


def _contention(
    cluster: EncodedCluster, weights: ObjectiveWeights, per_balanced_load: Floats
) -> tuple[Floats, Floats]:
    """Return the contention thresholds of each node, and the cost of load above."""
    safety_capacity = np.full_like(cluster.capacity, np.inf)
    safety_capacity[:, CPU] = [
        weights.thresholds.cpu[name] for name in cluster.node_ids
    ]
    safety_capacity[:, cluster.memory_resource] = [
        weights.thresholds.memory.get(name, np.inf) for name in cluster.node_ids
    ]
    excess = np.zeros_like(cluster.capacity)
    resources = np.array([CPU, cluster.memory_resource])
    excess[:, resources] = weights.contention * per_balanced_load[resources]
    return safety_capacity, excess


def _group_sets(cluster: EncodedCluster, weights: ObjectiveWeights) -> GroupSets:
    rows = [row for row in _set_rows(cluster, weights) if len(row[0]) > 1]
    count = len(rows)
    return GroupSets(
        members=IndexLists.of([row for row, _, _ in rows]),
        strict=np.array([strict for _, strict, _ in rows], np.bool_),
        anti_affinity_weight=np.array([weight for _, _, weight in rows], float),
        spread=np.zeros(count, np.int64),
        needs=IndexLists.of([[]] * count),
    )


def _set_rows(
    cluster: EncodedCluster, weights: ObjectiveWeights
) -> Iterator[tuple[list[int], bool, float]]:
    """Yield the groups of each rule about neighbors, if it is strict, and its weight.

    Guests with a soft affinity have a negative cost of sharing a node.
    """
    for rule in cluster.snapshot.rules:
        if isinstance(rule, AntiAffinity):
            row = _groups_of(cluster, rule.guests)
            yield (
                row,
                rule.strict,
                weights.violation if rule.strict else weights.soft_rule,
            )
        elif isinstance(rule, Affinity) and not rule.strict:
            yield _groups_of(cluster, rule.guests), False, -weights.soft_rule


def _groups_of(cluster: EncodedCluster, guests: frozenset[GuestId]) -> list[int]:
    return sorted(
        {cluster.group_of[name] for name in guests if name in cluster.group_of}
    )
