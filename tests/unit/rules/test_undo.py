"""Rules against migrations that undo recent ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from opendrs.model import (
    GIB,
    LiveMigration,
    MigrationLoad,
    NodeId,
    PastMigration,
    Protection,
    Snapshot,
    Usage,
)
from opendrs.rules import undo_rules
from support.builders import cluster, guest_ids

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
(G,) = guest_ids("g")
PROTECTION = Protection(undo_horizon=3600.0, noise=0.1)


def load(cpu: float) -> Usage:
    return Usage(cpu, GIB)


def observed(cpu_of_a: float, cpu_of_b: float, guest: NodeId = B) -> Snapshot:
    snapshot = cluster({A: 0.5, B: 0.5, C: 0.5}, {"g": (guest, 0.1)})
    nodes = {
        name: replace(node, usage=load(cpu * _cores(snapshot)))
        for (name, node), cpu in zip(
            snapshot.nodes.items(), (cpu_of_a, cpu_of_b, 0.5), strict=True
        )
    }
    return replace(snapshot, nodes=nodes)


def _cores(snapshot: Snapshot) -> float:
    capacity = snapshot.nodes[A].capacity
    assert capacity is not None
    return capacity.cpu


def moved(minutes_ago: float = 10, *, known: bool = True) -> PastMigration:
    """Return the migration of g from a, at 60 %, to b, at 40 %."""
    cores = _cores(observed(0, 0))
    before = MigrationLoad(load(0.1 * cores), load(0.6 * cores), load(0.4 * cores))
    at = observed(0, 0).taken_at - timedelta(minutes=minutes_ago)
    return PastMigration(LiveMigration(G, A, B), at, before if known else None)


def test_guest_does_not_return_within_the_horizon() -> None:
    (rule,) = undo_rules(observed(0.5, 0.55), [moved()], PROTECTION)

    assert rule.guests == {G}
    assert set(rule.nodes) == {B, C}


def test_guest_returns_after_the_horizon() -> None:
    assert undo_rules(observed(0.5, 0.55), [moved(61)], PROTECTION) == ()


def test_guest_returns_after_a_change_of_load_above_the_noise() -> None:
    assert undo_rules(observed(0.45, 0.6), [moved()], PROTECTION) == ()


def test_change_in_the_other_direction_does_not_count() -> None:
    assert len(undo_rules(observed(0.9, 0.2), [moved()], PROTECTION)) == 1


def test_unknown_load_counts_as_unchanged() -> None:
    assert len(undo_rules(observed(0.1, 0.9), [moved(known=False)], PROTECTION)) == 1


def test_guest_that_is_back_is_free() -> None:
    assert undo_rules(observed(0.5, 0.5, guest=A), [moved()], PROTECTION) == ()


def test_times_in_the_future_are_within_the_horizon() -> None:
    assert len(undo_rules(observed(0.5, 0.5), [moved(-5)], PROTECTION)) == 1


def test_guest_measured_busier_than_its_node_keeps_the_rule() -> None:
    """A node and its guests are not measured at the same time."""
    before = MigrationLoad(load(8.0), load(2.0), load(1.0))
    past = replace(moved(), load=before)

    assert len(undo_rules(observed(0.1, 0.1), [past], PROTECTION)) == 1
