"""Rules that hold back guests whose migrations failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from opendrs.model import (
    FailedMigration,
    LiveMigration,
    NodeAffinity,
    NodeId,
    Pin,
    Protection,
    Rule,
    Snapshot,
)
from opendrs.rules import compile_rules, hold_rules, without_undo_rules
from support.builders import NOON, cluster, guest_ids

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
(G,) = guest_ids("g")
PROTECTION = Protection(retry_delay=3600.0)


def observed(minutes: float = 0, node: NodeId = A) -> Snapshot:
    """Return a cluster with g on *node*, so many minutes after noon."""
    snapshot = cluster({A: 0.5, B: 0.5, C: 0.5}, {"g": (node, 0.1)})
    return replace(snapshot, taken_at=NOON + timedelta(minutes=minutes))


def failed(failures: int = 1, *targets: NodeId) -> FailedMigration:
    """Return a migration of g from a to b that failed at noon."""
    return FailedMigration(
        LiveMigration(G, A, B), NOON, "no route", frozenset((B, *targets)), failures
    )


def held(
    snapshot: Snapshot, failure: FailedMigration, protection: Protection = PROTECTION
) -> tuple[Rule, ...]:
    return tuple(hold_rules(snapshot, [failure], protection))


def test_failed_migration_pins_the_guest_and_excludes_the_targets() -> None:
    pin, affinity = held(observed(59), failed(2, C))

    assert isinstance(pin, Pin)
    assert pin.guests == {G}
    assert isinstance(affinity, NodeAffinity)
    assert affinity.strict
    assert set(affinity.nodes) == {A}


def test_guest_is_free_after_the_delay() -> None:
    assert held(observed(60), failed()) == ()


def test_delay_doubles_with_each_failure_up_to_four_hours() -> None:
    assert held(observed(119), failed(2)) != ()
    assert held(observed(120), failed(2)) == ()
    assert held(observed(239), failed(9)) != ()
    assert held(observed(240), failed(9)) == ()


def test_delay_above_four_hours_stays() -> None:
    long = Protection(retry_delay=5 * 3600.0)

    assert held(observed(299), failed(3), long) != ()
    assert held(observed(300), failed(3), long) == ()


def test_guest_that_has_left_the_source_is_free() -> None:
    assert held(observed(node=C), failed()) == ()
    assert held(observed(node=B), failed()) == ()


def test_repairs_ignore_the_pin_but_not_the_targets() -> None:
    snapshot = observed()
    complete = replace(snapshot, rules=held(snapshot, failed()))

    (rule,) = without_undo_rules(complete).rules

    assert isinstance(rule, NodeAffinity)


def test_excluded_target_contradicts_no_rule() -> None:
    snapshot = observed()
    required = NodeAffinity(guests=frozenset({G}), nodes={B: 0})
    _, affinity = held(snapshot, failed())

    compiled = compile_rules(replace(snapshot, rules=(required, affinity)))

    assert compiled.nodes[G] == set()
    assert compiled.contradictions == ()
