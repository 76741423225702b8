"""Moves of disks away from full storages, on drawn clusters."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from opendrs.guard import check
from opendrs.model import GIB, DiskMove, Limits, Plan, Snapshot
from opendrs.planning import relieve_storages
from opendrs.policies import Balance, DecisionReason, decide
from opendrs.ports import Outcome
from support.oracles.storage_groups import (
    GROUP,
    Ledger,
    disk_move_defects,
    drawn_storages,
    least_excess,
)
from support.simulated_cluster import SimulatedCluster, outcomes

LIMITS = Limits(storage_groups=(GROUP,), cooldown=0, min_uptime=0, bandwidth=GIB)
COPYING = replace(LIMITS, migrate_local_disks=True)
ALL_LIMITS = pytest.mark.parametrize("limits", [LIMITS, COPYING])


def plan_of(snapshot: Snapshot, limits: Limits) -> Plan:
    """Return the plan of `balance`, whose cluster is balanced."""
    return decide(Balance(limits=limits), snapshot, None).plan


def excess(snapshot: Snapshot) -> int:
    return Ledger.of(snapshot).excess()


@ALL_LIMITS
def test_moves_are_safe_in_every_order_and_relieve(limits: Limits) -> None:
    moved = 0
    for seed in range(60):
        snapshot = drawn_storages(seed)
        plan = plan_of(snapshot, limits)
        moved += len(plan.steps)
        assert disk_move_defects(snapshot, plan, limits) == [], seed
        assert all(isinstance(step.action, DiskMove) for step in plan.steps)
        assert all(check([s.action], snapshot, limits) is None for s in plan.steps)
        after = snapshot.apply(*(step.action for step in plan.steps))
        assert excess(after) < excess(snapshot) or not plan.steps, seed
    assert moved > 60


@ALL_LIMITS
def test_excess_is_the_least_and_the_cost_close_to_it(limits: Limits) -> None:
    cost, least = 0.0, 0.0
    worse = 0
    for seed in range(100, 160):
        snapshot = drawn_storages(seed, guests=5, nodes=2)
        found = [move for move, _ in relieve_storages(snapshot, limits).moves]
        best = least_excess(snapshot, limits, limits.max_parallel_migrations)
        left = excess(snapshot.apply(*found))
        worse += left > best[0]
        if left == best[0]:
            cost += sum(snapshot.transferred(each) / GIB + 0.25 for each in found)
            least += best[1]
    assert worse == 0
    assert least > 0
    assert cost <= 1.02 * least


@ALL_LIMITS
def test_repeated_plans_reach_a_fixed_point(limits: Limits) -> None:
    for seed in range(20):
        snapshot = drawn_storages(seed)
        for _ in range(40):
            plan = plan_of(snapshot, limits)
            if not plan.steps:
                break
            snapshot = snapshot.apply(*(step.action for step in plan.steps))
        else:
            pytest.fail(f"seed {seed} comes to no end")


def test_order_of_nodes_and_guests_is_irrelevant() -> None:
    for seed in range(20):
        snapshot = drawn_storages(seed)
        nodes, guests = [*snapshot.nodes.items()], [*snapshot.guests.items()]
        random = Random(seed)  # noqa: S311 - drawn, not a secret
        random.shuffle(nodes)
        random.shuffle(guests)
        shuffled = replace(snapshot, nodes=dict(nodes), guests=dict(guests))
        assert plan_of(shuffled, LIMITS) == plan_of(snapshot, LIMITS), seed


def test_nothing_is_moved_without_a_group() -> None:
    plain = replace(LIMITS, storage_groups=())
    for seed in range(20):
        assert plan_of(drawn_storages(seed), plain).steps == ()


def test_simulated_cluster_executes_every_plan() -> None:
    executed = 0
    for seed in range(30):
        snapshot = drawn_storages(seed)
        plan = plan_of(snapshot, LIMITS)
        lab = SimulatedCluster(snapshot, LIMITS)
        report = lab.execute(*plan.steps)
        assert set(outcomes(report)) <= {Outcome.DONE}, seed
        expected = snapshot.apply(*(step.action for step in plan.steps))
        found = lab.simulated_platform.true_snapshot()
        storages = {name: node.storages for name, node in found.nodes.items()}
        assert storages == {n: node.storages for n, node in expected.nodes.items()}
        disks = {name: guest.disks for name, guest in found.guests.items()}
        assert disks == {n: guest.disks for n, guest in expected.guests.items()}
        executed += len(plan.steps)
    assert executed > 12


def test_decision_names_the_relief() -> None:
    snapshot = next(
        drawn
        for drawn in map(drawn_storages, range(20))
        if plan_of(drawn, LIMITS).steps
    )

    decision = decide(Balance(limits=LIMITS), snapshot, None)

    assert decision.reason is DecisionReason.RELIEVES_STORAGE
    before, after = (
        decision.before["overfull_storage_gib"],
        decision.after["overfull_storage_gib"],
    )
    moved = snapshot.apply(*(step.action for step in decision.plan.steps))
    assert before * GIB == excess(snapshot)
    assert after * GIB == excess(moved)
