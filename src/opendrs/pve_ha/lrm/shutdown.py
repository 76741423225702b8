"""Effect of a shutdown of the node or the LRM on its services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.pve_ha import log_events
from opendrs.pve_ha.log_events import LogEvent
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.states import LrmMode

CONDITIONAL, MIGRATE = "conditional", "migrate"


@dataclass(frozen=True, slots=True)
class ShutdownPlan:
    """Behavior of an LRM at its shutdown.

    Attributes:
        mode: Its new mode.
        stops_services: True if it stops the services of its node.
        log: Log events.
    """

    mode: LrmMode
    stops_services: bool
    log: tuple[LogEvent, ...]


# True if all services are frozen, for each policy except migrate.
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
    """Return the behavior of an LRM at its shutdown.

    Args:
        policy: Shutdown policy of the data center.
        change: Power change of the node; None if only the LRM restarts.
        mode: Mode of the LRM until now.
    """
    log: list[LogEvent] = []
    if change is not None:
        log.append(log_events.ShutdownRequested(policy))
    if policy not in _FREEZES:
        log.append(log_events.ShutdownPolicyUnknown(policy))
    freezes = _FREEZES.get(policy, _FREEZES[CONDITIONAL])(change)
    if change is None:
        new, mode_event = _restart_mode(mode)
    else:
        new, mode_event = _shutdown_mode(policy, change, mode, freezes=freezes)
    stops = change is not None and policy != MIGRATE
    return ShutdownPlan(new, stops, (*log, mode_event))


def _restart_mode(mode: LrmMode) -> tuple[LrmMode, LogEvent]:
    if mode is LrmMode.MAINTENANCE:
        return mode, log_events.LrmRestartedInMaintenance()
    return LrmMode.RESTART, log_events.LrmRestarted()


def _shutdown_mode(
    policy: str, change: PowerChange, mode: LrmMode, *, freezes: bool
) -> tuple[LrmMode, LogEvent]:
    if mode is LrmMode.MAINTENANCE:
        if policy == MIGRATE:
            return mode, log_events.MaintenanceContinued(change)
        return mode, log_events.ShutdownPolicyIgnored(change, policy)
    if policy == MIGRATE:
        return LrmMode.MAINTENANCE, log_events.NodeDrainStarted(change)
    if freezes:
        return LrmMode.RESTART, log_events.ServicesFrozen(change)
    return LrmMode.SHUTDOWN, log_events.ServicesStopped()
