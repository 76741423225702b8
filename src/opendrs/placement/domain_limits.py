"""Limits of the guests of rules in failure domains, as arrays of parts and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opendrs.arrays import Mask, MoveGroup
from opendrs.model import GuestId, NodeId
from opendrs.rules import DomainLimit

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class PartLimit:
    """Limit of the guests of one rule in each domain of N nodes.

    Attributes:
        limit: The limit.
        parts: Parts with guests that it counts.
        sizes: Number of these guests in each of them.
        domain: Domain of each node, from 0; shape (N,).
    """

    limit: DomainLimit
    parts: Indices
    sizes: Indices
    domain: Indices

    @classmethod
    def of(
        cls,
        limit: DomainLimit,
        parts: Sequence[MoveGroup],
        part_of: Mapping[GuestId, int],
        node_ids: Sequence[NodeId],
    ) -> PartLimit:
        """Return *limit* with the *parts* of its guests and the domains of nodes."""
        counted = sorted({part_of[name] for name in limit.guests if name in part_of})
        sizes = [sum(each.id in limit.guests for each in parts[x]) for x in counted]
        number = {name: index for index, name in enumerate(sorted(limit.nodes_in))}
        return cls(
            limit,
            np.array(counted, np.intp),
            np.array(sizes, np.intp),
            np.array([number[limit.domain_of[name]] for name in node_ids], np.intp),
        )

    def is_exceeded(self, part: int, node_of: Indices, target_of: Indices) -> Mask:
        """Return the nodes in whose domain *part* would be too much; shape (N,).

        Args:
            part: A part that is on no node; no node is exceeded if it is not counted.
            node_of: Node of each part, negative for none; shape (P,).
            target_of: Target of the migration of each part; shape (P,).
        """
        own = self.parts == part
        if not own.any():
            return np.zeros(len(self.domain), np.bool_)
        count = np.full(int(self.domain.max()) + 1, self.sizes[own][0])
        for other, size in zip(self.parts[~own], self.sizes[~own], strict=True):
            nodes = [each for each in (node_of[other], target_of[other]) if each >= 0]
            count[list({int(self.domain[each]) for each in nodes})] += size
        exceeded: Mask = (count > self.limit.rule.max_guests)[self.domain]
        return exceeded
