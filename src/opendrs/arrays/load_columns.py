"""Further loads as columns of what nodes have and groups require, and as node loads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from opendrs.arrays.placement_classes import Mask
from opendrs.model import FurtherLoad, Guest, Limits, Node, NodeId, Snapshot
from opendrs.rules import available_loads, compared_loads, required_load

Floats = npt.NDArray[np.float64]

STEPS = 1e9  # in the smallest capacity; sums of whole steps are exact
NO_THRESHOLD = 1e3  # times the capacity, which no node is loaded


class LoadColumns:
    """Amounts of L further loads: of those that some node has a capacity of.

    All amounts of a column are whole steps of a billionth of the smallest capacity;
    what is required is rounded up, and what is available is rounded down.

    Args:
        snapshot: Cluster.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self._snapshot = snapshot
        self.loads: Sequence[FurtherLoad] = compared_loads(snapshot, limits)

    @cached_property
    def _step(self) -> Floats:
        """Unit of each column; shape (L,)."""
        step: Floats = self._capacities.min(axis=0, initial=np.inf) / STEPS
        return step

    @cached_property
    def _capacities(self) -> Floats:
        """Capacity of each node of the cluster; infinity without one."""
        return self._rows(map(self._capacity, self._snapshot.nodes.values()))

    def _capacity(self, node: Node) -> list[float]:
        return [node.load_capacities.get(each.name, np.inf) for each in self.loads]

    def usable(self, nodes: Sequence[NodeId]) -> Floats:
        """Return what each of *nodes* may bear; shape (N, L).

        A node without a capacity, and one without a threshold, may bear more than any
        node does.
        """
        if not self.loads:
            return np.zeros((len(nodes), 0))
        capacity = self._rows(self._capacity(self._snapshot.nodes[n]) for n in nodes)
        largest = np.where(np.isfinite(self._capacities), self._capacities, 0.0)
        most = NO_THRESHOLD * largest.max(axis=0, initial=0.0)
        part = [each.threshold or NO_THRESHOLD for each in self.loads]
        usable = np.where(np.isfinite(capacity), capacity * part, most)
        floor: Floats = np.floor(usable / self._step)
        return floor

    def available(self, nodes: Sequence[NodeId]) -> Floats:
        """Return what each of *nodes* may receive; -infinity if unknown; (N, L)."""
        usable = self.usable(nodes)
        if not self.loads:
            return usable
        found = available_loads(self._snapshot, self.loads)
        left = self._rows(
            [
                -np.inf
                if (amount := found[name].get(each.name, np.inf)) is None
                else amount
                for each in self.loads
            ]
            for name in nodes
        )
        used = self._rows(
            [
                self._snapshot.nodes[name].loads.get(each.name, 0.0)
                for each in self.loads
            ]
            for name in nodes
        )
        # What is left without a threshold says how much is used, for the balance.
        used = np.where(self.compared(nodes), used, 0.0)
        unlimited = usable - np.ceil(used / self._step)
        available: Floats = np.where(
            np.isposinf(left), unlimited, np.floor(left / self._step)
        )
        return available

    def compared(self, nodes: Sequence[NodeId]) -> Mask:
        """Return True for nodes whose load and capacity are known; shape (N, L)."""
        found = [self._snapshot.nodes[name] for name in nodes]
        rows = [
            [each.used_fraction(node) is not None for each in self.loads]
            for node in found
        ]
        return np.array(rows, np.bool_).reshape(len(rows), len(self.loads))

    def required(self, groups: Sequence[Iterable[Guest]]) -> Floats:
        """Return what each group requires; infinity if unknown; shape (n, L)."""
        if not self.loads:
            return np.zeros((len(groups), 0))
        return self._rows(map(self.required_by, groups))

    def required_by(self, guests: Iterable[Guest]) -> tuple[float, ...]:
        """Return what *guests* require; infinity if unknown."""
        if not self.loads:
            return ()
        there = tuple(guests)
        amounts = [required_load(there, each.name) for each in self.loads]
        return tuple(
            np.inf if amount is None else float(np.ceil(amount / step))
            for amount, step in zip(amounts, self._step.tolist(), strict=True)
        )

    def _rows(self, rows: Iterable[Sequence[float]]) -> Floats:
        found = list(rows)
        return np.array(found, float).reshape(len(found), len(self.loads))
