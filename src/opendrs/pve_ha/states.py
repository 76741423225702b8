"""Identifiers, and the closed lists of states and codes, of the HA manager."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NewType

ServiceId = NewType("ServiceId", str)


"""A service: its type and its number, as in ``vm:100``."""


VIRTUAL_MACHINE, CONTAINER, FAILING_SERVICE = "vm", "ct", "fa"


def service_type(service: ServiceId) -> str:
    """Return the type of *service*: what stands before the colon."""
    return service.partition(":")[0]


class NameList(tuple[str, ...]):
    """Names, shown with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


class StateParameters(tuple[tuple[str, str], ...]):
    """What comes along with a change of state, shown behind it."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return ""
        return f"  ({', '.join(f'{name} = {value}' for name, value in self)})"


class ServiceState(StrEnum):
    """Where a service stands, as the manager sees it."""

    REQUEST_START = "request_start"
    REQUEST_START_BALANCE = "request_start_balance"
    STARTED = "started"
    REQUEST_STOP = "request_stop"
    STOPPED = "stopped"
    MIGRATE = "migrate"
    RELOCATE = "relocate"
    FENCE = "fence"
    RECOVERY = "recovery"
    FREEZE = "freeze"
    ERROR = "error"


class PveNodeState(StrEnum):
    """What the manager thinks of a node."""

    ONLINE = "online"
    MAINTENANCE = "maintenance"
    UNKNOWN = "unknown"
    FENCE = "fence"
    GONE = "gone"


class CrmState(StrEnum):
    """Where the manager process of a node stands; one of them is the master."""

    STARTUP = "startup"
    WAIT_FOR_QUORUM = "wait_for_quorum"
    SLAVE = "slave"
    MASTER = "master"
    LOST_MANAGER_LOCK = "lost_manager_lock"


class LrmState(StrEnum):
    """Where the agent of a node stands."""

    STARTUP = "startup"
    WAIT_FOR_AGENT_LOCK = "wait_for_agent_lock"
    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    LOST_AGENT_LOCK = "lost_agent_lock"


class LrmMode(StrEnum):
    """What the agent of a node is about, as it tells the manager."""

    ACTIVE = "active"
    RESTART = "restart"
    SHUTDOWN = "shutdown"
    MAINTENANCE = "maintenance"
    DISARM = "disarm"


class RequestedState(StrEnum):
    """What the operator wants of a service."""

    STARTED = "started"
    STOPPED = "stopped"
    DISABLED = "disabled"
    IGNORED = "ignored"


class ServiceCommand(StrEnum):
    """What a queued request has a service do."""

    MIGRATE = "migrate"
    RELOCATE = "relocate"
    STOP = "stop"


class DisarmMode(StrEnum):
    """What becomes of services while all is disarmed."""

    FREEZE = "freeze"
    IGNORE = "ignore"


class DisarmState(StrEnum):
    """How far the disarming has come."""

    DISARMING = "disarming"
    DISARMED = "disarmed"


class ExitCode(IntEnum):
    """How a job of an agent ended."""

    CRASHED = -1
    SUCCESS = 0
    ERROR = 1
    RETRY = 2
    WRONG_NODE = 3
    UNKNOWN_TYPE = 4
    UNKNOWN_COMMAND = 5
    BAD_PARAMETER = 6
    UNKNOWN_SERVICE = 7
    IGNORED = 8


class RemovalReason(StrEnum):
    """Why a service is not managed any more."""

    NO_CONFIG = "no config"
    IGNORED = "ignored state requested"


class StartNodeChoice(StrEnum):
    """Whether the node chosen for a start is another one."""

    NEW = "new"
    CURRENT = "current"


class NodePreference(StrEnum):
    """What a node is chosen for.

    NONE leaves a service where it may be; BEST_SCORE chooses afresh; TRY_NEXT
    avoids the nodes on which it could not start.
    """

    NONE = "none"
    BEST_SCORE = "best-score"
    TRY_NEXT = "try-next"


MOVING_STATES = frozenset({ServiceState.MIGRATE, ServiceState.RELOCATE})
