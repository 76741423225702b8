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
    """Where the guests of a scene may go, by its rules, as all stand by now.

    Only who has a neighbour, wanted or not, can be disturbed, and only nodes with one
    of them can differ from the others: a large cluster need not be asked node by node.
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
        """Return which nodes *guest* may go to, whatever room they have."""
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
        """Take note that *guest* is on *target* now."""
        name = self._inputs.node_ids[target]
        for each in self._inputs.groups[guest]:
            if each.id in self._guests:
                self._guests[each.id] = replace(each, node=name)

    def _feasibility(self, names: Iterable[GuestId]) -> FeasibilityChecker:
        """Return where guests may go, as far as that depends on those of *names*."""
        guests = {name: self._guests[name] for name in names if name in self._guests}
        snapshot = replace(self._inputs.snapshot, guests=guests)
        return FeasibilityChecker(snapshot, self._inputs.rules, self._inputs.limits)

    def _keeps_rules(
        self, group: MoveGroup, row: int, feasibility: FeasibilityChecker
    ) -> bool:
        return feasibility.affinity_conflict(group, self._inputs.node_ids[row]) is None

    def _compatible_nodes(self, group: MoveGroup) -> Mask:
        """Return which nodes suit *group*, whoever is on them."""
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
