"""Numbers that cannot be, or are improbable: most often a wrong unit.

What is measured is given some tolerance: a node and its guests are sampled at
different instants, processor time counts what a hypervisor does for a guest, and
memory counts what a guest needs beyond its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from opendrs.model import GIB, Guest, GuestState, Limits, Node, Resources, Snapshot
from opendrs.model.resources import most_cpu, most_memory
from opendrs.platforms.file import Complaint, Location, Severity
from opendrs.scoring import UsageMode
from opendrs.scoring.usage import lacking, nodes_without_figures

MIB = 1 << 20
KIB = 1 << 10
LEAST_NODE, SMALL_NODE, LARGE_NODE = 16 * MIB, 512 * MIB, 1024 * 1024 * GIB
LEAST_GUEST, SMALL_GUEST = MIB, 16 * MIB
USUAL = (512 * MIB, 3 * 1024 * GIB)  # bytes of memory that are likely to be meant
MOST_CORES = 8192
DAY = 86_400.0
LONGEST_UPTIME = 50 * 365 * DAY
FASTEST_WRITES = 1024 * GIB  # bytes a second; no memory takes so many
SLOWEST_LINK, FASTEST_LINK = 1e6, 1e12  # bytes a second


def implausible(snapshot: Snapshot) -> Iterator[Complaint]:
    """Yield a complaint about each number of *snapshot* that cannot be or is odd."""
    for name, node in snapshot.nodes.items():
        yield from _of_node(("nodes", name), node)
    for guest in snapshot.guests.values():
        capacity = snapshot.nodes[guest.node].capacity
        yield from _of_guest(("guests", guest.id), guest, capacity)


def incomplete(snapshot: Snapshot) -> Iterator[Complaint]:
    """Yield a warning about what a plan needs and *snapshot* does not say."""
    nodes = (node for _, node in sorted(snapshot.nodes.items()) if node.online)
    for line in nodes_without_figures(nodes, UsageMode.DYNAMIC):
        yield _odd(("nodes",), f"{line}; there is no plan without it")
    guests = [guest for _, guest in sorted(snapshot.guests.items())]
    unknown = [each.id for each in guests if each.state is GuestState.UNKNOWN]
    dark = [
        guest.id
        for guest in guests
        if guest.state is GuestState.RUNNING and guest.usage.known is None
    ]
    for line in lacking("guest", {"state": unknown, "usage": dark}):
        yield _odd(("guests",), f"{line}; no plan moves what lacks it")


def impossible(snapshot: Snapshot) -> Iterator[Complaint]:
    """Yield a complaint about each number of *snapshot* that cannot be."""
    for complaint in implausible(snapshot):
        if complaint.severity is Severity.ERROR:
            yield complaint


def odd_limits(limits: Limits, at: Location = ("limits",)) -> Iterator[Complaint]:
    """Yield a warning about each limit that is allowed and improbable."""
    if limits.memory_headroom > 0.5:
        yield _odd(
            (*at, "memory_headroom"),
            f"{limits.memory_headroom:g} keeps more than half of each node free",
        )
    if limits.memory_overbooking > 10:
        yield _odd(
            (*at, "memory_overbooking"),
            f"the memory of a node may be promised {limits.memory_overbooking:g} "
            f"times; {limits.memory_overbooking:g} % is "
            f"{limits.memory_overbooking / 100:g}",
        )
    for name, least, most in (
        ("cooldown", 0.0, 30 * DAY),
        ("quiet_time", 0.0, DAY),
        ("patience", 10.0, DAY),
    ):
        value = getattr(limits, name)
        if not least <= value <= most:
            yield _odd((*at, name), _seconds(value))
    links = [((*at, "bandwidth"), limits.bandwidth)]
    for index, network in enumerate(limits.networks):
        links.append(((*at, "networks", index, "bandwidth"), network.bandwidth))
    for where, bandwidth in links:
        if bandwidth is not None:
            yield from odd_bandwidth(where, bandwidth)


def odd_bandwidth(at: Location, bandwidth: float) -> Iterator[Complaint]:
    """Yield a warning if hardly any network has that *bandwidth*."""
    if not SLOWEST_LINK <= bandwidth <= FASTEST_LINK:
        yield _odd(
            at,
            f"{bandwidth:g} bytes a second is {bandwidth * 8 / 1e6:g} Mbit/s; "
            f'a unit may be given, such as "{_rate_meant(bandwidth)}"',
        )


def _rate_meant(bandwidth: float) -> str:
    if bandwidth <= 400:
        return f"{bandwidth:g} Gbit/s"
    return f"{bandwidth:g} Mbit/s" if bandwidth < SLOWEST_LINK else "100 Gbit/s"


def _seconds(value: float) -> str:
    spans = [(DAY, "days"), (3600.0, "hours"), (60.0, "minutes")]
    span = next((each for each in spans if value >= each[0]), (1.0, "seconds"))
    return f"{value:g} s is {value / span[0]:.3g} {span[1]}; was another unit meant?"


def _of_node(at: Location, node: Node) -> Iterator[Complaint]:
    capacity = node.capacity
    if capacity is not None:
        place = (*at, "capacity", "memory")
        if capacity.memory < LEAST_NODE:
            yield _impossible(
                place,
                f"expected the memory of a host, at least {_size(LEAST_NODE)}, "
                f"found {_size(capacity.memory)}{_memory_meant(capacity.memory)}",
            )
        elif not SMALL_NODE <= capacity.memory <= LARGE_NODE:
            found = f"{_size(capacity.memory)} for a host"
            yield _odd(place, found + _memory_meant(capacity.memory))
        if capacity.cpu > MOST_CORES:
            yield _odd((*at, "capacity", "cpu"), f"{capacity.cpu:g} cores; not MHz?")
        yield from _of_node_usage(at, node, capacity)
    if node.load_average is not None and node.load_average > 100 * MOST_CORES:
        yield _odd((*at, "load_average"), f"{node.load_average:g} runnable tasks")


def _of_node_usage(
    at: Location, node: Node, capacity: Resources
) -> Iterator[Complaint]:
    cpu, memory = node.usage.cpu, node.usage.memory
    if cpu is not None and cpu > capacity.cpu:
        told = f"{cpu:g} of {capacity.cpu:g} cores in use"
        if most_cpu(capacity) < cpu <= 100:
            told += f"; {cpu:g} % of them are {cpu * capacity.cpu / 100:g}"
        yield from _beyond(
            (*at, "usage", "cpu"),
            told,
            odd=cpu > 1.02 * capacity.cpu + 0.1,
            impossible=cpu > most_cpu(capacity),
        )
    if memory is not None and memory > capacity.memory:
        yield from _beyond(
            (*at, "usage", "memory"),
            f"{_size(memory)} of {_size(capacity.memory)} in use",
            odd=True,
            impossible=memory > most_memory(capacity),
        )
    if node.ksm_shared is not None and node.ksm_shared > 10 * capacity.memory:
        yield _odd(
            (*at, "ksm_shared"),
            f"{_size(node.ksm_shared)} merged on a host of {_size(capacity.memory)}",
        )


def _of_guest(
    at: Location, guest: Guest, capacity: Resources | None
) -> Iterator[Complaint]:
    limit = guest.limit
    if limit is not None:
        place = (*at, "limit", "memory")
        if 0 < limit.memory < LEAST_GUEST:
            yield _impossible(
                place,
                f"expected the memory of a guest, at least {_size(LEAST_GUEST)}, "
                f"found {_size(limit.memory)}{_memory_meant(limit.memory)}",
            )
        elif 0 < limit.memory < SMALL_GUEST or limit.memory > LARGE_NODE:
            found = f"{_size(limit.memory)} for a guest"
            yield _odd(place, found + _memory_meant(limit.memory))
        if limit.cpu > MOST_CORES:
            yield _odd((*at, "limit", "cpu"), f"{limit.cpu:g} cores; not MHz?")
    yield from _of_guest_cpu((*at, "usage", "cpu"), guest, capacity)
    yield from _of_guest_memory((*at, "usage", "memory"), guest, capacity)
    if guest.uptime is not None and guest.uptime > LONGEST_UPTIME:
        yield _odd((*at, "uptime"), f"{_seconds(guest.uptime)}")
    if guest.dirty_rate is not None and guest.dirty_rate > FASTEST_WRITES:
        told = f"{_size(round(guest.dirty_rate))} written in a second"
        yield _odd((*at, "dirty_rate"), told)


def _of_guest_cpu(
    at: Location, guest: Guest, capacity: Resources | None
) -> Iterator[Complaint]:
    cpu, limit = guest.usage.cpu, guest.limit
    if cpu is None:
        return
    if capacity is not None and cpu > most_cpu(capacity):
        yield _impossible(
            at, f"{cpu:g} cores in use, on a node that has {capacity.cpu:g}"
        )
    elif limit is not None and limit.cpu > 0 and cpu > 1.5 * limit.cpu + 1:
        told = f"{cpu:g} cores in use by a guest with {limit.cpu:g}"
        if cpu <= 100:
            told += f"; {cpu:g} % of them are {cpu * limit.cpu / 100:g}"
        yield _odd(at, told)


def _of_guest_memory(
    at: Location, guest: Guest, capacity: Resources | None
) -> Iterator[Complaint]:
    memory, limit = guest.usage.memory, guest.limit
    if memory is None:
        return
    told = f"{_size(memory)} in use"
    if capacity is not None and memory > most_memory(capacity):
        yield _impossible(at, f"{told}, on a node of {_size(capacity.memory)}")
    elif limit is not None and limit.memory > 0:
        yield from _beyond(
            at,
            f"{told} by a guest of {_size(limit.memory)}",
            odd=memory > 1.25 * limit.memory + 256 * MIB,
            impossible=memory > 2 * limit.memory + GIB,
        )


def _beyond(
    at: Location, told: str, *, odd: bool, impossible: bool
) -> Iterator[Complaint]:
    if impossible:
        yield _impossible(at, told)
    elif odd:
        yield _odd(at, told)


def _impossible(at: Location, told: str) -> Complaint:
    return Complaint(at, told)


def _odd(at: Location, told: str) -> Complaint:
    return Complaint(at, told, severity=Severity.WARNING)


def _memory_meant(found: int) -> str:
    """Return which unit is probably meant, to end a sentence with."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if USUAL[0] <= found * size <= USUAL[1]:
            return f'; did you mean "{found} {unit}"?'
    return ""


def _size(size: int) -> str:
    """Return *size* in the largest unit of which there is one."""
    for unit, one in (("TiB", 1024 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= one:
            return f"{size / one:.4g} {unit}"
    return f"{size} bytes"
