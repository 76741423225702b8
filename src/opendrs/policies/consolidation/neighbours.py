"""Which nodes rules leave to a guest, as all stand while it is being decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from opendrs.model import GuestId
from opendrs.policies.consolidation.histories import Truths
from opendrs.policies.consolidation.scene import Scene
from opendrs.policies.units import Unit
from opendrs.rules import NOBODY, Targets


class RulesOfPlaces:
    """Where the guests of a scene may go, by its rules, as all stand by now.

    Only who has a neighbour, wanted or not, can be disturbed, and only nodes with one
    of them can differ from the others: a large cluster need not be asked node by node.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene, rules = scene, scene.rules
        self._bonds = (rules.apart, rules.soft_apart, rules.soft_together)
        bound = {name for bond in self._bonds for name in bond}
        bound.update(
            name for bond in self._bonds for us in bond.values() for name in us
        )
        self._guests = {
            name: guest
            for name, guest in scene.snapshot.guests.items()
            if name in bound
        }
        self._suitable: dict[object, Truths] = {}

    def open_to(self, guest: int) -> Truths:
        """Return which nodes *guest* may go to, whatever room they have."""
        unit = self._scene.guests[guest]
        open_ = self._suits(unit)
        neighbours = set(self._neighbours(unit))
        if not neighbours:
            return open_
        now = tuple(self._guests.get(each.id, each) for each in unit)
        near = {
            self._scene.index[node]
            for name in neighbours
            for node in self._guests[name].locations
        }
        found = open_.copy()
        others = np.flatnonzero(open_)
        others = others[~np.isin(others, [*near, self._scene.index[now[0].node]])]
        targets = self._targets({*neighbours, *(each.id for each in now)})
        if len(others):
            found[others] = self._undisturbed(now, int(others[0]), targets)
        for place in near:
            found[place] = open_[place] and self._undisturbed(now, place, targets)
        return found

    def moved(self, guest: int, target: int) -> None:
        """Take note that *guest* is on *target* now."""
        name = self._scene.nodes[target]
        for each in self._scene.guests[guest]:
            if each.id in self._guests:
                self._guests[each.id] = replace(each, node=name)

    def _targets(self, names: Iterable[GuestId]) -> Targets:
        """Return where guests may go, as far as that depends on those of *names*."""
        guests = {name: self._guests[name] for name in names if name in self._guests}
        snapshot = replace(self._scene.snapshot, guests=guests)
        return Targets(snapshot, self._scene.rules, self._scene.limits)

    def _undisturbed(self, unit: Unit, place: int, targets: Targets) -> bool:
        return targets.disturbed(unit, self._scene.nodes[place]) is None

    def _suits(self, unit: Unit) -> Truths:
        """Return which nodes suit *unit*, whoever is on them."""
        scene, leader = self._scene, unit[0].id
        kind = (
            scene.snapshot.nodes[unit[0].node].architecture,
            frozenset(guest.cpu_model for guest in unit),
            scene.rules.nodes.get(leader),
            tuple(id(rule) for rule in scene.rules.rankings.get(leader, ())),
        )
        if kind not in self._suitable:
            nodes = [scene.snapshot.nodes[name] for name in scene.nodes]
            found = [scene.targets.suits(unit, node) for node in nodes]
            self._suitable[kind] = np.array(found, bool)
        return self._suitable[kind]

    def _neighbours(self, unit: Unit) -> Iterator[GuestId]:
        members = {guest.id for guest in unit}
        for guest in unit:
            for bond in self._bonds:
                yield from bond.get(guest.id, NOBODY) - members
