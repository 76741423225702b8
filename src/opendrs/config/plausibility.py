"""Checks for impossible and improbable numbers, most often the result of a wrong unit.

Measured values have a tolerance: a node and its guests are sampled at different
times, CPU usage includes work of the hypervisor for a guest, and memory usage includes
memory beyond that of the guest.
"""

from __future__ import annotations

from collections.abc import Iterator

from opendrs.config.diagnostics import Diagnostic, DiagnosticCode, KeyPath, Severity
from opendrs.metrics import LoadModel, format_missing, nodes_missing_metrics
from opendrs.model import (
    GIB,
    Guest,
    GuestState,
    Limits,
    Node,
    Resources,
    Snapshot,
    max_plausible_cpu,
    max_plausible_memory,
)

MIB = 1 << 20
KIB = 1 << 10
MIN_NODE_MEMORY, SMALL_NODE_MEMORY, LARGE_NODE_MEMORY = (
    16 * MIB,
    512 * MIB,
    1024 * 1024 * GIB,
)
MIN_GUEST_MEMORY, SMALL_GUEST_MEMORY = MIB, 16 * MIB
USUAL_MEMORY = (512 * MIB, 3 * 1024 * GIB)  # range for suggestions of a unit
MAX_CORES = 8192
DAY = 86_400.0
MAX_UPTIME = 50 * 365 * DAY
MAX_DIRTY_RATE = 1024 * GIB  # bytes per second; above the bandwidth of any memory
MIN_BANDWIDTH, MAX_BANDWIDTH = 1e6, 1e12  # bytes per second


