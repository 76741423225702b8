"""When guests that are to move do so, where each host moves one at a time."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from opendrs.policies.consolidation.packing import Shift
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.moment import Flight


def timetable(shifts: Sequence[Shift], seconds: Floats, free: Floats) -> list[Flight]:
    """Return when each of *shifts* takes place.

    No link waits for a guest whose other link is busy while another could go: the
    first that can start does, and of those that can the first in order. Who goes to
    a host that others leave before, in the order of *shifts*, waits until they have
    left, as there may be no room for it until then.

    Args:
        shifts: Who moves where, in the order in which it was decided.
        seconds: How long each of them takes; shape (shifts,).
        free: When the link of each host is free; shape (hosts,).
    """
    free = free.copy()
    waits, followers = _waiting(shifts)
    ready = [0.0] * len(shifts)  # when all that a shift waits for is over
    flights: list[Flight] = []

    def earliest(place: int) -> float:
        shift = shifts[place]
        return float(max(free[shift.source], free[shift.target], ready[place]))

    able = [(earliest(place), place) for place, count in enumerate(waits) if not count]
    heapq.heapify(able)
    while able:
        start, place = able[0]
        if (now := earliest(place)) > start:
            heapq.heapreplace(able, (now, place))
            continue
        heapq.heappop(able)
        shift, end = shifts[place], start + float(seconds[place])
        free[shift.source] = free[shift.target] = end
        flights.append(Flight(shift.guest, shift.target, start, end))
        for later in followers[place]:
            waits[later] -= 1
            ready[later] = max(ready[later], end)
            if not waits[later]:
                heapq.heappush(able, (earliest(later), later))
    return flights


def _waiting(shifts: Sequence[Shift]) -> tuple[list[int], list[list[int]]]:
    """Return how many others each shift waits for, and which others wait for it."""
    left: defaultdict[int, list[int]] = defaultdict(list)  # by host, who leaves it
    waits = [0] * len(shifts)
    followers: list[list[int]] = [[] for _ in shifts]
    for place, shift in enumerate(shifts):
        before = left[shift.target]
        waits[place] = len(before)
        for earlier in before:
            followers[earlier].append(place)
        left[shift.source].append(place)
    return waits, followers
