"""Up to which loads nobody is taken to wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.model import GuestId, NodeId, Snapshot
from opendrs.policies.optimising.lack import SLACK, Lack
from opendrs.scoring import NodeLoad, UsageMode, node_loads

Loads = Mapping[NodeId, NodeLoad]


@dataclass(frozen=True, slots=True)
class Calm:
    """Up to which loads nobody is taken to wait.

    Attributes:
        cpu: Cores of each node.
        memory: Bytes of each node where somebody waits for memory.
        mean_cpu: Cores that are taken of a node, on average.
        mean_memory: Bytes that are taken of a node, on average.
        waits: For what each guest waits now, and how long, in words.
    """

    cpu: Mapping[NodeId, float]
    memory: Mapping[NodeId, float]
    mean_cpu: float
    mean_memory: float
    waits: Mapping[GuestId, str]

    def cores_over(self, loads: Loads) -> float:
        """Return the cores in *loads* that somebody waits for."""
        return sum(
            max(0.0, load.taken.cpu - self.cpu[name])
            for name, load in loads.items()
            if name in self.cpu
        )

    def bytes_over(self, loads: Loads) -> float:
        """Return the bytes in *loads* that somebody waits for."""
        return sum(
            max(0.0, load.taken.memory - self.memory[name])
            for name, load in loads.items()
            if name in self.memory
        )

    def over(self, loads: Loads) -> float:
        """Return both, where 1 is what is taken of a node on average."""
        cpu, memory = self.cores_over(loads), self.bytes_over(loads)
        return _part(cpu, self.mean_cpu) + _part(memory, self.mean_memory)


def calm(snapshot: Snapshot, mode: UsageMode, busy: float, lack: Lack) -> Calm:
    """Return up to which loads nobody is taken to wait in *snapshot*.

    That is the part *busy* of the cores; where somebody waits, no more than what is
    taken there now without what the node owes, or than half of it where that is more.

    Args:
        snapshot: The cluster, with what is asked for.
        mode: What counts as load.
        busy: The part of a node's cores above which guests are taken to wait.
        lack: What is waited for.
    """
    loads = node_loads(snapshot, mode)
    cpu = {name: busy * load.capacity.cpu for name, load in loads.items()}
    for name in lack.cpu.keys() & cpu.keys():
        load = loads[name]
        asked = lack.nodes[name] if mode is UsageMode.DYNAMIC else 0.0
        half = SLACK * load.capacity.cpu + asked
        cpu[name] = min(cpu[name], max(half, load.taken.cpu - lack.cpu[name]))
    memory = {
        name: max(
            SLACK * loads[name].capacity.memory,
            loads[name].taken.memory - lack.memory[name],
        )
        for name in sorted(lack.memory.keys() & loads.keys())
    }
    count = max(1, len(loads))
    return Calm(
        cpu=cpu,
        memory=memory,
        mean_cpu=sum(load.taken.cpu for load in loads.values()) / count,
        mean_memory=sum(load.taken.memory for load in loads.values()) / count,
        waits=lack.waits,
    )


def _part(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
