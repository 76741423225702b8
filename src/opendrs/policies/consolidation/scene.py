"""From a snapshot and what is remembered to columns, and back to names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from opendrs.model import Limits, Node, NodeId, NodeState, Snapshot, Usage
from opendrs.policies.consolidation.detection import Tallies
from opendrs.policies.consolidation.fleet import Crowd, Fleet
from opendrs.policies.consolidation.histories import Floats
from opendrs.policies.consolidation.memories import Memory, measured
from opendrs.policies.consolidation.power import PowerCurve
from opendrs.policies.units import Selection, Unit, Units, units
from opendrs.rules import (
    CompiledRules,
    Room,
    Targets,
    compile_rules,
    need,
    room_when_empty,
)
from opendrs.scoring import UsageMode

MOVING = Selection(mode=UsageMode.DYNAMIC, relocate=False)


class Scene:
    """A cluster as consolidation sees it.

    Attributes:
        snapshot: The cluster; nodes that may be woken stand in it as if they were,
            with nothing in use.
        rules: Its rules.
        units: Who may be moved.
        nodes: The nodes, in the order of the columns.
        guests: Who moves as one, in the order of the columns.
        fleet: The nodes as columns.
        crowd: The guests as columns.
        asleep: The nodes that may be woken.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        memory: Memory,
        limits: Limits,
        curve: PowerCurve,
        *,
        wake: bool,
    ) -> None:
        self._memory = memory
        self.asleep = frozenset(_wakeable(snapshot)) if wake else frozenset[NodeId]()
        self.snapshot = _awake(snapshot, self.asleep)
        self.limits = limits
        self.rules: CompiledRules = compile_rules(self.snapshot)
        self.units: Units = units(self.snapshot, self.rules, limits, MOVING)
        self.nodes = tuple(sorted(snapshot.nodes))
        self.index = {name: place for place, name in enumerate(self.nodes)}
        self.known = np.array([measured(snapshot.nodes[n]) for n in self.nodes], bool)
        self.guests = tuple(
            unit
            for unit in self.units.movable.values()
            if self.known[self.index[unit[0].node]]
        )
        self.targets = Targets(self.snapshot, self.rules, limits)
        histories = [*memory["nodes"].values(), *memory["guests"].values()]
        self._width = max(map(len, histories), default=0)
        self.crowd = self._crowd()
        self.fleet = self._fleet(curve)

    def tallies(self) -> Tallies:
        """Return what the detector remembers of each node."""
        kept = [self._memory["tallies"].get(name, [0, 0]) for name in self.nodes]
        columns = np.array(kept, dtype=np.int64).reshape(-1, 2)
        return Tallies(columns[:, 0], columns[:, 1])

    def remembered(self, tallies: Tallies) -> Memory:
        """Return the memory with *tallies* in it."""
        found: dict[str, list[int]] = {
            name: [int(tallies.seen[place]), int(tallies.overloaded[place])]
            for place, name in enumerate(self.nodes)
            if self.known[place]
        }
        return {**self._memory, "tallies": found}

    def transfer(self) -> Floats:
        """Return the mean memory of the guests of each node, in bytes."""
        hosts = len(self.nodes)
        count = np.bincount(self.crowd.host, minlength=hosts)
        total = np.bincount(self.crowd.host, self.crowd.memory, hosts)
        return np.asarray(total / np.maximum(count, 1), dtype=np.float64)

    def empty(self, node: NodeId) -> bool:
        """Return whether nobody is on *node*, not even stopped."""
        return node not in self._inhabited

    def _crowd(self) -> Crowd:
        rows = [self._samples(unit) for unit in self.guests]
        asked = [need(unit) for unit in self.guests]
        return Crowd(
            host=np.array([self.index[u[0].node] for u in self.guests], np.int64),
            samples=np.array(rows, float).reshape(-1, self._width),
            lengths=np.array([self._length(unit) for unit in self.guests], np.int64),
            most=np.array([self._most(unit) for unit in self.guests], float),
            memory=np.array([each.used or 0.0 for each in asked], float),
            need=_pairs(asked, missing=np.inf),
            movable=np.ones(len(self.guests), np.bool_),
        )

    def _most(self, unit: Unit) -> float:
        """Return the cores that *unit* can use: what its node has, if not limited."""
        whole = _cores(self.snapshot.nodes[unit[0].node])
        limits = [guest.limit.cpu if guest.limit else 0.0 for guest in unit]
        return min(whole, sum(limit or whole for limit in limits))

    def _length(self, unit: Unit) -> int:
        return max(len(self._memory["guests"].get(guest.id, ())) for guest in unit)

    def _samples(self, unit: Unit) -> Floats:
        """Return the CPU of *unit*, sample by sample, as wide as all columns.

        Of guests that move as one, each is taken to have used before as much as in
        its first sample, as far back as anything is known of one of them.
        """
        row, length = np.zeros(self._width), self._length(unit)
        for guest in unit:
            told = self._memory["guests"].get(guest.id, [])
            row[self._width - length :] += _levelled(told, length)
        return row

    def _fleet(self, curve: PowerCurve) -> Fleet:
        room = self.targets.room
        nodes = [self.snapshot.nodes[name] for name in self.nodes]
        moving = {guest.id for unit in self.guests for guest in unit}
        staying = [
            guest
            for _, guest in sorted(self.snapshot.guests.items())
            if guest.id not in moving
        ]
        # A stopped guest is on its node, and one that may be migrating on two.
        self._inhabited = {
            place
            for guest in self.snapshot.guests.values()
            for place in (guest.node, *guest.locations)
        }
        told_by = self._memory["nodes"]
        rows = [_levelled(told_by.get(node.id, []), self._width) for node in nodes]
        own = np.array(rows, float).reshape(-1, self._width)
        for guest in staying:
            if guest.present:
                told = self._memory["guests"].get(guest.id, [])
                own[self.index[guest.node]] += _levelled(told, self._width)
        stays = {place for g in staying for place in (g.node, *g.locations)}
        return Fleet(
            cpu=np.array([_cores(node) for node in nodes], float),
            own=own,
            room=_pairs((room[name] for name in self.nodes), missing=-np.inf),
            most=_pairs(
                (room_when_empty(node, self.limits) for node in nodes), missing=-np.inf
            ),
            known=self.known,
            wakeable=np.array([n in self.asleep for n in self.nodes], np.bool_),
            stuck=np.array([n in stays for n in self.nodes], np.bool_),
            watts=np.array([curve.watts], float),
            curve=np.zeros(len(nodes), np.int64),
        )