def find_implausible(snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each impossible or improbable number in *snapshot*."""
    for name, node in snapshot.nodes.items():
        yield from _check_node(("nodes", name), node)
    for guest in snapshot.guests.values():
        capacity = snapshot.nodes[guest.node].capacity
        yield from _check_guest(("guests", guest.id), guest, capacity)


def find_incomplete(snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield a warning for each missing value in *snapshot* that a plan requires."""
    nodes = (node for _, node in sorted(snapshot.nodes.items()) if node.online)
    for line in nodes_missing_metrics(nodes, LoadModel.DYNAMIC):
        yield _incomplete(("nodes",), f"{line}; required for a plan")
    guests = [guest for _, guest in sorted(snapshot.guests.items())]
    unknown = [each.id for each in guests if each.state is GuestState.UNKNOWN]
    unmeasured = [
        guest.id
        for guest in guests
        if guest.state is GuestState.RUNNING and guest.usage.resources is None
    ]
    for line in format_missing("guest", {"state": unknown, "usage": unmeasured}):
        yield _incomplete(("guests",), f"{line}; required to migrate the guest")


def find_impossible(snapshot: Snapshot) -> Iterator[Diagnostic]:
    """Yield an error for each impossible number in *snapshot*."""
    for diagnostic in find_implausible(snapshot):
        if diagnostic.severity is Severity.ERROR:
            yield diagnostic


def check_limits(limits: Limits, at: KeyPath = ("limits",)) -> Iterator[Diagnostic]:
    """Yield a warning for each limit that is valid but improbable."""
    if limits.memory_headroom > 0.5:
        yield _warning(
            (*at, "memory_headroom"),
            f"{limits.memory_headroom:g} keeps more than half of each node free",
        )
    if limits.memory_overcommit > 10:
        yield _warning(
            (*at, "memory_overcommit"),
            f"the memory of a node may be committed {limits.memory_overcommit:g} "
            f"times; {limits.memory_overcommit:g} % is "
            f"{limits.memory_overcommit / 100:g}",
        )
    yield from _check_node_limits(limits, at)
    for name in ("balance_above_cpu_load", "balance_above_memory_load"):
        if (gate := getattr(limits, name)) is not None and 0 < gate <= 0.01:
            yield _warning(
                (*at, name), f"{gate:g} is {gate:.1%}, which is hardly a load"
            )
    for name, minimum, maximum in (
        ("cooldown", 0.0, 30 * DAY),
        ("min_uptime", 0.0, DAY),
        ("migration_timeout", 10.0, DAY),
    ):
        value = getattr(limits, name)
        if not minimum <= value <= maximum:
            yield _warning((*at, name), _describe_seconds(value))
    links = [((*at, "bandwidth"), limits.bandwidth)]
    for index, network in enumerate(limits.networks):
        links.append(((*at, "networks", index, "bandwidth"), network.bandwidth))
    for where, bandwidth in links:
        if bandwidth is not None:
            yield from check_bandwidth(where, bandwidth)


def _check_node_limits(limits: Limits, at: KeyPath) -> Iterator[Diagnostic]:
    ratios = [(at, limits.cpu_overcommit)]
    for index, override in enumerate(limits.overrides):
        ratios.append(((*at, "overrides", index), override.cpu_overcommit))
    for where, ratio in ratios:
        if ratio is not None and ratio > 100:
            yield _warning(
                (*where, "cpu_overcommit"),
                f"the cores of a node may be committed {ratio:g} times; "
                f"{ratio:g} % is {ratio / 100:g}",
            )


def check_bandwidth(at: KeyPath, bandwidth: float) -> Iterator[Diagnostic]:
    """Yield a warning if *bandwidth* (bytes per second) is improbable."""
    if not MIN_BANDWIDTH <= bandwidth <= MAX_BANDWIDTH:
        yield _warning(
            at,
            f"{bandwidth:g} bytes per second is {bandwidth * 8 / 1e6:g} Mbit/s; "
            f'did you mean "{_suggest_rate(bandwidth)}"?',
        )


def _suggest_rate(bandwidth: float) -> str:
    if bandwidth <= 400:
        return f"{bandwidth:g} Gbit/s"
    return f"{bandwidth:g} Mbit/s" if bandwidth < MIN_BANDWIDTH else "100 Gbit/s"


def _describe_seconds(value: float) -> str:
    spans = [(DAY, "days"), (3600.0, "hours"), (60.0, "minutes")]
    span = next((each for each in spans if value >= each[0]), (1.0, "seconds"))
    return f"{value:g} s is {value / span[0]:.3g} {span[1]}; did you mean another unit?"


def _check_node(at: KeyPath, node: Node) -> Iterator[Diagnostic]:
    capacity = node.capacity
    if capacity is not None:
        path = (*at, "capacity", "memory")
        if capacity.memory < MIN_NODE_MEMORY:
            yield _error(
                path,
                "expected the memory of a host, at least "
                f"{_format_size(MIN_NODE_MEMORY)}, got "
                f"{_format_size(capacity.memory)}{_suggest_memory(capacity.memory)}",
            )
        elif not SMALL_NODE_MEMORY <= capacity.memory <= LARGE_NODE_MEMORY:
            message = f"{_format_size(capacity.memory)} for a host"
            yield _warning(path, message + _suggest_memory(capacity.memory))
        if capacity.cpu > MAX_CORES:
            yield _warning(
                (*at, "capacity", "cpu"), f"{capacity.cpu:g} cores; is this MHz?"
            )
        yield from _check_node_usage(at, node, capacity)
    if node.load_average is not None and node.load_average > 100 * MAX_CORES:
        yield _warning((*at, "load_average"), f"{node.load_average:g} runnable tasks")


def _check_node_usage(
    at: KeyPath, node: Node, capacity: Resources
) -> Iterator[Diagnostic]:
    cpu, memory = node.usage.cpu, node.usage.memory
    if cpu is not None and cpu > capacity.cpu:
        message = f"{cpu:g} of {capacity.cpu:g} cores in use"
        if max_plausible_cpu(capacity) < cpu <= 100:
            message += f"; {cpu:g} % of them are {cpu * capacity.cpu / 100:g}"
        yield from _check_excess(
            (*at, "usage", "cpu"),
            message,
            odd=cpu > 1.02 * capacity.cpu + 0.1,
            impossible=cpu > max_plausible_cpu(capacity),
        )
    if memory is not None and memory > capacity.memory:
        yield from _check_excess(
            (*at, "usage", "memory"),
            f"{_format_size(memory)} of {_format_size(capacity.memory)} in use",
            odd=True,
            impossible=memory > max_plausible_memory(capacity),
        )
    if node.ksm_shared is not None and node.ksm_shared > 10 * capacity.memory:
        yield _warning(
            (*at, "ksm_shared"),
            f"{_format_size(node.ksm_shared)} merged on a host of "
            f"{_format_size(capacity.memory)}",
        )


def _check_guest(
    at: KeyPath, guest: Guest, capacity: Resources | None
) -> Iterator[Diagnostic]:
    limit = guest.limit
    if limit is not None:
        path = (*at, "limit", "memory")
        if 0 < limit.memory < MIN_GUEST_MEMORY:
            yield _error(
                path,
                "expected the memory of a guest, at least "
                f"{_format_size(MIN_GUEST_MEMORY)}, got "
                f"{_format_size(limit.memory)}{_suggest_memory(limit.memory)}",
            )
        elif 0 < limit.memory < SMALL_GUEST_MEMORY or limit.memory > LARGE_NODE_MEMORY:
            message = f"{_format_size(limit.memory)} for a guest"
            yield _warning(path, message + _suggest_memory(limit.memory))
        if limit.cpu > MAX_CORES:
            yield _warning((*at, "limit", "cpu"), f"{limit.cpu:g} cores; is this MHz?")
    yield from _check_guest_cpu((*at, "usage", "cpu"), guest, capacity)
    yield from _check_guest_memory((*at, "usage", "memory"), guest, capacity)
    if guest.uptime is not None and guest.uptime > MAX_UPTIME:
        yield _warning((*at, "uptime"), f"{_describe_seconds(guest.uptime)}")
    if guest.dirty_rate is not None and guest.dirty_rate > MAX_DIRTY_RATE:
        message = f"{_format_size(round(guest.dirty_rate))} per second written"
        yield _warning((*at, "dirty_rate"), message)


def _check_guest_cpu(
    at: KeyPath, guest: Guest, capacity: Resources | None
) -> Iterator[Diagnostic]:
    cpu, limit = guest.usage.cpu, guest.limit
    if cpu is None:
        return
    if capacity is not None and cpu > max_plausible_cpu(capacity):
        yield _error(at, f"{cpu:g} cores in use, on a node that has {capacity.cpu:g}")
    elif limit is not None and limit.cpu > 0 and cpu > 1.5 * limit.cpu + 1:
        message = f"{cpu:g} cores in use by a guest with {limit.cpu:g}"
        if cpu <= 100:
            message += f"; {cpu:g} % of them are {cpu * limit.cpu / 100:g}"
        yield _warning(at, message)


def _check_guest_memory(
    at: KeyPath, guest: Guest, capacity: Resources | None
) -> Iterator[Diagnostic]:
    memory, limit = guest.usage.memory, guest.limit
    if memory is None:
        return
    message = f"{_format_size(memory)} in use"
    if capacity is not None and memory > max_plausible_memory(capacity):
        yield _error(at, f"{message}, on a node of {_format_size(capacity.memory)}")
    elif limit is not None and limit.memory > 0:
        yield from _check_excess(
            at,
            f"{message} by a guest of {_format_size(limit.memory)}",
            odd=memory > 1.25 * limit.memory + 256 * MIB,
            impossible=memory > 2 * limit.memory + GIB,
        )


def _check_excess(
    at: KeyPath, message: str, *, odd: bool, impossible: bool
) -> Iterator[Diagnostic]:
    if impossible:
        yield _error(at, message)
    elif odd:
        yield _warning(at, message)


def _error(at: KeyPath, message: str) -> Diagnostic:
    return Diagnostic(at, message, code=DiagnosticCode.IMPLAUSIBLE)


def _warning(at: KeyPath, message: str) -> Diagnostic:
    return Diagnostic.warning(at, message, DiagnosticCode.IMPLAUSIBLE)


def _incomplete(at: KeyPath, message: str) -> Diagnostic:
    return Diagnostic.warning(at, message, DiagnosticCode.INCOMPLETE)


def _suggest_memory(value: int) -> str:
    """Return a suggestion for the unit of *value* as the end of a message, or ""."""
    for unit, size in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if USUAL_MEMORY[0] <= value * size <= USUAL_MEMORY[1]:
            return f'; did you mean "{value} {unit}"?'
    return ""


def _format_size(size: int) -> str:
    """Return *size* in bytes as text with the largest unit that is not above it."""
    for unit, one in (("TiB", 1024 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= one:
            return f"{size / one:.4g} {unit}"
    return f"{size} bytes"
