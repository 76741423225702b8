"""The load of nodes, and what it becomes when a guest starts there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opendrs.model import Resources
from opendrs.scoring.sums import sum_in_order
from opendrs.scoring.topsis import topsis

# Weights of the criteria below: the less, the better; memory matters most,
# because it cannot be shared in time. proxmox-resource-scheduling 2.0.0.
CRITERIA = {
    "average cpu": -1.0,
    "highest cpu": -2.0,
    "average memory": -5.0,
    "highest memory": -10.0,
}
WEIGHTS = tuple(CRITERIA.values())


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """What a node has and what of it is taken.

    Attributes:
        capacity: All of it.
        taken: What counts as taken: measured use, or the limits of its guests.
    """

    capacity: Resources
    taken: Resources

    @property
    def cpu(self) -> float:
        """Return the fraction of the cores that is taken."""
        return self.taken.cpu / self.capacity.cpu

    @property
    def memory(self) -> float:
        """Return the fraction of the memory that is taken."""
        return self.taken.memory / self.capacity.memory

    @property
    def mean(self) -> float:
        """Return the mean of both fractions, which Proxmox calls the load."""
        return (self.cpu + self.memory) / 2

    def with_started(self, limit: Resources) -> NodeLoad:
        """Return the load once a guest of that *limit* has started.

        It is taken to use all it may; a guest without cpu limit, all cores.
        """
        cpu = limit.cpu if limit.cpu != 0 else self.capacity.cpu
        return self.with_running(Resources(cpu, limit.memory))

    def with_running(self, usage: Resources) -> NodeLoad:
        """Return the load with a guest of that *usage* more."""
        return replace(self, taken=self.taken.plus(usage))

    def without_running(self, usage: Resources) -> NodeLoad:
        """Return the load with a guest of that *usage* less."""
        return replace(self, taken=self.taken.minus(usage))


def criteria(loads: Sequence[NodeLoad]) -> tuple[float, float, float, float]:
    """Return average and highest cpu, average and highest memory of a cluster.

    The average is the root of the mean square, which an uneven spread makes
    larger; 1 is added to each, so that small loads do not count too much.

    Source:
        proxmox-resource-scheduling 2.0.0.
    """
    cpu, memory = [load.cpu for load in loads], [load.memory for load in loads]
    return _average(cpu), _highest(cpu), _average(memory), _highest(memory)


def start_scores(loads: Sequence[NodeLoad], limit: Resources) -> list[float]:
    """Return how good each node is for starting a guest of that *limit* there.

    Args:
        loads: The nodes; shape (n,).
        limit: What the guest may use; cpu 0 when it has no limit.

    Returns:
        TOPSIS closeness in [0, 1], larger is better; shape (n,).
    """
    futures = [
        criteria([*loads[:i], load.with_started(limit), *loads[i + 1 :]])
        for i, load in enumerate(loads)
    ]
    return topsis(futures, WEIGHTS)


def _average(loads: Sequence[float]) -> float:
    return 1.0 + math.sqrt(sum_in_order(load * load for load in loads) / len(loads))


def _highest(loads: Sequence[float]) -> float:
    return 1.0 + max(0.0, *loads)