def _wakeable(snapshot: Snapshot) -> Iterable[NodeId]:
    """Yield the nodes that sleep for sure, and on which nobody is."""
    inhabited = {place for g in snapshot.guests.values() for place in g.locations}
    for name, node in snapshot.nodes.items():
        asleep = node.state is NodeState.OFFLINE and node.capacity is not None
        if asleep and name not in inhabited:
            yield name


def _awake(snapshot: Snapshot, nodes: Iterable[NodeId]) -> Snapshot:
    woken = {
        name: replace(snapshot.nodes[name], state=NodeState.ONLINE, usage=Usage(0.0, 0))
        for name in nodes
    }
    return replace(snapshot, nodes={**snapshot.nodes, **woken})


def _cores(node: Node) -> float:
    return node.capacity.cpu if node.capacity is not None else 1.0


def _levelled(samples: Sequence[float], length: int) -> Floats:
    """Return *samples* as so many, as if it had been before as in the first of them.

    A node that was not measured for a while, or a guest that has just started, used
    something before too, or nobody asked; that it was nothing is not known.
    """
    if not samples:
        return np.zeros(length)
    return np.array([samples[0]] * (length - len(samples)) + [*samples], float)


def _pairs(rooms: Iterable[Room], missing: float) -> Floats:
    pairs = [
        (
            missing if each.used is None else each.used,
            missing if each.promised is None else each.promised,
        )
        for each in rooms
    ]
    return np.array(pairs, float).reshape(-1, 2)
