"""From a snapshot to the problem that a search is given, and back to names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from opendrs.model import GIB, Guest, Limits, NodeId, Snapshot
from opendrs.model.resources import NOTHING
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.movers import (
    CPU,
    PROMISED,
    RESOURCES,
    USED,
    Movers,
    known,
    summed,
)
from opendrs.policies.optimising.parties import Party
from opendrs.rules import CompiledRules, Room, Targets, need
from opendrs.scoring import UsageMode, demand, node_loads

SPARE_CPU = 1.25  # processors may be promised this often where all are busy


class Scene:
    """A cluster as a search sees it: each party that may travel is a unit.

    Where a party is not together yet, the search begins with it at home.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        parties: Who may be moved.
        loads: What each node that is known has and holds.
        nodes: Those nodes, in the order of the columns.
        targets: Where guests may go.
        unit_of: The unit of each guest that may be moved.

    Args:
        snapshot: The cluster; every online node must be measured.
        rules: Its rules.
        parties: Who may be moved.
        limits: What the operator allows.
        mode: What counts as load.
        fill: The part of its memory to which each node may be filled, so that others
            can take in what runs there.
    """

    def __init__(  # noqa: PLR0913 - the cluster, who moves, and what bounds them
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        parties: Sequence[Party],
        limits: Limits,
        mode: UsageMode,
        *,
        fill: float = 1.0,
    ) -> None:
        self.snapshot = snapshot
        self.rules = rules
        self.parties = tuple(parties)
        self._limits = limits
        self._mode = mode
        self._fill = fill
        self.loads = node_loads(snapshot, mode)
        self.nodes: tuple[NodeId, ...] = tuple(self.loads)
        self._index = {name: place for place, name in enumerate(self.nodes)}
        self.unit_of = {
            guest.id: place
            for place, party in enumerate(self.parties)
            for guest in party.guests
        }
        self.targets = Targets(snapshot, rules, limits)

    def of_parties(self, parties: Sequence[Party]) -> Scene:
        """Return the same cluster, of which these *parties* may be moved."""
        return Scene(
            self.snapshot,
            self.rules,
            parties,
            self._limits,
            self._mode,
            fill=self._fill,
        )

    @cached_property
    def origin(self) -> Indices:
        """The home of each unit; shape (G,)."""
        return np.array([self._index[each.home] for each in self.parties], np.int64)

    @cached_property
    def movers(self) -> Movers:
        """The guests of the units, as columns."""
        return Movers(self.parties, self._mode, self._limits)

    @cached_property
    def size(self) -> Floats:
        """What each node has: cores, memory and memory; shape (N, R)."""
        return np.array(
            [
                (load.capacity.cpu, load.capacity.memory, load.capacity.memory)
                for load in self.loads.values()
            ],
            float,
        )

    @cached_property
    def capacity(self) -> Floats:
        """What each node holds at most once units arrive; shape (N, R)."""
        busy = self.taken[:, CPU].sum() / self.size[:, CPU].sum()
        most = np.array(
            [
                max(1.0, SPARE_CPU * busy),
                min(1 - self._limits.memory_headroom, self._fill),
                self._limits.memory_overbooking,
            ]
        )
        # A byte where the limits allow none: who has nothing has no part of it taken.
        limit: Floats = np.maximum(self.size * most, 1.0 * (most == 0))
        return limit

    @cached_property
    def taken(self) -> Floats:
        """What is taken of each node with each unit at home; shape (N, R)."""
        return self.base + summed(self.origin, self.movers.demand, len(self.nodes))

    @cached_property
    def base(self) -> Floats:
        """What is taken of each node by all but the units; shape (N, R)."""
        free = np.array([known(self.room(name)) for name in self.nodes], float)
        most = np.array([1 - self._limits.memory_headroom, 1.0])
        most[1] = self._limits.memory_overbooking
        base = np.column_stack(
            (
                [load.taken.cpu for load in self.loads.values()],
                self.size[:, 1:] * most - free.reshape(-1, 2),
            )
        )
        left: Floats = base - self._taken_by_units(self.snapshot)
        return left

    def taken_in(self, snapshot: Snapshot) -> Floats:
        """Return what is taken of each node with each unit as in *snapshot*; (N, R)."""
        return self.base + self._taken_by_units(snapshot)

    def _taken_by_units(self, snapshot: Snapshot) -> Floats:
        """Return what units take of each node in *snapshot*; shape (N, R)."""
        movers = self.movers
        now = (snapshot.guests[guest.id].node for guest in movers.guests)
        where = np.array([self._index[node] for node in now], np.int64)
        return summed(where, movers.taken, len(self.nodes))

    @cached_property
    def even(self) -> Floats:
        """The part of its capacity that each node has taken evenly; shape (R,)."""
        return quotient(self.taken.sum(axis=0), self.capacity.sum(axis=0))

    @property
    def memory(self) -> int:
        """The resource whose evenness is looked at besides that of processors."""
        return PROMISED if self._mode is UsageMode.STATIC else USED

    @cached_property
    def mean_memory(self) -> float:
        """The memory in use on a node, on average, in GiB."""
        return max(float(self.taken[:, USED].mean()) / GIB, 1e-9)

    def memory_of_nodes(self) -> Iterator[tuple[float, float]]:
        """Yield the memory of each node, and what of it is in use, in bytes."""
        yield from zip(
            self.size[:, USED].tolist(), self.taken[:, USED].tolist(), strict=True
        )

    def room(self, name: NodeId) -> Room:
        """Return the memory that the node called *name* can still take in."""
        return self.targets.room[name]

    def taken_by(self, guests: Sequence[Guest]) -> tuple[float, float, float]:
        """Return what *guests* take; what is not known counts 0, and stays."""
        cpu = sum((demand(guest, self._mode) or NOTHING).cpu for guest in guests)
        return cpu, *known(need(guests))


def quotient(dividend: Floats, divisor: Floats) -> Floats:
    """Return the quotient, and 0 where nothing is divided by."""
    result: Floats = np.zeros(RESOURCES)
    np.divide(dividend, divisor, out=result, where=divisor > 0)
    return result
