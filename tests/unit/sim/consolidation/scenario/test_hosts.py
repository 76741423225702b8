"""Pools become hosts in turn, and guests become of their kinds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.policies.consolidation import SPECPOWER
from opendrs.sim.consolidation.machines import Machines, Tenants
from opendrs.sim.consolidation.scenario.guests import Guests, Kind
from opendrs.sim.consolidation.scenario.hosts import SERVERS, Pool, machines_of
from opendrs.sim.consolidation.workload import Workload


def require_equal(found: Machines, wanted: Machines) -> None:
    assert found.cpu.tolist() == wanted.cpu.tolist()
    assert found.core.tolist() == wanted.core.tolist()
    assert found.memory.tolist() == wanted.memory.tolist()
    drawn, due = (each.watts[each.curve] for each in (found, wanted))
    assert drawn.tolist() == due.tolist()


def work(guests: int) -> Workload:
    names = tuple("abcdefghijklmnopqrstuvwxyz"[:guests])
    return Workload(names=names, cpu=np.full((guests, 2), 0.5))


@pytest.mark.parametrize("count", [1, 2, 7, 800])
def test_a_pool_of_a_count_only_is_that_of_cloudsim(count: int) -> None:
    require_equal(machines_of([Pool(count=count)]), Machines.of(count))


def test_two_pools_of_its_kinds_are_too() -> None:
    pools = [Pool(count=3, power="hp-ml110-g4"), Pool(count=3, power="hp-ml110-g5")]

    require_equal(machines_of(pools), Machines.of(6))


def test_hosts_of_pools_stand_in_turn_until_one_ends() -> None:
    pools = [
        Pool(count=1, power="hp-ml110-g5", memory=1),
        Pool(count=3, power="ibm-x3550-x5675", memory=2),
        Pool(count=2, watts=(1.0,) * 11, cores=3, mips=10, memory=3),
    ]

    found = machines_of(pools)

    assert found.memory.tolist() == [1, 2, 3, 2, 3, 2]
    assert found.cpu[:3].tolist() == [5320, 12 * 3067, 30]
    assert found.core[:3].tolist() == [2660, 3067, 10]
    assert found.watts[found.curve[2]].tolist() == [1] * 11
    x5675 = list(SPECPOWER["ibm-x3550-x5675"].watts)
    assert found.watts[found.curve[3]].tolist() == x5675


def test_every_power_curve_has_a_server_and_the_other_way_round() -> None:
    assert set(SERVERS) == set(SPECPOWER)


def test_cores_and_speed_of_a_server_can_be_said() -> None:
    found = machines_of([Pool(count=1, power="hp-ml110-g3", cores=4, mips=100)])

    assert (found.cpu.tolist(), found.core.tolist()) == ([400], [100])


@pytest.mark.parametrize("count", [1, 4, 5, 26])
def test_four_equal_kinds_are_the_quarters_of_cloudsim(count: int) -> None:
    kinds = tuple(
        Kind(mips=mips, memory=memory)
        for mips, memory in [(2500, 870), (2000, 1740), (1000, 1740), (500, 613)]
    )

    found = Guests(kinds=kinds).tenants(work(count), Machines.of(4))
    usual = Tenants.of(count)

    assert found.cpu.tolist() == usual.cpu.tolist()
    assert found.memory.tolist() == usual.memory.tolist()


@given(st.integers(1, 26), st.lists(st.floats(0.01, 9), min_size=1, max_size=5))
def test_kinds_come_in_their_order_and_shares(count: int, shares: list[float]) -> None:
    kinds = tuple(
        Kind(mips=number + 1, memory=1, cores=2, share=share)
        for number, share in enumerate(shares)
    )

    cpu = Guests(kinds=kinds).tenants(work(count), Machines.of(1)).cpu

    assert (np.diff(cpu) >= 0).all()
    first = (cpu == 1).sum()
    assert abs(first - count * shares[0] / sum(shares)) <= 1


def test_guests_are_apart_by_number_or_by_name() -> None:
    machines = Machines.of(4)

    by_number = Guests(apart=2).tenants(work(4), machines)
    by_name = Guests(apart=(("d", "a"), ("b", "c"))).tenants(work(5), machines)

    assert by_number.apart.tolist() == [0, 0, 1, 1]
    assert by_name.apart.tolist() == [0, 1, 1, 0, -1]


def test_a_group_of_unknown_guests_is_told() -> None:
    with pytest.raises(ConfigurationError, match=r'guests.apart\[0\]: no guest "z"'):
        Guests(apart=(("a", "z"),)).tenants(work(3), Machines.of(1))
