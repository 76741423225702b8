"""Identifiers, states and codes of the HA manager, as closed lists."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NewType

ServiceId = NewType("ServiceId", str)
"""Type and number of a service, as in ``vm:100``."""

VIRTUAL_MACHINE, CONTAINER, FAILING_SERVICE = "vm", "ct", "fa"


def service_type(service: ServiceId) -> str:
    """Return the type of *service*: the part before the colon."""
    return service.partition(":")[0]


class NameList(tuple[str, ...]):
    """Names, separated by commas when formatted."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


class StateParameters(tuple[tuple[str, str], ...]):
    """Parameters of a state change, in parentheses when formatted."""

    __slots__ = ()

    def __str__(self) -> str:
        if not self:
            return ""
        return f"  ({', '.join(f'{name} = {value}' for name, value in self)})"


class ServiceState(StrEnum):
    """State of a service in the status of the manager."""

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
    """State of a node in the status of the manager."""

    ONLINE = "online"
    MAINTENANCE = "maintenance"
    UNKNOWN = "unknown"
    FENCE = "fence"
    GONE = "gone"


class CrmState(StrEnum):
    """State of the CRM process of a node. One CRM of the cluster is the master."""

    STARTUP = "startup"
    WAIT_FOR_QUORUM = "wait_for_quorum"
    SLAVE = "slave"
    MASTER = "master"
    LOST_MANAGER_LOCK = "lost_manager_lock"


class LrmState(StrEnum):
    """State of the LRM process of a node."""

    STARTUP = "startup"
    WAIT_FOR_AGENT_LOCK = "wait_for_agent_lock"
    ACTIVE = "active"
    MAINTENANCE = "maintenance"
    LOST_AGENT_LOCK = "lost_agent_lock"


class LrmMode(StrEnum):
    """Mode that the LRM of a node reports to the manager."""

    ACTIVE = "active"
    RESTART = "restart"
    SHUTDOWN = "shutdown"
    MAINTENANCE = "maintenance"
    DISARM = "disarm"


class RequestedState(StrEnum):
    """State of a service that the operator requests."""

    STARTED = "started"
    STOPPED = "stopped"
    DISABLED = "disabled"
    IGNORED = "ignored"


class ServiceCommand(StrEnum):
    """Command that is queued for a service."""

    MIGRATE = "migrate"
    RELOCATE = "relocate"
    STOP = "stop"


class DisarmMode(StrEnum):
    """Handling of services while the HA stack is disarmed."""

    FREEZE = "freeze"
    IGNORE = "ignore"


class DisarmState(StrEnum):
    """Progress of disarming."""

    DISARMING = "disarming"
    DISARMED = "disarmed"


class ExitCode(IntEnum):
    """Result of a job of an LRM."""

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
    """Reason for which the manager stops managing a service."""

    NO_CONFIG = "no config"
    IGNORED = "ignored state requested"


class StartNodeChoice(StrEnum):
    """Relation of the node selected for a start to the current node."""

    NEW = "new"
    CURRENT = "current"


class NodePreference(StrEnum):
    """Purpose of a node selection.

    NONE keeps the current node if it is allowed. BEST_SCORE selects the node with the
    lowest cost. TRY_NEXT excludes the nodes on which the service failed to start.
    """

    NONE = "none"
    BEST_SCORE = "best-score"
    TRY_NEXT = "try-next"


MOVING_STATES = frozenset({ServiceState.MIGRATE, ServiceState.RELOCATE})
