"""Relief and emptying by the forecast, against a plain version of the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.policies import Consolidate
from opendrs.policies.consolidation.chances import Chances
from opendrs.policies.consolidation.clearance import GRAIN, Clearance
from opendrs.policies.consolidation.fleet import DIGITS, Crowd, Fleet
from opendrs.policies.consolidation.forecast import overload
from opendrs.policies.consolidation.packing import Shift
from opendrs.policies.consolidation.relief import ROOMLESS, Relief
from opendrs.policies.consolidation.strategy import Foresight

WAY = Foresight(
    bound=0.05,
    price=0.004,
    target=1.0,
    relief=1.0,
    underload=1.0,
    full=0.95,
    last_n=4,
    attempts=3,
    emptied=1000,
)
WATTS = np.array([np.linspace(100.0, 200.0, 11), np.linspace(80.0, 120.0, 11)])


@dataclass
class Closed:
    """Pairs of guest and host that are closed."""

    pairs: frozenset[tuple[int, int]]
    hosts: int

    def open_to(self, guest: int) -> np.ndarray:
        closed = [(guest, host) in self.pairs for host in range(self.hosts)]
        return ~np.array(closed, np.bool_)

    def moved(self, guest: int, target: int) -> None:
        """Nobody minds who is beside."""


@st.composite
def halls(draw: st.DrawFn) -> Chances:
    """Return up to six hosts with up to fifteen guests."""
    hosts, guests = draw(st.integers(1, 6)), draw(st.integers(0, 15))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    level = draw(st.sampled_from([0.5, 1.0, 2.0]))
    cpu = random.choice([6.0, 10.0], hosts)
    need = np.repeat(random.integers(1, 5, guests)[:, None], 2, axis=1).astype(float)
    host = random.integers(0, hosts, guests)
    held = np.stack([np.bincount(host, column, hosts) for column in need.T], axis=1)
    most = np.maximum(held, float(random.integers(8, 20)))
    asleep = (np.bincount(host, minlength=hosts) == 0) & (random.random(hosts) < 0.5)
    fleet = Fleet(
        cpu=cpu,
        own=np.zeros((hosts, 8)),
        room=most - held,
        most=most,
        known=~asleep,
        wakeable=asleep,
        stuck=random.random(hosts) < 0.1,
        watts=WATTS,
        curve=random.integers(0, 2, hosts),
    )
    crowd = Crowd(
        host=host,
        samples=random.gamma(level, 1.0, (guests, 8)).round(2),
        lengths=np.full(guests, 8),
        most=np.full(guests, 5.0),
        memory=need[:, 0],
        need=need,
        movable=random.random(guests) < 0.9,
    )
    closed = zip(*np.nonzero(random.random((guests, hosts)) < 0.1), strict=True)
    pairs = frozenset((int(guest), int(place)) for guest, place in closed)
    return Chances(4, fleet, crowd, Closed(pairs, hosts))


def free(hall: Chances) -> np.ndarray:
    return hall.crowd.movable.copy()


def risk_of(hall: Chances, host: int, guests: list[int]) -> float:
    """Return the risk of *host* with *guests* on it, and nobody else."""
    mean = sum(float(hall.need[guest]) for guest in guests)
    variance = sum(float(hall.scatter[guest]) for guest in guests)
    cpu = float(hall.fleet.cpu[host])
    return float(overload(np.array(mean), np.array(variance), np.array(cpu)))


def on(hall: Chances, host: int) -> list[int]:
    return [int(guest) for guest in np.flatnonzero(hall.host == host)]


def gain(hall: Chances, guest: int, target: int) -> float:
    """Return by how much the sum of all risks falls if *guest* goes to *target*."""
    source = int(hall.host[guest])
    before = risk_of(hall, source, on(hall, source))
    before += risk_of(hall, target, on(hall, target))
    left = [each for each in on(hall, source) if each != guest]
    after = risk_of(hall, source, left)
    return before - after - risk_of(hall, target, [*on(hall, target), guest])


def fits(hall: Chances, guest: int, host: int) -> bool:
    room = bool((hall.crowd.need[guest] <= hall.room[host]).all())
    mean = hall.load[host] + hall.need[guest] <= hall.fleet.cpu[host]
    may = bool(hall.places.open_to(guest)[host])
    return room and bool(mean) and may and host != hall.host[guest]


@given(halls())
def test_risks_are_kept_as_guests_come_and_go(hall: Chances) -> None:
    Relief(WAY, hall, free(hall)).shifts()
    Clearance(WAY, hall, free(hall)).shifts(hall.fleet.known)

    for host in range(len(hall.fleet.cpu)):
        expected = risk_of(hall, host, on(hall, host))
        assert hall.risk[host] == pytest.approx(expected, abs=1e-9)


@given(halls())
def test_each_relief_is_the_best_there_is_for_its_host(hall: Chances) -> None:
    shifts = Relief(WAY, hall, free(hall)).shifts()
    event(f"{min(3, len(shifts))} shifts")
    _back(hall, shifts)

    movable, taking = free(hall), hall.occupied()
    for shift in shifts:
        leaving = [g for g in on(hall, shift.source) if movable[g]]
        pairs = {
            (guest, int(host)): gain(hall, guest, int(host))
            for guest in leaving
            for host in np.flatnonzero(taking)
            if fits(hall, guest, int(host))
        }
        best = max(pairs.values(), default=0.0)
        if taking[shift.target]:
            assert gain(hall, shift.guest, shift.target) > WAY.price
            if len(leaving) <= ROOMLESS:
                found = pairs[shift.guest, shift.target]
                assert found == pytest.approx(best, abs=10**-DIGITS)
        else:
            assert hall.load[shift.source] > WAY.full * hall.fleet.cpu[shift.source]
        hall.put(shift.guest, shift.target)
        movable[shift.guest], taking[shift.target] = False, True


def _back(hall: Chances, shifts: list[Shift]) -> None:
    for shift in reversed(shifts):
        hall.put(shift.guest, shift.source)
    hall.woken[:] = False


@given(halls())
def test_a_host_is_emptied_whole_and_the_bound_kept(hall: Chances) -> None:
    guests = hall.host.copy()
    overloaded = hall.overloaded(WAY.full)

    emptying = Clearance(WAY, hall, free(hall)).shifts(hall.fleet.known)

    event(f"{min(3, len(emptying))} emptied")
    for shifts in emptying:
        (source,) = {shift.source for shift in shifts}
        assert {shift.guest for shift in shifts} == set(
            np.flatnonzero(guests == source)
        )
        assert not hall.count[source]
    moved = {shift.guest for shifts in emptying for shift in shifts}
    stayed = [g for g in range(len(guests)) if g not in moved]
    assert (hall.host[stayed] == guests[stayed]).all()
    left = hall.occupied() & ~overloaded
    assert not emptying or hall.risk[left].mean() <= WAY.bound + 1e-9


@given(halls(), st.integers(0, 5))
def test_a_guest_of_an_emptied_host_goes_where_the_risk_grows_least(
    hall: Chances, place: int
) -> None:
    sources = np.arange(len(hall.fleet.cpu)) == place
    others = np.flatnonzero(hall.occupied() & ~hall.overloaded(WAY.full) & ~sources)

    emptying = Clearance(WAY, hall, free(hall)).shifts(hall.fleet.known & sources)
    event(f"{len(emptying)} emptied")
    shifts = [shift for some in emptying for shift in some]
    _back(hall, shifts)

    for shift in shifts:
        grown = {
            host: risk_of(hall, host, [*on(hall, host), shift.guest])
            - risk_of(hall, host, on(hall, host))
            for host in others.tolist()
            if fits(hall, shift.guest, host)
        }
        assert grown[shift.target] <= min(grown.values()) + GRAIN + 1e-9
        hall.put(shift.guest, shift.target)


@given(halls())
def test_no_rule_is_broken_no_memory_overfilled_and_nobody_moves_twice(
    hall: Chances,
) -> None:
    movable, may = free(hall), free(hall)
    relief = Relief(WAY, hall, may).shifts()
    emptying = Clearance(WAY, hall, may).shifts(hall.fleet.known)
    shifts = [*relief, *(shift for some in emptying for shift in some)]

    assert len({shift.guest for shift in shifts}) == len(shifts)
    assert all(movable[shift.guest] for shift in shifts)
    assert all(hall.places.open_to(s.guest)[s.target] for s in shifts)
    assert (hall.room >= 0).all()
    assert (hall.fleet.known | hall.woken)[[s.target for s in shifts]].all()


@given(halls(), st.sampled_from([0.0, 0.4]))
def test_targets_and_bounds_of_load_bind(hall: Chances, target: float) -> None:
    way = replace(WAY, target=target, relief=target)
    may = free(hall)
    relief = Relief(way, hall, may).shifts()
    emptying = Clearance(way, hall, may).shifts(hall.fleet.known)

    for shift in [*relief, *(shift for some in emptying for shift in some)]:
        assert hall.load[shift.target] <= target * hall.fleet.cpu[shift.target] + 1e-9


def test_a_host_beyond_help_keeps_no_other_awake() -> None:
    steady = np.array([[12.0], [1.0], [1.0]]).repeat(8, axis=1)
    room = np.full((3, 2), 50.0)
    fleet = Fleet(
        cpu=np.full(3, 10.0),
        own=np.zeros((3, 8)),
        room=room,
        most=room + 1,
        known=np.ones(3, np.bool_),
        wakeable=np.zeros(3, np.bool_),
        stuck=np.zeros(3, np.bool_),
        watts=WATTS,
        curve=np.zeros(3, np.int64),
    )
    crowd = Crowd(
        host=np.arange(3),
        samples=steady,
        lengths=np.full(3, 8),
        most=np.array([12.0, 2.0, 2.0]),
        memory=np.ones(3),
        need=np.ones((3, 2)),
        movable=np.ones(3, np.bool_),
    )
    hall = Chances(4, fleet, crowd, Closed(frozenset(), 3))

    emptying = Clearance(WAY, hall, free(hall)).shifts(fleet.known)

    assert emptying == [[Shift(1, 1, 2)]]


def test_this_is_how_the_policy_decides_unless_told_otherwise() -> None:
    assert Consolidate(last_n=4).strategy() == WAY
