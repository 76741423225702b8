"""Placement oracles: best fit, power-aware best fit, and drains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GuestId, NodeId
from opendrs.policies.consolidation import SPECPOWER, GuestLoad, PowerCurve
from support.oracles.best_fit import (
    BestFitDecreasing,
    FreeCapacity,
    GuestDemands,
    HostCapacity,
    drain_host_arrays,
    drain_hosts,
    free_capacity,
)
from support.oracles.power_aware_best_fit import (
    PowerAwareBestFitDecreasing,
    PowerCurves,
)

BFD = BestFitDecreasing(cpu_threshold=1.0, memory_threshold=1.0, averaging_window=1)
PABFD = PowerAwareBestFitDecreasing(
    cpu_threshold=1.0, memory_threshold=1.0, averaging_window=1
)
SERVERS = ("hp-ml110-g4", "hp-ml110-g5")
WATTS = np.array([SPECPOWER[kind].watts for kind in SERVERS])


def guest(name: str, cpu: float, memory: float = 1) -> GuestLoad:
    return GuestLoad(id=GuestId(name), memory=memory, history=[cpu])


def host(name: str, cpu: float, used: float = 0, memory: float = 100) -> HostCapacity:
    return HostCapacity(id=NodeId(name), cpu=cpu, memory=memory, cpu_used=used)


def curves(*names: str, kind: str = SERVERS[0]) -> dict[NodeId, PowerCurve]:
    return {NodeId(name): SPECPOWER[kind] for name in names}


def kind_of(name: NodeId) -> int:
    return int(name[1:]) % 2


@st.composite
def placements(
    draw: st.DrawFn,
) -> tuple[list[GuestLoad], list[HostCapacity], list[HostCapacity]]:
    """Draw guests, running and powered-off hosts, in the order of names."""
    amount = st.sampled_from([1.0, 2.0, 2.5, 4.0])
    guests = [
        guest(f"g{i}", draw(amount), draw(amount))
        for i in range(draw(st.integers(0, 7)))
    ]
    running = draw(st.integers(0, 4))
    total = running + draw(st.integers(0, 3))
    hosts = [
        HostCapacity(
            id=NodeId(f"h{i}"),
            cpu=draw(st.sampled_from([6.0, 8.0])),
            memory=draw(st.sampled_from([6.0, 8.0])),
            cpu_used=draw(st.sampled_from([0.0, 1.0, 5.0])) if i < running else 0.0,
            memory_used=draw(st.sampled_from([0.0, 2.0])) if i < running else 0.0,
        )
        for i in range(total)
    ]
    return guests, hosts[:running], hosts[running:]


def demands(guests: Sequence[GuestLoad]) -> GuestDemands:
    return GuestDemands(
        np.array([each.history[-1] for each in guests], dtype=np.float64),
        np.array([each.memory for each in guests], dtype=np.float64),
    )


def capacity(hosts: Sequence[HostCapacity], running: int) -> FreeCapacity:
    return FreeCapacity(
        np.array([each.cpu for each in hosts], np.float64),
        np.array([each.memory for each in hosts], np.float64),
        np.array([each.cpu_used for each in hosts], np.float64),
        np.array([each.memory_used for each in hosts], np.float64),
        powered_on=np.arange(len(hosts)) < running,
        allowed=np.ones(len(hosts), np.bool_),
    )


def named(
    found: np.ndarray | None, guests: Sequence[GuestLoad], hosts: Sequence[HostCapacity]
) -> Mapping[GuestId, NodeId] | None:
    if found is None:
        return None
    return {
        each.id: hosts[at].id for each, at in zip(guests, found, strict=True) if at >= 0
    }


def test_free_capacity_is_truncated_only_on_request() -> None:
    assert free_capacity(0.8, 3, 1) == pytest.approx(1.4)
    assert free_capacity(0.8, 3, 1, whole=True) == 1
    assert (
        free_capacity(0.5, 3, 2, whole=True) == 0
    )  # as in Neat, which rounds towards 0


def test_best_fit_selects_fullest_feasible_host() -> None:
    hosts = [host("a", 10), host("b", 10, used=5), host("c", 10, used=9)]

    assert BFD.place([guest("vm", 4)], hosts) == {"vm": "b"}


def test_best_fit_places_the_largest_first_and_keeps_the_order_of_hosts() -> None:
    hosts = [host("a", 6), host("b", 10)]

    assert BFD.place([guest("x", 2), guest("y", 5), guest("z", 2)], hosts) == {
        "y": "a",
        "z": "b",
        "x": "b",
    }


def test_best_fit_powers_on_smallest_host_when_needed() -> None:
    powered_off = [host("big", 20), host("small", 8)]

    assert BFD.place([guest("vm", 4)], [host("a", 3)], powered_off) == {"vm": "small"}
    assert BFD.place([guest("vm", 9)], [host("a", 3)], powered_off) == {"vm": "big"}


@pytest.mark.parametrize("demand", [1.0, 2.0])
def test_all_guests_are_placed_or_none(demand: float) -> None:
    hosts = [host("a", 3)]
    guests = [guest("x", demand), guest("y", 2)]

    assert (BFD.place(guests, hosts) is None) == (demand == 2.0)


def test_memory_binds_as_cpu_does() -> None:
    assert BFD.place([guest("vm", 1, memory=9)], [host("a", 9, memory=8)]) is None
    found = PABFD.place(
        [guest("vm", 1, memory=9)], [host("a", 9, memory=8)], curves("a")
    )

    assert found is None


def test_a_guest_without_samples_is_left_out() -> None:
    unknown = GuestLoad(id=GuestId("new"), memory=1, history=[])

    assert BFD.place([unknown], [host("a", 9)]) == {}
    assert PABFD.place([unknown], [host("a", 9)], curves("a")) == {}


def test_the_least_growth_of_power_decides() -> None:
    # A G4 grows by 3.4 W from 0 to 10 %, by 2 W from 70 to 80 %... of 106, 108, 112.
    hosts = [host("a", 10, used=1), host("b", 10, used=6)]

    assert PABFD.place([guest("vm", 1)], hosts, curves("a", "b")) == {"vm": "b"}


def test_powered_off_host_costs_its_idle_power() -> None:
    found = PABFD.place(
        [guest("vm", 1)], [host("a", 10, used=1)], curves("a", "b"), [host("b", 10)]
    )

    assert found == {"vm": "a"}


def test_power_is_on_a_straight_line_between_measurements() -> None:
    curve = SPECPOWER["hp-ml110-g4"]

    assert curve.at(0) == 86
    assert curve.at(0.05) == pytest.approx((86 + 89.4) / 2)
    assert curve.at(1) == curve.at(1.2) == 117


def test_a_curve_needs_eleven_values() -> None:
    with pytest.raises(ValueError, match="11 values"):
        PowerCurve("toy", (1.0, 2.0))


@given(placements(), st.randoms(use_true_random=False))
def test_order_of_guests_and_hosts_is_irrelevant(
    drawn: tuple[list[GuestLoad], list[HostCapacity], list[HostCapacity]],
    random: object,
) -> None:
    guests, hosts, powered_off = drawn
    power = {
        each.id: SPECPOWER[SERVERS[kind_of(each.id)]] for each in hosts + powered_off
    }
    before = (
        BFD.place(guests, hosts, powered_off),
        PABFD.place(guests, hosts, power, powered_off),
    )
    for each in drawn:
        random.shuffle(each)  # type: ignore[attr-defined]

    assert before == (
        BFD.place(guests, hosts, powered_off),
        PABFD.place(guests, hosts, power, powered_off),
    )


@given(placements())
def test_array_placement_agrees_with_plain_form(
    drawn: tuple[list[GuestLoad], list[HostCapacity], list[HostCapacity]],
) -> None:
    guests, hosts, powered_off = drawn
    every = hosts + powered_off
    power = {each.id: SPECPOWER[SERVERS[kind_of(each.id)]] for each in every}
    kinds = PowerCurves(WATTS, np.array([kind_of(each.id) for each in every], np.int64))
    free = capacity(every, len(hosts))
    best = BFD.place_arrays(demands(guests), free)
    least = PABFD.place_arrays(demands(guests), free, kinds)

    assert named(best, guests, every) == BFD.place(guests, hosts, powered_off)
    assert named(least, guests, every) == PABFD.place(guests, hosts, power, powered_off)


@given(placements())
def test_no_host_is_filled_beyond_capacity(
    drawn: tuple[list[GuestLoad], list[HostCapacity], list[HostCapacity]],
) -> None:
    guests, hosts, powered_off = drawn
    found = BFD.place(guests, hosts, powered_off) or {}
    for each in hosts + powered_off:
        arrived = [g for g in guests if found.get(g.id) == each.id]
        if arrived:
            assert each.cpu_used + sum(g.history[-1] for g in arrived) <= each.cpu
            assert each.memory_used + sum(g.memory for g in arrived) <= each.memory


def test_least_loaded_host_is_drained_first() -> None:
    hosts = {NodeId(n): host(n, 10, used) for n, used in (("a", 6), ("b", 3), ("c", 4))}
    guests = {
        NodeId("a"): [guest("a1", 6)],
        NodeId("b"): [guest("b1", 1), guest("b2", 2)],
        NodeId("c"): [guest("c1", 4)],
    }
    found = drain_hosts(hosts, hosts, guests, BFD.place, averaging_window=1)

    assert found == {"b": {"b2": "a", "b1": "a"}}


def test_host_with_unplaceable_guest_is_not_drained() -> None:
    hosts = {NodeId(n): host(n, 10, used) for n, used in (("a", 8), ("b", 3))}
    guests = {
        NodeId("a"): [guest("a1", 8)],
        NodeId("b"): [guest("b1", 1), guest("b2", 2)],
    }

    assert (
        drain_hosts([NodeId("b")], hosts, guests, BFD.place, averaging_window=1) == {}
    )


@given(placements(), st.data())
def test_array_drain_agrees_with_plain_form(
    drawn: tuple[list[GuestLoad], list[HostCapacity], list[HostCapacity]],
    data: st.DataObject,
) -> None:
    guests, hosts, _ = drawn
    at = [data.draw(st.integers(0, max(0, len(hosts) - 1))) for _ in guests]
    if not hosts:
        return
    here = {
        each.id: [g for g, where in zip(guests, at, strict=True) if where == place]
        for place, each in enumerate(hosts)
    }
    by_name = {each.id: each for each in hosts}
    plain = drain_hosts(by_name, by_name, here, BFD.place, averaging_window=1)
    found = drain_host_arrays(
        np.ones(len(hosts), np.bool_),
        capacity(hosts, len(hosts)),
        demands(guests),
        np.array(at, np.int64),
        BFD.place_arrays,
    )

    moved = {guest: to for each in plain.values() for guest, to in each.items()}
    assert named(found, guests, hosts) == moved
