"""Host pools are interleaved, and guests have the given profiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.policies.consolidation import SPECPOWER
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.scenario.guests import GuestOptions, GuestProfile
from opendrs.simulation.scenario.hosts import SERVERS, HostPool, host_specs
from opendrs.simulation.workload import Workload


def assert_equal_hosts(found: HostSpecs, wanted: HostSpecs) -> None:
    assert found.cpu.tolist() == wanted.cpu.tolist()
    assert found.core_mips.tolist() == wanted.core_mips.tolist()
    assert found.memory.tolist() == wanted.memory.tolist()
    drawn, due = (each.watts[each.curve] for each in (found, wanted))
    assert drawn.tolist() == due.tolist()


def workload(guests: int) -> Workload:
    names = tuple("abcdefghijklmnopqrstuvwxyz"[:guests])
    return Workload(names=names, cpu=np.full((guests, 2), 0.5))


@pytest.mark.parametrize("count", [1, 2, 7, 800])
def test_pool_with_count_only_is_that_of_cloudsim(count: int) -> None:
    assert_equal_hosts(
        host_specs([HostPool(count=count)]), HostSpecs.alternating(count)
    )


def test_two_pools_of_cloudsim_servers_are_equal_to_it() -> None:
    pools = [
        HostPool(count=3, power="hp-ml110-g4"),
        HostPool(count=3, power="hp-ml110-g5"),
    ]

    assert_equal_hosts(host_specs(pools), HostSpecs.alternating(6))


def test_hosts_of_pools_alternate() -> None:
    pools = [
        HostPool(count=1, power="hp-ml110-g5", memory=1),
        HostPool(count=3, power="ibm-x3550-x5675", memory=2),
        HostPool(count=2, watts=(1.0,) * 11, cores=3, mips=10, memory=3),
    ]

    found = host_specs(pools)

    assert found.memory.tolist() == [1, 2, 3, 2, 3, 2]
    assert found.cpu[:3].tolist() == [5320, 12 * 3067, 30]
    assert found.core_mips[:3].tolist() == [2660, 3067, 10]
    assert found.watts[found.curve[2]].tolist() == [1] * 11
    x5675 = list(SPECPOWER["ibm-x3550-x5675"].watts)
    assert found.watts[found.curve[3]].tolist() == x5675


def test_power_curves_and_servers_correspond() -> None:
    assert set(SERVERS) == set(SPECPOWER)


def test_cores_and_mips_of_server_can_be_overridden() -> None:
    found = host_specs([HostPool(count=1, power="hp-ml110-g3", cores=4, mips=100)])

    assert (found.cpu.tolist(), found.core_mips.tolist()) == ([400], [100])


@pytest.mark.parametrize("count", [1, 4, 5, 26])
def test_four_equal_kinds_are_the_quarters_of_cloudsim(count: int) -> None:
    kinds = tuple(
        GuestProfile(mips=mips, memory=memory)
        for mips, memory in [(2500, 870), (2000, 1740), (1000, 1740), (500, 613)]
    )

    found = GuestOptions(kinds=kinds).guest_specs(
        workload(count), HostSpecs.alternating(4)
    )
    usual = GuestSpecs.of_four_sizes(count)

    assert found.cpu.tolist() == usual.cpu.tolist()
    assert found.memory.tolist() == usual.memory.tolist()


@given(st.integers(1, 26), st.lists(st.floats(0.01, 9), min_size=1, max_size=5))
def test_kinds_come_in_their_order_and_shares(count: int, shares: list[float]) -> None:
    kinds = tuple(
        GuestProfile(mips=number + 1, memory=1, cores=2, share=share)
        for number, share in enumerate(shares)
    )

    cpu = (
        GuestOptions(kinds=kinds)
        .guest_specs(workload(count), HostSpecs.alternating(1))
        .cpu
    )

    assert (np.diff(cpu) >= 0).all()
    first = (cpu == 1).sum()
    assert abs(first - count * shares[0] / sum(shares)) <= 1


def test_anti_affinity_groups_by_size_or_by_name() -> None:
    machines = HostSpecs.alternating(4)

    by_number = GuestOptions(anti_affinity_groups=2).guest_specs(workload(4), machines)
    by_name = GuestOptions(anti_affinity_groups=(("d", "a"), ("b", "c"))).guest_specs(
        workload(5), machines
    )

    assert by_number.anti_affinity_group.tolist() == [0, 0, 1, 1]
    assert by_name.anti_affinity_group.tolist() == [0, 1, 1, 0, -1]


def test_anti_affinity_group_of_unknown_guest_is_reported() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r'guests.anti_affinity_groups\[0\]: unknown guest: "z"',
    ):
        GuestOptions(anti_affinity_groups=(("a", "z"),)).guest_specs(
            workload(3), HostSpecs.alternating(1)
        )
