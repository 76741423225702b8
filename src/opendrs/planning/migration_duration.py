"""Estimated duration of a live migration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import Action, Guest, LiveMigration, Snapshot

MAX_DOWNTIME = 0.3  # seconds a guest may stand still in the end; the default of QEMU


class Certainty(StrEnum):
    """What an estimate is worth; shown to operators, so never renamed."""

    ESTIMATED = "estimated"
    AT_LEAST = "at-least"
    NEVER_COMPLETES = "never-completes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """How long something takes.

    Attributes:
        seconds: From start to end; None when it is not known or never ends.
        downtime: Seconds of them in which the guest stands still; None when not known.
        certainty: Whether more is known than that it takes at least so long.
    """

    seconds: float | None
    downtime: float | None
    certainty: Certainty


UNKNOWN = DurationEstimate(None, None, Certainty.UNKNOWN)
NEVER_COMPLETES = DurationEstimate(None, None, Certainty.NEVER_COMPLETES)


def estimate_duration(
    action: Action, snapshot: Snapshot, bandwidth: float
) -> DurationEstimate:
    """Return how long *action* takes when nothing else is under way.

    How long a guest takes to stop and start, and a node to wake and sleep, nobody
    knows beforehand.

    Args:
        action: What is to be done.
        snapshot: The cluster.
        bandwidth: Bytes a second from its source to its target, above 0.
    """
    if not isinstance(action, LiveMigration):
        return UNKNOWN
    return estimate_live_migration(snapshot.guests[action.guest], bandwidth)


def estimate_live_migration(guest: Guest, bandwidth: float) -> DurationEstimate:
    """Return how long *guest* takes to migrate live.

    Where it is not known how fast it writes, it takes at least as long as when it
    writes nothing.

    Args:
        guest: Who migrates.
        bandwidth: Bytes a second, above 0.
    """
    if guest.usage.memory is None:
        return UNKNOWN
    if guest.dirty_rate is None:
        seconds = guest.usage.memory / bandwidth
        return DurationEstimate(seconds, None, Certainty.AT_LEAST)
    return estimate_pre_copy(guest.usage.memory, guest.dirty_rate, bandwidth)


def estimate_pre_copy(
    memory: float, dirty_rate: float, bandwidth: float
) -> DurationEstimate:
    """Return how long it takes to send memory that is written to meanwhile.

    The first round sends all memory V at the bandwidth B, each further one what was
    written at the rate D while the one before was sent: round i takes V/B (D/B)^i.
    The guest stands still for the first round n that takes no longer than the
    downtime, so that the whole takes V/B (1 - (D/B)^(n+1)) / (1 - D/B). A guest that
    writes faster than it is sent never comes to that, but for a very small one.

    Args:
        memory: Bytes in use.
        dirty_rate: Bytes that are written anew in a second.
        bandwidth: Bytes that are sent in a second, above 0.

    Source:
        Clark et al., Live Migration of Virtual Machines (NSDI 2005); Akoush et al.,
        Predicting the Performance of Virtual Machine Migration (MASCOTS 2010). The
        stopping condition is that of QEMU, and its default.
    """
    first, ratio = memory / bandwidth, dirty_rate / bandwidth
    if first * ratio <= MAX_DOWNTIME:
        return DurationEstimate(
            first + first * ratio, first * ratio, Certainty.ESTIMATED
        )
    if ratio >= 1:
        return NEVER_COMPLETES
    rounds = math.ceil(math.log(MAX_DOWNTIME / first) / math.log(ratio))
    factor = -math.expm1((rounds + 1) * math.log(ratio)) / (1 - ratio)
    return DurationEstimate(first * factor, first * ratio**rounds, Certainty.ESTIMATED)
