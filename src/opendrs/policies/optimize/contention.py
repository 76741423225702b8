"""Unmet demand of guests, derived from pressure stall information (PSI).

PSI reports the share of time in which work was stalled, not the amount that was
missing. For CPU there is a lower bound: if at least one task was stalled for the share
s of the time, at least s more cores were demanded. This amount is added to the demand
of a guest on every node, up to its limit. For memory there is no such bound; that share
of the memory of the guest is treated as missing.

A node that is half free stalls no guest. A guest that is stalled there has limits or
pinning of its own and would be stalled elsewhere too. The unmet demand of a node is
therefore at most its usage above that half. While a guest on a node is stalled, the
node is not filled above that half; otherwise it would be drained and filled forever.

The unmet demand of a node counts with the priority of its guests before the plan.

Source:
    Linux kernel, Documentation/accounting/psi.rst: `some` and `full`, averaged over up
    to 300 s.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opendrs.metrics import LoadModel, NodeLoad, demand, node_loads
from opendrs.model import (
    NO_RESOURCES,
    NORMAL_PRIORITY,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeId,
    Snapshot,
    Usage,
)
from opendrs.rules import guest_priorities, mean_priority

UNCONTENDED_LOAD = 0.5  # load of a node up to which it stalls no guest
# fraction of its limit from which a container is stalled by that limit
FULL_LIMIT = 0.95
WINDOW = 300.0  # s; longest averaging time of PSI
MAX_NAMED = 3  # stalled guests that a note names


@dataclass(frozen=True, slots=True)
class UnmetDemand:
    """Demand that nodes cannot serve.

    Attributes:
        guest_cores: Cores that each stalled guest demands in addition to its usage.
        node_cores: Cores that stalled guests of each node demand in addition to its
            usage.
        cpu: Cores of these that the node is contended by; 0 if half of it is free.
        memory: Bytes that each node with stalled guests is contended by; 0 if half of
            it is free.
        waits: Description of the stalls of each guest.
    """

    guest_cores: Mapping[GuestId, float]
    node_cores: Mapping[NodeId, float]
    cpu: Mapping[NodeId, float]
    memory: Mapping[NodeId, float]
    waits: Mapping[GuestId, str]

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with demanded instead of used cores."""
        if not self.node_cores:
            return snapshot
        nodes, guests = dict(snapshot.nodes), dict(snapshot.guests)
        for name, cores in self.node_cores.items():
            nodes[name] = replace(
                nodes[name], usage=_with_more_cpu(nodes[name].usage, cores)
            )
        for guest, cores in self.guest_cores.items():
            known = guests[guest]
            guests[guest] = replace(known, usage=_with_more_cpu(known.usage, cores))
        return replace(snapshot, nodes=nodes, guests=guests)

    def notes(self) -> Iterator[str]:
        """Yield a note that names the stalled guests."""
        named = [f"{name} {how}" for name, how in self.waits.items()]
        if named:
            more = len(named) - MAX_NAMED
            rest = [f"and {more} more"] if more > 0 else []
            yield f"stalled: {', '.join(named[:MAX_NAMED] + rest)}"


def unmet_demand(snapshot: Snapshot, threshold: float) -> UnmetDemand:
    """Return the unmet demand in *snapshot*.

    Unknown pressure is no stall. If no guest of a node reports PSI, the values of the
    node count.

    Args:
        snapshot: Cluster as measured.
        threshold: Share of the time, in [0, 1], in which a guest may be stalled.
    """
    guests: dict[GuestId, float] = {}
    nodes: dict[NodeId, float] = {}
    cpu: dict[NodeId, float] = {}
    memory: dict[NodeId, float] = {}
    waits: dict[GuestId, str] = {}
    for node, there in _measured_nodes(snapshot):
        cores, pages = (
            _missing_cores(there, threshold),
            _missing_bytes(there, threshold),
        )
        guests.update(cores)
        missing = sum(cores.values()) or _node_missing_cores(node, there, threshold)
        lost = sum(pages.values()) or _node_missing_bytes(node, there, threshold)
        if missing > 0:
            nodes[node.id] = missing
            cpu[node.id] = min(missing, _contended_cores(node))
        if lost > 0:
            memory[node.id] = min(lost, _contended_bytes(node))
        for guest in there:
            text = _wait_text(
                guest, for_cpu=guest.id in cores, for_memory=guest.id in pages
            )
            if text:
                waits[guest.id] = text
    return UnmetDemand(guests, nodes, cpu, memory, waits)


def _measured_nodes(snapshot: Snapshot) -> Iterator[tuple[Node, Sequence[Guest]]]:
    """Yield online nodes with the running guests whose PSI belongs to the node."""
    there: defaultdict[NodeId, list[Guest]] = defaultdict(list)
    for _, guest in sorted(snapshot.guests.items()):
        moved = guest.migrated_at
        settled = moved is None or (snapshot.taken_at - moved).total_seconds() >= WINDOW
        if guest.state is GuestState.RUNNING and settled:
            there[guest.node].append(guest)
    for name, guests in sorted(there.items()):
        if snapshot.nodes[name].online:
            yield snapshot.nodes[name], guests


