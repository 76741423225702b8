"""What an agent does with its services when its node, or itself, goes down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.ha import events
from opendrs.ha.events.event import Event
from opendrs.ha.observation import PowerChange
from opendrs.ha.states import LrmMode

CONDITIONAL, MIGRATE = "conditional", "migrate"


@dataclass(frozen=True, slots=True)
class ShutdownPlan:
    """How an agent goes down.

    Attributes:
        mode: What it is about from now on.
        stops_services: Whether it stops the services of its node.
        told: What is said of it.
    """

    mode: LrmMode
    stops_services: bool
    told: tuple[Event, ...]


# Whether all services are frozen where they are, for each policy but migrate.
_FREEZES: Mapping[str, Callable[[PowerChange | None], bool]] = MappingProxyType(
    {
        CONDITIONAL: lambda change: change is PowerChange.REBOOT,
        "freeze": lambda _: True,
        "failover": lambda _: False,
        MIGRATE: lambda _: False,
    }
)


def plan_shutdown(
    policy: str, change: PowerChange | None, mode: LrmMode
) -> ShutdownPlan:
    """Return how an agent goes down.

    Args:
        policy: The policy of the data centre for shutdowns.
        change: What its node is about to do; None when only the agent restarts.
        mode: What the agent has been about.
    """
    told: list[Event] = []
    if change is not None:
        told.append(events.ShutdownRequested(policy))
    if policy not in _FREEZES:
        told.append(events.ShutdownPolicyUnknown(policy))
    freezes = _FREEZES.get(policy, _FREEZES[CONDITIONAL])(change)
    if change is None:
        new, word = _for_restart(mode)
    else:
        new, word = _for_shutdown(policy, change, mode, freezes=freezes)
    stops = change is not None and policy != MIGRATE
    return ShutdownPlan(new, stops, (*told, word))


def _for_restart(mode: LrmMode) -> tuple[LrmMode, Event]:
    if mode is LrmMode.MAINTENANCE:
        return mode, events.RestartInMaintenance()
    return LrmMode.RESTART, events.RestartBegun()


def _for_shutdown(
    policy: str, change: PowerChange, mode: LrmMode, *, freezes: bool
) -> tuple[LrmMode, Event]:
    if mode is LrmMode.MAINTENANCE:
        if policy == MIGRATE:
            return mode, events.MaintenanceGoesOn(change)
        return mode, events.PolicyOverruled(change, policy)
    if policy == MIGRATE:
        return LrmMode.MAINTENANCE, events.NodeEmptied(change)
    if freezes:
        return LrmMode.RESTART, events.AllFrozen(change)
    return LrmMode.SHUTDOWN, events.AllStopped()
