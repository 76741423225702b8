"""Moves of disks that follow the decision of a policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opendrs.model import (
    GIB,
    Disk,
    DiskMove,
    FailedMigration,
    Guest,
    GuestId,
    GuestPriority,
    Limits,
    NodeId,
    NodeState,
    Protection,
    Rule,
    Snapshot,
    Storage,
    StorageGroup,
    TagExclusion,
)
from opendrs.policies import UNDECIDED, Balance, Decision, DecisionReason, decide
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.storage_relief import with_disk_moves
from opendrs.rules import hold_rules
from support.builders import cluster, guest_ids

GROUP = StorageGroup(name="fast", storages=("one", "two"), threshold=0.8)
LIMITS = Limits(storage_groups=(GROUP,), bandwidth=GIB)


def storages(one: int, two: int) -> tuple[Storage, ...]:
    """Return two local storages of 100 GiB with these GiB in use."""
    return tuple(
        Storage(id=name, shared=False, capacity=100 * GIB, free=(100 - used) * GIB)
        for name, used in (("one", one), ("two", two))
    )


def lab(
    *sizes: int, one: int = 90, two: int = 20, rules: tuple[Rule, ...] = ()
) -> Snapshot:
    """Return a balanced cluster, whose guests on `a` have disks of these GiB on `one`.

    So much of the storages of `a` is in use.
    """
    names = [f"g{number}" for number in range(len(sizes))]
    plain = cluster({"a": 0.2, "b": 0.2}, dict.fromkeys(names, ("a", 0.01)), rules)
    guests = {
        GuestId(name): replace(
            plain.guests[GuestId(name)],
            disks=(Disk(storage="one", size=size * GIB, name="scsi0"),),
        )
        for name, size in zip(names, sizes, strict=True)
    }
    nodes = {
        name: replace(node, storages=storages(one, two) if name == "a" else ())
        for name, node in plain.nodes.items()
    }
    return replace(plain, nodes=nodes, guests=guests)


def decided(snapshot: Snapshot, **changes: Any) -> Decision[None]:  # noqa: ANN401
    return decide(Balance(limits=replace(LIMITS, **changes)), snapshot, None)


def moved(decision: Decision[Any]) -> list[str]:
    actions = [step.action for step in decision.plan.steps]
    assert all(isinstance(each, DiskMove) for each in actions)
    return sorted(each.guest for each in actions if isinstance(each, DiskMove))


def changed(snapshot: Snapshot, name: str, **values: Any) -> Snapshot:  # noqa: ANN401
    guest: Guest = replace(snapshot.guests[GuestId(name)], **values)
    return replace(snapshot, guests={**snapshot.guests, guest.id: guest})


@pytest.mark.parametrize(
    ("sizes", "expected"),
    # 10 GiB are above the threshold.
    [
        pytest.param((8, 12, 40), ["g1"], id="smallest that suffices"),
        pytest.param((4, 6, 40), ["g0", "g1"], id="two for less than one"),
        pytest.param((95, 5, 3), ["g1", "g2"], id="largest does not fit"),
        pytest.param((1, 2), ["g0", "g1"], id="as far as it goes"),
        pytest.param((9, 11), ["g1"], id="no move that is not needed"),
    ],
)
def test_least_is_copied(sizes: tuple[int, ...], expected: list[str]) -> None:
    assert moved(decided(lab(*sizes))) == expected


def test_disk_of_the_less_important_guest_moves() -> None:
    rule = GuestPriority(value=4.0, guests=guest_ids("g0"))
    assert moved(decided(lab(12, 12))) in (["g0"], ["g1"])
    assert moved(decided(lab(12, 12, rules=(rule,)))) == ["g1"]
    # 12 GiB at four times the cost are more than 40 GiB.
    assert moved(decided(lab(12, 40, rules=(rule,)))) == ["g1"]


def test_number_of_moves_is_limited() -> None:
    found = decided(lab(2, 2, 2, 2, 2), max_parallel_migrations=2)
    assert len(moved(found)) == 2


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"lock": "backup"}, "locked: backup"),
        ({"disks": (Disk(storage="one", size=12 * GIB),)}, "does not move this disk"),
        ({"disks": (Disk(storage="one", name="scsi0"),)}, "size of the disk unknown"),
        ({"tags": frozenset({"db"})}, "excludes it"),
    ],
)
def test_note_names_the_cause_for_which_disks_stay(
    values: dict[str, Any], cause: str
) -> None:
    rule = TagExclusion(tags=frozenset({"db"}))

    found = decided(changed(lab(12, rules=(rule,)), "g0", **values))

    assert found.plan.steps == ()
    assert found.reason is DecisionReason.BALANCED
    (note,) = [each for each in found.notes if each.startswith("storage one of a: 90%")]
    assert cause in note


def test_disk_that_takes_too_long_stays() -> None:
    # 12 GiB at 1 GiB/s take 12 s.
    assert moved(decided(lab(12), migration_timeout=12.0)) == ["g0"]
    found = decided(lab(12), migration_timeout=11.0)
    assert found.plan.steps == ()
    assert any("migration_timeout" in note for note in found.notes)


def test_nothing_is_moved_below_the_threshold_or_to_an_unknown_storage() -> None:
    assert decided(lab(12, one=80)).plan.steps == ()
    snapshot = lab(12)
    one, two = storages(90, 20)
    unknown = replace(
        snapshot.nodes[NodeId("a")], storages=(one, replace(two, free=None))
    )
    assert (
        decided(
            replace(snapshot, nodes={**snapshot.nodes, unknown.id: unknown})
        ).plan.steps
        == ()
    )
    offline = replace(snapshot.nodes[NodeId("a")], state=NodeState.EXCLUDED)
    assert (
        decided(
            replace(snapshot, nodes={**snapshot.nodes, offline.id: offline})
        ).plan.steps
        == ()
    )


def test_absent_storage_of_a_group_is_named() -> None:
    group = replace(GROUP, storages=("one", "two", "tow"))
    assert (
        "storage group fast: no node has tow"
        in decided(lab(12), storage_groups=(group,)).notes
    )


def test_moves_wait_for_the_plan_of_the_policy() -> None:
    uneven = lab(12)
    heavy = cluster({"a": 0.8, "b": 0.1}, {"g0": ("a", 0.3), "g1": ("a", 0.3)})
    nodes = {
        name: replace(node, storages=uneven.nodes[name].storages)
        for name, node in heavy.nodes.items()
    }

    found = decided(replace(heavy, nodes=nodes))

    assert found.reason is DecisionReason.IMPROVES_BALANCE
    assert any("once nothing else is planned" in note for note in found.notes)


@pytest.mark.parametrize("busy", ["migration", "disk"])
def test_moves_wait_for_those_in_progress(busy: str) -> None:
    snapshot = lab(12, 12)
    if busy == "migration":
        snapshot = changed(snapshot, "g1", migrating_to=NodeId("b"))
    else:
        move = DiskMove(GuestId("g1"), NodeId("a"), "scsi0", "one", "two")
        snapshot = snapshot.with_in_flight(move)

    found = decided(snapshot)

    assert found.plan.steps == ()
    assert any(note.startswith("storage one of a: 90%") for note in found.notes)


def test_other_policies_relieve_storages_and_repair_does_not() -> None:
    snapshot = lab(12)
    optimize = Optimize(limits=LIMITS)
    assert moved(decide(optimize, snapshot, None)) == ["g0"]
    assert decide(Repair(limits=LIMITS), snapshot, None).plan.steps == ()


def test_disk_is_held_back_after_a_failed_move() -> None:
    snapshot = lab(12, 40)
    move = DiskMove(GuestId("g0"), NodeId("a"), "scsi0", "one", "two")
    failed = FailedMigration(
        migration=move, at=snapshot.taken_at, detail="I/O error", targets=frozenset()
    )
    held = replace(snapshot, rules=tuple(hold_rules(snapshot, [failed], Protection())))

    assert moved(decided(snapshot)) == ["g0"]
    assert moved(decided(held)) == ["g1"]
    alone = replace(held, guests={move.guest: held.guests[move.guest]})
    (note,) = [each for each in decided(alone).notes if "g0" in each]
    assert "held back until" in note
    assert "move of disk scsi0 to two failed" in note
    assert "I/O error" in note


@pytest.mark.parametrize("reason", sorted(UNDECIDED))
def test_moves_wait_for_a_policy_that_waits(reason: DecisionReason) -> None:
    waiting: Decision[None] = Decision(reason, None)

    found = with_disk_moves(Balance(limits=LIMITS), lab(12), waiting)

    assert (found.reason, found.plan.steps) == (reason, ())
    assert any("once the policy has decided" in note for note in found.notes)
