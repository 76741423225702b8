"""Migrations that may be running are kept until they are seen to have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.controller import enrich_snapshot, forget_ended_migrations
from opendrs.controller.in_flight import (
    OpenMigration,
    OpenMigrations,
    has_ended,
    load_open_migrations,
)
from opendrs.errors import StoreError
from opendrs.model import (
    GIB,
    ColdMigration,
    GuestId,
    GuestKind,
    GuestState,
    Node,
    NodeId,
    NodeState,
    Relocation,
    Snapshot,
    StepId,
    Usage,
)
from opendrs.policies import Balance
from opendrs.ports import Outcome, StepRecord
from opendrs.store import MemoryStore
from support.builders import NOON, guest
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster, migration
from support.unreachable_nodes import (
    LONG_STEP,
    VM1,
    A,
    B,
    C,
    cluster_with_lost_migration,
    four_nodes,
)


def settled(simulation: SimulatedCluster) -> int:
    """Let a cycle look; return how many lost migrations may still be running."""
    forget_ended_migrations(
        simulation.simulated_platform.observe(),
        simulation.store,
        simulation.simulated_platform,
    )
    return len(load_open_migrations(simulation.store))


@pytest.mark.parametrize("host", [A, B])
def test_lost_migration_ended_when_both_nodes_show_none(
    host: NodeId,
) -> None:
    simulation = cluster_with_lost_migration(host)
    assert settled(simulation) == 1
    simulation.simulated_platform.rejoin(A, B)
    assert settled(simulation) == 1  # it runs, and is seen to

    simulation.clock.sleep(600)

    assert settled(simulation) == 0
    assert simulation.simulated_platform.observe().guests[VM1].node == B
    simulation.simulated_platform.isolate(A, B)
    seen = enrich_snapshot(
        simulation.simulated_platform.observe(),
        Balance(limits=SHORT_LIMITS),
        simulation.store,
    )
    assert VM1 not in seen.guests


def test_lost_migration_ended_when_guest_runs_on_target() -> None:
    simulation = cluster_with_lost_migration(A)
    simulation.clock.sleep(600)

    assert settled(simulation) == 0


def test_guest_on_source_may_migrate_to_unreachable_node() -> None:
    simulation = cluster_with_lost_migration(B)
    shown = simulation.simulated_platform.observe().guests[VM1]

    assert (shown.node, shown.migrating_to) == (A, None)
    assert settled(simulation) == 1


def test_observed_migration_is_not_queried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation = cluster_with_lost_migration(A)
    simulation.simulated_platform.rejoin(A)
    queries: list[object] = []
    monkeypatch.setattr(simulation.simulated_platform, "status", queries.append)

    assert settled(simulation) == 1
    assert queries == []


def test_last_observed_memory_is_kept() -> None:
    simulation = cluster_with_lost_migration(A)
    simulation.simulated_platform.rejoin(A)
    seen = simulation.simulated_platform.observe()
    grown = replace(seen.guests[VM1], usage=Usage(5.0, 50 * GIB))

    later = replace(seen, guests={**seen.guests, VM1: grown})
    forget_ended_migrations(later, simulation.store, simulation.simulated_platform)

    (found,) = load_open_migrations(simulation.store)
    assert found.guest.usage == grown.usage


def test_lost_migration_ended_when_source_reports_failure() -> None:
    simulation = cluster_with_lost_migration(B)

    simulation.simulated_platform.fail_node(B)

    assert settled(simulation) == 0


def test_missing_guest_is_gone_when_both_nodes_answer() -> None:
    move = OpenMigration(migration("gone", "a", "b"), guest("gone", "a", 0.1))
    seen = four_nodes()
    rest = {name: one for name, one in seen.nodes.items() if name != A}

    assert has_ended(move, seen)
    assert has_ended(move, replace(seen, nodes={**seen.nodes, C: Node(id=C)}))
    assert has_ended(move, replace(without(seen, VM1), nodes=rest))
    assert not has_ended(move, replace(seen, nodes={**seen.nodes, A: Node(id=A)}))


def test_migration_not_ended_while_guest_is_stopped_on_target() -> None:
    move = OpenMigration(migration("vm1", "a", "b"), guest("vm1", "a", 0.1))
    arriving = guest("vm1", "b", None, state=GuestState.UNKNOWN)
    seen = four_nodes()
    hidden = Node(id=A)

    half = replace(seen, guests={VM1: arriving}, nodes={**seen.nodes, A: hidden})

    assert not has_ended(move, half)
    assert has_ended(move, replace(half, nodes=seen.nodes))


def lost_and_kept(origin: Snapshot) -> OpenMigrations:
    """Return what is kept of a lost migration of vm1 from a to b."""
    store = MemoryStore()
    kept = OpenMigrations(store)
    kept.start([LONG_STEP.action], origin)  # type: ignore[list-item]
    return kept


def test_unobserved_migration_counts_as_last_observed() -> None:
    kept = lost_and_kept(four_nodes())
    grown = replace(four_nodes().guests[VM1], usage=Usage(5.0, 50 * GIB))
    kept.add_to(replace(four_nodes(), guests={**four_nodes().guests, VM1: grown}))

    found = kept.add_to(without(four_nodes(), VM1))

    assert found.guests[VM1].usage == Usage(5.0, 50 * GIB)


def without(seen: Snapshot, *guests: GuestId) -> Snapshot:
    rest = {name: one for name, one in seen.guests.items() if name not in guests}
    return replace(seen, guests=rest)


def test_guest_hidden_by_source_counts_on_source() -> None:
    origin = four_nodes()
    without_guest = replace(origin.nodes[A], usage=Usage(0.0, 0))
    gone = replace(without(origin, VM1), nodes={**origin.nodes, A: without_guest})

    found = lost_and_kept(origin).add_to(gone)

    assert found.nodes[A].usage == four_nodes().guests[VM1].usage
    assert found.guests[VM1].occupied_nodes == (A, B)


def test_guest_of_same_name_elsewhere_counts_too() -> None:
    origin = four_nodes()
    namesake = guest("vm1", "d", 0.2)
    seen = replace(origin, guests={**origin.guests, VM1: namesake})
    silent_node = {**seen.nodes, A: Node(id=A)}

    found = lost_and_kept(origin).add_to(replace(seen, nodes=silent_node))

    assert found.guests[VM1] == namesake
    assert found.guests[GuestId("vm1@a")].occupied_nodes == (A, B)


def test_removed_node_is_unknown() -> None:
    origin = four_nodes()
    rest = {name: one for name, one in origin.nodes.items() if name != A}

    found = lost_and_kept(origin).add_to(replace(without(origin, VM1), nodes=rest))

    assert found.nodes[A].state is NodeState.UNKNOWN
    assert found.guests[VM1].migrating_to == B


@pytest.mark.parametrize(
    "saved",
    [
        {"migrations": [{}]},
        {"migrations": [{"action": {"kind": "power-on", "node": "a"}}]},
        {"migrations": 3},
    ],
)
def test_a_damaged_record_is_reported(saved: dict[str, object]) -> None:
    store = MemoryStore()
    store.save("in flight", saved)

    with pytest.raises(StoreError):
        OpenMigrations(store)


def test_saved_migrations_are_loaded() -> None:
    store = MemoryStore()
    tagged = guest("vm1", "a", 0.4, tags=frozenset({"db"}), kind=GuestKind.CONTAINER)
    move = ColdMigration(VM1, A, B)
    OpenMigrations(store).start([move], replace(four_nodes(), guests={VM1: tagged}))

    (found,) = load_open_migrations(store)

    assert found.migration == move
    assert found.guest.tags == tagged.tags
    assert found.guest.kind is GuestKind.CONTAINER
    assert found.guest.limit == tagged.limit
    assert found.guest.usage == tagged.usage


def test_relocation_counts_as_in_progress_until_its_end() -> None:
    stopped = replace(four_nodes().guests[VM1], state=GuestState.STOPPED)
    snapshot = replace(four_nodes(), guests={VM1: stopped})
    relocation = Relocation(VM1, stopped.node, B)
    store = MemoryStore()
    running = OpenMigrations(store)

    running.start([relocation], snapshot)

    assert running.add_to(snapshot).guests[VM1].migrating_to == B
    record = StepRecord(
        run="run",
        step=StepId("1"),
        action=relocation,
        intended_at=NOON,
        ended_at=NOON,
        outcome=Outcome.DONE,
    )
    running.finish(record)
    assert running.add_to(snapshot) == snapshot
