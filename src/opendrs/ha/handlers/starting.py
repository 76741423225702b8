"""A service that is to start."""

from __future__ import annotations

from opendrs.ha import events
from opendrs.ha.identifiers import Names, ServiceId
from opendrs.ha.round import NO_NODE, Round
from opendrs.ha.states import Choice, Preference, ServiceState


def on_request_start(round_: Round, service: ServiceId) -> None:
    """Choose a node to start on, if that is wanted, and start there."""
    here = round_.services[service].node
    if round_.scheduling.rebalance_on_start:
        chosen = round_.select(service, Preference.BEST_SCORE)
        choice = Choice.CURRENT if chosen == here else Choice.NEW
        shown = Names(() if chosen is None else (chosen,))
        round_.turn.say(events.StartPlaced(service, choice, shown))
        if choice is Choice.NEW:
            round_.change(
                service,
                ServiceState.REQUEST_START_BALANCE,
                node=here,
                target=NO_NODE if chosen is None else chosen,
            )
            return
    round_.change(service, ServiceState.STARTED, node=here)
