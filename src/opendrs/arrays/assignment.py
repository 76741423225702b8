"""Assignment of move groups to nodes while moves are selected, with undo."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opendrs.arrays.cluster import Floats, Indices
from opendrs.arrays.placement_classes import Mask


class AssignmentState:
    """Node of each of G move groups and available resources of each of N nodes.

    Attributes:
        node_of: Node of each group; shape (G,).
        available: Available resources of each node; shape (N, K), as in
            `ClusterArrays`.

    Args:
        node_of: Node of each group before the moves.
        required: Resources that each group requires; shape (G, K).
        available: Available resources before the moves.
        usable: Available resources of empty nodes; shape (N, K). A node never has more,
            since a guest may seem to use more than its node, because of sampling.
    """

    def __init__(
        self, node_of: Indices, required: Floats, available: Floats, usable: Floats
    ) -> None:
        self.node_of = node_of.copy()
        self.available = available.copy()
        self._required = required
        self._usable = usable

    def place(self, group: int, target: int) -> Callable[[], None]:
        """Move *group* to *target*; return a function that undoes it."""
        source = int(self.node_of[group])
        available = self.available[[source, target]].copy()
        self._move(group, source, target)
        freed = self.available[source] + self._required[group]
        self.available[source] = np.minimum(freed, self._usable[source])
        self.available[target] -= self._required[group]

        def undo() -> None:
            self._move(group, target, source)
            self.available[[source, target]] = available

        return undo

    def has_resources(self, group: int) -> Mask:
        """Return the nodes with enough available resources for *group*; shape (N,)."""
        mask = np.ones(len(self.available), np.bool_)
        for available, required in zip(
            self.available.T, self._required[group], strict=True
        ):
            mask &= required <= available
        return mask

    def _move(self, group: int, source: int, target: int) -> None:
        """Change the node of *group*, and what else depends on it."""
        del source
        self.node_of[group] = target
