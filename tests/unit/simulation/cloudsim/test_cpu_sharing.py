"""Division of the CPU compared with a simple implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.simulation.cloudsim.cpu_sharing import (
    NO_MIGRATIONS,
    HostedGuests,
    HostMigrations,
    share_cpu,
)
from opendrs.simulation.cloudsim.hardware import CloudSimHosts

HOSTS = CloudSimHosts.alternating(3)  # cores of 1860, 2660 and 1860 MIPS, two each


def residents(*hosts: int) -> HostedGuests:
    return HostedGuests(np.arange(len(hosts)), np.array(hosts, np.int64))


def plain(
    host: list[int], request: list[float], migrations: list[tuple[int, int]]
) -> tuple[list[float], list[float], list[float]]:
    """Return allocated, used and free MIPS, computed guest by guest."""
    migrating = {guest for guest, _ in migrations}
    allocated, used, free = [0.0] * len(host), [0.0] * 3, [0.0] * 3
    for number in range(3):
        core, total = float(HOSTS.core_mips[number]), float(HOSTS.mips[number])
        asks = [
            (guest, min(request[guest], core), 1.0)
            for guest, at in enumerate(host)
            if at == number
        ]
        asks += [
            (g, min(request[g], core), 0.1) for g, to in migrations if to == number
        ]
        taken = 0.0
        for _, ask, part in asks:
            taken += ask * part
        free[number] = 0.0 if taken > total else total - taken
        for guest, ask, part in asks:
            stays = part == 1.0 and guest in migrating
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
    """Draw residents, requests and migrations."""
    count = draw(st.integers(1, 12))
    host = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    request = draw(st.lists(st.floats(0, 2500), min_size=count, max_size=count))
    going = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=4))
    return host, request, [(guest, (host[guest] + 1) % 3) for guest in going]


@given(divisions())
def test_share_cpu_agrees_with_plain_form(
    drawn: tuple[list[int], list[float], list[tuple[int, int]]],
) -> None:
    host, request, migrations = drawn
    shares = share_cpu(
        HOSTS,
        residents(*host),
        HostMigrations.of(migrations),
        np.array(request, np.float64),
    )
    allocated, used, free = plain(host, request, migrations)

    assert shares.allocated.tolist() == pytest.approx(allocated)
    assert shares.used.tolist() == pytest.approx(used)
    assert shares.free.tolist() == pytest.approx(free)


def test_all_requests_are_allocated_when_capacity_suffices() -> None:
    shares = share_cpu(HOSTS, residents(0, 0), NO_MIGRATIONS, np.array([1000.0, 500.0]))

    assert shares.allocated.tolist() == [1000, 500]
    assert shares.free[0] == 3720 - 1500
    assert shares.load[0] == pytest.approx(1500 / 3720)


def test_guest_is_limited_to_one_core() -> None:
    shares = share_cpu(HOSTS, residents(0), NO_MIGRATIONS, np.array([2500.0]))

    assert shares.allocated[0] == 1860
    assert shares.requested_on_host[0] == 2500


def test_requests_are_scaled_to_whole_mips_when_capacity_is_short() -> None:
    shares = share_cpu(
        HOSTS, residents(0, 0, 0), NO_MIGRATIONS, np.array([1860.0, 1860, 620])
    )

    # 3720 / 4340 of each, cut off.
    assert shares.allocated.tolist() == [1594, 1594, 531]
    assert shares.free[0] == 0


def test_migrating_guest_gets_nine_tenths_and_uses_a_tenth_on_target() -> None:
    shares = share_cpu(
        HOSTS, residents(0), HostMigrations.of([(0, 1)]), np.array([1000.0])
    )

    assert shares.allocated[0] == 900
    assert shares.used.tolist() == [1000, 100, 0]
    assert shares.requested_on_host.tolist() == [1000, 1000, 0]
