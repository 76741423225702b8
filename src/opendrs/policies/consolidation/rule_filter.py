"""Target nodes that the rules allow, given the moves selected so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from opendrs.arrays import MoveGroup
from opendrs.model import GuestId
from opendrs.policies.consolidation.history import Mask
from opendrs.policies.consolidation.input import ConsolidationInput
from opendrs.rules import NO_GUESTS, FeasibilityChecker


class RuleFilter:
    """Nodes that the rules allow for each guest, given the moves so far.

    Only guests with affinity or anti-affinity depend on other guests, and only nodes
    with
    such guests can differ from the rest. So a large cluster is not checked node by
    node.
    """

    def __init__(self, inputs: ConsolidationInput) -> None:
        self._inputs, rules = inputs, inputs.rules
        self._relations = (rules.apart, rules.soft_apart, rules.soft_together)
        related = {name for relation in self._relations for name in relation}
        related.update(
            name
            for relation in self._relations
            for names in relation.values()
            for name in names
        )
        self._guests = {
            name: guest
            for name, guest in inputs.snapshot.guests.items()
            if name in related
        }
        self._compatible_cache: dict[object, Mask] = {}

    def allowed_targets(self, guest: int) -> Mask:
        """Return the nodes to which *guest* may migrate, regardless of capacity."""
        group = self._inputs.groups[guest]
        compatible = self._compatible_nodes(group)
        related = set(self._related_guests(group))
        if not related:
            return compatible
        current = tuple(self._guests.get(each.id, each) for each in group)
        related_rows = {
            self._inputs.node_index[node]
            for name in related
            for node in self._guests[name].occupied_nodes
        }
        allowed = compatible.copy()
        others = np.flatnonzero(compatible)
        others = others[
            ~np.isin(others, [*related_rows, self._inputs.node_index[current[0].node]])
        ]
        feasibility = self._feasibility({*related, *(each.id for each in current)})
        if len(others):
            allowed[others] = self._keeps_rules(current, int(others[0]), feasibility)
        for row in related_rows:
            allowed[row] = compatible[row] and self._keeps_rules(
                current, row, feasibility
            )
        return allowed

    def record_move(self, guest: int, target: int) -> None:
        """Record that *guest* is on *target* now."""
        name = self._inputs.node_ids[target]
        for each in self._inputs.groups[guest]:
            if each.id in self._guests:
                self._guests[each.id] = replace(each, node=name)

    def _feasibility(self, names: Iterable[GuestId]) -> FeasibilityChecker:
        """Return a feasibility checker that knows only the guests *names*."""
        guests = {name: self._guests[name] for name in names if name in self._guests}
        snapshot = replace(self._inputs.snapshot, guests=guests)
        return FeasibilityChecker(snapshot, self._inputs.rules, self._inputs.limits)

    def _keeps_rules(
        self, group: MoveGroup, row: int, feasibility: FeasibilityChecker
    ) -> bool:
        return feasibility.affinity_conflict(group, self._inputs.node_ids[row]) is None

    def _compatible_nodes(self, group: MoveGroup) -> Mask:
        """Return the nodes compatible with *group*, regardless of other guests."""
        inputs, leader = self._inputs, group[0].id
        placement_class = (
            inputs.snapshot.nodes[group[0].node].architecture,
            frozenset(guest.cpu_model for guest in group),
            inputs.rules.nodes.get(leader),
            tuple(id(rule) for rule in inputs.rules.rankings.get(leader, ())),
        )
        if placement_class not in self._compatible_cache:
            nodes = [inputs.snapshot.nodes[name] for name in inputs.node_ids]
            compatible = [
                inputs.feasibility.is_compatible(group, node) for node in nodes
            ]
            self._compatible_cache[placement_class] = np.array(compatible, bool)
        return self._compatible_cache[placement_class]

    def _related_guests(self, group: MoveGroup) -> Iterator[GuestId]:
        members = {guest.id for guest in group}
        for guest in group:
            for relation in self._relations:
                yield from relation.get(guest.id, NO_GUESTS) - members
