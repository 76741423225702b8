"""Conversion of libvirt responses to nodes and guests of the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from opendrs.config.network_load import (
    NETWORK,
    Counters,
    guest_load,
    transferred,
)
from opendrs.errors import UnexpectedResponseError
from opendrs.model import (
    MAX_AMOUNT,
    NO_LOADS,
    Guest,
    GuestKind,
    GuestState,
    LoadAmounts,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Usage,
    max_plausible_cpu,
    max_plausible_memory,
)
from opendrs.platforms.libvirt.guest_location import GuestLocation
from opendrs.platforms.libvirt.metadata import GuestMetadata, read_metadata
from opendrs.platforms.libvirt.mobility import migration_blockers, requires_same_cpu
from opendrs.platforms.libvirt.responses import (
    DomainResponse,
    DomainState,
    HostResponse,
    HostSample,
)

T = TypeVar("T", int, float)
KIB = 1 << 10
NANOSECOND = 1e-9
_STATES = {
    DomainState.RUNNING: GuestState.RUNNING,
    DomainState.BLOCKED: GuestState.RUNNING,
    DomainState.PAUSED: GuestState.PAUSED,
    DomainState.PMSUSPENDED: GuestState.PAUSED,
}


def build_node(
    name: NodeId, response: HostResponse | None, labels: tuple[str, ...]
) -> Node:
    """Return the node *name*; its state is unknown without a response."""
    if response is None:
        return Node(id=name, labels=frozenset(labels))
    host = _parse_xml(response.capabilities, name)
    cores, memory = _cores(response), _plausible(_total_memory(response.memory))
    return Node(
        id=name,
        capacity=Resources(cores, memory) if cores and memory else None,
        usage=Usage(
            _busy_cores(response, cores), _plausible(_used_memory(response.memory))
        ),
        state=NodeState.ONLINE,
        architecture=host.findtext("host/cpu/arch"),
        cpu_model=host.findtext("host/cpu/model"),
        labels=frozenset(labels),
        ksm_shared=_plausible(_merged_memory(response, host)),
    )


def host_identity(response: HostResponse) -> tuple[str, str]:
    """Return the identity of a host: its name and its uuid."""
    host = _parse_xml(response.capabilities, response.hostname)
    return response.hostname, host.findtext("host/uuid") or ""


@dataclass(frozen=True, slots=True)
class GuestDescription:
    """A guest with the contents of its domain XML.

    Attributes:
        location: The guest and its location.
        xml: Its domain XML.
        metadata: The metadata in it.
    """

    location: GuestLocation
    xml: Element
    metadata: GuestMetadata


def describe_guest(
    location: GuestLocation, nodes: Mapping[NodeId, Node]
) -> GuestDescription:
    """Return the description of the guest at *location*.

    A domain XML that cannot be parsed is a problem of this guest alone.

    Args:
        location: The guest and its location.
        nodes: The nodes of the cluster.
    """
    try:
        xml = _parse_xml(location.domain.xml, location.id)
    except UnexpectedResponseError as error:
        metadata = GuestMetadata(problems=(str(error),))
        return GuestDescription(location, Element("domain"), metadata)
    return GuestDescription(location, xml, read_metadata(xml, nodes))


def build_guest(
    description: GuestDescription,
    response: HostResponse,
    node: Node,
    shared_paths: tuple[str, ...],
    uptime: float | None = None,
) -> Guest:
    """Return the guest of *description*.

    Args:
        description: The guest.
        response: The response of its node.
        node: Its node.
        shared_paths: Paths below which all nodes have the same files.
        uptime: Seconds since its start; None if unknown.
    """
    location, xml = description.location, description.xml
    same_cpu = requires_same_cpu(xml)
    detail = _mobility_detail(
        description,
        shared_paths,
        cpu_model_missing=same_cpu and node.cpu_model is None,
    )
    return Guest(
        id=location.id,
        node=location.node,
        kind=_guest_kind(xml),
        state=_guest_state(location),
        limit=_guest_limit(location.domain, xml),
        usage=_guest_usage(location.domain, response, node),
        uptime=uptime,
        mobility=Mobility.NONE if detail else Mobility.LIVE,
        mobility_detail=detail,
        tags=description.metadata.tags,
        cpu_model=node.cpu_model if same_cpu else None,
        migrating_to=location.migrating_to,
        loads=_guest_loads(location.domain.uuid, response, node),
    )


def _plausible(amount: T | None, maximum: float = MAX_AMOUNT) -> T | None:
    """Return *amount*; None if it is impossible, as with a broken counter."""
    return None if amount is None or not 0 <= amount <= maximum else amount


def _guest_usage(domain: DomainResponse, response: HostResponse, node: Node) -> Usage:
    """Return the usage of a guest; unknown if it exceeds the capacity of its node."""
    capacity = node.capacity or Resources(MAX_AMOUNT, MAX_AMOUNT)
    return Usage(
        _plausible(_cpu_usage(domain.uuid, response), max_plausible_cpu(capacity)),
        _plausible(_memory_usage(domain), max_plausible_memory(capacity)),
    )


def _guest_loads(uuid: str, response: HostResponse, node: Node) -> LoadAmounts:
    """Return the network load, if the capacity of *node* is known."""
    if NETWORK not in node.load_capacities:
        return NO_LOADS
    before = _network_counters(uuid, response.first_sample)
    after = _network_counters(uuid, response.second_sample)
    return guest_load(transferred(before, after), response.elapsed)


def _parse_xml(text: str, what: str) -> Element:
    try:
        return ET.fromstring(text)  # noqa: S314 -- from the hypervisor
    except ET.ParseError as error:
        raise UnexpectedResponseError(
            f"{what}: description is not XML: {error}"
        ) from error


def _cores(response: HostResponse) -> int:
    cores = response.info[2]
    return cores if isinstance(cores, int) else 0


def _busy_cores(response: HostResponse, cores: int) -> float | None:
    """Return the cores that were busy between both samples."""
    increase = {
        mode: max(0, nanoseconds - response.first_sample.cpu.get(mode, nanoseconds))
        for mode, nanoseconds in response.second_sample.cpu.items()
    }
    idle = increase.pop("idle", 0) + increase.pop("iowait", 0)
    increase.pop("utilization", None)  # a percentage, reported by other hypervisors
    elapsed = idle + sum(increase.values())
    return cores * sum(increase.values()) / elapsed if elapsed else None


def _total_memory(memory: Mapping[str, int]) -> int | None:
    return memory["total"] * KIB if "total" in memory else None


def _used_memory(memory: Mapping[str, int]) -> int | None:
    """Return the memory in bytes that is neither free nor cache."""
    if "total" not in memory or "free" not in memory:
        return None
    idle = sum(memory.get(part, 0) for part in ("free", "buffers", "cached"))
    return max(0, memory["total"] - idle) * KIB


def _merged_memory(response: HostResponse, host: Element) -> int | None:
    """Return the bytes that KSM saves by merging equal pages; None if unknown.

    libvirt and the kernel count pages of the smallest size.
    """
    pages = response.page_sharing.get("shm_pages_sharing")
    listed = host.findall("host/cpu/pages[@unit='KiB'][@size]")
    sizes = [int(page.attrib["size"]) for page in listed]
    return pages * min(sizes) * KIB if pages is not None and sizes else None


def _guest_kind(xml: Element) -> GuestKind:
    containers = {"lxc", "openvz"}
    return GuestKind.CONTAINER if xml.get("type") in containers else GuestKind.VM


def _guest_state(location: GuestLocation) -> GuestState:
    if not location.domain.is_active:
        return GuestState.STOPPED
    if location.is_running:
        return GuestState.RUNNING
    if location.domain.is_incoming:
        return GuestState.UNKNOWN
    return _STATES.get(location.domain.state, GuestState.UNKNOWN)


def _guest_limit(domain: DomainResponse, xml: Element) -> Resources | None:
    processors = domain.integer("vcpu.current")
    memory = domain.integer("balloon.maximum")
    size = None if memory is None else _plausible(memory * KIB)
    if processors is None or processors < 0 or size is None:
        return None
    return Resources(processors * _cpu_quota(xml), size)


def _cpu_quota(xml: Element) -> float:
    """Return the fraction of a core that each virtual CPU may use."""
    quota = int(xml.findtext("cputune/quota") or -1)
    period = int(xml.findtext("cputune/period") or 100_000)
    return min(1.0, quota / period) if quota > 0 and period > 0 else 1.0


def _cpu_usage(uuid: str, response: HostResponse) -> float | None:
    """Return the cores used between both samples.

    None if the guest is missing in one of them, or was restarted in between.
    """
    before, after = (
        _cpu_time(uuid, response.first_sample),
        _cpu_time(uuid, response.second_sample),
    )
    if before is None or after is None or after < before or response.elapsed <= 0:
        return None
    return (after - before) * NANOSECOND / response.elapsed


def _cpu_time(uuid: str, sample: HostSample) -> int | None:
    domain = _active_domain(uuid, sample)
    return None if domain is None else domain.integer("cpu.time")


def _network_counters(uuid: str, sample: HostSample) -> Counters | None:
    domain = _active_domain(uuid, sample)
    return None if domain is None else domain.network_counters


def _active_domain(uuid: str, sample: HostSample) -> DomainResponse | None:
    """Return the domain of the guest; None if it has not yet arrived or not started."""
    domain = sample.domains.get(uuid)
    if domain is None or not domain.is_active or domain.is_incoming:
        return None
    return domain


def _memory_usage(domain: DomainResponse) -> int | None:
    """Return the memory of the node that the guest uses, in bytes.

    This is the resident set size of its process, or, if the hypervisor does not
    report it, the current balloon size.
    """
    if not domain.is_active:
        return None
    for key in ("balloon.rss", "balloon.current"):
        if (memory := domain.integer(key)) is not None:
            return memory * KIB
    return None


def _mobility_detail(
    description: GuestDescription,
    shared_paths: tuple[str, ...],
    *,
    cpu_model_missing: bool,
) -> str | None:
    """Return why the guest cannot migrate; None if it can."""
    located = description.location.mobility_detail
    reasons = [located] if located else []
    reasons += description.metadata.problems
    reasons += migration_blockers(description.xml, shared_paths)
    if cpu_model_missing:
        reasons.append("it needs the CPU model of its node, which is unknown")
    return "; ".join(reasons) or None
