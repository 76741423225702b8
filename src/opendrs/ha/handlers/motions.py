"""A motion that was asked for, about to begin."""

from __future__ import annotations

from opendrs.ha import events
from opendrs.ha.documents import Motion
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.round import Round
from opendrs.ha.states import ServiceState


def begin_motion(
    round_: Round, service: ServiceId, motion: Motion, *, announced: bool
) -> bool:
    """Begin *motion* if there is anything to it, and return whether it began.

    Args:
        round_: The round under way.
        service: The service that was asked to move.
        motion: Where to, and how.
        announced: Whether the beginning is told.
    """
    here, target = round_.services[service].node, motion.target
    if not round_.nodes.is_online(target):
        round_.turn.say(events.TargetOffline(service, motion.task, target))
        return False
    if target == here:
        round_.turn.say(events.TargetReached(service, motion.task, target))
        return False
    if announced:
        round_.turn.say(events.MotionBegun(service, motion.task, target))
    round_.change(service, ServiceState(motion.task), node=here, target=target)
    return True
