"""Default simulation model, one behavior per test."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from opendrs.errors import ConfigurationError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.assignment import NodeMove
from opendrs.policies.consolidation.input import GuestArrays
from opendrs.policies.consolidation.settings import (
    DetectorKind,
    EvictionRule,
    PlacementStrategy,
)
from opendrs.simulation.engine import run_simulation, schedule_migrations
from opendrs.simulation.hardware import GuestSpecs, HostSpecs, SimulationBehavior
from opendrs.simulation.metrics import SimulationMetrics
from opendrs.simulation.placement import InFlightMigration
from opendrs.simulation.policy_input import PolicyInput
from opendrs.simulation.workload import Workload

HOUR = 12  # samples


def flat_workload(guests: int, load: float, samples: int = HOUR) -> Workload:
    names = tuple(f"g{number}" for number in range(guests))
    return Workload(names=names, cpu=np.full((guests, samples), load))


def random_workload(seed: int, guests: int = 40, samples: int = 24) -> Workload:
    random = np.random.default_rng(seed)
    names = tuple(f"g{number}" for number in range(guests))
    cpu = np.clip(random.gamma(1.0, 0.2, (guests, samples)), 0, 1)
    memory = np.clip(random.uniform(0.2, 1, (guests, samples)), 0, 1)
    return Workload(names=names, cpu=cpu, memory=memory)


def test_no_policy_keeps_placement_and_energy() -> None:
    # Worked by hand: four guests of 2500, 2000, 1000 and 500 MIPS at 50 % begin on
    # one G5 (5320 MIPS, 93.7 W idle, 5000 of 5500 MIPS fit) and one more.
    account = run_simulation(flat_workload(1, 0.5), None, HostSpecs.alternating(4))

    load = 0.5 * 2500 / 5320
    watts = 101 + (105 - 101) * (load - 0.2) / 0.1
    assert account.energy_kwh == pytest.approx(watts / 1000)
    assert account.active_hosts == 1
    assert account.migrations == account.shutdowns == 0


def test_lower_bound_is_energy_of_most_efficient_host() -> None:
    account = run_simulation(flat_workload(1, 0.5), None, HostSpecs.alternating(4))

    assert account.lower_bound_kwh == pytest.approx(0.5 * 2500 * 135 / 5320 / 1000)


def test_consolidation_powers_off_empty_hosts() -> None:
    still = run_simulation(flat_workload(40, 0.1), None, HostSpecs.alternating(40))
    packed = run_simulation(
        flat_workload(40, 0.1), Consolidate(), HostSpecs.alternating(40)
    )

    assert packed.shutdowns > 0
    assert packed.energy_kwh < still.energy_kwh
    assert packed.active_hosts < still.active_hosts


def test_slow_core_is_shortfall_without_overload() -> None:
    slow = HostSpecs.alternating(1)  # G4: cores of 1860 MIPS for a guest of 2500

    account = run_simulation(flat_workload(1, 1.0), None, slow)

    assert account.shortfall == pytest.approx((2500 - 1860) / 2500)
    assert account.slatah == 1
    assert account.overload_time_fraction == 0


def test_migration_duration_follows_memory_and_costs_cpu() -> None:
    quick = run_simulation(
        flat_workload(40, 0.1), Consolidate(), HostSpecs.alternating(40)
    )
    slow = run_simulation(
        flat_workload(40, 0.1),
        Consolidate(),
        HostSpecs.alternating(40),
        behavior=SimulationBehavior(bandwidth=6.25),
    )

    assert quick.migration_seconds is not None
    assert quick.migration_seconds == pytest.approx(20.0, abs=8)
    assert slow.migration_seconds == pytest.approx(
        10 * quick.migration_seconds, rel=0.5
    )
    assert slow.pdm > quick.pdm > 0


def test_migration_without_overhead_costs_nothing() -> None:
    free = SimulationBehavior(migration_cpu_overhead=0.0)

    account = run_simulation(
        flat_workload(40, 0.1), Consolidate(), HostSpecs.alternating(40), behavior=free
    )

    assert account.pdm == 0
    assert account.migrations > 0


def test_power_actions_and_powered_off_hosts_cost_energy() -> None:
    work, policy, hosts = (
        random_workload(3),
        Consolidate(fill_target=0.6),
        HostSpecs.alternating(40),
    )
    free = SimulationBehavior(power_on_time=0, power_off_time=0, powered_off_watts=0)

    cheap = run_simulation(work, policy, hosts, behavior=free).energy_kwh
    dear = run_simulation(
        work, policy, hosts, behavior=SimulationBehavior(powered_off_watts=5)
    ).energy_kwh

    assert dear > cheap


def test_memory_limits_consolidation() -> None:
    # 613 to 1740 MB each: 4 GB hold three of them on average.
    narrow = run_simulation(
        flat_workload(40, 0.01), Consolidate(), HostSpecs.alternating(40, memory=4096)
    )
    wide = run_simulation(
        flat_workload(40, 0.01), Consolidate(), HostSpecs.alternating(40)
    )

    assert narrow.active_hosts > 40 * 1241 / 4096 > wide.active_hosts


def test_anti_affinity_groups_stay_separate() -> None:
    guests = GuestSpecs.of_four_sizes(40, group_size=8)

    account = run_simulation(
        flat_workload(40, 0.01), Consolidate(), HostSpecs.alternating(40), guests=guests
    )

    assert account.active_hosts >= 8


def test_unplaceable_guests_raise_error() -> None:
    with pytest.raises(ConfigurationError, match="guest 5 of 40: does not fit"):
        run_simulation(
            flat_workload(40, 0.1), None, HostSpecs.alternating(1, memory=4096)
        )


def test_initial_placement_overcommits_cpu_but_not_memory() -> None:
    account = run_simulation(flat_workload(40, 0.01), None, HostSpecs.alternating(2))

    assert account.active_hosts == 2


def test_progress_is_reported_after_each_interval() -> None:
    reported: list[tuple[int, int]] = []

    run_simulation(
        flat_workload(2, 0.1),
        None,
        HostSpecs.alternating(4),
        progress=lambda *at: reported.append(at),
    )

    assert reported == [(step, HOUR) for step in range(1, HOUR + 1)]


def test_same_input_gives_same_metrics() -> None:
    policy = Consolidate(
        detector=DetectorKind.THRESHOLD,
        guest_selection=EvictionRule.RANDOM,
        detector_parameter=0.5,
    )

    first, second = (
        run_simulation(random_workload(7), policy, HostSpecs.alternating(40))
        for _ in range(2)
    )

    assert first == second


@pytest.mark.parametrize(
    "settings",
    [
        {"power_on_time": -1},
        {"bandwidth": 0},
        {"migration_cpu_overhead": 2},
        {"powered_off_watts": float("nan")},
    ],
)
def test_invalid_behavior_is_rejected(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        SimulationBehavior(**settings)


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    detector=st.sampled_from(DetectorKind),
    placement=st.sampled_from([None, *PlacementStrategy]),
    cooldown=st.sampled_from([0.0, 600.0]),
)
def test_guests_memory_and_rules_hold_at_every_decision(
    seed: int,
    detector: DetectorKind,
    placement: PlacementStrategy | None,
    cooldown: float,
) -> None:
    assume(placement is None or detector is not DetectorKind.FORECAST)
    policy = Consolidate(
        detector=detector, placement=placement, limits=Limits(cooldown=cooldown)
    )
    hosts, guests = (
        HostSpecs.alternating(30, memory=8192),
        GuestSpecs.of_four_sizes(40, group_size=5),
    )
    seen: list[PolicyInput] = []

    account = _run_recording_inputs(random_workload(seed), policy, hosts, guests, seen)

    for policy_input in seen:
        assert len(policy_input.host) == 40
        assert _committed_memory(policy_input).max() <= 8192
        assert _groups_are_separate(policy_input)
    assert account.guests == 40
    assert account.energy_kwh >= account.lower_bound_kwh
    assert 0 <= account.overload_time_fraction <= account.slatah <= 1


def _run_recording_inputs(
    work: Workload,
    policy: Consolidate,
    hosts: HostSpecs,
    guests: GuestSpecs,
    inputs: list[PolicyInput],
) -> SimulationMetrics:
    """Run, and record the input of the policy in each interval."""
    original = PolicyInput.guest_arrays

    def recording(policy_input: PolicyInput) -> GuestArrays:
        recorded = replace(
            policy_input,
            host=policy_input.host.copy(),
            migrations=tuple(policy_input.migrations),
        )
        inputs.append(recorded)
        return original(policy_input)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PolicyInput, "guest_arrays", recording)
        return run_simulation(work, policy, hosts, guests=guests)


def _committed_memory(
    policy_input: PolicyInput,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the memory committed on each host; migrating guests count twice."""
    size = policy_input.guests.memory
    committed = np.bincount(policy_input.host, size, len(policy_input.hosts.cpu))
    for migration in policy_input.migrations:
        committed[migration.target] += size[migration.guest]
    return np.asarray(committed, dtype=np.float64)


