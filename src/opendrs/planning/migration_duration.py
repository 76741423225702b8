"""Estimated duration of a migration."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from opendrs.model import (
    Action,
    DiskMove,
    Guest,
    LiveMigration,
    PowerOff,
    PowerOn,
    Snapshot,
    copied_size,
)

MAX_DOWNTIME = 0.3  # seconds; default downtime-limit of QEMU


class Certainty(StrEnum):
    """Certainty of an estimate. The values are stable."""

    ESTIMATED = "estimated"
    AT_LEAST = "at-least"
    NEVER_COMPLETES = "never-completes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """Estimated duration of an action.

    Attributes:
        seconds: From start to end; None if unknown or if it never completes.
        downtime: Downtime of the guest in seconds, included in `seconds`; None if
            unknown.
        certainty: Certainty of the estimate.
    """

    seconds: float | None
    downtime: float | None
    certainty: Certainty


UNKNOWN = DurationEstimate(None, None, Certainty.UNKNOWN)
NEVER_COMPLETES = DurationEstimate(None, None, Certainty.NEVER_COMPLETES)


def estimate_duration(
    action: Action, snapshot: Snapshot, bandwidth: float
) -> DurationEstimate:
    """Return the duration of *action* if no other action is in progress.

    A live migration copies local disks first, and then the memory. The durations of
    cold migrations and of power actions are unknown, except that copies of local disks
    take at least their time. So does the move of a disk: its storages may be slower.

    Args:
        action: The action.
        snapshot: The cluster.
        bandwidth: Bytes per second from its source to its target, positive.
    """
    if isinstance(action, PowerOn | PowerOff):
        return UNKNOWN
    if isinstance(action, DiskMove):
        copying = snapshot.transferred(action) / bandwidth
        return DurationEstimate(copying, 0.0, Certainty.AT_LEAST)
    guest = snapshot.guests[action.guest]
    copying = copied_size(guest, snapshot.nodes[guest.node]) / bandwidth
    if isinstance(action, LiveMigration):
        alone = estimate_live_migration(guest, bandwidth)
        known = alone.seconds
        return alone if known is None else replace(alone, seconds=copying + known)
    if copying:
        return DurationEstimate(copying, None, Certainty.AT_LEAST)
    return UNKNOWN


def estimate_live_migration(guest: Guest, bandwidth: float) -> DurationEstimate:
    """Return the duration of a live migration of *guest*.

    If its dirty rate is unknown, the result is a lower bound, for a dirty rate of 0.

    Args:
        guest: The guest.
        bandwidth: Bytes per second, positive.
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
    """Return the duration of a pre-copy transfer of memory that is being written.

    The first round sends all memory V at the bandwidth B. Each further round sends the
    memory written at the rate D during the previous round: round i takes V/B (D/B)^i.
    The guest is stopped for the first round n that takes at most the maximum downtime.
    The total is V/B (1 - (D/B)^(n+1)) / (1 - D/B). If D is at least B, the transfer
    does not converge, except for very small guests.

    Args:
        memory: Bytes in use.
        dirty_rate: Bytes written per second.
        bandwidth: Bytes sent per second, positive.

    Source:
        Clark et al., Live Migration of Virtual Machines (NSDI 2005); Akoush et al.,
        Predicting the Performance of Virtual Machine Migration (MASCOTS 2010). The
        stopping condition and its default are those of QEMU.
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
