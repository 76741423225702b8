"""When guests move, where each host moves one at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation.packing import Shift
from opendrs.sim.consolidation.moment import Flight
from opendrs.sim.consolidation.timetable import timetable

HOSTS = 5
Plan = tuple[list[Shift], list[float], list[float]]


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw who moves where, how long each takes, and when links are free."""
    hosts = st.integers(0, HOSTS - 1)
    ways = st.lists(st.tuples(hosts, hosts).filter(lambda way: way[0] != way[1]))
    shifts = [Shift(guest, *way) for guest, way in enumerate(draw(ways))]
    times = st.integers(1, 9).map(float)
    seconds = [draw(times) for _ in shifts]
    return shifts, seconds, [draw(times) for _ in range(HOSTS)]


def flights(plan: Plan) -> list[Flight]:
    shifts, seconds, free = plan
    return timetable(shifts, np.array(seconds), np.array(free))


def one_by_one(plan: Plan) -> list[Flight]:
    """Return the same, second by second: the plain way."""
    shifts, seconds, free = plan
    ends: dict[int, float] = {}
    busy = list(free)
    found: list[Flight] = []
    now = 0.0
    while len(ends) < len(shifts):
        for place, shift in enumerate(shifts):
            before = [n for n in range(place) if shifts[n].source == shift.target]
            gone = all(ends.get(n, np.inf) <= now for n in before)
            idle = max(busy[shift.source], busy[shift.target]) <= now
            if place not in ends and gone and idle:
                end = now + seconds[place]
                ends[place] = busy[shift.source] = busy[shift.target] = end
                found.append(Flight(shift.guest, shift.target, now, end))
        now += 1.0
    return found


def test_a_link_that_is_busy_holds_nobody_up_who_does_not_need_it() -> None:
    # Guest 1 waits for the link of host 1; guest 2, decided later, does not.
    shifts = [Shift(0, 0, 1), Shift(1, 2, 1), Shift(2, 2, 3)]

    found = timetable(shifts, np.array([10.0, 10.0, 5.0]), np.zeros(4))

    assert {each.guest: each.start for each in found} == {0: 0, 1: 10, 2: 0}


def test_who_needs_the_room_of_another_waits_until_it_has_left() -> None:
    # Guest 1 goes where guest 0 leaves; the link of host 0 is not free at first.
    shifts = [Shift(0, 0, 1), Shift(1, 2, 0)]

    found = timetable(shifts, np.array([10.0, 10.0]), np.array([0.0, 50.0, 0.0]))

    assert [each.start for each in found] == [50, 60]


def test_who_goes_where_somebody_leaves_afterwards_does_not_wait() -> None:
    shifts = [Shift(0, 0, 1), Shift(1, 1, 2)]

    found = timetable(shifts, np.array([10.0, 10.0]), np.array([30.0, 0.0, 0.0]))

    assert {each.guest: each.start for each in found} == {0: 30, 1: 0}


@given(plans())
def test_it_is_as_if_done_second_by_second(plan: Plan) -> None:
    assert sorted(flights(plan), key=lambda f: (f.start, f.guest)) == one_by_one(plan)


@given(plans())
def test_no_host_moves_two_at_a_time(plan: Plan) -> None:
    shifts, _, free = plan
    spans: dict[int, list[tuple[float, float]]] = {host: [] for host in range(HOSTS)}
    for flight in flights(plan):
        shift = shifts[flight.guest]
        for host in (shift.source, shift.target):
            spans[host].append((flight.start, flight.end))

    for host, some in spans.items():
        assert all(start >= free[host] for start, _ in some)
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(some)))


def test_nobody_moves_where_nobody_is_to() -> None:
    assert timetable([], np.zeros(0), np.zeros(3)) == []


def test_what_is_told_is_left_as_it_was() -> None:
    free = np.array([1.0, 2.0])

    timetable([Shift(0, 0, 1)], np.array([5.0]), free)

    assert free == pytest.approx([1.0, 2.0])
