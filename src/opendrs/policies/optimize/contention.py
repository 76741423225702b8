"""Who waits for what a node does not have, by the pressure that was measured (PSI).

PSI tells for what part of the time work waited, not how much of it. For processors
there is a least amount: where at least one task waited for the part s of the time, s
cores were wanted besides those in use. So much more a guest asks for wherever it is, up
to its limit. Of memory it tells no amount; that part of the guest's memory is taken for
what is missing.

A node with half of it free makes nobody wait: who waits there is held up by limits or
pinning of its own, and would be elsewhere. So a node owes no more than what is in use
above that half. Where somebody waits it is not filled beyond it either: else it would
be emptied and filled for ever.

Source:
    Linux kernel, Documentation/accounting/psi.rst: `some` and `full`, averaged over up
    to 300 s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.metrics import LoadModel, NodeLoad, node_loads
from opendrs.model import (
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeId,
    Snapshot,
    Usage,
)

UNCONTENDED_LOAD = 0.5  # part of a node in use up to which nobody waits for it
FULL_LIMIT = 0.95  # part of its limit in use from which a container waits for itself
WINDOW = 300.0  # s, the longest that PSI is averaged over
MAX_NAMED = 3  # guests that wait


@dataclass(frozen=True, slots=True)
class UnmetDemand:
    """What is waited for.

    Attributes:
        guest_cores: Cores that each guest asks for besides those it uses.
        node_cores: Cores that are asked for on each node where somebody waits for them,
            besides those in use.
        cpu: How many of these the node owes: 0 where half of it is free.
        memory: Bytes that each node owes where somebody waits for them; 0 where half
            of it is free.
        waits: For what each guest waits, and how long, in words.
    """

    guest_cores: Mapping[GuestId, float]
    node_cores: Mapping[NodeId, float]
    cpu: Mapping[NodeId, float]
    memory: Mapping[NodeId, float]
    waits: Mapping[GuestId, str]

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with the cores that are asked for, not those in use."""
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
        """Yield who waits, in words."""
        named = [f"{name} {how}" for name, how in self.waits.items()]
        if named:
            more = len(named) - MAX_NAMED
            rest = [f"and {more} more"] if more > 0 else []
            yield f"who waits: {', '.join(named[:MAX_NAMED] + rest)}"


def unmet_demand(snapshot: Snapshot, threshold: float) -> UnmetDemand:
    """Return what is waited for in *snapshot*.

    What is not known of a guest is no wait. Where it is known of no guest of a node,
    what is known of the node counts.

    Args:
        snapshot: The cluster as it was measured.
        threshold: The part of the time, in [0, 1], that a guest may wait.
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
    """Yield each node that takes part, and who runs and was measured there."""
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
    """Return the cores that are missing for each of *guests* that waits for them."""
    found = {
        guest.id: min(some, _cores_left(guest))
        for guest in guests
        if (some := guest.pressure.cpu.some) is not None and some > threshold
    }
    return {name: cores for name, cores in found.items() if cores > 0}


def _missing_bytes(guests: Sequence[Guest], threshold: float) -> dict[GuestId, float]:
    """Return the bytes that are missing for each of *guests* that waits for them."""
    found = {
        guest.id: some * (guest.usage.memory or 0)
        for guest in guests
        if (some := guest.pressure.memory.some) is not None
        and some > threshold
        and not _fills_its_limit(guest)
    }
    return {name: pages for name, pages in found.items() if pages > 0}


def _node_missing_cores(node: Node, guests: Sequence[Guest], threshold: float) -> float:
    """Return the cores that are missing for somebody, it is not known for whom."""
    some = node.pressure.cpu.some
    known = any(guest.pressure.cpu.some is not None for guest in guests)
    if known or some is None or some <= threshold:
        return 0.0
    return some


def _node_missing_bytes(node: Node, guests: Sequence[Guest], threshold: float) -> float:
    """Return the bytes that are missing for all together."""
    full = node.pressure.memory.full
    known = any(guest.pressure.memory.some is not None for guest in guests)
    if known or full is None or full <= threshold:
        return 0.0
    return full * (node.usage.memory or 0)


def _contended_cores(node: Node) -> float:
    """Return the cores in use above the half that makes nobody wait."""
    if node.capacity is None or node.usage.cpu is None:
        return 0.0
    return max(0.0, node.usage.cpu - UNCONTENDED_LOAD * node.capacity.cpu)


def _contended_bytes(node: Node) -> float:
    """Return the memory in use above the half that makes nobody wait."""
    if node.capacity is None or node.usage.memory is None:
        return 0.0
    return max(0.0, node.usage.memory - UNCONTENDED_LOAD * node.capacity.memory)


def _cores_left(guest: Guest) -> float:
    """Return the cores that *guest* may use besides those it uses."""
    if guest.usage.cpu is None:
        return 0.0
    if guest.limit is None or guest.limit.cpu == 0:
        return float("inf")
    return guest.limit.cpu - guest.usage.cpu


def _fills_its_limit(guest: Guest) -> bool:
    """Return whether *guest* waits for memory that its own limit denies it.

    The limit of a virtual machine is what it has, and nothing beyond is asked for.
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


@dataclass(frozen=True, slots=True)
class ContentionThresholds:
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

    def cores_above(self, loads: Loads) -> float:
        """Return the cores in *loads* that somebody waits for."""
        return sum(
            max(0.0, load.usage.cpu - self.cpu[name])
            for name, load in loads.items()
            if name in self.cpu
        )

    def bytes_above(self, loads: Loads) -> float:
        """Return the bytes in *loads* that somebody waits for."""
        return sum(
            max(0.0, load.usage.memory - self.memory[name])
            for name, load in loads.items()
            if name in self.memory
        )

    def contention(self, loads: Loads) -> float:
        """Return both, where 1 is what is taken of a node on average."""
        cpu, memory = self.cores_above(loads), self.bytes_above(loads)
        return _fraction(cpu, self.mean_cpu) + _fraction(memory, self.mean_memory)


def contention_thresholds(
    snapshot: Snapshot, load_model: LoadModel, threshold: float, unmet: UnmetDemand
) -> ContentionThresholds:
    """Return up to which loads nobody is taken to wait in *snapshot*.

    That is the part *threshold* of the cores; where somebody waits, no more than what is
    taken there now without what the node owes, or than half of it where that is more.

    Args:
        snapshot: The cluster, with what is asked for.
        load_model: What counts as load.
        threshold: The part of a node's cores above which guests are taken to wait.
        unmet: What is waited for.
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
    return ContentionThresholds(
        cpu=cpu,
        memory=memory,
        mean_cpu=sum(load.usage.cpu for load in loads.values()) / count,
        mean_memory=sum(load.usage.memory for load in loads.values()) / count,
        waits=unmet.waits,
    )


def _fraction(amount: float, whole: float) -> float:
    return amount / whole if whole > 0 else 0.0