def _missing_cores(guests: Sequence[Guest], threshold: float) -> dict[GuestId, float]:
    """Return the missing cores of each stalled guest."""
    found = {
        guest.id: min(some, _cores_left(guest))
        for guest in guests
        if (some := guest.pressure.cpu.some) is not None and some > threshold
    }
    return {name: cores for name, cores in found.items() if cores > 0}


def _missing_bytes(guests: Sequence[Guest], threshold: float) -> dict[GuestId, float]:
    """Return the missing bytes of each stalled guest."""
    found = {
        guest.id: some * (guest.usage.memory or 0)
        for guest in guests
        if (some := guest.pressure.memory.some) is not None
        and some > threshold
        and not _fills_its_limit(guest)
    }
    return {name: pages for name, pages in found.items() if pages > 0}


def _node_missing_cores(node: Node, guests: Sequence[Guest], threshold: float) -> float:
    """Return the missing cores of a node whose guests report no PSI."""
    some = node.pressure.cpu.some
    known = any(guest.pressure.cpu.some is not None for guest in guests)
    if known or some is None or some <= threshold:
        return 0.0
    return some


def _node_missing_bytes(node: Node, guests: Sequence[Guest], threshold: float) -> float:
    """Return the missing bytes of a node whose guests report no PSI."""
    full = node.pressure.memory.full
    known = any(guest.pressure.memory.some is not None for guest in guests)
    if known or full is None or full <= threshold:
        return 0.0
    return full * (node.usage.memory or 0)


def _contended_cores(node: Node) -> float:
    """Return the cores in use above the half that stalls no guest."""
    if node.capacity is None or node.usage.cpu is None:
        return 0.0
    return max(0.0, node.usage.cpu - UNCONTENDED_LOAD * node.capacity.cpu)


def _contended_bytes(node: Node) -> float:
    """Return the bytes in use above the half that stalls no guest."""
    if node.capacity is None or node.usage.memory is None:
        return 0.0
    return max(0.0, node.usage.memory - UNCONTENDED_LOAD * node.capacity.memory)


def _cores_left(guest: Guest) -> float:
    """Return the cores that *guest* may use in addition to its usage."""
    if guest.usage.cpu is None:
        return 0.0
    if guest.limit is None or guest.limit.cpu == 0:
        return float("inf")
    return guest.limit.cpu - guest.usage.cpu


def _fills_its_limit(guest: Guest) -> bool:
    """Return True if *guest* is stalled for memory by its own limit.

    The limit of a virtual machine is the memory that it has, so it never demands more.
    """
    if guest.kind is not GuestKind.CONTAINER or guest.limit is None:
        return False
    return (guest.usage.memory or 0) >= FULL_LIMIT * guest.limit.memory


def _with_more_cpu(usage: Usage, cores: float) -> Usage:
    return usage if usage.cpu is None else replace(usage, cpu=usage.cpu + cores)


def _wait_text(guest: Guest, *, for_cpu: bool, for_memory: bool) -> str:
    pressure = guest.pressure
    return " and ".join(
        f"{stall.some:.0%} of the time for {what}"
        for what, stall, so in (
            ("cpu", pressure.cpu, for_cpu),
            ("memory", pressure.memory, for_memory),
        )
        if so
    )


Loads = Mapping[NodeId, NodeLoad]
NORMAL_PRIORITIES = (NORMAL_PRIORITY, NORMAL_PRIORITY)


