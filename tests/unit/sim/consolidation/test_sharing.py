"""The division of the CPU, against a plain form of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.sim.consolidation.hardware import Hosts
from opendrs.sim.consolidation.sharing import NOBODY, Flights, Residents, divide

HOSTS = Hosts.of(3)  # cores of 1860, 2660 and 1860 MIPS, two each


def residents(*hosts: int) -> Residents:
    return Residents(np.arange(len(hosts)), np.array(hosts, np.int64))


def plain(
    host: list[int], request: list[float], flights: list[tuple[int, int]]
) -> tuple[list[float], list[float], list[float]]:
    """Return allocated, used and free, one guest after the other."""
    leaving = {guest for guest, _ in flights}
    allocated, used, free = [0.0] * len(host), [0.0] * 3, [0.0] * 3
    for number in range(3):
        core, total = float(HOSTS.core[number]), float(HOSTS.total[number])
        asks = [
            (guest, min(request[guest], core), 1.0)
            for guest, at in enumerate(host)
            if at == number
        ]
        asks += [(g, min(request[g], core), 0.1) for g, to in flights if to == number]
        taken = 0.0
        for _, ask, part in asks:
            taken += ask * part
        free[number] = 0.0 if taken > total else total - taken
        for guest, ask, part in asks:
            stays = part == 1.0 and guest in leaving
            gets = ask * part * (0.9 if stays else 1.0)
            if taken > total:
                scaled = ask * part * (total / taken)
                gets = math.floor(scaled * (0.9 if stays else 1.0))
            if part == 1.0:
                allocated[guest] = gets
            used[number] += gets / 0.9 if stays else gets
    return allocated, used, free


@st.composite
def divisions(
    draw: st.DrawFn,
) -> tuple[list[int], list[float], list[tuple[int, int]]]:
    """Draw where guests are, what they ask for, and who is on the way where."""
    count = draw(st.integers(1, 12))
    host = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    request = draw(st.lists(st.floats(0, 2500), min_size=count, max_size=count))
    going = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=4))
    return host, request, [(guest, (host[guest] + 1) % 3) for guest in going]


@given(divisions())
def test_columns_divide_as_the_plain_form(
    drawn: tuple[list[int], list[float], list[tuple[int, int]]],
) -> None:
    host, request, flights = drawn
    shares = divide(
        HOSTS, residents(*host), Flights.of(flights), np.array(request, np.float64)
    )
    allocated, used, free = plain(host, request, flights)

    assert shares.allocated.tolist() == pytest.approx(allocated)
    assert shares.used.tolist() == pytest.approx(used)
    assert shares.free.tolist() == pytest.approx(free)


def test_everybody_gets_what_is_asked_for_where_there_is_enough() -> None:
    shares = divide(HOSTS, residents(0, 0), NOBODY, np.array([1000.0, 500.0]))

    assert shares.allocated.tolist() == [1000, 500]
    assert shares.free[0] == 3720 - 1500
    assert shares.load[0] == pytest.approx(1500 / 3720)


def test_a_guest_never_gets_more_than_a_core() -> None:
    shares = divide(HOSTS, residents(0), NOBODY, np.array([2500.0]))

    assert shares.allocated[0] == 1860
    assert shares.asked[0] == 2500


def test_all_are_scaled_to_whole_mips_where_there_is_not_enough() -> None:
    shares = divide(HOSTS, residents(0, 0, 0), NOBODY, np.array([1860.0, 1860, 620]))

    # 3720 / 4340 of each, cut off.
    assert shares.allocated.tolist() == [1594, 1594, 531]
    assert shares.free[0] == 0


def test_who_is_on_the_way_gets_nine_tenths_and_counts_a_tenth_where_it_goes() -> None:
    shares = divide(HOSTS, residents(0), Flights.of([(0, 1)]), np.array([1000.0]))

    assert shares.allocated[0] == 900
    assert shares.used.tolist() == [1000, 100, 0]
    assert shares.asked.tolist() == [1000, 1000, 0]
