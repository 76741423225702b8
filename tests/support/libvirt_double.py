"""Hosts with libvirt in place of connections, for reads without a hypervisor.

Their counters go on with time, and their descriptions are those of `libvirt_responses`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from support.libvirt_responses import CAPABILITIES, SECOND, STATS, XML, network_stats

GIB = 1 << 30


@dataclass(frozen=True)
class DomainDouble:
    """Running guest with 512 MiB and one virtual CPU, of which it uses a tenth.

    Attributes:
        guest: Its name, and its uuid.
        memory: Its memory in use, in bytes.
        traffic: Bytes per second that it receives; None if its interface has no
            counters.
    """

    guest: str
    memory: int = GIB // 8
    traffic: float | None = 0.0

    def ID(self) -> int:  # noqa: N802 - libvirt's
        """Return its id on the host."""
        return 1

    def UUIDString(self) -> str:  # noqa: N802 - libvirt's
        """Return its identity."""
        return self.guest

    def name(self) -> str:
        """Return its name."""
        return self.guest

    def XMLDesc(self, flags: int) -> str:  # noqa: N802 - libvirt's
        """Return its description."""
        assert flags == 0
        return XML.replace("vm1", self.guest)

    def stats(self) -> Mapping[str, object]:
        """Return its statistics at this time."""
        now, traffic = monotonic(), self.traffic
        count = None if traffic is None else (int(traffic * now), 0)
        return {
            **STATS,
            "cpu.time": int(now * SECOND / 10),
            "balloon.maximum": GIB // 2 >> 10,
            "balloon.rss": self.memory >> 10,
            **network_stats(count),
        }


@dataclass(frozen=True)
class HostDouble:
    """Host of two CPUs and 2 GiB, in place of a connection.

    Attributes:
        host: Its name.
        domains: Its guests.
    """

    host: str
    domains: Sequence[DomainDouble]

    def getHostname(self) -> str:  # noqa: N802 - libvirt's
        """Return its name."""
        return self.host

    def getInfo(self) -> list[object]:  # noqa: N802 - libvirt's
        """Return the architecture, MiB of memory, CPUs and so on."""
        return ["x86_64", 2048, 2, 2596, 1, 1, 2, 1]

    def getMemoryStats(self, cell: int) -> dict[str, int]:  # noqa: N802 - libvirt's
        """Return its memory in KiB."""
        assert cell == -1
        used = sum(each.memory for each in self.domains)
        return {"total": 2 * GIB >> 10, "free": (2 * GIB - used) >> 10}

    def getMemoryParameters(self) -> dict[str, int]:  # noqa: N802 - libvirt's
        """Return no parameters of KSM."""
        return {}

    def getCapabilities(self) -> str:  # noqa: N802 - libvirt's
        """Return its description, with an identity of its own."""
        return CAPABILITIES.replace("<uuid>", f"<uuid>{self.host}-")

    def getCPUStats(self, cpu: int) -> dict[str, int]:  # noqa: N802 - libvirt's
        """Return the time of both CPUs, of which a tenth was busy."""
        assert cpu == -1
        busy = int(monotonic() * SECOND / 5)
        return {"user": busy, "idle": 9 * busy}

    def getAllDomainStats(  # noqa: N802 - libvirt's
        self, stats: int, flags: int
    ) -> list[tuple[DomainDouble, Mapping[str, object]]]:
        """Return all statistics of its guests."""
        assert stats == 0
        del flags
        return [(each, each.stats()) for each in self.domains]


def connect_to(*hosts: HostDouble) -> Callable[[str, str], HostDouble]:
    """Return a function that opens a connection to the host with the name of a node."""
    by_name = {each.host: each for each in hosts}

    def open_connection(node: str, uri: str) -> HostDouble:
        del uri
        return by_name[node]

    return open_connection
