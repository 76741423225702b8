"""A service whose node is gone, that is frozen, or that failed for good."""

from __future__ import annotations

from dataclasses import replace

from opendrs.ha import events
from opendrs.ha.commands import RemoveServiceLock, SetServiceNode
from opendrs.ha.handlers.wanted import state_wanted
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import LrmMode, Preference, Requested, ServiceState
from opendrs.model import NodeId

# What a node may have been doing to a guest when it died.
LEFTOVER_LOCKS = (
    "backup",
    "mounted",
    "migrate",
    "clone",
    "rollback",
    "snapshot",
    "snapshot-delete",
    "suspending",
    "suspended",
)


def on_error(round_: Round, service: ServiceId) -> None:
    """Leave a failed service alone until the operator disables it."""
    if round_.config_of(service).state == Requested.DISABLED:
        _stop_for_good(round_, service)


def on_freeze(round_: Round, service: ServiceId) -> None:
    """Leave a service alone until the agent of its node is at work again."""
    if round_.modes.get(round_.services[service].node) is LrmMode.ACTIVE:
        round_.change(service, state_wanted(round_.config_of(service)))


def on_recovery(round_: Round, service: ServiceId) -> None:
    """Find another node for the service of a fenced one."""
    node = round_.select(service, Preference.BEST_SCORE)
    if node is not None:
        _recover(round_, service, node)
        return
    here = round_.services[service].node
    round_.turn.say(events.NotRecovered(service, here))
    if round_.config_of(service).state == Requested.DISABLED:
        _stop_for_good(round_, service)


def _recover(round_: Round, service: ServiceId, node: NodeId) -> None:
    here = round_.services[service].node
    if node == here:
        round_.turn.say(events.RecoveredInPlace(service, node))
    else:
        round_.turn.say(events.Recovered(service, here, node))
    config = round_.config_of(service)
    if config.lock in LEFTOVER_LOCKS:
        round_.turn.do(RemoveServiceLock(service))
        round_.turn.say(events.LockRemoved(config.lock, service))
        config = replace(config, lock=None)
    round_.turn.do(SetServiceNode(service, node))
    round_.config[service] = replace(config, node=node)
    round_.change(service, state_wanted(config), node=node)


def _stop_for_good(round_: Round, service: ServiceId) -> None:
    status = round_.services[service]
    round_.amend(service, replace(status, failed_nodes=()))
    round_.change(service, ServiceState.STOPPED)
