"""The room of every node, while guests come and go."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from opendrs.policies.passage.scene import NOTHING, Pair, Scene
from opendrs.rules import Room, Targets, room_when_empty

Column: TypeAlias = "array[float]"


class Rooms:
    """What is free on each node, while guests come and go.

    What guests free that were there from the beginning is no more than the empty
    node has, because a guest may seem to use more than its node does. Who comes takes
    what it needs, and frees exactly that when it leaves. Free room is counted in
    whole bytes, so that what is free does not depend on the order of events.

    Args:
        scene: The cluster.
    """

    def __init__(self, scene: Scene) -> None:
        nodes, limits = scene.snapshot.nodes, scene.limits
        free = Targets(scene.snapshot, scene.rules, limits).room
        self._base = _columns([free[name] for name in scene.names])
        self._most = _columns(
            [room_when_empty(nodes[name], limits) for name in scene.names]
        )
        self._taken = _columns([Room(0.0, 0.0)] * len(scene.names))

    def free(self, node: int, home: Pair = NOTHING, passing: Pair = NOTHING) -> Pair:
        """Return what is free on *node*, once more is freed.

        Args:
            node: The node.
            home: What guests free that were there from the beginning.
            passing: What guests free that have come since.
        """
        used, promised = self._base
        most_used, most_promised = self._most
        return (
            min(used[node] + home[0], most_used[node])
            - self._taken[0][node]
            + passing[0],
            min(promised[node] + home[1], most_promised[node])
            - self._taken[1][node]
            + passing[1],
        )

    def come(self, node: int, need: Pair) -> None:
        """Take *need* of *node*."""
        for taken, amount in zip(self._taken, need, strict=True):
            taken[node] += amount

    def go(self, node: int, freed: Pair, *, home: bool) -> None:
        """Free *freed* of *node*; *home* of guests there from the beginning."""
        for part, amount in enumerate(freed):
            if home:
                base, most = self._base[part], self._most[part]
                base[node] = min(base[node] + amount, most[node])
            else:
                self._taken[part][node] -= amount

    def most_free(self) -> float:
        """Return the most measured memory that is free on any node."""
        return float(
            (np.frombuffer(self._base[0]) - np.frombuffer(self._taken[0])).max()
        )

    def spare(
        self, nodes: npt.NDArray[np.intp], expected: array[float]
    ) -> npt.NDArray[np.float64]:
        """Return what is free on each of *nodes*, less what is *expected* there."""
        free = np.frombuffer(self._base[0]) - np.frombuffer(self._taken[0])
        left: npt.NDArray[np.float64] = (free - np.frombuffer(expected))[nodes]
        return left

    def roomy(self, need: Pair) -> npt.NDArray[np.intp]:
        """Return the nodes with room for *need*."""
        suffices = [
            np.frombuffer(base) - np.frombuffer(taken) >= amount
            for base, taken, amount in zip(self._base, self._taken, need, strict=True)
        ]
        return np.flatnonzero(suffices[0] & suffices[1])


def _columns(rooms: Sequence[Room]) -> tuple[Column, Column]:
    """Return measured and promised memory; what is not known has no room."""
    return _column(each.used for each in rooms), _column(
        each.promised for each in rooms
    )


def _column(values: Iterable[float | None]) -> Column:
    return array(
        "d",
        (-math.inf if value is None else math.floor(value) for value in values),
    )
