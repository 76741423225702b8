"""A service that is to stop, or has."""

from __future__ import annotations

from dataclasses import replace

from opendrs.ha import events
from opendrs.ha.documents import Motion, Stop
from opendrs.ha.handlers.motions import begin_motion
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import ExitCode, Requested, ServiceState


def on_request_stop(round_: Round, service: ServiceId) -> None:
    """Wait until the agent has stopped a service."""
    result = round_.result_of(service)
    if result == ExitCode.SUCCESS:
        round_.change(service, ServiceState.STOPPED)
    elif result is not None:
        round_.turn.say(events.StopFailed(service, result))
        round_.change(service, ServiceState.ERROR)
    elif round_.nodes.offline_delayed(round_.services[service].node):
        round_.change(service, ServiceState.FENCE)


def on_stopped(round_: Round, service: ServiceId) -> None:
    """Do with a stopped service what is asked for."""
    _correct_location(round_, service)
    if _follows_order(round_, service):
        return
    config, node = round_.config_of(service), round_.services[service].node
    if config.state == Requested.DISABLED:
        return
    if round_.nodes.offline_delayed(node) and not round_.in_maintenance(node):
        round_.change(service, ServiceState.FENCE)
    elif config.state == Requested.STARTED:
        round_.change(service, ServiceState.REQUEST_START, node=node)
    elif config.state != Requested.STOPPED:
        round_.turn.say(events.StateUnknown(service, config.state))


def _correct_location(round_: Round, service: ServiceId) -> None:
    status, node = round_.services[service], round_.config_of(service).node
    if status.node != node:
        round_.turn.say(events.LocationCorrected(service, status.node, node))
        round_.amend(service, replace(status, node=node))


def _follows_order(round_: Round, service: ServiceId) -> bool:
    status = round_.services[service]
    if status.order is None:
        return False
    round_.amend(service, replace(status, order=None))
    match status.order:
        case Motion() as motion:
            return begin_motion(round_, service, motion, announced=False)
        case Stop():
            round_.turn.say(events.StopNeedless(service))
            return False
