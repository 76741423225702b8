"""The policies drain and return: spread, rules, and guests that cannot move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.controller.step_groups import group_steps
from opendrs.guard import check
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    ColdMigration,
    Disk,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Relocation,
    Rule,
    Snapshot,
    Storage,
)
from opendrs.policies import Decision, DecisionReason, Drain, Return
from support.builders import cluster, guest, guest_ids

LIMITS = Limits(cooldown=0, min_uptime=0)
N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")


def drained(snapshot: Snapshot, *names: str) -> Snapshot:
    changed = {
        NodeId(name): replace(snapshot.nodes[NodeId(name)], state=NodeState.MAINTENANCE)
        for name in names
    }
    return replace(snapshot, nodes={**snapshot.nodes, **changed})


def three_nodes(rules: Iterable[Rule] = ()) -> Snapshot:
    snapshot = cluster(
        nodes={"n1": 0.4, "n2": 0.2, "n3": 0.2},
        guests={
            "a": ("n1", 0.1),
            "b": ("n1", 0.1),
            "c": ("n1", 0.1),
            "d": ("n1", 0.1),
            "e": ("n2", 0.2),
            "f": ("n3", 0.2),
        },
        rules=rules,
    )
    return drained(snapshot, "n1")


def with_guest(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    changed = replace(snapshot.guests[GuestId(name)], **changes)  # type: ignore[arg-type]
    return replace(snapshot, guests={**snapshot.guests, changed.id: changed})


def decide(snapshot: Snapshot) -> Decision[None]:
    return Drain(limits=LIMITS).decide(snapshot, None)


def after(snapshot: Snapshot, decision: Decision[None]) -> Snapshot:
    return snapshot.apply(*(step.action for step in decision.plan.steps))


def targets(decision: Decision[Any]) -> list[NodeId]:
    actions = [step.action for step in decision.plan.steps]
    assert not any(isinstance(each, PowerOn | PowerOff) for each in actions)
    return [each.target for each in actions if not isinstance(each, PowerOn | PowerOff)]


def test_guests_are_spread_over_the_other_nodes() -> None:
    decision = decide(three_nodes())

    assert decision.reason is DecisionReason.DRAINS_NODES
    assert sorted(targets(decision)) == [N2, N2, N3, N3]
    assert decision.skipped == {}


def test_reason_of_a_step_is_the_maintenance_and_no_violated_rule() -> None:
    details = [step.detail for step in decide(three_nodes()).plan.steps]

    assert len(details) == 4
    for detail in details:
        assert detail.endswith("; maintenance of n1")
        assert "violated" not in detail


def test_no_other_guest_moves() -> None:
    unbalanced = cluster(
        nodes={"n1": 0.1, "n2": 0.8, "n3": 0.0},
        guests={"a": ("n1", 0.1), "b": ("n2", 0.4), "c": ("n2", 0.4)},
    )

    decision = decide(drained(unbalanced, "n1"))

    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("a"), N1, N3)
    ]


def test_other_guest_moves_first_if_necessary() -> None:
    # b may run on n3 alone, which c fills; c fits on n2.
    rule = NodeAffinity(guests=guest_ids("b"), nodes={N1: 0, N3: 0})
    full = cluster(
        nodes={"n1": 0.5, "n2": 0.1, "n3": 0.6},
        guests={"b": ("n1", 0.5), "c": ("n3", 0.6)},
        rules=[rule],
    )
    snapshot = drained(full, "n1")

    decision = decide(snapshot)

    assert decision.reason is DecisionReason.DRAINS_NODES
    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("c"), N3, N2),
        LiveMigration(GuestId("b"), N1, N3),
    ]
    assert decision.plan.steps[1].depends_on == (decision.plan.steps[0].id,)


def test_rules_hold() -> None:
    rule = AntiAffinity(guests=guest_ids("a", "e"))
    snapshot = three_nodes([rule])

    final = after(snapshot, decide(snapshot))

    assert final.guests[GuestId("a")].node == N3


def test_stopped_guest_is_relocated_by_committed_memory() -> None:
    snapshot = with_guest(three_nodes(), "a", state=GuestState.STOPPED)
    snapshot = with_guest(snapshot, "b", state=GuestState.STOPPED)

    decision = decide(snapshot)

    moves = [
        step.action
        for step in decision.plan.steps
        if isinstance(step.action, Relocation)
    ]
    assert [move.guest for move in moves] == ["a", "b"]
    assert {move.target for move in moves} == {N2, N3}
    assert all(check([move], snapshot, LIMITS) is None for move in moves)


def test_stopped_guest_is_not_relocated_next_to_one_of_strict_anti_affinity() -> None:
    snapshot = cluster(
        nodes={"n1": 0.0, "n2": 0.0, "n3": 0.0},
        guests={"a": ("n1", 0.1), "b": ("n2", 0.1), "c": ("n3", 0.1)},
        rules=[AntiAffinity(guests=guest_ids("a", "b", "c"))],
    )
    snapshot = drained(with_guest(snapshot, "a", state=GuestState.STOPPED), "n1")

    decision = decide(snapshot)

    assert decision.plan.steps == ()
    assert decision.skipped[GuestId("a")].reason is SkipReason.NO_FEASIBLE_NODE
    softly = AntiAffinity(guests=guest_ids("a", "b", "c"), strict=False)
    assert len(decide(replace(snapshot, rules=(softly,))).plan.steps) == 1


def test_stopped_guest_alone_is_relocated_where_it_could_start() -> None:
    rule = NodeAffinity(guests=guest_ids("a"), nodes={N1: 0, N3: 0})
    snapshot = cluster(nodes={"n1": 0, "n2": 0, "n3": 0.5}, guests={}, rules=[rule])
    stopped = guest("a", "n1", 0.1, state=GuestState.STOPPED)
    snapshot = drained(replace(snapshot, guests={stopped.id: stopped}), "n1")

    decision = decide(snapshot)

    assert targets(decision) == [N3]
    wrong = Relocation(stopped.id, N1, N2)
    rejection = check([wrong], snapshot, LIMITS)
    assert rejection is not None
    assert rejection.reason == "rule-violated"


def test_stopped_guest_goes_where_the_running_one_of_its_affinity_is() -> None:
    snapshot = cluster(
        nodes={"n1": 0.1, "n2": 0.4, "n3": 0.0},
        guests={"a": ("n1", 0.1), "b": ("n2", 0.4)},
        rules=[Affinity(guests=guest_ids("a", "b"))],
    )
    snapshot = drained(with_guest(snapshot, "a", state=GuestState.STOPPED), "n1")

    assert targets(decide(snapshot)) == [N2]  # although n3 is empty
    rejection = check([Relocation(GuestId("a"), N1, N3)], snapshot, LIMITS)
    assert rejection is not None
    assert rejection.reason == "rule-violated"


def test_stopped_guest_starts_together_with_the_running_one_of_its_affinity() -> None:
    snapshot = cluster(
        nodes={"n1": 0.2, "n2": 0.4, "n3": 0.0},
        guests={"a": ("n1", 0.1), "b": ("n1", 0.1)},
        rules=[Affinity(guests=guest_ids("a", "b"))],
    )
    snapshot = drained(with_guest(snapshot, "a", state=GuestState.STOPPED), "n1")

    steps = decide(snapshot).plan.steps

    assert targets(decide(snapshot)) == [N3, N3]
    (group,) = group_steps(steps, snapshot.rules)
    assert check([step.action for step in group], snapshot, LIMITS) is None


def test_stopped_guest_follows_one_of_its_affinity_from_another_node() -> None:
    snapshot = cluster(
        nodes={"n1": 0.1, "n2": 0.2, "n3": 0.0},
        guests={"a": ("n1", 0.1), "b": ("n2", 0.2)},
        rules=[Affinity(guests=guest_ids("a", "b"))],
    )
    snapshot = drained(with_guest(snapshot, "a", state=GuestState.STOPPED), "n1", "n2")

    first, second = decide(snapshot).plan.steps

    assert second.action == Relocation(GuestId("a"), N1, N3)
    assert second.depends_on == (first.id,)


def test_container_is_restarted() -> None:
    snapshot = with_guest(
        three_nodes(), "a", kind=GuestKind.CONTAINER, mobility=Mobility.COLD
    )

    (kind,) = (
        type(step.action)
        for step in decide(snapshot).plan.steps
        if not isinstance(step.action, PowerOn | PowerOff) and step.action.guest == "a"
    )

    assert kind is ColdMigration


STOPPED = {"state": GuestState.STOPPED}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lock": "backup"}, SkipReason.GUEST_LOCKED),
        ({"lock": "backup", **STOPPED}, SkipReason.GUEST_LOCKED),
        ({"mobility": Mobility.NONE}, SkipReason.MOBILITY_NONE),
        ({"mobility": Mobility.NONE, **STOPPED}, SkipReason.MOBILITY_NONE),
        ({"managed_by": "CRS"}, SkipReason.MANAGED_ELSEWHERE),
        ({"managed_by": "CRS", **STOPPED}, SkipReason.MANAGED_ELSEWHERE),
        ({"state": GuestState.PAUSED}, SkipReason.NOT_RUNNING),
        ({"cpu_model": "EPYC"}, SkipReason.NO_FEASIBLE_NODE),
        ({"cpu_model": "EPYC", **STOPPED}, SkipReason.NO_FEASIBLE_NODE),
    ],
)
def test_guest_that_cannot_move_is_named_and_others_leave(
    changes: dict[str, object], reason: SkipReason
) -> None:
    snapshot = with_guest(three_nodes(), "a", **changes)

    decision = decide(snapshot)

    assert {name: each.reason for name, each in decision.skipped.items()} == {
        GuestId("a"): reason
    }
    left = [
        each.id for each in after(snapshot, decision).guests.values() if each.node == N1
    ]
    assert left == ["a"]


def test_pinned_guest_stays() -> None:
    snapshot = three_nodes([Pin(guests=guest_ids("a"))])

    assert decide(snapshot).skipped[GuestId("a")].reason is SkipReason.PINNED


def test_guest_without_memory_elsewhere_is_named() -> None:
    full = cluster(
        nodes={"n1": 0.5, "n2": 0.8}, guests={"a": ("n1", 0.5), "b": ("n2", 0.8)}
    )

    decision = decide(drained(full, "n1"))

    assert decision.reason is DecisionReason.NO_CANDIDATE
    assert decision.skipped[GuestId("a")].reason is SkipReason.NO_FEASIBLE_NODE
    assert "GiB short" in decision.skipped[GuestId("a")].detail


def test_migration_in_progress_is_waited_for() -> None:
    snapshot = with_guest(three_nodes(), "a", migrating_to=N2)

    assert decide(snapshot).reason is DecisionReason.MIGRATION_IN_PROGRESS


def test_empty_node_needs_nothing() -> None:
    empty = cluster(nodes={"n1": 0, "n2": 0.5}, guests={"b": ("n2", 0.5)})

    assert decide(drained(empty, "n1")).reason is DecisionReason.NODES_EMPTY


def test_return_is_not_prevented_as_undoing() -> None:
    horizon = NodeAffinity(
        guests=guest_ids("a"), nodes={N2: 0}, name="no return", origin="undo horizon"
    )
    snapshot = cluster(
        nodes={"n1": 0, "n2": 0.1}, guests={"a": ("n2", 0.1)}, rules=[horizon]
    )

    decision = Return(limits=LIMITS).decide(
        snapshot, {"node": "n1", "guests": {"a": "n2"}}
    )

    assert targets(decision) == [N1]


def test_guests_return_from_where_they_were_put() -> None:
    snapshot = cluster(
        nodes={"n1": 0, "n2": 0.3, "n3": 0.1},
        guests={"a": ("n2", 0.1), "b": ("n3", 0.1), "e": ("n2", 0.2)},
    )
    snapshot = with_guest(snapshot, "b", state=GuestState.STOPPED)

    decision = Return(limits=LIMITS).decide(
        snapshot, {"node": "n1", "guests": {"a": "n2", "b": "n3", "e": "n3"}}
    )

    assert decision.reason is DecisionReason.RETURNS_GUESTS
    assert [step.action for step in decision.plan.steps] == [
        LiveMigration(GuestId("a"), N2, N1),
        Relocation(GuestId("b"), N3, N1),
    ]


def test_stopped_guests_go_where_their_local_disks_have_space() -> None:
    # Two disks of 30 GiB: 40 GiB are free on n2, and 35 on n3, so each gets one.
    snapshot = three_nodes()
    free = {"n1": 0, "n2": 40, "n3": 35}
    nodes = {
        name: replace(
            node,
            storages=(Storage(id="zfs", shared=False, free=free[name] * GIB),),
        )
        for name, node in snapshot.nodes.items()
    }
    disks = (Disk(storage="zfs", size=30 * GIB),)
    guests = {
        name: replace(each, state=GuestState.STOPPED, disks=disks)
        for name, each in snapshot.guests.items()
        if name in {"a", "b", "c"}
    }
    local = replace(snapshot, nodes=nodes, guests=guests)

    copied = Drain(limits=replace(LIMITS, migrate_local_disks=True)).decide(local, None)
    kept = Drain(limits=LIMITS).decide(local, None)

    targets = {step.action.target for step in copied.plan.steps}  # type: ignore[union-attr]
    assert targets == {N2, N3}
    assert [each.reason for each in copied.skipped.values()] == [
        SkipReason.NO_FEASIBLE_NODE
    ]
    assert not kept.plan.steps
    assert {each.reason for each in kept.skipped.values()} == {SkipReason.LOCAL_DISKS}


def test_stopped_guest_with_an_empty_local_disk_goes_where_storages_are_unknown() -> (
    None
):
    snapshot = three_nodes()
    stopped = replace(
        guest("a", "n1", 0.1, state=GuestState.STOPPED),
        disks=(Disk(storage="zfs", size=0),),
    )
    local = replace(
        snapshot.nodes[N1], storages=(Storage(id="zfs", shared=False, free=GIB),)
    )
    snapshot = drained(
        replace(
            snapshot,
            nodes={**snapshot.nodes, N1: local},
            guests={stopped.id: stopped},
        ),
        "n1",
    )
    limits = replace(LIMITS, migrate_local_disks=True)

    decision = Drain(limits=limits).decide(snapshot, None)

    assert [type(step.action) for step in decision.plan.steps] == [Relocation]
