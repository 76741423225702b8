"""The default model of consolidation, behaviour by behaviour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.fleet import Crowd
from opendrs.policies.consolidation.strategy import Detection, Leaving, Placement
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.machines import Behaviour, Machines, Tenants
from opendrs.sim.consolidation.scenery import Scenery
from opendrs.sim.consolidation.workload import Workload

HOUR = 12  # samples


def flat(guests: int, load: float, samples: int = HOUR) -> Workload:
    names = tuple(f"g{number}" for number in range(guests))
    return Workload(names=names, cpu=np.full((guests, samples), load))


def drawn(seed: int, guests: int = 40, samples: int = 24) -> Workload:
    random = np.random.default_rng(seed)
    names = tuple(f"g{number}" for number in range(guests))
    cpu = np.clip(random.gamma(1.0, 0.2, (guests, samples)), 0, 1)
    memory = np.clip(random.uniform(0.2, 1, (guests, samples)), 0, 1)
    return Workload(names=names, cpu=cpu, memory=memory)


def test_without_a_policy_all_stay_and_energy_is_that_of_their_hosts() -> None:
    # Worked by hand: four guests of 2500, 2000, 1000 and 500 MIPS at 50 % begin on
    # one G5 (5320 MIPS, 93.7 W idle, 5000 of 5500 MIPS fit) and one more.
    account = run(flat(1, 0.5), None, Machines.of(4))

    load = 0.5 * 2500 / 5320
    watts = 101 + (105 - 101) * (load - 0.2) / 0.1
    assert account.energy_kwh == pytest.approx(watts / 1000)
    assert account.active_hosts == 1
    assert account.migrations == account.shutdowns == 0


def test_the_lower_bound_is_all_work_on_the_thriftiest_host_at_full_load() -> None:
    account = run(flat(1, 0.5), None, Machines.of(4))

    assert account.lower_bound_kwh == pytest.approx(0.5 * 2500 * 135 / 5320 / 1000)


def test_guests_are_packed_onto_few_hosts_and_the_others_shut_down() -> None:
    still = run(flat(40, 0.1), None, Machines.of(40))
    packed = run(flat(40, 0.1), Consolidate(), Machines.of(40))

    assert packed.shutdowns > 0
    assert packed.energy_kwh < still.energy_kwh
    assert packed.active_hosts < still.active_hosts


def test_a_core_that_is_too_slow_is_a_shortfall_and_no_overload() -> None:
    slow = Machines.of(1)  # G4: cores of 1860 MIPS for a guest of 2500

    account = run(flat(1, 1.0), None, slow)

    assert account.shortfall == pytest.approx((2500 - 1860) / 2500)
    assert account.slatah == 1
    assert account.overload_time_fraction == 0


def test_migrations_take_the_time_their_memory_needs_and_cost_cpu() -> None:
    quick = run(flat(40, 0.1), Consolidate(), Machines.of(40))
    slow = run(
        flat(40, 0.1),
        Consolidate(),
        Machines.of(40),
        behaviour=Behaviour(bandwidth=6.25),
    )

    assert quick.migration_seconds is not None
    assert quick.migration_seconds == pytest.approx(20.0, abs=8)
    assert slow.migration_seconds == pytest.approx(
        10 * quick.migration_seconds, rel=0.5
    )
    assert slow.pdm > quick.pdm > 0


def test_a_move_costs_nothing_where_nothing_is_lost() -> None:
    free = Behaviour(loss=0.0)

    account = run(flat(40, 0.1), Consolidate(), Machines.of(40), behaviour=free)

    assert account.pdm == 0
    assert account.migrations > 0


def test_waking_sleeping_and_shutting_down_cost_energy() -> None:
    work, policy, machines = drawn(3), Consolidate(target=0.6), Machines.of(40)
    free = Behaviour(wake=0, shutdown=0, asleep=0)

    cheap = run(work, policy, machines, behaviour=free).energy_kwh
    dear = run(work, policy, machines, behaviour=Behaviour(asleep=5)).energy_kwh

    assert dear > cheap


def test_memory_binds() -> None:
    # 613 to 1740 MB each: 4 GB hold three of them on average.
    narrow = run(flat(40, 0.01), Consolidate(), Machines.of(40, memory=4096))
    wide = run(flat(40, 0.01), Consolidate(), Machines.of(40))

    assert narrow.active_hosts > 40 * 1241 / 4096 > wide.active_hosts


def test_guests_that_must_be_apart_stay_so() -> None:
    tenants = Tenants.of(40, apart=8)

    account = run(flat(40, 0.01), Consolidate(), Machines.of(40), tenants=tenants)

    assert account.active_hosts >= 8


def test_guests_for_whom_there_is_no_room_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="guest 5 of 40 finds no room"):
        run(flat(40, 0.1), None, Machines.of(1, memory=4096))


def test_cpu_may_be_overbooked_at_the_start_and_memory_not() -> None:
    account = run(flat(40, 0.01), None, Machines.of(2))

    assert account.active_hosts == 2


def test_progress_is_told_after_each_interval() -> None:
    told: list[tuple[int, int]] = []

    run(flat(2, 0.1), None, Machines.of(4), progress=lambda *at: told.append(at))

    assert told == [(step, HOUR) for step in range(1, HOUR + 1)]


def test_the_same_input_gives_the_same_account() -> None:
    policy = Consolidate(
        detector=Detection.THRESHOLD, selection=Leaving.RANDOM, parameter=0.5
    )

    first, second = (run(drawn(7), policy, Machines.of(40)) for _ in range(2))

    assert first == second


@pytest.mark.parametrize(
    "settings", [{"wake": -1}, {"bandwidth": 0}, {"loss": 2}, {"asleep": float("nan")}]
)
def test_refuses_behaviour_that_makes_no_sense(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Behaviour(**settings)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    detector=st.sampled_from(Detection),
    placement=st.sampled_from([None, *Placement]),
    cooldown=st.sampled_from([0.0, 600.0]),
)
def test_nothing_vanishes_and_memory_and_rules_hold_at_all_times(
    seed: int, detector: Detection, placement: Placement | None, cooldown: float
) -> None:
    assume(placement is None or detector is not Detection.FORECAST)
    policy = Consolidate(
        detector=detector, placement=placement, limits=Limits(cooldown=cooldown)
    )
    machines, tenants = Machines.of(30, memory=8192), Tenants.of(40, apart=5)
    seen: list[Scenery] = []

    account = _watched(drawn(seed), policy, machines, tenants, seen)

    for scenery in seen:
        assert len(scenery.host) == 40
        assert _held(scenery).max() <= 8192
        assert _apart(scenery)
    assert account.guests == 40
    assert account.energy_kwh >= account.lower_bound_kwh
    assert 0 <= account.overload_time_fraction <= account.slatah <= 1


def _watched(
    work: Workload,
    policy: Consolidate,
    machines: Machines,
    tenants: Tenants,
    seen: list[Scenery],
) -> Account:
    """Run, and keep what the policy sees each time."""
    crowd = Scenery.crowd

    def noted(scenery: Scenery) -> Crowd:
        now = replace(scenery, host=scenery.host.copy(), flights=tuple(scenery.flights))
        seen.append(now)
        return crowd(scenery)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scenery, "crowd", noted)
        return run(work, policy, machines, tenants=tenants)


def _held(scenery: Scenery) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the memory promised on each host, on the way counted twice."""
    size = scenery.tenants.memory
    held = np.bincount(scenery.host, size, len(scenery.machines.cpu))
    for flight in scenery.flights:
        held[flight.target] += size[flight.guest]
    return np.asarray(held, dtype=np.float64)


def _apart(scenery: Scenery) -> bool:
    """Return whether no two of a group are, or will be, on one host."""
    places = [
        {int(host)} | {f.target for f in scenery.flights if f.guest == guest}
        for guest, host in enumerate(scenery.host)
    ]
    return all(
        not places[one] & places[other]
        for start in range(0, 40, 5)
        for one in range(start, start + 5)
        for other in range(one)
        if other >= start
    )
