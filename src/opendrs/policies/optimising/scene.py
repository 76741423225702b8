"""From a snapshot to the problem that a search is given, and back to names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
)
from opendrs.model.resources import NOTHING
from opendrs.policies.optimising.classes import Classes
from opendrs.policies.optimising.groups import Floats, Groups, Indices, Lists
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.worth import Worth
from opendrs.policies.units import Selection, Unit, Units
from opendrs.rules import CompiledRules, Room, Targets, need
from opendrs.scoring import UsageMode, demand, node_loads

CPU, USED, PROMISED = range(3)  # the resources: cores, and bytes used and promised
RESOURCES = 3
SPARE_CPU = 1.25  # processors may be promised this often where all are busy


class Scene:
    """A cluster as a search sees it.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        units: Who may be moved.
        nodes: The nodes that are known, in the order of the columns.
        members: The guests of each unit, in the order of the columns.

    Args:
        snapshot: The cluster; every online node must be measured.
        rules: Its rules.
        units: Who may be moved.
        limits: What the operator allows.
        selection: Who was to be moved, and what counts as load.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        units: Units,
        limits: Limits,
        selection: Selection,
    ) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.units = units
        self._limits = limits
        self._mode = selection.mode
        self.loads = node_loads(snapshot, selection.mode)
        self.nodes: tuple[NodeId, ...] = tuple(self.loads)
        self.index = {name: place for place, name in enumerate(self.nodes)}
        self.members: tuple[Unit, ...] = tuple(
            unit for unit in units.movable.values() if unit[0].node in self.index
        )
        self.unit_of = {
            guest.id: place for place, unit in enumerate(self.members) for guest in unit
        }
        self._room = Targets(snapshot, rules, limits).room

    @cached_property
    def origin(self) -> Indices:
        """The node of each unit; shape (G,)."""
        return np.array([self.index[unit[0].node] for unit in self.members], np.int64)

    @cached_property
    def demand(self) -> Floats:
        """What each unit takes of each resource; shape (G, R)."""
        rows = [self._demand(unit) for unit in self.members]
        return np.array(rows, float).reshape(-1, RESOURCES)

    @cached_property
    def capacity(self) -> Floats:
        """What each node holds at most once units arrive; shape (N, R)."""
        cores = np.array([load.capacity.cpu for load in self.loads.values()])
        memory = np.array([float(load.capacity.memory) for load in self.loads.values()])
        busy = self.taken[:, CPU].sum() / cores.sum()
        return np.column_stack(
            (
                cores * max(1.0, SPARE_CPU * busy),
                memory * (1 - self._limits.memory_headroom),
                memory * self._limits.memory_overbooking,
            )
        )

    @cached_property
    def taken(self) -> Floats:
        """What is taken of each node now; shape (N, R)."""
        memory = np.array([float(v.capacity.memory) for v in self.loads.values()])
        room = [self._room[name] for name in self.nodes]
        free = np.array([_known(each) for each in room], float).reshape(-1, 2)
        return np.column_stack(
            (
                [load.taken.cpu for load in self.loads.values()],
                memory * (1 - self._limits.memory_headroom) - free[:, 0],
                memory * self._limits.memory_overbooking - free[:, 1],
            )
        )

    @cached_property
    def base(self) -> Floats:
        """What is taken of each node by all but the units; shape (N, R)."""
        base = self.taken.copy()
        np.subtract.at(base, self.origin, self.demand)
        return base

    @cached_property
    def even(self) -> Floats:
        """The part of its capacity that each node has taken evenly; shape (R,)."""
        total = self.capacity.sum(axis=0)
        taken: Floats = self.taken.sum(axis=0)
        return _quotient(taken, total)

    @property
    def memory(self) -> int:
        """The resource whose evenness is looked at besides that of processors."""
        return PROMISED if self._mode is UsageMode.STATIC else USED

    @cached_property
    def transfer(self) -> Floats:
        """The memory that moving each unit transfers, in GiB; shape (G,)."""
        return self.demand[:, USED] / GIB

    @cached_property
    def count(self) -> Floats:
        """How many guests each unit is; shape (G,)."""
        return np.array([float(len(unit)) for unit in self.members])

    def problem(self, worth: Worth, measures: Floats, budgets: Floats) -> Problem:
        """Return what a search is given.

        Args:
            worth: What things are worth.
            measures: What budgets count of each unit that is moved; shape (B, G).
            budgets: The most that may be moved of each measure; shape (B,).
        """
        classes = self._classes()
        class_of = np.array([classes.of(unit) for unit in self.members], np.int64)
        fair = self.even * self.capacity.mean(axis=0)
        over = _quotient(np.ones(RESOURCES), fair)
        weights = np.zeros(RESOURCES)
        weights[CPU], weights[self.memory] = worth.cpu, worth.memory
        squared = np.square(self.even)
        cores = np.array([load.capacity.cpu for load in self.loads.values()])
        none = np.zeros_like(self.capacity)
        safety, excess = none + np.inf, none.copy()
        safety[:, CPU] = cores * worth.busy
        excess[:, CPU] = worth.contention * over[CPU]
        strained = np.array([0.0, worth.broken, worth.broken])
        return Problem(
            capacity=self.capacity,
            demand=self.demand,
            origin=self.origin,
            class_of=class_of,
            allowed=classes.allowed,
            base=self.base,
            groups=self._groups(worth),
            overload_weight=strained * over,
            safety=safety,
            excess_weight=excess,
            even_target=self.even,
            even_weight=_quotient(weights, squared),
            use_cost=np.full(len(self.nodes), worth.used),
            place_cost=classes.place_cost(worth.broken, worth.soft),
            move_cost=worth.gib * self.transfer,
            measures=measures,
            budgets=budgets,
        )

    def _demand(self, unit: Unit) -> tuple[float, float, float]:
        asked = need(unit)
        cpu = sum((demand(guest, self._mode) or NOTHING).cpu for guest in unit)
        used = 0.0 if asked.used is None else asked.used
        return cpu, used, np.inf if asked.promised is None else asked.promised

    def _classes(self) -> Classes:
        blind = np.array([None in _parts(self._room[name]) for name in self.nodes])
        staying: Mapping[GuestId, Guest] = {
            name: guest
            for name, guest in self.snapshot.guests.items()
            if guest.present and name not in self.unit_of
        }
        return Classes(self.snapshot, self.rules, self.nodes, blind, staying)

    def _groups(self, worth: Worth) -> Groups:
        found = [*self._rows(worth)]
        members = [row for row, _, _ in found]
        count = len(found)
        return Groups(
            members=Lists.of(members),
            strict=np.array([strict for _, strict, _ in found], np.bool_),
            apart_weight=np.array([weight for _, _, weight in found], float),
            spread=np.zeros(count, np.int64),
            needs=Lists.of([[]] * count),
        )

    def _rows(self, worth: Worth) -> Iterator[tuple[list[int], bool, float]]:
        """Yield the units of each rule about neighbours: strict or not, its weight.

        To stand apart is worth less than nothing to guests that prefer to share
        a node.
        """
        for rule in self.snapshot.rules:
            if isinstance(rule, AntiAffinity):
                row = self._named(rule.guests)
                yield row, rule.strict, worth.broken if rule.strict else worth.soft
            elif isinstance(rule, Affinity) and not rule.strict:
                yield self._named(rule.guests), False, -worth.soft

    def _named(self, guests: frozenset[GuestId]) -> list[int]:
        return sorted({self.unit_of[name] for name in guests if name in self.unit_of})


def _quotient(dividend: Floats, divisor: Floats) -> Floats:
    """Return the quotient, and 0 where nothing is divided by."""
    result: Floats = np.zeros(RESOURCES)
    np.divide(dividend, divisor, out=result, where=divisor > 0)
    return result


def _parts(room: Room) -> tuple[float | None, float | None]:
    return room.used, room.promised


def _known(room: Room) -> tuple[float, float]:
    return room.used or 0.0, room.promised or 0.0