def _groups_are_separate(policy_input: PolicyInput) -> bool:
    """Return True if no two guests of a group are, or will be, on one host."""
    hosts_of = [
        {int(host)} | {f.target for f in policy_input.migrations if f.guest == guest}
        for guest, host in enumerate(policy_input.host)
    ]
    return all(
        not hosts_of[one] & hosts_of[other]
        for start in range(0, 40, 5)
        for one in range(start, start + 5)
        for other in range(one)
        if other >= start
    )


HOSTS = 5
Plan = tuple[list[NodeMove], list[float], list[float]]


@st.composite
def random_plans(draw: st.DrawFn) -> Plan:
    """Draw moves, their durations, and the times at which links are free."""
    hosts = st.integers(0, HOSTS - 1)
    host_pairs = st.lists(
        st.tuples(hosts, hosts).filter(lambda host_pair: host_pair[0] != host_pair[1])
    )
    shifts = [
        NodeMove(guest, *host_pair) for guest, host_pair in enumerate(draw(host_pairs))
    ]
    times = st.integers(1, 9).map(float)
    seconds = [draw(times) for _ in shifts]
    return shifts, seconds, [draw(times) for _ in range(HOSTS)]


def scheduled(plan: Plan) -> list[InFlightMigration]:
    shifts, seconds, free = plan
    return schedule_migrations(shifts, np.array(seconds), np.array(free))


