"""From what libvirt hosts answer to the cluster as the model has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from opendrs.errors import UnexpectedResponseError
from opendrs.model import (
    Guest,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Usage,
)
from opendrs.model.resources import LARGEST_AMOUNT, most_cpu, most_memory
from opendrs.platforms.libvirt.answers import (
    DomainAnswer,
    HostAnswer,
    Sample,
    State,
)
from opendrs.platforms.libvirt.mobility import needs_same_processor, obstacles
from opendrs.platforms.libvirt.places import Place

T = TypeVar("T", int, float)
KIB = 1 << 10
NANOSECOND = 1e-9
TAGS = "metadata/{urn:opendrs}tags"
_STATES = {
    State.RUNNING: GuestState.RUNNING,
    State.BLOCKED: GuestState.RUNNING,
    State.PAUSED: GuestState.PAUSED,
    State.PMSUSPENDED: GuestState.PAUSED,
}


def node_of(name: NodeId, answer: HostAnswer | None, labels: tuple[str, ...]) -> Node:
    """Return the node *name*; unknown when it did not answer."""
    if answer is None:
        return Node(id=name, labels=frozenset(labels))
    host = _xml(answer.capabilities, name)
    cores, memory = _cores(answer), _known(_total(answer.memory))
    return Node(
        id=name,
        capacity=Resources(cores, memory) if cores and memory else None,
        usage=Usage(_busy_cores(answer, cores), _known(_memory_in_use(answer.memory))),
        state=NodeState.ONLINE,
        architecture=host.findtext("host/cpu/arch"),
        cpu_model=host.findtext("host/cpu/model"),
        labels=frozenset(labels),
        ksm_shared=_known(_merged_memory(answer, host)),
    )


def identity(answer: HostAnswer) -> tuple[str, str]:
    """Return what tells a host from every other: its name and its uuid."""
    host = _xml(answer.capabilities, answer.hostname)
    return answer.hostname, host.findtext("host/uuid") or ""


def guest_of(
    place: Place, answer: HostAnswer, node: Node, shared: tuple[str, ...]
) -> Guest:
    """Return the guest at *place*.

    Args:
        place: The guest, and where it is.
        answer: What its node says.
        node: Its node.
        shared: Paths below which all nodes see the same files.
    """
    domain = place.domain
    xml = _xml(domain.xml, place.id)
    bound = needs_same_processor(xml)
    why = _why_not(place, xml, shared, missing_model=bound and node.cpu_model is None)
    return Guest(
        id=place.id,
        node=place.node,
        kind=_kind(xml),
        state=_state(place),
        limit=_limit(domain, xml),
        usage=_usage(domain, answer, node),
        moves=Mobility.NEVER if why else Mobility.LIVE,
        obstacle=why,
        tags=_tags(xml),
        cpu_model=node.cpu_model if bound else None,
        migrating_to=place.migrating_to,
    )


def _known(amount: T | None, most: float = LARGEST_AMOUNT) -> T | None:
    """Return *amount*, or None where it cannot be: a counter that has gone astray."""
    return None if amount is None or not 0 <= amount <= most else amount


def _usage(domain: DomainAnswer, answer: HostAnswer, node: Node) -> Usage:
    """Return what a guest uses; unknown where it is more than its node has."""
    capacity = node.capacity or Resources(LARGEST_AMOUNT, LARGEST_AMOUNT)
    return Usage(
        _known(_processor_use(domain.uuid, answer), most_cpu(capacity)),
        _known(_memory_of(domain), most_memory(capacity)),
    )


def _xml(text: str, what: str) -> Element:
    try:
        return ET.fromstring(text)  # noqa: S314 -- from the hypervisor
    except ET.ParseError as error:
        raise UnexpectedResponseError(
            f"the description of {what} is not XML: {error}"
        ) from error


def _cores(answer: HostAnswer) -> int:
    cores = answer.info[2]
    return cores if isinstance(cores, int) else 0


def _busy_cores(answer: HostAnswer, cores: int) -> float | None:
    """Return the cores that were busy between both readings."""
    grown = {
        way: max(0, spent - answer.first.cpu.get(way, spent))
        for way, spent in answer.second.cpu.items()
    }
    idle = grown.pop("idle", 0) + grown.pop("iowait", 0)
    grown.pop("utilization", None)  # a percentage, of other hypervisors
    passed = idle + sum(grown.values())
    return cores * sum(grown.values()) / passed if passed else None


def _total(memory: Mapping[str, int]) -> int | None:
    return memory["total"] * KIB if "total" in memory else None


def _memory_in_use(memory: Mapping[str, int]) -> int | None:
    """Return what is neither free nor would be freed on demand, in bytes."""
    if "total" not in memory or "free" not in memory:
        return None
    idle = sum(memory.get(part, 0) for part in ("free", "buffers", "cached"))
    return max(0, memory["total"] - idle) * KIB


def _merged_memory(answer: HostAnswer, host: Element) -> int | None:
    """Return the bytes that merging equal pages saves; None if not known.

    libvirt counts pages as the kernel does: of the smallest size there is.
    """
    pages = answer.sharing.get("shm_pages_sharing")
    listed = host.findall("host/cpu/pages[@unit='KiB'][@size]")
    sizes = [int(page.attrib["size"]) for page in listed]
    return pages * min(sizes) * KIB if pages is not None and sizes else None


def _kind(xml: Element) -> GuestKind:
    containers = {"lxc", "openvz"}
    return GuestKind.CONTAINER if xml.get("type") in containers else GuestKind.VM


def _state(place: Place) -> GuestState:
    if not place.domain.active:
        return GuestState.STOPPED
    if place.executes:
        return GuestState.RUNNING
    if place.domain.arriving:
        return GuestState.UNKNOWN
    return _STATES.get(place.domain.state, GuestState.UNKNOWN)


def _limit(domain: DomainAnswer, xml: Element) -> Resources | None:
    processors = domain.number("vcpu.current")
    memory = domain.number("balloon.maximum")
    size = None if memory is None else _known(memory * KIB)
    if processors is None or processors < 0 or size is None:
        return None
    return Resources(processors * _share(xml), size)


def _share(xml: Element) -> float:
    """Return the part of a core that each virtual processor may use."""
    quota = int(xml.findtext("cputune/quota") or -1)
    period = int(xml.findtext("cputune/period") or 100_000)
    return min(1.0, quota / period) if quota > 0 and period > 0 else 1.0


def _processor_use(uuid: str, answer: HostAnswer) -> float | None:
    """Return the cores used between both readings.

    None when it was not there at both, or started anew in between.
    """
    before, after = _spent(uuid, answer.first), _spent(uuid, answer.second)
    passed = answer.second.at - answer.first.at
    if before is None or after is None or after < before or passed <= 0:
        return None
    return (after - before) * NANOSECOND / passed


def _spent(uuid: str, sample: Sample) -> int | None:
    domain = sample.domains.get(uuid)
    if domain is None or not domain.active or domain.arriving:
        return None
    return domain.number("cpu.time")


def _memory_of(domain: DomainAnswer) -> int | None:
    """Return what the guest takes of its node's memory, in bytes.

    That is what its process has resident, and where the hypervisor does not
    say, what the balloon leaves it.
    """
    if not domain.active:
        return None
    for key in ("balloon.rss", "balloon.current"):
        if (memory := domain.number(key)) is not None:
            return memory * KIB
    return None


def _why_not(
    place: Place, xml: Element, shared: tuple[str, ...], *, missing_model: bool
) -> str | None:
    """Return what holds the guest on its node, or None."""
    reasons = [place.trouble] if place.trouble else []
    reasons += obstacles(xml, shared)
    if missing_model:
        reasons.append("it needs the processor of its node, which is not known")
    return "; ".join(reasons) or None


def _tags(xml: Element) -> frozenset[str]:
    """Return the words of the element tags of the namespace urn:opendrs."""
    words = (xml.findtext(TAGS) or "").replace(",", " ").split()
    return frozenset(words)