@dataclass(frozen=True, slots=True)
class ContentionThresholds:
    """Loads above which demand counts as unmet.

    Attributes:
        cpu: Threshold of each node, in cores.
        memory: Threshold of each node with guests stalled for memory, in bytes.
        mean_cpu: Mean usage of a node, in cores.
        mean_memory: Mean usage of a node, in bytes.
        waits: Description of the present stalls of each guest.
        priorities: Weight of the unmet demand of each node for cores and for memory,
            from the priorities of its guests; 1 for nodes that are absent.
    """

    cpu: Mapping[NodeId, float]
    memory: Mapping[NodeId, float]
    mean_cpu: float
    mean_memory: float
    waits: Mapping[GuestId, str]
    priorities: Mapping[NodeId, tuple[float, float]] = field(default_factory=dict)

    def with_margins(
        self, snapshot: Snapshot, margins: Mapping[NodeId, float]
    ) -> ContentionThresholds:
        """Return thresholds that leave each node at least its margin of cores.

        Args:
            snapshot: The cluster.
            margins: Cores by which the load may exceed that of *snapshot*; of nodes
                without a margin the thresholds stay.
        """
        capacities = {name: snapshot.nodes[name].capacity for name in self.cpu}
        cpu = {
            name: threshold
            if (capacity := capacities[name]) is None or name not in margins
            else min(threshold, max(0.0, capacity.cpu - margins[name]))
            for name, threshold in self.cpu.items()
        }
        return replace(self, cpu=cpu)

    def cores_above(self, loads: Loads) -> float:
        """Return the unmet demand for cores at *loads*."""
        return sum(amount for _, amount in self._cores_above(loads))

    def _cores_above(self, loads: Loads) -> Iterator[tuple[NodeId, float]]:
        for name, load in loads.items():
            if name in self.cpu:
                yield name, max(0.0, load.usage.cpu - self.cpu[name])

    def bytes_above(self, loads: Loads) -> float:
        """Return the unmet demand for memory at *loads*, in bytes."""
        return sum(amount for _, amount in self._bytes_above(loads))

    def _bytes_above(self, loads: Loads) -> Iterator[tuple[NodeId, float]]:
        for name, load in loads.items():
            if name in self.memory:
                yield name, max(0.0, load.usage.memory - self.memory[name])

    def contention(self, loads: Loads) -> float:
        """Return the weighted unmet demand of both; 1 is the mean usage of a node."""
        weights = self.priorities
        cpu = sum(
            amount * weights.get(name, NORMAL_PRIORITIES)[0]
            for name, amount in self._cores_above(loads)
        )
        memory = sum(
            amount * weights.get(name, NORMAL_PRIORITIES)[1]
            for name, amount in self._bytes_above(loads)
        )
        return _fraction(cpu, self.mean_cpu) + _fraction(memory, self.mean_memory)


def contention_thresholds(
    snapshot: Snapshot, load_model: LoadModel, threshold: float, unmet: UnmetDemand
) -> ContentionThresholds:
    """Return the loads above which demand counts as unmet in *snapshot*.

    The threshold of a node is the fraction *threshold* of its cores. On a node with
    stalled guests it is at most the usage without the unmet demand, or half of the node
    if that is more.

    Args:
        snapshot: Cluster with demanded cores, from `UnmetDemand.apply_to`.
        load_model: Load that counts.
        threshold: Fraction of the cores of a node above which demand counts as unmet.
        unmet: Unmet demand.
    """
    loads = node_loads(snapshot, load_model)
    cpu = {name: threshold * load.capacity.cpu for name, load in loads.items()}
    for name in unmet.cpu.keys() & cpu.keys():
        load = loads[name]
        requested = unmet.node_cores[name] if load_model is LoadModel.DYNAMIC else 0.0
        half = UNCONTENDED_LOAD * load.capacity.cpu + requested
        cpu[name] = min(cpu[name], max(half, load.usage.cpu - unmet.cpu[name]))
    memory = {
        name: max(
            UNCONTENDED_LOAD * loads[name].capacity.memory,
            loads[name].usage.memory - unmet.memory[name],
        )
        for name in sorted(unmet.memory.keys() & loads.keys())
    }
    count = max(1, len(loads))
    thresholds = ContentionThresholds(
        cpu=cpu,
        memory=memory,
        mean_cpu=sum(load.usage.cpu for load in loads.values()) / count,
        mean_memory=sum(load.usage.memory for load in loads.values()) / count,
        waits=unmet.waits,
    )
    priorities = _node_priorities(snapshot, load_model, loads, thresholds, unmet)
    return replace(thresholds, priorities=priorities)


def _node_priorities(
    snapshot: Snapshot,
    load_model: LoadModel,
    loads: Loads,
    thresholds: ContentionThresholds,
    unmet: UnmetDemand,
) -> Mapping[NodeId, tuple[float, float]]:
    """Return the weight of unmet demand on each node, for cores and for memory.

    On a node with unmet demand it is the mean priority of its guests, weighted by what
    they use, or by what stalled ones miss. On other nodes it is the highest priority of
    all: which guests would cause unmet demand there is not known.

    Args:
        snapshot: Cluster with demanded cores.
        load_model: Load that counts.
        loads: Loads of the nodes.
        thresholds: Use of each node above which demand counts as unmet.
        unmet: Unmet demand.
    """
    priorities = guest_priorities(snapshot)
    if not priorities:
        return {}
    cores: defaultdict[NodeId, dict[GuestId, float]] = defaultdict(dict)
    pages: defaultdict[NodeId, dict[GuestId, float]] = defaultdict(dict)
    for name, guest in snapshot.guests.items():
        if guest.is_active:
            used = demand(guest, load_model) or NO_RESOURCES
            cores[guest.node][name] = used.cpu
            pages[guest.node][name] = float(used.memory)
    highest = max(NORMAL_PRIORITY, *priorities.values())
    found = {}
    for node, load in loads.items():
        stalled = {
            name: missing
            for name, missing in unmet.guest_cores.items()
            if name in cores[node]
        }
        found[node] = (
            mean_priority(stalled or cores[node], priorities)
            if load.usage.cpu > thresholds.cpu[node]
            else highest,
            mean_priority(pages[node], priorities)
            if load.usage.memory > thresholds.memory.get(node, math.inf)
            else highest,
        )
    return found


def _fraction(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
