"""Where guests that must be together and are not are gathered."""

from __future__ import annotations

from collections.abc import Iterable

from opendrs.model import GIB, Guest, NodeId, Snapshot
from opendrs.model.resources import NOTHING
from opendrs.policies.units import Unit
from opendrs.rules import Targets
from opendrs.scoring import UsageMode, demand, node_loads


def transfer(guests: Iterable[Guest]) -> float:
    """Return the memory that moving *guests* transfers, in GiB."""
    return sum((guest.usage.memory or 0) for guest in guests) / GIB


class Homes:
    """The node on which each party is gathered best.

    Attributes:
        targets: Where guests may go.

    Args:
        snapshot: The cluster.
        targets: Where guests may go.
        mode: What counts as load.
    """

    def __init__(self, snapshot: Snapshot, targets: Targets, mode: UsageMode) -> None:
        self.targets = targets
        self._mode = mode
        self._loads = node_loads(snapshot, mode)
        known = self._loads.values()
        cpu = sum(each.taken.cpu for each in known)
        memory = sum(each.taken.memory for each in known)
        # The part of each node that would be taken if all were even.
        self._cpu = cpu / (sum(each.capacity.cpu for each in known) or 1.0)
        self._memory = memory / (sum(each.capacity.memory for each in known) or 1.0)

    def of(self, bundle: Unit) -> NodeId:
        """Return the node of *bundle* on which the others fit, and load it most evenly.

        Where that makes no difference, it is the one to which least is transferred.
        """

        def ease(node: NodeId) -> tuple[int, float, float, NodeId]:
            strays = tuple(guest for guest in bundle if guest.node != node)
            closed = self.targets.obstacle(strays, node) is not None
            uneven = round(self._unevenness(bundle, node), 9)
            return int(closed), uneven, transfer(strays), node

        return min({guest.node for guest in bundle}, key=ease)

    def _unevenness(self, bundle: Unit, home: NodeId) -> float:
        """Return how uneven the nodes of *bundle* are once it is on *home*."""
        loads = {name: self._loads.get(name) for name in {g.node for g in bundle}}
        for guest in bundle:
            taken = demand(guest, self._mode) or NOTHING
            here, there = loads[guest.node], loads[home]
            if guest.node == home or here is None or there is None:
                continue
            loads[guest.node] = here.without_running(taken)
            loads[home] = there.with_running(taken)
        return sum(
            (each.cpu / (self._cpu or 1.0) - 1) ** 2
            + (each.memory / (self._memory or 1.0) - 1) ** 2
            for each in loads.values()
            if each is not None
        )
