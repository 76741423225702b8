"""The cluster as columns, on which moves are tried out and made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from opendrs.model import (
    GuestId,
    Limits,
    NodeId,
    Snapshot,
)
from opendrs.model.resources import NOTHING
from opendrs.policies.units import Selection, Unit, Units, moves_of, units
from opendrs.rules import (
    NOBODY,
    CompiledRules,
    Room,
    Targets,
    compile_rules,
    need,
    room_when_empty,
)
from opendrs.scoring import (
    Best,
    Columns,
    ImbalanceForm,
    NodeLoad,
    demand,
    exact_imbalances,
    node_loads,
)
from opendrs.scoring.sums import sum_in_order

Row = npt.NDArray[np.bool_]
CLOSED = 0  # the class of units that may go nowhere


class Board:
    """One cluster compiled for choosing moves, which are made one by one.

    Every unit moves at most once.
    """

    def __init__(
        self, snapshot: Snapshot, limits: Limits, selection: Selection
    ) -> None:
        self.snapshot = snapshot
        self.rules: CompiledRules = compile_rules(snapshot)
        self.units: Units = units(snapshot, self.rules, limits, selection)
        self.loads = node_loads(snapshot, selection.mode)
        self._limits = limits
        self._mode = selection.mode
        self._nodes = tuple(self.loads)
        self._leaders = tuple(
            leader
            for leader, unit in self.units.movable.items()
            if unit[0].node in self.loads
        )
        self._unit_of = {
            guest.id: index
            for index, leader in enumerate(self._leaders)
            for guest in self.units.movable[leader]
        }
        self._index = {name: index for index, name in enumerate(self._nodes)}
        self._targets = Targets(snapshot, self.rules, limits)
        self._suitable: dict[object, Row] = {}
        self._most_room = _pairs(
            _known(room_when_empty(snapshot.nodes[name], limits), missing=-np.inf)
            for name in self._nodes
        )
        self.columns = self._compile()

    def unit(self, best: Best) -> Unit:
        """Return the unit that *best* moves."""
        return self.members(best.unit)

    def target(self, best: Best) -> NodeId:
        """Return the node to which *best* moves it."""
        return self._nodes[best.target]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes in the order of the columns, which is that of names."""
        return self._nodes

    def members(self, index: int) -> Unit:
        """Return the guests of the unit at *index* of the columns."""
        return self.units.movable[self._leaders[index]]

    def open_to(self, index: int) -> Row:
        """Return which nodes the unit at *index* may go to; shape (N,)."""
        c = self.columns
        row: Row = c.allowed[c.class_of[index]] & (c.need[index] <= c.room).all(axis=1)
        row[c.node_of[index]] = False
        return row

    def why_closed(self, index: int, node: int) -> str | None:
        """Return why the node at *node* is closed to the unit at *index*."""
        return self._targets.obstacle(self.members(index), self._nodes[node])

    def make(self, best: Best) -> None:
        """Make the move *best*: what is chosen next is chosen after it."""
        self.move(best.unit, best.target)

    def move(self, index: int, node: int) -> None:
        """Move the unit at *index* to the node at *node*, for good."""
        unit, target = self.members(index), self._nodes[node]
        for move in moves_of(unit, target):
            self.snapshot = self.snapshot.after(move)
        self._targets = Targets(self.snapshot, self.rules, self._limits)
        self._shift(index, node)
        self.columns.class_of[index] = CLOSED
        for other in self._neighbouring_units(unit) - {index}:
            row = self.columns.class_of[other]
            if row != CLOSED:
                self.columns.allowed[row] = self._row(self.members(other))

    def nearer_choices(
        self, best: Best, form: ImbalanceForm
    ) -> Iterator[tuple[str, str]]:
        """Yield the closed nodes that would leave less imbalance than *best*.

        Each with that imbalance, and with why it is closed.
        """
        unit = self.unit(best)
        closed = self._targets.excluded(unit)
        known = [name for name in sorted(closed) if name in self._index]
        if not known:
            return
        futures = exact_imbalances(
            self.columns,
            np.full(len(known), best.unit),
            np.array([self._index[name] for name in known]),
            form,
        )
        for name, future in sorted(zip(known, futures, strict=True), key=_by_future):
            if future < best.imbalance:
                yield f"{name} ({future:.3f})", closed[name]

    def dead_ends(self) -> Iterator[tuple[Unit, dict[NodeId, str]]]:
        """Yield each unit that may go nowhere, and why each node is closed to it."""
        for unit in self.units.movable.values():
            closed = self._targets.excluded(unit)
            if len(closed) == len(self.snapshot.nodes) - 1:
                yield unit, closed

    def current_loads(self) -> dict[NodeId, NodeLoad]:
        """Return the loads after the moves made so far, in order of name."""
        return node_loads(self.snapshot, self._mode)

    def _compile(self) -> Columns:
        movable = [self.members(index) for index in range(len(self._leaders))]
        rows, class_of = self._classes(movable)
        loads = self.loads.values()
        room = [self._targets.room[name] for name in self._nodes]
        return Columns(
            capacity=_pairs((v.capacity.cpu, v.capacity.memory) for v in loads),
            taken=_pairs((v.taken.cpu, v.taken.memory) for v in loads),
            demand=_pairs(self._demand(unit) for unit in movable),
            node_of=np.array([self._index[unit[0].node] for unit in movable], np.intp),
            class_of=np.array(class_of, np.intp),
            allowed=np.array(rows, bool),
            room=_pairs(_known(each, missing=-np.inf) for each in room),
            need=_pairs(_known(need(unit), missing=np.inf) for unit in movable),
        )

    def _demand(self, unit: Unit) -> tuple[float, float]:
        parts = [demand(guest, self._mode) or NOTHING for guest in unit]
        return (
            sum_in_order(part.cpu for part in parts),
            float(sum(part.memory for part in parts)),
        )

    def _classes(self, movable: Iterable[Unit]) -> tuple[list[Row], list[int]]:
        """Return the rows of open nodes, and which of them holds for each unit.

        The first row is `CLOSED`. Units whom others can disturb have a row of
        their own; the rest share one with those of the same rules.
        """
        rows: list[Row] = [np.zeros(len(self._nodes), bool)]
        shared: dict[object, int] = {}
        class_of = []
        for unit in movable:
            key: object = unit[0].id if self._neighbours(unit) else self._kind(unit)
            if key not in shared:
                shared[key] = len(rows)
                rows.append(self._row(unit))
            class_of.append(shared[key])
        return rows, class_of

    def _row(self, unit: Unit) -> Row:
        """Return the nodes that rules, hardware and neighbours leave to *unit*."""
        kind = self._kind(unit)
        if kind not in self._suitable:
            self._suitable[kind] = np.array(
                [
                    self._targets.suits(unit, self.snapshot.nodes[name])
                    for name in self._nodes
                ],
                bool,
            )
        row = self._suitable[kind].copy()
        for name in self._disputed(unit):
            if self._targets.disturbed(unit, name) is not None:
                row[self._index[name]] = False
        return row

    def _kind(self, unit: Unit) -> object:
        """Return what decides which nodes suit *unit*, whoever is on them."""
        leader = unit[0].id
        return (
            self.snapshot.nodes[unit[0].node].architecture,
            frozenset(guest.cpu_model for guest in unit),
            self.rules.nodes.get(leader),
            tuple(id(rule) for rule in self.rules.rankings.get(leader, ())),
        )

    def _neighbours(self, unit: Unit) -> set[GuestId]:
        """Return whose place matters to *unit*."""
        rules = self.rules
        bonds = (rules.apart, rules.soft_apart, rules.soft_together)
        return {
            other
            for guest in unit
            for bond in bonds
            for other in bond.get(guest.id, NOBODY)
        } - {guest.id for guest in unit}

    def _neighbouring_units(self, unit: Unit) -> set[int]:
        return {
            self._unit_of[guest]
            for guest in self._neighbours(unit)
            if guest in self._unit_of
        }

    def _disputed(self, unit: Unit) -> Iterable[NodeId]:
        """Return the nodes which a neighbour, there or left behind, may close."""
        if any(guest.id in self.rules.soft_together for guest in unit):
            return self._nodes
        return {
            name
            for guest in self._neighbours(unit)
            for name in self.snapshot.guests[guest].locations
            if name in self._index
        }

    def _shift(self, unit: int, target: int) -> None:
        c = self.columns
        source = c.node_of[unit]
        c.taken[source] = np.maximum(c.taken[source] - c.demand[unit], 0.0)
        c.taken[target] += c.demand[unit]
        freed = c.room[source] + c.need[unit]
        c.room[source] = np.minimum(freed, self._most_room[source])
        c.room[target] -= c.need[unit]
        c.node_of[unit] = target


def _pairs(values: Iterable[tuple[float, float]]) -> npt.NDArray[np.float64]:
    return np.array(list(values), float).reshape(-1, 2)


def _known(each: Room, missing: float) -> tuple[float, float]:
    return (
        missing if each.used is None else each.used,
        missing if each.promised is None else each.promised,
    )


def _by_future(pair: tuple[NodeId, float]) -> tuple[float, NodeId]:
    return pair[1], pair[0]
