"""What hosts answer, in libvirt's own words and units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class State(IntEnum):
    """What a domain does (virDomainState)."""

    NOSTATE = 0
    RUNNING = 1
    BLOCKED = 2
    PAUSED = 3
    SHUTDOWN = 4
    SHUTOFF = 5
    CRASHED = 6
    PMSUSPENDED = 7


_STATES: Mapping[int | None, State] = {int(state): state for state in State}


class Paused(IntEnum):
    """Why a domain is paused (virDomainPausedReason)."""

    MIGRATION = 2
    STARTING_UP = 11
    POSTCOPY = 12
    POSTCOPY_FAILED = 13


RUNNING_POSTCOPY_FAILED = 11  # virDomainRunningReason
MIGRATION_OUT = 5  # virDomainJobOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainAnswer:
    """One domain on one host.

    Attributes:
        uuid: Its identity, the same on every host.
        name: Its name, unique on its host.
        active: Whether it has a process.
        arriving: Whether it is still being filled by a migration.
        stats: What virConnectGetAllDomainStats says; times in nanoseconds,
            memory in KiB.
        xml: Its description; empty when it was not asked for.
    """

    uuid: str
    name: str
    active: bool
    arriving: bool = False
    stats: Mapping[str, object]
    xml: str = ""

    def number(self, key: str) -> int | None:
        """Return the figure *key*, or None when the host does not say."""
        value = self.stats.get(key)
        return value if isinstance(value, int) else None

    @property
    def state(self) -> State:
        """Return what it does."""
        number = self.number("state.state")
        return _STATES.get(number, State.NOSTATE)

    @property
    def reason(self) -> int:
        """Return why it does that; the meaning depends on the state."""
        return self.number("state.reason") or 0

    @property
    def running(self) -> bool:
        """Return whether it executes."""
        return self.active and self.state in {State.RUNNING, State.BLOCKED}

    @property
    def handed_over(self) -> bool:
        """Return whether it stands still because it goes on elsewhere."""
        waiting = {Paused.MIGRATION, Paused.POSTCOPY, Paused.POSTCOPY_FAILED}
        paused = self.state is State.PAUSED and self.reason in waiting
        return self.active and paused and not self.arriving

    @property
    def torn(self) -> bool:
        """Return whether a post-copy migration failed half way."""
        if self.state is State.PAUSED:
            return self.reason == Paused.POSTCOPY_FAILED
        return self.running and self.reason == RUNNING_POSTCOPY_FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One reading of a host.

    Attributes:
        at: When, in seconds of a monotonic clock of the asking machine.
        cpu: Nanoseconds the host's processors spent in each way since boot.
        domains: Every domain by uuid.
    """

    at: float
    cpu: Mapping[str, int]
    domains: Mapping[str, DomainAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswer:
    """All that was read of one host.

    Attributes:
        hostname: What the host calls itself.
        info: virNodeGetInfo: architecture, MiB of memory, processors, ...
        memory: virNodeGetMemoryStats, in KiB.
        sharing: virNodeGetMemoryParameters: how equal pages are merged.
        capabilities: virConnectGetCapabilities, XML.
        first: The earlier reading.
        second: The later reading, with descriptions of the domains.
    """

    hostname: str
    info: tuple[object, ...]
    memory: Mapping[str, int]
    sharing: Mapping[str, int]
    capabilities: str
    first: Sample
    second: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What one host says about one guest.

    Attributes:
        domain: The guest there; None when the host has no such guest.
        job: virDomainGetJobStats while it migrates away from there.
    """

    domain: DomainAnswer | None
    job: Mapping[str, object] | None = None
