"""Invariants of a controller, and the facts to check them by.

As `soak.checker`, it imports nothing of opendrs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Key = tuple[str, str]  # run and step
Action = tuple[str, str, str, str]  # kind, guest, source, target


class Invariant(StrEnum):
    """An invariant that a controller keeps."""

    PER_NODE = "at most max_migrations_per_node migrations from or to a node"
    PER_CLUSTER = "at most max_parallel_migrations migrations in the cluster"
    PER_NETWORK = "at most as many migrations over a network as it may have"
    COOLDOWN = "no guest migrates again within the cooldown"
    STAYS_ON = "no node is powered off within the cooldown after it was powered on"
    MIN_UPTIME = "no guest migrates that has just started"
    HEADROOM = "memory in use and arriving leaves the headroom free"
    OVERCOMMIT = "memory limits on a node stay within the overcommitment"
    RULE = "no strict rule is newly broken"
    IMMOBILE = "no guest migrates that must not or cannot"
    UNOBSERVED = "nothing starts on a node that the last look did not show"
    UNRECORDED = "every start is recorded before"
    TWICE = "no step starts twice, and no guest migrates twice at once"
    NOT_EMPTY = "no node with guests is powered off"
    EARLY_ABORT = "no migration is aborted before its timeout"
    LATE_ABORT = "no migration runs on beyond its timeout"
    EARLY_LOSS = "no migration is recorded as lost before its timeout"
    OUTCOME = "what is recorded is what happened"
    DURABLE = "what was recorded stays recorded"
    OPEN = "what an earlier process recorded has an outcome before anything starts"
    PROGRESS = "one cycle follows another"
    GUEST = "no guest is lost or doubled"
    CONSENT = "nothing starts that the mode, an approval or a pause does not allow"
    EXPIRED = "nothing starts of a plan that has expired"
    PLAN = "a plan ends once, as its states allow"
    DRAINED = "no guest migrates to a drained node"
    UNDONE = "no migration is undone within the horizon"
    LEADER = "one controller at a time starts steps"
    TAKEOVER = "another controller takes over within the lease time"


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept.

    Attributes:
        at: True time.
        invariant: The promise.
        detail: Names and numbers.
        names: Guests, hosts and jobs that are concerned.
    """

    at: float
    invariant: Invariant
    detail: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLimits:
    """The limits that the judge holds a controller to; those of networks by name.

    Attributes:
        headroom: Part of memory that stays free.
        overcommit: Most memory limits, as part of memory.
        per_node: Most migrations from or to a node.
        per_cluster: Most migrations.
        networks: Hosts on one side of each network, and the most migrations over it.
        cooldown: In seconds.
        min_uptime: In seconds.
        timeout: In seconds.
        lag: Seconds after which a look shows a migration.
    """

    headroom: float
    overcommit: float
    per_node: int
    per_cluster: int
    networks: Mapping[str, tuple[tuple[str, ...], int]]
    cooldown: float
    min_uptime: float
    timeout: float
    lag: float = 0.0


@dataclass(slots=True)
class TrueGuest:
    """A guest, as events describe it."""

    host: str
    memory: int
    running: bool
    live: bool
    tags: tuple[str, ...]
    since: float
    uses: list[tuple[float, int]]
    changed: float  # when others changed it last
    arrived: float = -math.inf  # when it migrated last
    job: str | None = None
    moved: CooldownStart | None = None
    disturbed: float = -math.inf  # when a migration of it failed, or others changed it


@dataclass(slots=True)
class CooldownStart:
    """A change that a cooldown follows.

    Attributes:
        at: True time of the change.
        run: The run that it belongs to.
        recorded: True time at which it was recorded, or the clock was set since.
        shown: Seconds since the change that the clock showed at *recorded*.
    """

    at: float
    run: str
    recorded: float
    shown: float = 0.0

    def elapsed(self, now: float) -> float:
        """Return the seconds since the change by the clock of the controller."""
        return self.shown + now - self.recorded

    def clock_set(self, now: float, seconds: float) -> None:
        """Set the clock forward; a change in its future is as of now."""
        self.shown = max(0.0, self.elapsed(now) + seconds)
        self.recorded = now


@dataclass(slots=True)
class TrueJob:
    """An action on the platform."""

    id: str
    action: Action
    own: bool  # started by the controller
    began: float
    record: RecordedStep | None = None
    state: str = "running"
    lost: bool = False  # an outcome was recorded while it ran
    unknown: bool = False  # the platform no longer knew it
    aborted: float | None = None
    attended: float = -math.inf  # since when it can be asked after without pause
    unanswered: float | None = None  # since when it was asked after without success
    looked: float = -math.inf  # when the last look before it was
    kept: tuple[int, ...] = ()  # the strict rules of its guest that held before
    accepted: bool = False  # the controller has recorded the answer to its start

    @property
    def hosts(self) -> tuple[str, str]:
        """Return the hosts that take part."""
        return self.action[2:]


@dataclass(slots=True)
class RecordedStep:
    """A step in the record of the controller."""

    key: Key
    action: Action
    intended: float
    starts: int = 0
    job: TrueJob | None = None
    outcome: str | None = None


@dataclass(slots=True)
class LastObservation:
    """The last look of the controller at the cluster."""

    taken: float = -math.inf
    measured: float = -math.inf
    unreachable: frozenset[str] = frozenset()
