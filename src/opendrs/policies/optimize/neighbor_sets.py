"""Rules about neighbors as sets of move groups of the problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from opendrs.model import Affinity, AntiAffinity, GuestId, MutualAntiAffinity
from opendrs.optimizer import Floats, GroupSets, IndexLists, Indices, Objective
from opendrs.policies.optimize.divided_nodes import DividedNodes
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.rules import DomainLimit

MIN_LIMIT_WEIGHT = 100.0  # of a strict limit, relative to a soft rule


@dataclass(frozen=True, slots=True)
class _SetRow:
    """Groups of a rule about neighbors, as a set of the problem.

    Attributes:
        groups: The groups.
        is_strict: True if the rule is strict.
        weight: Cost of sharing; negative for a soft affinity.
        separated: True if the search must keep the groups on different nodes.
        partition: Row of the domains in which guests are counted.
        most: Guests that may share a domain.
        fixed: Domains of further guests, which do not move.
    """

    groups: list[int]
    is_strict: bool
    weight: float
    separated: bool = False
    partition: int = 0
    most: int = 1
    fixed: tuple[int, ...] = ()

    @property
    def has_effect(self) -> bool:
        """Return whether moves of the groups can change the cost."""
        return len(self.groups) + len(self.fixed) > 1 and bool(self.groups)


def group_sets(cluster: EncodedCluster, objective: Objective) -> GroupSets:
    """Return the sets of the rules about neighbors."""
    rows = [row for row in _set_rows(cluster, objective) if row.has_effect]
    return GroupSets(
        members=IndexLists.of([row.groups for row in rows]),
        strict=np.array([row.separated for row in rows], np.bool_),
        anti_affinity_weight=np.array([row.weight for row in rows], float),
        spread=np.zeros(len(rows), np.int64),
        needs=IndexLists.of([[]] * len(rows)),
        partition=np.array([row.partition for row in rows], np.int64),
        most=np.array([row.most for row in rows], np.int64),
        fixed=IndexLists.of([[*row.fixed] for row in rows]),
    )


def soft_set_weights(cluster: EncodedCluster, objective: Objective) -> Floats:
    """Return the weight of each set of the problem, 0 for those of strict rules."""
    rows = [row for row in _set_rows(cluster, objective) if row.has_effect]
    return np.array([0.0 if row.is_strict else row.weight for row in rows], float)


def _set_rows(cluster: EncodedCluster, objective: Objective) -> Iterator[_SetRow]:
    """Yield the sets of the rules about neighbors.

    Guests with a soft affinity have a negative cost of sharing a node.
    """
    strict, soft = objective.weight("violation"), objective.weight("soft_rule")
    heaviest = 1.0
    for rule in cluster.snapshot.rules:
        if isinstance(rule, AntiAffinity | MutualAntiAffinity | Affinity):
            heaviest = max(heaviest, rule.weight)
        if isinstance(rule, AntiAffinity) and rule.is_pairwise:
            groups = _groups_of(cluster, rule.guests)
            weight = strict if rule.strict else soft * rule.weight
            fixed = () if rule.strict else _fixed_nodes(cluster, rule.guests)
            yield _SetRow(
                groups, rule.strict, weight, separated=rule.strict, fixed=fixed
            )
        elif isinstance(rule, MutualAntiAffinity):
            weight = strict if rule.strict else soft * rule.weight
            for pair in _pairs(cluster, rule):
                yield _SetRow(pair, rule.strict, weight, separated=rule.strict)
            if not rule.strict:
                yield from _beside_fixed(cluster, rule, weight)
        elif isinstance(rule, Affinity) and not rule.strict:
            groups = _groups_of(cluster, rule.guests)
            fixed = _fixed_nodes(cluster, rule.guests)
            yield _SetRow(groups, rule.strict, -soft * rule.weight, fixed=fixed)
    rows = _partitions(cluster)
    for limit in cluster.rules.domain_limits:
        rule = limit.rule
        yield _SetRow(
            _groups_of(cluster, limit.guests),
            rule.strict,
            max(strict, MIN_LIMIT_WEIGHT * heaviest * soft)
            if rule.strict
            else soft * rule.weight,
            partition=rows[rule.domain],
            most=rule.max_guests,
            fixed=_fixed_domains(cluster, limit),
        )


def _beside_fixed(
    cluster: EncodedCluster, rule: MutualAntiAffinity, weight: float
) -> Iterator[_SetRow]:
    """Yield each group of one side with the guests of the other that do not move."""
    if DividedNodes.applies_to(rule, cluster):
        return
    for one, other in (
        (rule.guests, rule.other_guests),
        (rule.other_guests, rule.guests),
    ):
        fixed = tuple(sorted({*_fixed_nodes(cluster, other)}))
        for group in _groups_of(cluster, one) if fixed else ():
            yield _SetRow([group], rule.strict, weight, fixed=fixed)


def _fixed_nodes(
    cluster: EncodedCluster, guests: frozenset[GuestId]
) -> tuple[int, ...]:
    """Return the nodes of the active ones of *guests* that do not move.

    A strict rule closes these nodes to the others of its guests instead.
    """
    index, known = cluster.arrays.index, cluster.snapshot.guests
    names = sorted(guests - cluster.group_of.keys())
    found = (known[each] for each in names if each in known)
    return tuple(
        index[node]
        for guest in found
        if guest.is_active
        for node in guest.occupied_nodes
        if node in index
    )


def _pairs(cluster: EncodedCluster, rule: MutualAntiAffinity) -> Iterator[list[int]]:
    """Yield the groups of both sides, each with each; none if the nodes are divided."""
    if not DividedNodes.applies_to(rule, cluster):
        others = _groups_of(cluster, rule.other_guests)
        for one, other in product(_groups_of(cluster, rule.guests), others):
            if one != other:
                yield [one, other]


def _partitions(cluster: EncodedCluster) -> dict[str, int]:
    """Return the row of the domains of each key of node labels; 0 for nodes."""
    keys = {limit.rule.domain for limit in cluster.rules.domain_limits}
    return {key: row for row, key in enumerate(sorted(keys | {""}))}


def node_domains(cluster: EncodedCluster) -> Indices:
    """Return the domain of each node in each partition; shape (P, N)."""
    rows = [np.arange(len(cluster.node_ids))]
    for key in [*_partitions(cluster)][1:]:
        limit = next(x for x in cluster.rules.domain_limits if x.rule.domain == key)
        number = _domain_numbers(limit)
        rows.append(
            np.array([number[limit.domain_of[name]] for name in cluster.node_ids])
        )
    return np.array(rows, np.int64)


def _domain_numbers(limit: DomainLimit) -> dict[str, int]:
    return {domain: index for index, domain in enumerate(sorted(limit.nodes_in))}


def _fixed_domains(cluster: EncodedCluster, limit: DomainLimit) -> tuple[int, ...]:
    """Return the domains of the guests of *limit* that do not move.

    A guest on a node without metrics counts only in domains with other nodes.
    """
    guests = cluster.snapshot.guests
    number: Mapping[str, int] = _domain_numbers(limit)
    if not limit.rule.domain:
        number = {str(name): row for name, row in cluster.arrays.index.items()}
    present = {limit.domain_of[name] for name in cluster.node_ids}
    return tuple(
        number[domain]
        for name in sorted(limit.guests - cluster.group_of.keys())
        for domain in sorted({limit.domain_of[n] for n in guests[name].occupied_nodes})
        if domain in number and domain in present
    )


def _groups_of(cluster: EncodedCluster, guests: frozenset[GuestId]) -> list[int]:
    return sorted(
        {cluster.group_of[name] for name in guests if name in cluster.group_of}
    )
