"""Good placements of a problem that is too large for all of them, by beam search.

Every placement is reached by single moves, each of which is safe, as in the search of
all placements. Of those that one more move reaches, the best ones are kept. A search
that looks for a good final placement first may find one to which no safe order leads,
above all if few large units fill few nodes.

Source:
    Lowerre, The HARPY speech recognition system (1976).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import numpy.typing as npt

from opendrs.optimizer.exhaustive import PlacementGraph, UnitMove
from opendrs.optimizer.problem import Floats, Indices
from opendrs.optimizer.search.method import StoppingCriterion

Keys = npt.NDArray[np.uint64]
# Rank and value of each placement, both of shape (S,); the least is the best.
Evaluation = Callable[[Indices], tuple[Floats, Floats]]
MAX_UNIMPROVED = 5  # moves in a row without a better placement


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamLimits:
    """Limits of the search.

    Attributes:
        width: Placements that are kept after each number of moves.
        moves: Most moves of a path.
        migrations: Most migrations of a path.
        transfer: Most that a path may transfer.
    """

    width: int
    moves: int
    migrations: float = math.inf
    transfer: float = math.inf


@dataclass(frozen=True, slots=True)
class _Layer:
    """Placements that are reached by one more move.

    Attributes:
        assignments: Node of each unit; shape (U, S).
        transfer: Amount that the path transfers; shape (S,).
        migrations: Migrations of the path; shape (S,).
        parent: Number of the placement before, among all that are kept; shape (S,).
        unit: Unit that moved; shape (S,).
    """

    assignments: Indices
    transfer: Floats
    migrations: Floats
    parent: Indices
    unit: Indices

    def select(self, which: Indices) -> _Layer:
        """Return the placements at *which*."""
        return _Layer(
            self.assignments[:, which],
            self.transfer[which],
            self.migrations[which],
            self.parent[which],
            self.unit[which],
        )


class BeamPlacements:
    """The placements that the search has kept, with a path to each.

    Args:
        graph: Units, nodes, and the moves between placements.
        evaluate: Rank and value of placements.
        limits: Limits of the search.
        stop: Stopping criterion, which is asked before each further move of the paths;
            None for none.

    Attributes:
        assignments: Node of each unit in each placement, the origin first; shape
            (U, S).
        transfer: Amount to transfer to each placement; shape (S,).
    """

    def __init__(
        self,
        graph: PlacementGraph,
        evaluate: Evaluation,
        limits: BeamLimits,
        stop: StoppingCriterion | None = None,
    ) -> None:
        self._graph = graph
        self._limits = limits
        draw = np.random.default_rng(0)
        size = (graph.unit_count, graph.node_count)
        self._words = draw.integers(0, 1 << 63, size, np.uint64)
        none = np.zeros(1)
        unmoved = np.full(1, -1, np.int64)
        layer = _Layer(graph.origin[:, None], none, none, unmoved, unmoved)
        if stop is None:
            layers = self._layers(layer, evaluate, repeat(None))
        else:
            with closing(stop.portions(graph.unit_count)) as portions:
                layers = self._layers(layer, evaluate, portions)
        self.assignments: Indices = np.hstack([each.assignments for each in layers])
        self.transfer: Floats = np.concatenate([each.transfer for each in layers])
        self._parent = np.concatenate([each.parent for each in layers])
        self._unit = np.concatenate([each.unit for each in layers])

    def _layers(
        self, layer: _Layer, evaluate: Evaluation, portions: Iterable[object]
    ) -> list[_Layer]:
        """Return *layer* and those after it, at most one for each of *portions*."""
        limits = self._limits
        layers, first, unimproved = [layer], 0, 0
        seen = self._keys(layer.assignments)
        best = self._best_key(evaluate, layer)
        for _ in portions:
            if len(layers) > limits.moves or unimproved == MAX_UNIMPROVED:
                break
            found = self._successors(layer, first)
            keys = self._keys(found.assignments)
            _, once = np.unique(keys, return_index=True)
            new = once[~np.isin(keys[once], seen)]
            if not len(new):
                break
            found = found.select(new)
            ranks, values = evaluate(found.assignments)
            order = np.lexsort((found.transfer, values, ranks))[: limits.width]
            first += layer.assignments.shape[1]
            layer = found.select(order)
            layers.append(layer)
            seen = np.concatenate([seen, self._keys(layer.assignments)])
            key = float(ranks[order[0]]), float(values[order[0]])
            unimproved = 0 if key < best else unimproved + 1
            best = min(best, key)
        return layers

    def path(self, placement: int) -> tuple[UnitMove, ...]:
        """Return the moves from the origin to *placement*, in order."""
        moves: list[UnitMove] = []
        while placement:
            unit = int(self._unit[placement])
            moves.append(UnitMove(unit, int(self.assignments[unit, placement])))
            placement = int(self._parent[placement])
        return tuple(reversed(moves))

    @staticmethod
    def _best_key(evaluate: Evaluation, layer: _Layer) -> tuple[float, float]:
        ranks, values = evaluate(layer.assignments)
        return float(ranks[0]), float(values[0])

    def _keys(self, assignments: Indices) -> Keys:
        """Return a number for each placement, by which equal ones are found."""
        units = np.arange(len(assignments))[:, None]
        keys: Keys = np.bitwise_xor.reduce(self._words[units, assignments], axis=0)
        return keys

    def _successors(self, layer: _Layer, first: int) -> _Layer:
        """Return what one more safe move within the limits reaches from *layer*.

        Args:
            layer: Placements.
            first: Number of the first one among all that are kept.
        """
        graph = replace(self._graph, subset=layer.assignments)
        sources, units, targets = [], [], []
        for unit, target in np.ndindex(graph.unit_count, graph.node_count):
            found = np.flatnonzero(graph.is_safe(unit, target))
            sources.append(found)
            units.append(np.full(len(found), unit))
            targets.append(np.full(len(found), target))
        source, unit = np.concatenate(sources), np.concatenate(units)
        target = np.concatenate(targets)
        transfer = layer.transfer[source] + graph.transfer[unit]
        migrations = layer.migrations[source] + graph.migrations[unit]
        allowed = np.flatnonzero(
            (transfer <= self._limits.transfer)
            & (migrations <= self._limits.migrations)
        )
        source, unit, target = source[allowed], unit[allowed], target[allowed]
        after = layer.assignments[:, source]
        after[unit, np.arange(len(unit))] = target
        return _Layer(
            after, transfer[allowed], migrations[allowed], first + source, unit
        )
