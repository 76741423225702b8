"""Responses of hosts, with the names and units of libvirt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class DomainState(IntEnum):
    """State of a domain (virDomainState)."""

    NOSTATE = 0
    RUNNING = 1
    BLOCKED = 2
    PAUSED = 3
    SHUTDOWN = 4
    SHUTOFF = 5
    CRASHED = 6
    PMSUSPENDED = 7


_STATES: Mapping[int | None, DomainState] = {int(state): state for state in DomainState}


class PausedReason(IntEnum):
    """Reason why a domain is paused (virDomainPausedReason)."""

    MIGRATION = 2
    STARTING_UP = 11
    POSTCOPY = 12
    POSTCOPY_FAILED = 13


RUNNING_BOOTED = 1  # virDomainRunningReason
RUNNING_POSTCOPY_FAILED = 11
OPERATION_MIGRATION_OUT = 5  # virDomainJobOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainResponse:
    """One domain on one host.

    Attributes:
        uuid: Identity of the guest, equal on every host.
        name: Name, unique on its host.
        is_active: True if it has a process.
        domain_id: Id on its host, another one after each start; None if it is not
            active.
        is_incoming: True while it is the unfinished target of a migration.
        stats: Result of virConnectGetAllDomainStats; times in nanoseconds, memory in
            KiB.
        xml: Domain XML; empty if it was not requested.
    """

    uuid: str
    name: str
    is_active: bool
    domain_id: int | None = None
    is_incoming: bool = False
    stats: Mapping[str, object]
    xml: str = ""

    def integer(self, key: str) -> int | None:
        """Return the value of *key* in the statistics; None if it is missing."""
        value = self.stats.get(key)
        return value if isinstance(value, int) else None

    @property
    def network_counters(self) -> dict[str, int] | None:
        """Return the bytes that each interface has received and sent, by its name.

        None if the host does not report them for all interfaces: it has no counters of
        those that bypass it, such as a passed-through device or the type `user`.
        """
        count = self.integer("net.count")
        if count is None:
            return None
        counters: dict[str, int] = {}
        for number in range(count):
            name = self.stats.get(f"net.{number}.name")
            received = self.integer(f"net.{number}.rx.bytes")
            sent = self.integer(f"net.{number}.tx.bytes")
            if name is None or received is None or sent is None:
                return None
            counters[str(name)] = received + sent
        return counters

    @property
    def state(self) -> DomainState:
        """Return the state of the domain; NOSTATE if it is unknown."""
        number = self.integer("state.state")
        return _STATES.get(number, DomainState.NOSTATE)

    @property
    def reason(self) -> int:
        """Return the reason of the state; its meaning depends on the state."""
        return self.integer("state.reason") or 0

    @property
    def is_running(self) -> bool:
        """Return True if the domain executes."""
        return self.is_active and self.state in {
            DomainState.RUNNING,
            DomainState.BLOCKED,
        }

    @property
    def is_booted(self) -> bool:
        """Return True if its process began with a boot, not with a migration.

        After a pause it is unknown, and False.
        """
        booted = self.reason == RUNNING_BOOTED
        return self.is_active and self.state is DomainState.RUNNING and booted

    @property
    def is_handed_over(self) -> bool:
        """Return True if it is paused because the guest continues on the target."""
        reasons = {
            PausedReason.MIGRATION,
            PausedReason.POSTCOPY,
            PausedReason.POSTCOPY_FAILED,
        }
        paused = self.state is DomainState.PAUSED and self.reason in reasons
        return self.is_active and paused and not self.is_incoming

    @property
    def is_split(self) -> bool:
        """Return True if a post-copy migration failed before its end."""
        if self.state is DomainState.PAUSED:
            return self.reason == PausedReason.POSTCOPY_FAILED
        return self.is_running and self.reason == RUNNING_POSTCOPY_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One sample of a host.

    Attributes:
        sampled_at: Time in seconds of the monotonic clock of this machine.
        cpu: Nanoseconds that the CPUs spent in each mode since boot.
        domains: All domains by uuid.
    """

    sampled_at: float
    cpu: Mapping[str, int]
    domains: Mapping[str, DomainResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResponse:
    """All data that is read from one host.

    Attributes:
        hostname: Host name according to the host.
        info: virNodeGetInfo: architecture, MiB of memory, CPUs, ...
        memory: virNodeGetMemoryStats, in KiB.
        page_sharing: virNodeGetMemoryParameters: parameters of KSM.
        capabilities: virConnectGetCapabilities, XML.
        first_sample: The earlier sample.
        second_sample: The later sample, with the XML of the domains.
    """

    hostname: str
    info: tuple[object, ...]
    memory: Mapping[str, int]
    page_sharing: Mapping[str, int]
    capabilities: str
    first_sample: HostSample
    second_sample: HostSample

    @property
    def elapsed(self) -> float:
        """Return the seconds between both samples."""
        return self.second_sample.sampled_at - self.first_sample.sampled_at


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationReport:
    """Domain and migration job of one guest on one host.

    Attributes:
        domain: The domain; None if the host does not have the guest.
        job: virDomainGetJobStats of a migration away from the host; None without one.
    """

    domain: DomainResponse | None
    job: Mapping[str, object] | None = None
