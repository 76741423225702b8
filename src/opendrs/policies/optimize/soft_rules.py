"""Penalty of soft rules, and the move groups that violate them.

A group pays for its distance from the node that soft rules prefer most, and with each
other group of a soft rule about neighbors. The unit is a guest that violates a soft
rule of the weight 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.model import Guest, Snapshot
from opendrs.optimizer import Indices, Mask, Problem, cost_breakdown
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.contention import ContentionThresholds
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    MovableGroups,
    movable_units,
)
from opendrs.policies.optimize.objective import encode_problem, soft_rule_objective
from opendrs.rules import CompiledRules

ROUNDING = 1e-9  # penalties below this are rounding


def has_soft_rules(rules: CompiledRules) -> bool:
    """Return True if one of *rules* prefers some placements to others."""
    neighbors = rules.soft_together or rules.soft_apart
    limits = (each for each in rules.domain_limits if not each.rule.strict)
    return bool(rules.rankings or neighbors) or any(limits)


def soft_rule_problem(
    cluster: EncodedCluster, thresholds: ContentionThresholds
) -> Problem:
    """Return the problem of *cluster* in which soft rules alone have a cost."""
    objective = soft_rule_objective()
    return encode_problem(cluster, Budget(), objective=objective, thresholds=thresholds)


def soft_rule_penalty(problem: Problem, assignment: Indices) -> float:
    """Return the penalty of *assignment* in a problem of `soft_rule_problem`.

    It is 0 if every soft rule is kept.
    """
    costs, sets = cost_breakdown(problem, assignment), problem.group_sets
    most = 0.0
    for index in np.flatnonzero(sets.anti_affinity_weight < 0).tolist():
        alone = 0 if len(sets.fixed[index]) else 1
        shared = len(sets.members[index]) - alone
        most -= float(sets.anti_affinity_weight[index]) * shared
    return costs.placement + costs.anti_affinity + most


def violating_groups(problem: Problem) -> Mask:
    """Return the groups that violate a soft rule at the origin; shape (G,).

    The problem is one of `soft_rule_problem`.
    """
    origin, sets = problem.origin, problem.group_sets
    found = np.zeros(problem.group_count, np.bool_)
    if problem.placement_cost is not None:
        found |= problem.placement_cost[problem.class_of, origin] > ROUNDING
    for index, weight in enumerate(sets.anti_affinity_weight.tolist()):
        members = sets.members[index]
        domains = problem.domains[sets.partition[index]]
        here = domains[origin[members]]
        there = np.concatenate((here, sets.fixed[index]))
        if weight < 0 and len(np.unique(there)) > 1:
            found[members] = True
        elif weight > 0:
            count = np.bincount(there, minlength=int(domains.max()) + 1)
            found[members] |= (count > sets.most[index])[here]
    return found


def with_needed_moves(soft: Problem, assignment: Indices) -> Indices:
    """Return *assignment* without the moves by which soft rules gain nothing.

    Args:
        soft: A problem of `soft_rule_problem`.
        assignment: Node of each group; shape (G,).
    """
    needed = assignment.copy()
    now = soft_rule_penalty(soft, needed)
    for group in np.flatnonzero(assignment != soft.origin).tolist():
        needed[group] = soft.origin[group]
        at_home = soft_rule_penalty(soft, needed)
        if at_home - now > ROUNDING:
            needed[group] = assignment[group]
        else:
            now = at_home
    return needed


def concerned_groups(problem: Problem) -> Mask:
    """Return the groups that violate a soft rule, with their neighbors; shape (G,).

    These are the groups of soft rules about neighbors, and further ones of theirs.

    Args:
        problem: A problem of `soft_rule_problem`.
    """
    found, sets = violating_groups(problem), problem.group_sets
    weighted = np.flatnonzero(sets.anti_affinity_weight).tolist()
    members = [sets.members[each] for each in weighted]
    count = -1
    while count != found.sum():
        count = int(found.sum())
        for each in members:
            found[each] |= found[each].any()
    return found


class SoftRules:
    """Soft rules of a cluster, with the penalty of any placement of its guests.

    Args:
        cluster: The cluster.
        groups: Its move groups.
        thresholds: Loads above which demand counts as unmet.
    """

    def __init__(
        self,
        cluster: EncodedCluster,
        groups: MovableGroups,
        thresholds: ContentionThresholds,
    ) -> None:
        nodes = frozenset(cluster.node_ids)
        units = [*movable_units(cluster.snapshot, groups, nodes)]
        self._cluster = cluster.with_groups(units)
        self._problem = soft_rule_problem(self._cluster, thresholds)

    def penalty(self, snapshot: Snapshot) -> float:
        """Return the penalty of the guests as in *snapshot*; 0 if all rules hold."""
        index, guests = self._cluster.arrays.index, snapshot.guests
        leaders: Sequence[Guest] = [each.guests[0] for each in self._cluster.groups]
        nodes = [index[guests[each.id].node] for each in leaders]
        return soft_rule_penalty(self._problem, np.array(nodes, np.int64))
