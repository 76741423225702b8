"""A service that runs, or should."""

from __future__ import annotations

from dataclasses import replace

from opendrs.ha import events
from opendrs.ha.commands import SetServiceState
from opendrs.ha.documents import Motion, ServiceStatus, Stop
from opendrs.ha.handlers.motions import begin_motion
from opendrs.ha.identifiers import VIRTUAL_MACHINE, Names, ServiceId, kind_of
from opendrs.ha.round import Round
from opendrs.ha.states import ExitCode, NodeState, Preference, Requested, ServiceState
from opendrs.model import NodeId

UNSTARTED = (ExitCode.ERROR, ExitCode.WRONG_NODE)


def on_started(round_: Round, service: ServiceId) -> None:
    """Keep a service running, where it should be."""
    if _runs_where_it_should(round_, service) or not _has_node(round_, service):
        return
    config = round_.config_of(service)
    if config.state in (Requested.DISABLED, Requested.STOPPED):
        round_.change(service, ServiceState.REQUEST_STOP)
    elif config.state != Requested.STARTED:
        round_.turn.say(events.StateUnknown(service, config.state))
    elif round_.services[service].order is not None:
        _follow_order(round_, service)
    else:
        _keep_running(round_, service)


def _runs_where_it_should(round_: Round, service: ServiceId) -> bool:
    """Let a service run on if it is certain that nothing else is to be done.

    That is so of most services in most rounds. It comes to what `_keep_running`
    does of them, in a tenth of the time.
    """
    status = round_.services[service]
    config = round_.config.get(service)
    if (
        config is None
        or config.state != Requested.STARTED
        or status.order is not None
        or status.failed_nodes
        or status.maintenance_node is not None
        or round_.nodes.states.get(status.node) is not NodeState.ONLINE
        or not round_.selector.certainly_stays(
            service, status.node, failback=config.failback
        )
    ):
        return False
    result = None if status.uid is None else round_.results.get(status.uid)
    if result == ExitCode.SUCCESS and (round_.memory.rechecks or not status.running):
        round_.services[service] = ServiceStatus(
            state=status.state,
            node=status.node,
            uid=round_.fresh_uid(),
            target=status.target,
            timeout=status.timeout,
            running=True,
        )
    return result is None or result == ExitCode.SUCCESS


def _has_node(round_: Round, service: ServiceId) -> bool:
    """Return whether there is a node to decide about; fence one that is lost."""
    node = round_.services[service].node
    if round_.nodes.is_online(node):
        return True
    if round_.nodes.offline_delayed(node):
        round_.change(service, ServiceState.FENCE)
    if not round_.in_maintenance(node):
        return False
    status = round_.services[service]
    round_.amend(service, replace(status, maintenance_node=node))
    return True


def _follow_order(round_: Round, service: ServiceId) -> None:
    status = round_.services[service]
    round_.amend(service, replace(status, order=None))
    match status.order:
        case Motion() as motion:
            begin_motion(round_, service, motion, announced=True)
        case Stop(timeout):
            told = (
                events.HardStopAsked(service)
                if timeout == 0
                else events.GracefulStopAsked(service, timeout)
            )
            round_.turn.say(told)
            round_.change(service, ServiceState.REQUEST_STOP, timeout=timeout)
            round_.turn.do(SetServiceState(service, Requested.STOPPED))
            config = round_.config_of(service)
            round_.config[service] = replace(config, state=Requested.STOPPED)


def _keep_running(round_: Round, service: ServiceId) -> None:
    result = round_.result_of(service)
    preference = Preference.NONE
    if result == ExitCode.SUCCESS:
        _note_success(round_, service)
    elif result in UNSTARTED:
        if not _may_relocate(round_, service):
            return
        preference = Preference.TRY_NEXT
    elif result is not None:
        _give_up(round_, service, result)
        return
    node = round_.select(service, preference)
    if node is not None and node != round_.services[service].node:
        _leave(round_, service, node)
    else:
        _stay(round_, service, preference, node)


def _note_success(round_: Round, service: ServiceId) -> None:
    status = round_.services[service]
    if status.failed_nodes:
        round_.turn.say(
            events.RelocationSucceeded(service, status.node, Names(status.failed_nodes))
        )
    if status.failed_nodes or not status.running:
        round_.amend(service, replace(status, failed_nodes=(), running=True))


def _note_failure(round_: Round, service: ServiceId) -> tuple[NodeId, ...]:
    status = round_.services[service]
    failed = (*status.failed_nodes, status.node)
    round_.amend(service, replace(status, failed_nodes=failed, running=False))
    return failed


def _may_relocate(round_: Round, service: ServiceId) -> bool:
    """Return whether a service that did not start may try another node."""
    failed = _note_failure(round_, service)
    if len(failed) <= round_.config_of(service).max_relocate:
        node = round_.services[service].node
        round_.turn.say(events.StartFailed(service, node))
        return True
    round_.turn.say(events.RelocationFailed(service, Names(failed)))
    round_.change(service, ServiceState.ERROR)
    return False


def _give_up(round_: Round, service: ServiceId, code: int) -> None:
    _note_failure(round_, service)
    round_.turn.say(events.ServiceBroken(service, code))
    round_.change(service, ServiceState.ERROR)


def _leave(round_: Round, service: ServiceId, node: NodeId) -> None:
    """Move a service to a better node."""
    status = round_.services[service]
    refuge = status.maintenance_node
    if refuge is not None and refuge != status.node:
        told = (
            events.ServiceReturns(service, refuge)
            if refuge == node
            else events.ReturnDropped(service, refuge)
        )
        round_.turn.say(told)
        round_.amend(service, replace(status, maintenance_node=None))
    if kind_of(service) == VIRTUAL_MACHINE:
        round_.turn.say(events.MigrationChosen(service, node))
        state = ServiceState.MIGRATE
    else:
        round_.turn.say(events.RelocationChosen(service, node))
        state = ServiceState.RELOCATE
    round_.change(service, state, node=status.node, target=node)


def _stay(
    round_: Round, service: ServiceId, preference: Preference, node: NodeId | None
) -> None:
    status = round_.services[service]
    if preference is Preference.TRY_NEXT and node is None:
        failed = Names(status.failed_nodes)
        round_.turn.say(events.NodesExhausted(service, failed))
    if status.maintenance_node == status.node and round_.nodes.is_online(status.node):
        round_.turn.say(events.ReturnNeedless(service, status.node))
        status = replace(status, maintenance_node=None)
    if round_.result_of(service) is not None:
        # The agent looks after the service again in its next turn.
        status = replace(status, uid=round_.fresh_uid())
    round_.amend(service, status)
