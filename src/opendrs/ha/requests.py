"""What the operator asks the manager for, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.ha import events
from opendrs.ha.commands import TakeRequests
from opendrs.ha.documents import Disarm, Motion, ServiceStatus, Stop
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.rules.rule import Services
from opendrs.ha.states import DisarmMode, NodeState, Task
from opendrs.model import NodeId

NOBODY: Services = frozenset()


def take_requests(round_: Round) -> None:
    """Do what the operator asked for, or say why not."""
    lines = round_.turn.seen.readable_files().requests
    if lines:
        round_.turn.do(TakeRequests())
    for line in lines:
        word, _, rest = line.partition(" ")
        arguments, take = _REQUESTS.get(word, (_NEVER, _unknown))
        match = arguments.fullmatch(rest)
        if match is None:
            round_.turn.say(events.RequestUnknown(line))
        else:
            take(round_, line, match)


def queue_motion(round_: Round, motion: Motion, service: ServiceId) -> None:
    """Have *service* move, and whoever must be together with it.

    Nothing is queued when one is in the way that must be apart from it.
    """
    line = f"{motion.task} {service} {motion.target}"
    for other in sorted(round_.rules.apart.get(service, NOBODY)):
        if _in_the_way(round_.services.get(other), motion.target):
            round_.turn.say(events.KeptApart(line, other, motion.target, service))
            return
    round_.turn.say(events.RequestTaken(line))
    _queue(round_, service, motion)
    for other in sorted(round_.rules.together.get(service, NOBODY)):
        if _left_behind(round_.services.get(other), motion.target):
            round_.turn.say(
                events.DraggedAlong(line, motion.task, other, motion.target, service)
            )
            _queue(round_, other, motion)


def _queue(round_: Round, service: ServiceId, order: Motion | Stop) -> None:
    round_.amend(service, replace(round_.services[service], order=order))


def _in_the_way(status: ServiceStatus | None, target: NodeId) -> bool:
    """Return whether a service is on *target*, and does not go elsewhere."""
    if status is None or status.node != target:
        return False
    return not status.target or status.target == target


def _left_behind(status: ServiceStatus | None, target: NodeId) -> bool:
    """Return whether a service is neither on *target* nor on its way there."""
    return status is not None and target not in (status.node, status.target)


def _motion(round_: Round, line: str, words: re.Match[str]) -> None:
    service, target = ServiceId(words[1]), NodeId(words[2])
    if service not in round_.services:
        round_.turn.say(events.NoSuchService(line))
    elif not round_.nodes.is_online(target):
        round_.turn.say(events.NodeNotOnline(line))
    elif round_.services[service].node == target:
        round_.turn.say(events.AlreadyThere(line))
    else:
        queue_motion(round_, Motion(Task(line.partition(" ")[0]), target), service)


def _stop(round_: Round, line: str, words: re.Match[str]) -> None:
    service = ServiceId(words[1])
    if service not in round_.services:
        round_.turn.say(events.NoSuchService(line))
        return
    round_.turn.say(events.RequestTaken(line))
    _queue(round_, service, Stop(int(words[2])))


def _begin_maintenance(round_: Round, line: str, words: re.Match[str]) -> None:
    node = NodeId(words[1])
    state = round_.nodes.state(node)
    if round_.disarm is not None:
        round_.turn.say(events.MaintenanceRefused(node))
    elif state is NodeState.ONLINE:
        round_.maintenance_requests.add(node)
    elif state is NodeState.MAINTENANCE:
        round_.turn.say(events.MaintenanceNeedless(node))
    else:
        round_.turn.say(events.NodeNotOnline(line))


def _end_maintenance(round_: Round, _: str, words: re.Match[str]) -> None:
    node = NodeId(words[1])
    state = round_.nodes.state(node)
    if state is not NodeState.MAINTENANCE:
        round_.turn.say(events.MaintenanceNotBegun(node, state))
    round_.maintenance_requests.discard(node)


def _disarm(round_: Round, line: str, words: re.Match[str]) -> None:
    if round_.disarm is not None:
        round_.turn.say(events.DisarmNeedless(round_.disarm.state))
        return
    round_.turn.say(events.RequestTaken(line))
    if words[1] == DisarmMode.IGNORE:
        for service in sorted(round_.services):
            round_.turn.say(events.TrackingSuspended(service))
    round_.disarm = Disarm(words[1])


def _arm(round_: Round, line: str, _: re.Match[str]) -> None:
    if round_.disarm is None:
        round_.turn.say(events.ArmNeedless())
        return
    round_.turn.say(events.RequestTaken(line))
    if round_.disarm.mode == DisarmMode.IGNORE:
        _find_again(round_)
    round_.disarm = None


def _find_again(round_: Round) -> None:
    """Learn where the services are that were on their own."""
    for service, status in sorted(round_.services.items()):
        config = round_.config.get(service)
        if config is not None and config.node != status.node:
            round_.turn.say(
                events.MovedWhileDisarmed(service, status.node, config.node)
            )
            round_.amend(service, replace(status, node=config.node))


def _unknown(round_: Round, line: str, _: re.Match[str]) -> None:
    round_.turn.say(events.RequestUnknown(line))


_NEVER = re.compile(r"(?!)")
_SERVICE_AND_NODE = re.compile(r"\s*(\S+)\s+(\S+)\s*")
_NODE = re.compile(r"\s*(\S+)\s*")
Take = Callable[[Round, str, re.Match[str]], None]
_REQUESTS: Mapping[str, tuple[re.Pattern[str], Take]] = MappingProxyType(
    {
        "migrate": (_SERVICE_AND_NODE, _motion),
        "relocate": (_SERVICE_AND_NODE, _motion),
        "stop": (re.compile(r"\s*(\S+)\s+(\d+)\s*"), _stop),
        "enable-node-maintenance": (_NODE, _begin_maintenance),
        "disable-node-maintenance": (_NODE, _end_maintenance),
        "disarm-ha": (re.compile(r"\s*(freeze|ignore)\s*"), _disarm),
        "arm-ha": (re.compile(r"\s*"), _arm),
    }
)
