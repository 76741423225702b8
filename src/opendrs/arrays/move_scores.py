"""Scores of all single moves, by the two rows that each of them changes.

A score is computed from the change of the sum and the sum of squares of the loads: a
few operations for each of the G x N moves. This loses the last digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays.cluster import Floats, Indices
from opendrs.arrays.placement_classes import Mask

NOISE = 1e-13  # rounding of incremental scores, relative to the sum of squares
BINS_PER_OCTAVE = 64  # capacities in a bin differ by at most 1.1 %


@dataclass(frozen=True, slots=True)
class MoveArrays:
    """Nodes, move groups and their feasible moves, as scoring reads them.

    The columns are those of `ClusterArrays`. C classes of groups have the same nodes.
    The R resources are CPU, memory, and the further loads that are balanced.

    Attributes:
        capacity: Capacity of each node; shape (N, R).
        usage: Used resources of each node; shape (N, R).
        demand: Resources that move with each group; shape (G, R).
        node_of: Node of each group; shape (G,).
        class_of: Class of each group; shape (G,).
        allowed: Allowed nodes of each class; shape (C, N).
        available: Available resources of each node; shape (N, K).
        required: Resources that each group requires; shape (G, K).
        share: Share of each resource in the mean load of each node; shape (N, R), each
            row with the sum 1. None for equal shares.
    """

    capacity: Floats
    usage: Floats
    demand: Floats
    node_of: Indices
    class_of: Indices
    allowed: Mask
    available: Floats
    required: Floats
    share: Floats | None = None

    @property
    def shares(self) -> Floats:
        """Share of each resource in the mean load of each node; shape (N, R)."""
        if self.share is None:
            return np.full_like(self.capacity, 1 / max(1, self.capacity.shape[1]))
        return self.share


class MoveScores:
    """Incremental scores of all moves of some groups."""

    def __init__(self, arrays: MoveArrays) -> None:
        self._arrays = arrays
        self._n = len(arrays.capacity)
        self._loads = arrays.usage / arrays.capacity
        self._share = arrays.shares
        self._mean = (self._loads * self._share).sum(axis=1)
        # Squares of deviations keep the digits that squares of loads would lose.
        self._center = float(self._mean.sum()) / max(1, self._n)
        self._deviation = self._mean - self._center
        self._squares = np.square(self._loads).sum(axis=0)
        self._noise = NOISE * float(np.square(self._mean).sum()) / max(1, self._n)

    def permitted(self, groups: Indices) -> Mask:
        """Return the feasible nodes of each group; shape (k, N)."""
        c = self._arrays
        mask = c.allowed[c.class_of[groups]]
        for required, available in zip(c.required.T, c.available.T, strict=True):
            mask &= required[groups, None] <= available
        mask[np.arange(len(groups)), c.node_of[groups]] = False
        return mask

    def lowest_variations(self, groups: Indices) -> Floats:
        """Return `variations`, with infinity where a move is not permitted."""
        variance = self.variations(groups)
        variance[~self.permitted(groups)] = np.inf
        return variance

    def variations(self, groups: Indices) -> Floats:
        """Return a lower bound of the squared coefficient of variation after each move.

        The bound differs from the exact value only by rounding, which dominates if
        hardly any imbalance remains. The shape is (k, N).
        """
        c, n = self._arrays, self._n
        total, square = self._sums_without(groups)
        grow = c.demand[groups] @ (self._share / c.capacity).T
        sums = grow + total[:, None]
        squares = grow * (grow + 2 * self._deviation)
        squares += square[:, None]
        variance: Floats = squares / n
        sums /= n
        variance -= np.square(sums)
        variance -= self._noise
        sums += self._center
        np.square(sums, out=sums)
        np.divide(variance, sums, out=variance, where=sums > 0)
        variance -= NOISE
        return variance

    def least_variations(self) -> Floats:
        """Return a lower bound of the `variations` of each group; shape (G,).

        It is that of a move to a node with the least load, the least growth and the
        largest sum of loads that any node of a bin may have. Growth with the least sum
        of squares may be neither the least nor the largest.
        """
        c, n = self._arrays, self._n
        total, square = self._sums_without(np.arange(len(c.demand)))
        bounds = np.full(len(c.demand), np.inf)
        for nodes in self._bins():
            share = self._share[nodes] / c.capacity[nodes]
            deviation = self._deviation[nodes].min()
            least, most = c.demand @ share.min(axis=0), c.demand @ share.max(axis=0)
            grow = np.clip(-deviation, least, most)
            squares = square + grow * (grow + 2 * deviation)
            sums = np.maximum(np.abs(total + least), np.abs(total + most)) / n
            variance = squares / n - np.square(sums) - self._noise
            mean = (total + most) / n + self._center
            np.divide(variance, np.square(mean), out=variance, where=mean > 0)
            np.minimum(bounds, variance - NOISE, out=bounds)
        return bounds

    def _bins(self) -> Iterator[Indices]:
        """Yield the nodes of about one capacity on which the smallest group fits."""
        c = self._arrays
        if not len(c.demand):
            return
        open_nodes = np.flatnonzero(
            (c.available >= c.required.min(axis=0)).all(axis=1) & c.allowed.any(axis=0)
        )
        levels = np.round(np.log2(c.capacity[open_nodes]) * BINS_PER_OCTAVE)
        _, bin_of = np.unique(levels, axis=0, return_inverse=True)
        for each in range(bin_of.max(initial=-1) + 1):
            yield open_nodes[bin_of == each]

    def _sums_without(self, groups: Indices) -> tuple[Floats, Floats]:
        """Return the sum and the sum of squares of deviations without the groups.

        They are those after each group has left its source; both of shape (k,).
        """
        source = self._arrays.node_of[groups]
        remaining = self._loads_without(groups) * self._share[source]
        shrink = remaining.sum(axis=1) - self._mean[source]
        total: Floats = self._deviation.sum() + shrink
        square: Floats = np.square(self._deviation).sum() + shrink * (
            2 * self._deviation[source] + shrink
        )
        return total, square

    def criteria(self, groups: Indices) -> Sequence[Floats]:
        """Return the TOPSIS criteria after each move; four, of shape (k, N)."""
        cpu, memory = (self._average_and_highest(groups, each) for each in (0, 1))
        return *cpu, *memory

    def _average_and_highest(
        self, groups: Indices, resource: int
    ) -> tuple[Floats, Floats]:
        c = self._arrays
        loads, source = self._loads[:, resource], c.node_of[groups]
        source_load = self._loads_without(groups)[:, resource]
        target_load = c.demand[groups, resource, None] / c.capacity[:, resource] + loads
        other_squares = (
            self._squares[resource] - np.square(loads[source]) + np.square(source_load)
        )
        squares = np.square(target_load)
        squares += other_squares[:, None] - np.square(loads)
        average = 1.0 + np.sqrt(np.maximum(squares, 0.0) / self._n)
        others = np.maximum(source_load, _highest_elsewhere(loads, source))
        highest = np.maximum(target_load, others[:, None])
        return average, 1.0 + np.maximum(highest, 0.0)

    def _loads_without(self, groups: Indices) -> Floats:
        """Return the loads of the sources after the groups have left; shape (k, R)."""
        c = self._arrays
        source = c.node_of[groups]
        remaining = np.maximum(c.usage[source] - c.demand[groups], 0.0)
        loads: Floats = remaining / c.capacity[source]
        return loads


def _highest_elsewhere(loads: Floats, source: Indices) -> Floats:
    """Return the highest load except that of the source; shape (k,).

    The target is included: its load can only grow.
    """
    first = int(loads.argmax())
    second = np.delete(loads, first).max(initial=0.0)
    highest: Floats = np.where(source == first, second, loads[first])
    return highest