def one_by_one(plan: Plan) -> list[InFlightMigration]:
    """Return the same schedule, computed second by second."""
    shifts, seconds, free = plan
    ends: dict[int, float] = {}
    busy = list(free)
    found: list[InFlightMigration] = []
    now = 0.0
    while len(ends) < len(shifts):
        for place, shift in enumerate(shifts):
            before = [n for n in range(place) if shifts[n].source == shift.target]
            gone = all(ends.get(n, np.inf) <= now for n in before)
            idle = max(busy[shift.source], busy[shift.target]) <= now
            if place not in ends and gone and idle:
                end = now + seconds[place]
                ends[place] = busy[shift.source] = busy[shift.target] = end
                found.append(InFlightMigration(shift.guest, shift.target, now, end))
        now += 1.0
    return found


def test_busy_link_does_not_delay_other_migrations() -> None:
    # Guest 1 waits for the link of host 1; guest 2, decided later, does not.
    shifts = [NodeMove(0, 0, 1), NodeMove(1, 2, 1), NodeMove(2, 2, 3)]

    found = schedule_migrations(shifts, np.array([10.0, 10.0, 5.0]), np.zeros(4))

    assert {each.guest: each.start for each in found} == {0: 0, 1: 10, 2: 0}


def test_migration_waits_for_departures_from_its_target() -> None:
    # Guest 1 goes where guest 0 leaves; the link of host 0 is not free at first.
    shifts = [NodeMove(0, 0, 1), NodeMove(1, 2, 0)]

    found = schedule_migrations(
        shifts, np.array([10.0, 10.0]), np.array([0.0, 50.0, 0.0])
    )

    assert [each.start for each in found] == [50, 60]


def test_migration_does_not_wait_for_later_departures() -> None:
    shifts = [NodeMove(0, 0, 1), NodeMove(1, 1, 2)]

    found = schedule_migrations(
        shifts, np.array([10.0, 10.0]), np.array([30.0, 0.0, 0.0])
    )

    assert {each.guest: each.start for each in found} == {0: 30, 1: 0}


@given(random_plans())
def test_schedule_agrees_with_stepwise_simulation(plan: Plan) -> None:
    assert sorted(scheduled(plan), key=lambda f: (f.start, f.guest)) == one_by_one(plan)


@given(random_plans())
def test_host_runs_one_migration_at_a_time(plan: Plan) -> None:
    shifts, _, free = plan
    spans: dict[int, list[tuple[float, float]]] = {host: [] for host in range(HOSTS)}
    for flight in scheduled(plan):
        shift = shifts[flight.guest]
        for host in (shift.source, shift.target):
            spans[host].append((flight.start, flight.end))

    for host, some in spans.items():
        assert all(start >= free[host] for start, _ in some)
        assert all(a[1] <= b[0] for a, b in pairwise(sorted(some)))


def test_no_moves_give_empty_schedule() -> None:
    assert schedule_migrations([], np.zeros(0), np.zeros(3)) == []


def test_schedule_does_not_change_its_arguments() -> None:
    free = np.array([1.0, 2.0])

    schedule_migrations([NodeMove(0, 0, 1)], np.array([5.0]), free)

    assert free == pytest.approx([1.0, 2.0])
