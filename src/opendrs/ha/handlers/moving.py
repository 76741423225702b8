"""A service that moves."""

from __future__ import annotations

from opendrs.ha import events
from opendrs.ha.handlers.wanted import state_wanted
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import ExitCode, ServiceState


def on_motion(round_: Round, service: ServiceId) -> None:
    """Wait until the agent has moved a service."""
    if not _ends(round_, service):
        _fence_if_lost(round_, service)


def _ends(round_: Round, service: ServiceId) -> bool:
    """Return whether the move has ended and nothing more is to be said of it."""
    status, result = round_.services[service], round_.result_of(service)
    wanted = state_wanted(round_.config_of(service))
    match result:
        case None:
            return False
        case ExitCode.SUCCESS:
            round_.change(service, wanted, node=status.target)
            return True
        case ExitCode.WRONG_NODE:
            round_.turn.say(events.WrongNode(service))
            round_.change(service, ServiceState.ERROR)
            return False
        case ExitCode.IGNORED:
            round_.turn.say(events.PlacedStartNeedless(service))
            round_.change(service, wanted, node=status.node)
            return False
        case code:
            round_.turn.say(events.MotionFailed(service, code))
            round_.change(service, wanted, node=status.node)
            return True


def _fence_if_lost(round_: Round, service: ServiceId) -> None:
    if round_.nodes.offline_delayed(round_.services[service].node):
        round_.change(service, ServiceState.FENCE)
