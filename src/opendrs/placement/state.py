"""Nodes of parts and available resources of nodes while guests are placed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opendrs.arrays import Mask
from opendrs.metrics import scores_after_start
from opendrs.placement.arrays import (
    COMMITTED,
    COMMITTED_CPU,
    CPU,
    MEASURED,
    NO_NODE,
    DisplacedGroup,
    Floats,
    Indices,
    PlacementArrays,
)
from opendrs.placement.domain_limits import PartLimit


class PlacementState:
    """Placement that displaced groups are added to and removed from.

    Attributes:
        arrays: The cluster.
        node_of: Node of each part; `NO_NODE` if it is displaced; shape (P,).
        available: Available measured memory, committed memory, CPU and committed CPU of
            each node; shape (4, N).
        usage: Used cores and bytes of each node; NaN if unknown; shape (N, 2).
        is_open: Nodes that may receive guests; shape (N,).

    Args:
        arrays: The cluster.
        limits_cpu: Whether the guests of a node may use at most its cores. Otherwise
            CPU is shared, and memory and committed CPU decide how many guests fit.
    """

    def __init__(self, arrays: PlacementArrays, *, limits_cpu: bool = False) -> None:
        self.arrays = arrays
        self.node_of: Indices = arrays.node_of.copy()
        self.available: Floats = arrays.available.copy()
        self.usage: Floats = arrays.usage.copy()
        self.is_open: Mask = arrays.is_online & arrays.is_measured
        self.resources = [MEASURED, COMMITTED, COMMITTED_CPU]
        if limits_cpu:
            self.resources.append(CPU)

    def displace(self, parts: tuple[int, ...], *nodes: int) -> None:
        """Close *nodes*, and take *parts* off them.

        Their resources do not become available: nothing is placed on a closed node.
        """
        self.is_open[list(nodes)] = False
        self.node_of[list(parts)] = NO_NODE

    def restore(self, parts: tuple[int, ...], *nodes: int) -> None:
        """Undo `displace` of parts that are not placed elsewhere."""
        self.is_open[list(nodes)] = (
            self.arrays.is_online[list(nodes)] & self.arrays.is_measured[list(nodes)]
        )
        self.node_of[list(parts)] = self.arrays.node_of[list(parts)]

    def place(self, group: DisplacedGroup, node: int) -> Callable[[], None]:
        """Place the displaced *group* on *node*; return a function that undoes it."""
        available = self.available[:, node].copy()
        usage = self.usage[node].copy()
        self.node_of[group.part] = node
        self.available[:, node] -= group.required
        self.usage[node] += group.demand

        def undo() -> None:
            self.node_of[group.part] = NO_NODE
            self.available[:, node] = available
            self.usage[node] = usage

        return undo

    def feasible(self, group: DisplacedGroup) -> Mask:
        """Return the nodes on which *group* keeps the strict rules and fits; (N,)."""
        mask = self.keeps_rules(group) & self.is_open & group.allowed
        for row in self.resources:
            mask &= group.required[row] <= self.available[row]
        return mask

    def feasible_nodes(self, groups: Sequence[DisplacedGroup]) -> Mask:
        """Return the feasible nodes of each of *groups*, as `feasible`; (G, N)."""
        if not groups:
            return np.ones((0, len(self.is_open)), np.bool_)
        mask = np.array([group.allowed for group in groups]) & self.is_open
        required = np.array([group.required for group in groups])
        for row in self.resources:
            mask &= required[:, row, np.newaxis] <= self.available[row]
        for index, group in enumerate(groups):
            if group.has_rules:
                mask[index] &= self.keeps_rules(group)
        return mask

    def fits(self, group: DisplacedGroup, nodes: Sequence[int]) -> Mask:
        """Return which of *nodes* have the resources that *group* requires; (n,)."""
        fits = np.ones(len(nodes), np.bool_)
        for row in self.resources:
            fits &= group.required[row] <= self.available[row, nodes]
        return fits

    def keeps_rules(self, group: DisplacedGroup) -> Mask:
        """Return the nodes that affinities to other guests allow; shape (N,).

        A group that gathers may be on any node with one of its mates.
        """
        mask = np.ones(len(self.is_open), np.bool_)
        if group.apart.size:
            for node_of in (self.node_of, self.arrays.target_of):
                nodes = node_of[group.apart]
                mask[nodes[nodes != NO_NODE]] = False
        for limit in group.limits:
            if limit.limit.rule.strict:
                mask &= ~self.exceeds(limit, group)
        if group.gathers and group.mates.size:
            mask &= self._has_mates(group)
        return mask

    def exceeds(self, limit: PartLimit, group: DisplacedGroup) -> Mask:
        """Return the nodes in whose domain *group* would exceed *limit*; (N,)."""
        return limit.is_exceeded(group.part, self.node_of, self.arrays.target_of)

    def _has_mates(self, group: DisplacedGroup) -> Mask:
        """Return the nodes with guests of the same move group; shape (N,)."""
        mask = np.zeros(len(self.is_open), np.bool_)
        nodes = self.node_of[group.mates]
        mask[nodes[nodes != NO_NODE]] = True
        return mask

    def soft_violations(self, group: DisplacedGroup) -> Indices:
        """Return how many soft affinities *group* violates on each node; (N,)."""
        count = np.zeros(len(self.is_open), np.intp)
        rules = self.arrays.rules
        for other in self.arrays.related_parts(group.part, rules.soft_apart):
            if self.node_of[other] != NO_NODE:
                count[self.node_of[other]] += 1
        for other in self.arrays.related_parts(group.part, rules.soft_together):
            if self.node_of[other] != NO_NODE:
                count += 1
                count[self.node_of[other]] -= 1
        for limit in group.limits:
            if not limit.limit.rule.strict:
                count += self.exceeds(limit, group)
        return count

    def scores(self, group: DisplacedGroup) -> Floats:
        """Return the score of each open node for *group*; -1 for others; shape (N,).

        The score is the TOPSIS closeness of Proxmox VE for the start of a guest.
        """
        scores = np.full(len(self.is_open), -1.0)
        rows = np.flatnonzero(self.is_open)
        if rows.size:
            scores[rows] = scores_after_start(
                self.arrays.capacity[rows], self.usage[rows], group.demand
            )
        return scores

    def preference(self, group: DisplacedGroup) -> Indices:
        """Return all nodes, the best for *group* first, feasible or not; shape (N,).

        First are those with guests of the same move group, then those with the highest
        priority in node affinities, then those that violate the fewest soft rules, then
        those with the best score.
        """
        return np.lexsort(
            (
                -self.scores(group),
                self.soft_violations(group),
                -self.arrays.priority(group.part),
                ~self._has_mates(group),
            )
        )
