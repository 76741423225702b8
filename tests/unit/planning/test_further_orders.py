"""Moves one after the other, and relocations of stopped guests after a plan."""

from __future__ import annotations

from opendrs.model import (
    Affinity,
    GuestId,
    LiveMigration,
    NodeId,
    Plan,
    Relocation,
    Step,
    StepId,
)
from opendrs.planning import (
    GroupMove,
    one_after_the_other,
    sequence_in_order,
    with_relocations,
)
from opendrs.rules import compile_rules
from support.builders import cluster, guest_ids
from support.sequencing_cases import NO_HEADROOM

A, C = NodeId("a"), NodeId("c")


def test_moves_one_after_the_other_wait_for_all_of_the_one_before() -> None:
    snapshot = cluster(
        {"a": 0.3, "b": 0.1, "c": 0.0},
        {"vm1": ("a", 0.1), "vm2": ("a", 0.1), "vm3": ("b", 0.1)},
        [Affinity(guests=guest_ids("vm1", "vm2"))],
    )
    pair = tuple(snapshot.guests[name] for name in sorted(guest_ids("vm1", "vm2")))
    moves = [
        GroupMove(pair, C, "both"),
        GroupMove((snapshot.guests[GuestId("vm3")],), C, "alone"),
    ]
    sequenced = sequence_in_order(moves, snapshot, compile_rules(snapshot), NO_HEADROOM)

    steps = one_after_the_other(sequenced).plan.steps

    assert [step.depends_on for step in steps] == [(), (), ("1", "2")]
    assert not any(step.depends_on for step in sequenced.plan.steps)


def test_relocation_waits_for_its_affinity_from_other_nodes() -> None:
    snapshot = cluster(
        {"a": 0.2, "b": 0.1, "c": 0.0},
        {"vm1": ("b", 0.1), "vm2": ("a", 0.1), "vm3": ("a", 0.1), "vm4": ("b", 0.1)},
        [Affinity(guests=guest_ids("vm1", "vm2", "vm3"))],
    )
    moved = (("vm1", "b"), ("vm3", "a"), ("vm4", "b"))
    plan = Plan(
        tuple(
            Step(StepId(name), LiveMigration(GuestId(name), NodeId(source), C))
            for name, source in moved
        )
    )
    relocation = Relocation(GuestId("vm2"), A, C)

    found = with_relocations(plan, [(relocation, "drained")], compile_rules(snapshot))

    assert found.steps[:-1] == plan.steps
    assert found.steps[-1] == Step(
        StepId("r1"), relocation, (StepId("vm1"),), "drained"
    )
