"""Taking the HA stack out of service, without stopping what it manages."""

from __future__ import annotations

from dataclasses import replace

from opendrs.ha import events
from opendrs.ha.documents import Disarm, ServiceStatus
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import (
    MOVING,
    DisarmMode,
    DisarmState,
    LrmMode,
    ServiceState,
)

UNSAFE = frozenset({ServiceState.FENCE, ServiceState.RECOVERY})
FREEZABLE = frozenset(
    {
        ServiceState.STARTED,
        ServiceState.STOPPED,
        ServiceState.REQUEST_STOP,
        ServiceState.REQUEST_START,
        ServiceState.REQUEST_START_BALANCE,
    }
)


def hold_still(round_: Round, disarm: Disarm) -> frozenset[ServiceId]:
    """Let services rest while disarmed, and tell it.

    Returns:
        The services that must come to rest first; empty when all is done that
        can be done in this round.
    """
    if disarm.mode not in set(DisarmMode):
        round_.turn.say(events.DisarmModeUnknown(disarm.mode))
        return frozenset()
    restless = _restless(round_)
    if restless:
        return restless
    if disarm.mode == DisarmMode.FREEZE:
        _freeze_all(round_)
    else:
        for service, status in round_.services.items():
            round_.amend(service, _bare(status))
    _note_disarmed(round_, disarm)
    round_.publish()
    return frozenset()


def _restless(round_: Round) -> frozenset[ServiceId]:
    found = set()
    for service, status in sorted(round_.services.items()):
        if status.state in UNSAFE:
            round_.turn.say(events.DisarmDeferred(service, status.state))
            found.add(service)
        elif status.state in MOVING:
            round_.turn.say(events.DisarmDelayed(service, status.state))
            found.add(service)
    return frozenset(found)


def _freeze_all(round_: Round) -> None:
    for service, status in sorted(round_.services.items()):
        if status.state in FREEZABLE:
            round_.turn.say(events.Frozen(service, status.state))
            frozen = replace(
                _bare(status), state=ServiceState.FREEZE, uid=round_.fresh_uid()
            )
            round_.amend(service, frozen)


def _bare(status: ServiceStatus) -> ServiceStatus:
    return ServiceStatus(
        state=status.state,
        node=status.node,
        uid=status.uid,
        maintenance_node=status.maintenance_node,
    )


def _note_disarmed(round_: Round, disarm: Disarm) -> None:
    agents_rest = all(
        round_.modes.get(node) is LrmMode.DISARM for node in round_.nodes.online()
    )
    if agents_rest and disarm.state is not DisarmState.DISARMED:
        round_.turn.say(events.AllDisarmed())
        disarm = replace(disarm, state=DisarmState.DISARMED)
        round_.disarm = disarm
    round_.disarmed = disarm.state is DisarmState.DISARMED
