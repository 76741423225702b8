"""Placement classes: move groups with the same rules and hardware, and their nodes.

The nodes that suit a group, other guests aside, are the same for all groups of a class.
There are a few dozen classes in a large cluster.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from opendrs.arrays.move_groups import MoveGroup
from opendrs.model import NodeId, Snapshot, missing_storages, needed_storages
from opendrs.rules import CompiledRules, FeasibilityChecker

Mask = npt.NDArray[np.bool_]
# Known architectures, CPU models and storages that a group requires.
Hardware = tuple[frozenset[str | None], frozenset[str | None], frozenset[str]]


class PlacementClasses:
    """Nodes that suit each placement class; the masks of shape (N,) are not modified.

    Args:
        snapshot: Cluster.
        rules: Its compiled rules.
        feasibility: Feasible nodes of guests.
        index: Index of each node.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        feasibility: FeasibilityChecker,
        index: Mapping[NodeId, int],
    ) -> None:
        self._rules = rules
        self._feasibility = feasibility
        self._index = index
        self._architecture_of = {
            name: node.architecture for name, node in snapshot.nodes.items()
        }
        self._storages_of = {
            name: node.storages for name, node in snapshot.nodes.items()
        }
        self._has_storages = any(
            each is not None for each in self._storages_of.values()
        )
        self._nodes = [snapshot.nodes[name] for name in index]
        self._suited: dict[Hashable, Mask] = {}
        self._compatible: dict[Hashable, Mask] = {}

    def class_of(self, group: MoveGroup) -> Hashable:
        """Return the class of *group*."""
        leader = group[0].id
        return (
            self._hardware(group),
            self._rules.nodes.get(leader),
            tuple(id(rule) for rule in self._rules.rankings.get(leader, ())),
        )

    def compatible(self, group: MoveGroup) -> Mask:
        """Return the nodes for which `FeasibilityChecker.is_compatible` is true."""
        key = self.class_of(group)
        if key not in self._compatible:
            suited, leader = self.suited(group), group[0].id
            if leader in self._rules.nodes or leader in self._rules.rankings:
                suited = suited & self._mask(self._feasibility.preferred_nodes(leader))
            self._compatible[key] = suited
        return self._compatible[key]

    def suited(self, group: MoveGroup) -> Mask:
        """Return the online nodes with hardware that suits *group*."""
        architectures, models, storages = key = self._hardware(group)
        if key not in self._suited:
            self._suited[key] = np.array(
                [
                    node.online
                    and (
                        node.architecture is None
                        or architectures <= {node.architecture}
                    )
                    and models <= {node.cpu_model}
                    and not missing_storages(storages, node.storages)
                    for node in self._nodes
                ],
                np.bool_,
            )
        return self._suited[key]

    def permitted(self, group: MoveGroup) -> Mask:
        """Return the nodes that strict rules allow for *group*; a new array."""
        listed = self._rules.nodes.get(group[0].id)
        return self._mask(self._index if listed is None else listed)

    def _hardware(self, group: MoveGroup) -> Hardware:
        """Return what *group* requires of the hardware of a node."""
        sources = frozenset(self._architecture_of[guest.node] for guest in group)
        models = frozenset(guest.cpu_model for guest in group)
        return sources - {None}, models - {None}, self._storages(group)

    def _storages(self, group: MoveGroup) -> frozenset[str]:
        """Return the storages that *group* requires."""
        if not self._has_storages:
            return frozenset()
        return frozenset().union(
            *(
                needed_storages(guest.disks, self._storages_of[guest.node])
                for guest in group
            )
        )

    def _mask(self, names: Iterable[NodeId]) -> Mask:
        mask = np.zeros(len(self._nodes), np.bool_)
        mask[[self._index[name] for name in names if name in self._index]] = True
        return mask
