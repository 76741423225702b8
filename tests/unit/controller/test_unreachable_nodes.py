"""Migrations of unreachable nodes are counted until their outcome is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendrs.controller import enrich_snapshot
from opendrs.controller.consent import ConsentApproval
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.model import AntiAffinity, GuestId, GuestState, Network, NodeId, PowerOff
from opendrs.policies import AutoRebalance, Balance, DecisionReason, Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.ports import Outcome
from opendrs.store import SqliteStore
from support.builders import cluster, guest_ids
from support.simulated_cluster import SHORT_LIMITS, migration, outcomes, step
from support.unreachable_nodes import (
    DISCONNECT_DELAY,
    LONG_STEP,
    LOST,
    SHORT_STEP,
    VM1,
    A,
    B,
    C,
    D,
    all_migrations,
    cluster_of,
    cluster_with_lost_migration,
    committed_on,
    disconnect_soon,
    four_nodes,
    killed_while_running,
    migrations_of,
    record_values,
)

DONE, REJECTED = Outcome.DONE, Outcome.REJECTED
POLICIES: list[Policy[Any]] = [
    AutoRebalance(hold=1, limits=SHORT_LIMITS),
    Balance(limits=SHORT_LIMITS),
    Consolidate(limits=SHORT_LIMITS),
    Optimize(limits=SHORT_LIMITS),
    PressureRelief(limits=SHORT_LIMITS),
    ThresholdRebalance(limits=SHORT_LIMITS),
]


@pytest.mark.parametrize("host", [A, B])
def test_unreachable_node_starts_no_second_migration(host: NodeId) -> None:
    simulation = cluster_of(four_nodes(), max_migrations_per_node=1)
    disconnect_soon(simulation, host, until=100)
    most = record_values(simulation, migrations_of(B))
    two = step("2", migration("vm2", "c", "b"), "0")

    report = simulation.execute(LONG_STEP, SHORT_STEP, two)

    assert outcomes(report) == [DONE, DONE, DONE]
    assert max(most) == 1
    first, _, second = report.records
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


@pytest.mark.parametrize("shown", [False, True])
def test_target_memory_is_not_committed_twice_while_source_unreachable(
    *, shown: bool
) -> None:
    simulation = cluster_of(four_nodes(on_b=0.0), memory_overcommit=0.64)
    simulation.simulated_platform.shows_arrivals = shown
    disconnect_soon(simulation, A, until=100)
    most = record_values(simulation, committed_on(B))

    report = simulation.execute(
        LONG_STEP, SHORT_STEP, step("2", migration("vm2", "c", "b"), "0")
    )

    assert outcomes(report) == [DONE, DONE, REJECTED]
    assert max(most) == pytest.approx(40)


@pytest.mark.parametrize("shown", [False, True])
def test_measured_memory_counts_while_source_unreachable(*, shown: bool) -> None:
    simulation = cluster_of(four_nodes(on_b=0.2), memory_overcommit=10)
    simulation.simulated_platform.shows_arrivals = shown
    disconnect_soon(simulation, A, until=100)

    report = simulation.execute(
        LONG_STEP, SHORT_STEP, step("2", migration("vm2", "c", "b"), "0")
    )

    assert outcomes(report) == [DONE, DONE, REJECTED]


@pytest.mark.parametrize("shown", [False, True])
def test_anti_affinity_holds_while_source_unreachable(*, shown: bool) -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2"))
    simulation = cluster_of(four_nodes(apart))
    simulation.simulated_platform.shows_arrivals = shown
    disconnect_soon(simulation, A, until=100)

    report = simulation.execute(
        LONG_STEP, SHORT_STEP, step("2", migration("vm2", "c", "b"), "0")
    )

    assert outcomes(report) == [DONE, DONE, REJECTED]
    assert "vm1, vm2" in report.records[2].detail


def test_cluster_limit_holds_while_migration_unobserved() -> None:
    simulation = cluster_of(four_nodes(), max_parallel_migrations=2)
    disconnect_soon(simulation, A, until=100)
    most = record_values(simulation, all_migrations)
    others = [
        step("2", migration("vm2", "c", "d"), "0"),
        step("3", migration("small", "d", "c"), "0"),
    ]

    report = simulation.execute(LONG_STEP, SHORT_STEP, *others)

    assert report.all_done
    assert max(most) == 2


def test_network_limit_holds_while_migration_unobserved() -> None:
    line = Network(name="line", nodes=(B,), max_parallel_migrations=1)
    simulation = cluster_of(four_nodes(), networks=(line,))
    disconnect_soon(simulation, A, until=100)
    most = record_values(simulation, migrations_of(B))

    report = simulation.execute(
        LONG_STEP, SHORT_STEP, step("2", migration("vm2", "c", "b"), "0")
    )

    assert report.all_done
    assert max(most) == 1


@pytest.mark.parametrize("shown", [False, True])
def test_power_off_with_possibly_arriving_guest_is_rejected(*, shown: bool) -> None:
    simulation = cluster_of(four_nodes())
    simulation.simulated_platform.shows_arrivals = shown
    disconnect_soon(simulation, A, until=100)

    report = simulation.execute(LONG_STEP, SHORT_STEP, step("2", PowerOff(B), "0"))

    assert outcomes(report) == [DONE, DONE, REJECTED]
    assert report.records[2].detail.endswith(": vm1")


def test_node_being_powered_off_is_no_target() -> None:
    simulation = cluster_of(four_nodes())

    report = simulation.execute(
        step("1", PowerOff(B)), SHORT_STEP, step("2", migration("small", "d", "b"), "0")
    )

    assert outcomes(report) == [DONE, DONE, REJECTED]
    assert report.records[2].detail.startswith("b: ")
    assert (
        simulation.simulated_platform.true_snapshot().guests[GuestId("small")].node == D
    )


@pytest.mark.parametrize("host", [A, B])
def test_lost_migration_counts_in_later_runs(host: NodeId) -> None:
    simulation = cluster_with_lost_migration(
        host, max_migrations_per_node=1, memory_overcommit=10
    )
    other = {A: B, B: A}[host]

    report = simulation.execute(step("2", migration("small", "c", other)), run="second")

    assert outcomes(report) == [REJECTED]
    assert report.records[0].detail.startswith(f"{other}: 1 ")


def test_step_does_not_wait_for_unreachable_node() -> None:
    simulation = cluster_with_lost_migration(
        A, max_migrations_per_node=1, memory_overcommit=10
    )
    before = simulation.elapsed

    report = simulation.execute(step("2", migration("small", "c", "b")), run="second")

    assert outcomes(report) == [REJECTED]
    assert simulation.elapsed == before


def test_step_waits_for_observed_migration() -> None:
    simulation = cluster_of(four_nodes(), max_migrations_per_node=1)
    simulation.simulated_platform.start(LONG_STEP.action)

    report = simulation.execute(step("2", migration("small", "c", "b")))

    assert outcomes(report) == [DONE]


@pytest.mark.parametrize("host", [A, B])
def test_lost_migration_counts_in_policy_snapshot(
    host: NodeId,
) -> None:
    simulation = cluster_with_lost_migration(host)

    seen = enrich_snapshot(
        simulation.simulated_platform.observe(),
        Balance(limits=SHORT_LIMITS),
        simulation.store,
    )

    found = seen.guests[VM1]
    assert (found.node, found.migrating_to) == (A, B)
    assert found.state is GuestState.RUNNING
    assert found.limit == four_nodes().guests[VM1].limit
    assert found.usage == four_nodes().guests[VM1].usage


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_policy_does_not_wait_for_unreachable_node(
    policy: Policy[Any],
) -> None:
    simulation = cluster_with_lost_migration(A)

    seen = enrich_snapshot(
        simulation.simulated_platform.observe(), policy, simulation.store
    )
    decision = policy.decide(seen, policy.initial_memory())

    assert decision.reason is not DecisionReason.MIGRATION_IN_PROGRESS
    moved = {getattr(one.action, "guest", "") for one in decision.plan.steps}
    assert VM1 not in moved


def test_policy_reserves_target_of_lost_migration() -> None:
    # Without vm1 on its way, b would be the emptiest node.
    simulation = cluster_with_lost_migration(A)
    policy = Balance(limits=replace(SHORT_LIMITS, memory_overcommit=0.64))

    seen = enrich_snapshot(
        simulation.simulated_platform.observe(), policy, simulation.store
    )
    decision = policy.decide(seen, None)

    targets = {getattr(one.action, "target", None) for one in decision.plan.steps}
    assert B not in targets


def test_the_load_of_a_lost_migration_counts_on_its_target() -> None:
    simulation = cluster_with_lost_migration(A)

    seen = enrich_snapshot(
        simulation.simulated_platform.observe(),
        Balance(limits=SHORT_LIMITS),
        simulation.store,
    )

    assert seen.nodes[B].usage.cpu == pytest.approx(1 + 4)


def test_a_lost_migration_counts_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "record.sqlite"
    simulation = cluster_of(
        four_nodes(),
        migration_timeout=60,
        max_migrations_per_node=1,
        memory_overcommit=10,
    )
    simulation.simulated_platform.schedule_fault(
        DISCONNECT_DELAY, lambda: simulation.simulated_platform.isolate(A)
    )
    with SqliteStore(path) as simulation.store:
        assert outcomes(simulation.execute(LONG_STEP)) == [LOST]

    with SqliteStore(path) as simulation.store:
        seen = enrich_snapshot(
            simulation.simulated_platform.observe(),
            Balance(limits=SHORT_LIMITS),
            simulation.store,
        )
        two = step("2", migration("small", "c", "b"))
        report = simulation.execute(two, run="second")

    assert seen.guests[VM1].migrating_to == B
    assert outcomes(report) == [REJECTED]


def test_recovered_lost_migration_counts() -> None:
    simulation = cluster_of(
        four_nodes(),
        migration_timeout=60,
        max_migrations_per_node=1,
        memory_overcommit=10,
    )
    killed_while_running(simulation)
    simulation.simulated_platform.isolate(A)

    (record,) = simulation.recover()
    report = simulation.execute(step("2", migration("small", "c", "b")), run="second")

    assert record.outcome is LOST
    assert outcomes(report) == [REJECTED]


def test_unrecorded_guest_keeps_memory_known() -> None:
    # As an earlier version of opendrs has left it.
    simulation = cluster_of(four_nodes(), migration_timeout=60)
    killed_while_running(simulation)
    simulation.store.save("in flight", {"migrations": []})
    simulation.simulated_platform.isolate(A)
    assert simulation.recover()[0].outcome is LOST

    report = simulation.execute(step("2", migration("small", "c", "b")), run="second")

    assert outcomes(report) == [REJECTED]
    assert report.records[0].detail.startswith("vm1: ")


@pytest.mark.parametrize("shown", [False, True])
def test_foreign_migration_counts_while_unobserved(*, shown: bool) -> None:
    simulation = cluster_of(
        four_nodes(),
        max_migrations_per_node=1,
        memory_overcommit=10,
        migration_timeout=60,
    )
    simulation.simulated_platform.shows_arrivals = shown
    simulation.simulated_platform.start(LONG_STEP.action)  # by hand
    simulation.simulated_platform.schedule_fault(
        DISCONNECT_DELAY, lambda: simulation.simulated_platform.isolate(A)
    )
    most = record_values(simulation, migrations_of(B))

    report = simulation.execute(
        SHORT_STEP, step("2", migration("small", "d", "b"), "0")
    )

    assert outcomes(report) == [DONE, REJECTED]
    assert max(most) == 1


def test_foreign_migration_counts_in_later_cycles() -> None:
    simulation = cluster_of(four_nodes())
    policy = Balance(limits=SHORT_LIMITS)
    cycles = Controller(
        LoopSettings(
            interval=300,
            batch_window=10,
            observe=simulation.simulated_platform.observe,
            require_alive=lambda: None,
        ),
        simulation.context(),
        PolicyDecisionSource(policy, simulation.store),
        WakeupEvent(),
        ConsentApproval(lambda _: True),
    )
    simulation.simulated_platform.start(LONG_STEP.action)
    cycles.run_once()
    simulation.simulated_platform.isolate(A)

    seen = enrich_snapshot(
        simulation.simulated_platform.observe(), policy, simulation.store
    )

    assert seen.guests[VM1].occupied_nodes == (A, B)


def test_guest_of_unreachable_node_is_not_gone() -> None:
    simulation = cluster_of(four_nodes())
    simulation.simulated_platform.isolate(C)

    report = simulation.execute(step("1", migration("small", "c", "d")))

    assert outcomes(report) == [REJECTED]
    assert report.records[0].detail.startswith("c: ")


def test_briefly_unreachable_node_is_awaited() -> None:
    simulation = cluster_of(four_nodes())
    simulation.simulated_platform.schedule_fault(
        DISCONNECT_DELAY, lambda: simulation.simulated_platform.isolate(C)
    )
    simulation.simulated_platform.schedule_fault(
        60, lambda: simulation.simulated_platform.rejoin(C)
    )

    report = simulation.execute(
        LONG_STEP, SHORT_STEP, step("2", migration("vm2", "c", "d"), "0")
    )

    assert report.all_done


def test_controller_continues_beside_lost_migration() -> None:
    guests = {f"vm{number}": ("c", 0.1) for number in range(2, 7)}
    nodes = {"a": 0.4, "b": 0.1, "c": 0.5, "d": 0.0}
    origin = cluster(nodes, {"vm1": ("a", 0.4), **guests})
    simulation = cluster_with_lost_migration(A, origin, max_migrations_per_node=1)
    most = record_values(simulation, migrations_of(B))
    controller = Controller(
        LoopSettings(
            interval=300,
            batch_window=10,
            observe=simulation.platform.observe,
            require_alive=lambda: None,
        ),
        simulation.context(),
        PolicyDecisionSource(Balance(limits=simulation.limits), simulation.store),
        WakeupEvent(),
        ConsentApproval(lambda _: True),
    )

    report = controller.run_once()

    assert report.count(DONE) >= 1
    assert max(most) <= 1
