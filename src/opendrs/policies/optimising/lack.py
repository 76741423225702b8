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

from opendrs.model import Guest, GuestId, GuestKind, GuestState, Node, NodeId, Snapshot
from opendrs.model.resources import Usage

SLACK = 0.5  # part of a node in use up to which nobody waits for it
FULL = 0.95  # part of its limit in use from which a container waits for itself
WINDOW = 300.0  # s, the longest that PSI is averaged over
MOST_NAMED = 3  # guests that wait


@dataclass(frozen=True, slots=True)
class Lack:
    """What is waited for.

    Attributes:
        guests: Cores that each guest asks for besides those it uses.
        nodes: Cores that are asked for on each node where somebody waits for them,
            besides those in use.
        cpu: How many of these the node owes: 0 where half of it is free.
        memory: Bytes that each node owes where somebody waits for them; 0 where half
            of it is free.
        waits: For what each guest waits, and how long, in words.
    """

    guests: Mapping[GuestId, float]
    nodes: Mapping[NodeId, float]
    cpu: Mapping[NodeId, float]
    memory: Mapping[NodeId, float]
    waits: Mapping[GuestId, str]

    def asked(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with the cores that are asked for, not those in use."""
        if not self.nodes:
            return snapshot
        nodes, guests = dict(snapshot.nodes), dict(snapshot.guests)
        for name, cores in self.nodes.items():
            nodes[name] = replace(nodes[name], usage=_more(nodes[name].usage, cores))
        for guest, cores in self.guests.items():
            known = guests[guest]
            guests[guest] = replace(known, usage=_more(known.usage, cores))
        return replace(snapshot, nodes=nodes, guests=guests)

    def told(self) -> Iterator[str]:
        """Yield who waits, in words."""
        named = [f"{name} {how}" for name, how in self.waits.items()]
        if named:
            more = len(named) - MOST_NAMED
            rest = [f"and {more} more"] if more > 0 else []
            yield f"who waits: {', '.join(named[:MOST_NAMED] + rest)}"


def lack(snapshot: Snapshot, pressure: float) -> Lack:
    """Return what is waited for in *snapshot*.

    What is not known of a guest is no wait. Where it is known of no guest of a node,
    what is known of the node counts.

    Args:
        snapshot: The cluster as it was measured.
        pressure: The part of the time, in [0, 1], that a guest may wait.
    """
    guests: dict[GuestId, float] = {}
    nodes: dict[NodeId, float] = {}
    cpu: dict[NodeId, float] = {}
    memory: dict[NodeId, float] = {}
    waits: dict[GuestId, str] = {}
    for node, there in _inhabited(snapshot):
        cores, pages = _cores(there, pressure), _bytes(there, pressure)
        guests.update(cores)
        missing = sum(cores.values()) or _unseen_cores(node, there, pressure)
        lost = sum(pages.values()) or _unseen_bytes(node, there, pressure)
        if missing > 0:
            nodes[node.id] = missing
            cpu[node.id] = min(missing, _cores_above(node))
        if lost > 0:
            memory[node.id] = min(lost, _bytes_above(node))
        for guest in there:
            words = _words(
                guest, for_cpu=guest.id in cores, for_memory=guest.id in pages
            )
            if words:
                waits[guest.id] = words
    return Lack(guests, nodes, cpu, memory, waits)


def _inhabited(snapshot: Snapshot) -> Iterator[tuple[Node, Sequence[Guest]]]:
    """Yield each node that takes part, and who runs and was measured there."""
    there: defaultdict[NodeId, list[Guest]] = defaultdict(list)
    for _, guest in sorted(snapshot.guests.items()):
        moved = guest.moved_at
        settled = moved is None or (snapshot.taken_at - moved).total_seconds() >= WINDOW
        if guest.state is GuestState.RUNNING and settled:
            there[guest.node].append(guest)
    for name, guests in sorted(there.items()):
        if snapshot.nodes[name].online:
            yield snapshot.nodes[name], guests


def _cores(guests: Sequence[Guest], most: float) -> dict[GuestId, float]:
    """Return the cores that are missing for each of *guests* that waits for them."""
    found = {
        guest.id: min(some, _cores_left(guest))
        for guest in guests
        if (some := guest.pressure.cpu.some) is not None and some > most
    }
    return {name: cores for name, cores in found.items() if cores > 0}


def _bytes(guests: Sequence[Guest], most: float) -> dict[GuestId, float]:
    """Return the bytes that are missing for each of *guests* that waits for them."""
    found = {
        guest.id: some * (guest.usage.memory or 0)
        for guest in guests
        if (some := guest.pressure.memory.some) is not None
        and some > most
        and not _fills_its_limit(guest)
    }
    return {name: pages for name, pages in found.items() if pages > 0}


def _unseen_cores(node: Node, guests: Sequence[Guest], most: float) -> float:
    """Return the cores that are missing for somebody, it is not known for whom."""
    some = node.pressure.cpu.some
    known = any(guest.pressure.cpu.some is not None for guest in guests)
    if known or some is None or some <= most:
        return 0.0
    return some


def _unseen_bytes(node: Node, guests: Sequence[Guest], most: float) -> float:
    """Return the bytes that are missing for all together."""
    full = node.pressure.memory.full
    known = any(guest.pressure.memory.some is not None for guest in guests)
    if known or full is None or full <= most:
        return 0.0
    return full * (node.usage.memory or 0)


def _cores_above(node: Node) -> float:
    """Return the cores in use above the half that makes nobody wait."""
    if node.capacity is None or node.usage.cpu is None:
        return 0.0
    return max(0.0, node.usage.cpu - SLACK * node.capacity.cpu)


def _bytes_above(node: Node) -> float:
    """Return the memory in use above the half that makes nobody wait."""
    if node.capacity is None or node.usage.memory is None:
        return 0.0
    return max(0.0, node.usage.memory - SLACK * node.capacity.memory)


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
    return (guest.usage.memory or 0) >= FULL * guest.limit.memory


def _more(usage: Usage, cores: float) -> Usage:
    return usage if usage.cpu is None else replace(usage, cpu=usage.cpu + cores)


def _words(guest: Guest, *, for_cpu: bool, for_memory: bool) -> str:
    pressure = guest.pressure
    return " and ".join(
        f"{stall.some:.0%} of the time for {what}"
        for what, stall, so in (
            ("cpu", pressure.cpu, for_cpu),
            ("memory", pressure.memory, for_memory),
        )
        if so
    )
