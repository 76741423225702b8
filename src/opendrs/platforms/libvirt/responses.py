"""What hosts answer, in libvirt's own words and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class DomainState(IntEnum):
    """What a domain does (virDomainState)."""

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
    """Why a domain is paused (virDomainPausedReason)."""

    MIGRATION = 2
    STARTING_UP = 11
    POSTCOPY = 12
    POSTCOPY_FAILED = 13


RUNNING_POSTCOPY_FAILED = 11  # virDomainRunningReason
OPERATION_MIGRATION_OUT = 5  # virDomainJobOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainResponse:
    """One domain on one host.

    Attributes:
        uuid: Its identity, the same on every host.
        name: Its name, unique on its host.
        is_active: Whether it has a process.
        is_incoming: Whether it is still being filled by a migration.
        stats: What virConnectGetAllDomainStats says; times in nanoseconds,
            memory in KiB.
        xml: Its description; empty when it was not asked for.
    """

    uuid: str
    name: str
    is_active: bool
    is_incoming: bool = False
    stats: Mapping[str, object]
    xml: str = ""

    def integer(self, key: str) -> int | None:
        """Return the figure *key*, or None when the host does not say."""
        value = self.stats.get(key)
        return value if isinstance(value, int) else None

    @property
    def state(self) -> DomainState:
        """Return what it does."""
        number = self.integer("state.state")
        return _STATES.get(number, DomainState.NOSTATE)

    @property
    def reason(self) -> int:
        """Return why it does that; the meaning depends on the state."""
        return self.integer("state.reason") or 0

    @property
    def is_running(self) -> bool:
        """Return whether it executes."""
        return self.is_active and self.state in {
            DomainState.RUNNING,
            DomainState.BLOCKED,
        }

    @property
    def is_handed_over(self) -> bool:
        """Return whether it stands still because it goes on elsewhere."""
        reasons = {
            PausedReason.MIGRATION,
            PausedReason.POSTCOPY,
            PausedReason.POSTCOPY_FAILED,
        }
        paused = self.state is DomainState.PAUSED and self.reason in reasons
        return self.is_active and paused and not self.is_incoming

    @property
    def is_split(self) -> bool:
        """Return whether a post-copy migration failed half way."""
        if self.state is DomainState.PAUSED:
            return self.reason == PausedReason.POSTCOPY_FAILED
        return self.is_running and self.reason == RUNNING_POSTCOPY_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One reading of a host.

    Attributes:
        sampled_at: When, in seconds of a monotonic clock of the asking machine.
        cpu: Nanoseconds the host's processors spent in each way since boot.
        domains: Every domain by uuid.
    """

    sampled_at: float
    cpu: Mapping[str, int]
    domains: Mapping[str, DomainResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResponse:
    """All that was read of one host.

    Attributes:
        hostname: What the host calls itself.
        info: virNodeGetInfo: architecture, MiB of memory, processors, ...
        memory: virNodeGetMemoryStats, in KiB.
        page_sharing: virNodeGetMemoryParameters: how equal pages are merged.
        capabilities: virConnectGetCapabilities, XML.
        first_sample: The earlier reading.
        second_sample: The later reading, with descriptions of the domains.
    """

    hostname: str
    info: tuple[object, ...]
    memory: Mapping[str, int]
    page_sharing: Mapping[str, int]
    capabilities: str
    first_sample: HostSample
    second_sample: HostSample


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationReport:
    """What one host says about one guest.

    Attributes:
        domain: The guest there; None when the host has no such guest.
        job: virDomainGetJobStats while it migrates away from there.
    """

    domain: DomainResponse | None
    job: Mapping[str, object] | None = None
