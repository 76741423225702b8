"""Policies on snapshots of the simulated hosts and guests."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean

import numpy as np
import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.model import (
    GuestId,
    LiveMigration,
    NodeId,
    NodeState,
    Plan,
    Resources,
    Step,
    StepId,
    Usage,
)
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.policies.balance import Balance
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.metrics import IntervalObserver
from opendrs.simulation.placement import InFlightMigration
from opendrs.simulation.snapshot_policy import (
    MEBIBYTE,
    SimulatedState,
    SnapshotPolicy,
    first_migrations,
)
from opendrs.simulation.workload import SyntheticSettings, Workload, synthetic_workload

HOSTS = HostSpecs.alternating(3)  # 3720, 5320 and 3720 MIPS, 65,536 MB each
GUESTS = GuestSpecs(
    cpu=np.array([1000.0, 2000.0]),
    memory=np.array([1024.0, 2048.0]),
    anti_affinity_group=np.array([0, 0]),
    cores=np.array([1.0, 1.0]),
)
WORK = Workload(
    names=("x", "y"),
    cpu=np.array([[0.5, 0.2, 0.1], [0.25, 0.4, 0.1]]),
    memory=np.array([[0.5, 0.75, 0.5], [0.5, 0.25, 0.5]]),
)


def state(**changes: object) -> SimulatedState:
    values: dict[str, object] = {
        "step": 2,
        "host": np.array([1, 1]),
        "migrations": [],
        "migrated_at": np.array([-np.inf, 300.0]),
        "powered_on": np.array([True, True, False]),
        **changes,
    }
    return SimulatedState(**values)  # type: ignore[arg-type]


def test_snapshot_has_the_load_of_the_last_interval() -> None:
    snapshot = SnapshotPolicy(Balance(), WORK, HOSTS, GUESTS).snapshot(state())

    # In the second interval 200 of 1000 and 800 of 2000 MIPS, and 768 and 512 MB.
    first, second = snapshot.guests.values()
    assert first.limit == Resources(1.0, 1024 * MEBIBYTE)
    assert (first.usage, second.usage) == (
        Usage(0.2, 768 * MEBIBYTE),
        Usage(0.8, 512 * MEBIBYTE),
    )
    assert [node.usage for node in snapshot.nodes.values()] == [
        Usage(0.0, 0),
        Usage(1.0, 1280 * MEBIBYTE),
        Usage(),
    ]
    assert [node.state for node in snapshot.nodes.values()] == [
        NodeState.ONLINE,
        NodeState.ONLINE,
        NodeState.OFFLINE,
    ]
    assert first.migrated_at is None
    assert second.migrated_at is not None
    assert (snapshot.taken_at - second.migrated_at).total_seconds() == 300
    (rule,) = snapshot.rules
    assert rule.guests == snapshot.guests.keys()  # type: ignore[union-attr]


def test_running_migration_is_visible() -> None:
    migrations = [InFlightMigration(guest=0, target=0, start=590.0, end=700.0)]

    snapshot = SnapshotPolicy(Balance(), WORK, HOSTS, GUESTS).snapshot(
        state(migrations=migrations)
    )

    first, second = snapshot.guests.values()
    assert first.migrating_to == "host-0"
    assert second.migrating_to is None


def test_move_is_that_of_the_plan() -> None:
    policy = SnapshotPolicy(Balance(), WORK, HOSTS, GUESTS)

    moves = policy.decide(state(migrated_at=np.full(2, -np.inf)))

    # One of both guests goes to the only other host that is on.
    assert [(move.source, move.target) for move in moves] == [(1, 0)]


def test_second_stage_of_a_detour_is_left_to_the_next_decision() -> None:
    def step(name: str, guest: str, path: str, *depends_on: str) -> Step:
        action = LiveMigration(GuestId(guest), NodeId(path[0]), NodeId(path[1]))
        return Step(StepId(name), action, tuple(map(StepId, depends_on)))

    plan = Plan(
        (
            step("s1", "v", "ab"),
            step("s2", "w", "ca", "s1"),
            step("s3", "v", "bc", "s2"),
            step("s4", "x", "cb", "s3"),
            step("s5", "y", "cb"),
        )
    )

    moves = [(each.guest, each.target) for each in first_migrations(plan)]

    assert moves == [("v", "b"), ("w", "a"), ("y", "b")]


@pytest.mark.parametrize("name", sorted(BUILT_IN_POLICIES))
def test_every_policy_serves_a_workload_deterministically(name: str) -> None:
    work = synthetic_workload(SyntheticSettings(guests=40, days=1, load=0.4))
    short = Workload(
        names=work.names,
        cpu=work.cpu[:, :12],
        memory=None if work.memory is None else work.memory[:, :12],
    )

    first, second = (
        run_simulation(short, build_policy(name), HostSpecs.alternating(12))
        for _ in range(2)
    )

    assert asdict(first) == asdict(second)
    assert first.energy_kwh > 0


def test_policy_balances_the_hosts_that_are_on() -> None:
    day = synthetic_workload(SyntheticSettings(guests=40, days=1, load=0.4))
    work = Workload(names=day.names, cpu=day.cpu[:, :36])
    hosts = HostSpecs.alternating(12)
    highest: dict[str, list[float]] = {"none": [], "balance": []}

    def record(name: str) -> IntervalObserver:
        return lambda _, load: highest[name].append(float(np.nanmax(load)))

    run_simulation(work, None, hosts, observer=record("none"))
    balance = build_policy("balance")
    metrics = run_simulation(work, balance, hosts, observer=record("balance"))

    assert metrics.migrations > 0
    assert metrics.power_ons == 0
    assert fmean(highest["balance"]) < 0.9 * fmean(highest["none"])
