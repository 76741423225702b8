"""Checks of actions on a fresh snapshot, and their rejection reasons."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.guard import RejectionReason, check
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Action,
    Affinity,
    Allocation,
    AntiAffinity,
    ColdMigration,
    DomainAffinity,
    Guest,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    NodeLimits,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Resources,
    Rule,
    Snapshot,
    TagExclusion,
    Usage,
)
from opendrs.rules import new_violations
from support.builders import CAPACITY, NOON, cluster, guest, guest_ids, node
from support.strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM, PEER = GuestId("vm"), GuestId("peer")
MOVE = LiveMigration(VM, A, B)
PEER_MOVE = LiveMigration(PEER, A, B)
TOGETHER = Affinity(guests=guest_ids("vm", "peer"))
APART = AntiAffinity(guests=guest_ids("vm", "peer"))


def plain(*rules: Rule) -> Snapshot:
    return cluster({"a": 0.6, "b": 0.1, "c": 0.1}, {"vm": ("a", 0.3)}, rules)


def pair(*rules: Rule, peer: str = "a") -> Snapshot:
    places = {"vm": ("a", 0.2), "peer": (peer, 0.2)}
    return cluster({"a": 0.6, "b": 0.2, "c": 0.2}, places, rules)


def with_guest(snapshot: Snapshot, guest: Guest) -> Snapshot:
    return replace(snapshot, guests={**snapshot.guests, guest.id: guest})


def with_node(snapshot: Snapshot, node: Node) -> Snapshot:
    return replace(snapshot, nodes={**snapshot.nodes, node.id: node})


def rejection_reason(
    snapshot: Snapshot, *moves: Action, limits: Limits = DEFAULT_LIMITS
) -> RejectionReason | None:
    rejection = check(moves or (MOVE,), snapshot, limits)
    return rejection.reason if rejection else None


def test_migration_to_target_with_memory_is_allowed() -> None:
    assert rejection_reason(plain()) is None


@pytest.mark.parametrize(
    ("snapshot", "move"),
    [
        pytest.param(cluster({"a": 0.1, "b": 0.1}, {}), MOVE, id="guest gone"),
        pytest.param(
            cluster({"a": 0.1, "b": 0.4}, {"vm": ("b", 0.3)}), MOVE, id="guest left"
        ),
        pytest.param(plain(), LiveMigration(VM, A, A), id="on the target already"),
        pytest.param(plain(), LiveMigration(VM, A, NodeId("z")), id="target gone"),
        pytest.param(
            cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.3)}, moving={"vm": "b"}),
            MOVE,
            id="under way",
        ),
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, state=GuestState.PAUSED)),
            MOVE,
            id="not running",
        ),
    ],
)
def test_outdated_migration_is_rejected_as_stale(
    snapshot: Snapshot, move: Action
) -> None:
    assert rejection_reason(snapshot, move) is RejectionReason.STALE_PLAN


def test_guest_migrated_twice_is_rejected_as_stale() -> None:
    assert (
        rejection_reason(plain(), MOVE, LiveMigration(VM, A, C))
        is RejectionReason.STALE_PLAN
    )


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, mobility=Mobility.NONE)),
            id="never",
        ),
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, mobility=Mobility.COLD)),
            id="not live",
        ),
        pytest.param(plain(Pin(guests=guest_ids("vm"))), id="pinned"),
        pytest.param(
            with_guest(
                plain(TagExclusion(tags=frozenset({"fixed"}))),
                guest("vm", "a", 0.3, tags=frozenset({"fixed"})),
            ),
            id="excluded",
        ),
    ],
)
def test_immovable_guest_is_rejected(snapshot: Snapshot) -> None:
    assert rejection_reason(snapshot) is RejectionReason.MIGRATION_NOT_ALLOWED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"managed_by": "CRS"}, RejectionReason.MANAGED_ELSEWHERE),
        ({"lock": "backup"}, RejectionReason.GUEST_LOCKED),
    ],
)
def test_guest_under_control_of_platform_is_rejected(
    changes: dict[str, str], reason: RejectionReason
) -> None:
    held = guest("vm", "a", 0.3, **changes)

    assert rejection_reason(with_guest(plain(), held)) is reason


def test_rejection_detail_contains_mobility_detail() -> None:
    tied = guest("vm", "a", 0.3, mobility=Mobility.COLD, mobility_detail="a local disk")

    rejection = check((MOVE,), with_guest(plain(), tied), DEFAULT_LIMITS)

    assert rejection is not None
    assert rejection.detail == "vm: not live-migratable: a local disk"


def test_cold_migration_of_guest_without_live_mobility_is_allowed() -> None:
    snapshot = with_guest(plain(), guest("vm", "a", 0.3, mobility=Mobility.COLD))

    assert rejection_reason(snapshot, ColdMigration(VM, A, B)) is None


@pytest.mark.parametrize("state", [s for s in NodeState if s is not NodeState.ONLINE])
def test_target_not_online_is_rejected(state: NodeState) -> None:
    assert (
        rejection_reason(with_node(plain(), node("b", 0.1, state=state)))
        is RejectionReason.TARGET_OFFLINE
    )


def test_other_architecture_is_rejected() -> None:
    mixed = with_node(plain(), node("a", 0.6, architecture="x86_64"))
    mixed = with_node(mixed, node("b", 0.1, architecture="aarch64"))

    assert rejection_reason(mixed) is RejectionReason.CPU_INCOMPATIBLE


def test_unknown_architecture_is_allowed() -> None:
    assert (
        rejection_reason(with_node(plain(), node("b", 0.1, architecture="x86_64")))
        is None
    )


@pytest.mark.parametrize(
    ("cpu_model", "reason"),
    [
        ("EPYC", None),
        ("Skylake", RejectionReason.CPU_INCOMPATIBLE),
        (None, "cpu-incompatible"),
    ],
)
def test_guest_with_cpu_model_needs_known_equal_cpu_model(
    cpu_model: str | None, reason: RejectionReason | None
) -> None:
    snapshot = with_guest(plain(), guest("vm", "a", 0.3, cpu_model="EPYC"))

    assert (
        rejection_reason(with_node(snapshot, node("b", 0.1, cpu_model=cpu_model)))
        == reason
    )


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param(with_node(plain(), node("b", None)), id="use of the target"),
        pytest.param(
            with_node(plain(), node("b", 0.1, capacity=None)), id="its capacity"
        ),
        pytest.param(with_guest(plain(), guest("vm", "a", None)), id="use of a guest"),
        pytest.param(
            with_guest(plain(), guest("other", "b", None)), id="a guest on the target"
        ),
        pytest.param(
            with_guest(plain(), guest("other", "a", None, migrating_to=B)),
            id="a guest on its way",
        ),
    ],
)
def test_missing_memory_metric_is_rejected(snapshot: Snapshot) -> None:
    assert rejection_reason(snapshot) is RejectionReason.METRICS_MISSING


def test_a_guest_without_limit_counts_with_what_it_uses() -> None:
    unlimited = guest("other", "b", 0.1, limit=None)

    assert rejection_reason(with_guest(plain(), unlimited)) is None


def test_a_memory_limit_of_0_is_no_limit() -> None:
    # 0.3 + 0.8 is more than the node has.
    unlimited = guest("other", "b", 0.8, limit=Resources(1, 0))

    assert (
        rejection_reason(with_guest(plain(), unlimited))
        is RejectionReason.MEMORY_OVERCOMMITTED
    )


def test_target_over_headroom_by_one_byte_is_rejected() -> None:
    # 95 of 100 GiB may be used: 65 are, and 30 arrive.
    brim = replace(node("b", 0.1), usage=Usage(1.0, 65 * GIB))
    over = replace(node("b", 0.1), usage=Usage(1.0, 65 * GIB + 1))

    assert rejection_reason(with_node(plain(), brim)) is None
    assert (
        rejection_reason(with_node(plain(), over))
        is RejectionReason.INSUFFICIENT_MEMORY
    )


def test_arriving_guests_count_on_target() -> None:
    arriving = guest("other", "c", 0.4, migrating_to=B)
    snapshot = with_node(with_guest(plain(), arriving), node("b", 0.3))

    assert rejection_reason(snapshot) is RejectionReason.INSUFFICIENT_MEMORY


def test_rejection_detail_names_used_and_arriving_memory() -> None:
    rejection = check((MOVE,), with_node(plain(), node("b", 0.7)), DEFAULT_LIMITS)

    assert rejection is not None
    assert rejection.detail == (
        "b: 70.0 GiB in use and 30.0 GiB arriving, allowed are 95.0 GiB of 100.0 GiB"
    )


def test_committed_memory_over_overcommit_limit_is_rejected() -> None:
    # 0.3 of the node is promised to vm, 0.8 to the other one.
    greedy = guest("other", "b", 0.1, limit=Resources(1, 80 * GIB))
    snapshot = with_guest(plain(), greedy)

    assert rejection_reason(snapshot) is RejectionReason.MEMORY_OVERCOMMITTED
    assert rejection_reason(snapshot, limits=Limits(memory_overcommit=1.1)) is None


def test_committed_cpu_over_overcommit_limit_is_rejected() -> None:
    # vm has 3 cores of 10, the other one 8: 11 are committed.
    greedy = guest("other", "b", 0.1, limit=Resources(8, GIB))
    snapshot = with_guest(plain(), greedy)

    def reason(**limits: Any) -> RejectionReason | None:  # noqa: ANN401 - of a limit
        return rejection_reason(snapshot, limits=Limits(**limits))

    assert reason() is None
    assert reason(cpu_overcommit=1.1) is None
    assert reason(cpu_overcommit=1.0) is RejectionReason.CPU_OVERCOMMITTED
    reserved = reason(cpu_overcommit=1.2, reserved_cpu="10 %")
    assert reserved is RejectionReason.CPU_OVERCOMMITTED
    lax = NodeLimits(nodes=(NodeId("b"),), cpu_overcommit=2.0)
    assert reason(cpu_overcommit=1.0, overrides=(lax,)) is None


def test_platform_allocation_ratio_is_enforced() -> None:
    greedy = guest("other", "b", 0.1, limit=Resources(8, GIB))
    nova = node("b", 0.1, allocation=Allocation(cpu_ratio=1.0))
    snapshot = with_node(with_guest(plain(), greedy), nova)

    assert rejection_reason(snapshot) is RejectionReason.CPU_OVERCOMMITTED


def test_reserved_memory_is_kept_free() -> None:
    # b uses 10 GiB and vm 30; of 100 GiB 60 are reserved, then 59.
    for reserve, reason in ((61, RejectionReason.INSUFFICIENT_MEMORY), (60, None)):
        limits = Limits(reserved_memory=f"{reserve} GiB", memory_overcommit=2.0)
        assert rejection_reason(plain(), limits=limits) is reason


def test_guest_of_unknown_cpu_is_rejected_where_it_is_limited() -> None:
    unknown = guest("other", "b", 0.1, limit=None, usage=Usage(None, GIB))
    snapshot = with_guest(plain(), unknown)

    assert rejection_reason(snapshot) is None
    limited = rejection_reason(snapshot, limits=Limits(cpu_overcommit=9.0))
    assert limited is RejectionReason.METRICS_MISSING


def test_stopped_guest_commits_no_memory() -> None:
    stopped = guest("other", "b", 0.9, state=GuestState.STOPPED)

    assert rejection_reason(with_guest(plain(), stopped)) is None


def test_anti_affinity_violation_is_rejected() -> None:
    assert rejection_reason(pair(APART, peer="b")) is RejectionReason.RULE_VIOLATED


def test_soft_anti_affinity_violation_is_allowed() -> None:
    assert rejection_reason(pair(replace(APART, strict=False), peer="b")) is None


def test_node_affinity_violation_is_rejected() -> None:
    assert (
        rejection_reason(
            plain(NodeAffinity(guests=guest_ids("vm"), nodes={A: 1, C: 1}))
        )
        is RejectionReason.RULE_VIOLATED
    )


def test_affinity_violation_is_rejected() -> None:
    assert rejection_reason(pair(TOGETHER)) is RejectionReason.RULE_VIOLATED


def test_affinity_group_may_migrate_together() -> None:
    assert rejection_reason(pair(TOGETHER), MOVE, PEER_MOVE) is None


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("rack=1", "rack=1", None),
        ("rack=1", "rack=2", RejectionReason.RULE_VIOLATED),
        ("rack=1", "other", RejectionReason.RULE_VIOLATED),
        ("other", "rack=1", None),  # in no rack before: the rule is already violated
        ("other", "other", None),
    ],
)
def test_guests_of_one_rack_are_not_separated(
    source: str, target: str, reason: RejectionReason | None
) -> None:
    snapshot = pair(DomainAffinity(guests=guest_ids("vm", "peer"), domain="rack"))
    labels = {A: frozenset({source}), B: frozenset({target})}
    nodes = {
        name: replace(each, labels=labels.get(name, frozenset()))
        for name, each in snapshot.nodes.items()
    }

    assert rejection_reason(replace(snapshot, nodes=nodes)) is reason


def test_violated_rule_may_stay_violated() -> None:
    assert rejection_reason(pair(APART), MOVE, PEER_MOVE) is None


def test_violated_rule_may_be_repaired() -> None:
    assert rejection_reason(pair(TOGETHER, peer="b")) is None


def test_migrating_guest_counts_on_both_nodes() -> None:
    passing = cluster(
        {"a": 0.3, "b": 0.1, "c": 0.3},
        {"vm": ("a", 0.2), "peer": ("b", 0.1)},
        [APART],
        moving={"peer": "c"},
    )

    assert rejection_reason(passing) is RejectionReason.RULE_VIOLATED
    assert (
        rejection_reason(passing, LiveMigration(VM, A, C))
        is RejectionReason.RULE_VIOLATED
    )


def test_affinity_broken_after_running_migration_is_rejected() -> None:
    # Both are on b while peer is under way, and never again.
    crossing = cluster(
        {"a": 0.3, "b": 0.1},
        {"vm": ("b", 0.2), "peer": ("a", 0.1)},
        [TOGETHER],
        moving={"peer": "b"},
    )

    assert (
        rejection_reason(crossing, LiveMigration(VM, B, A))
        is RejectionReason.RULE_VIOLATED
    )


@pytest.mark.parametrize(
    ("ago", "reason"),
    [
        (599, RejectionReason.COOLDOWN),
        (600, None),
        (-599, RejectionReason.COOLDOWN),  # another clock is a little ahead
        (-3600, RejectionReason.COOLDOWN),  # a time in the future is treated as now
    ],
)
def test_guest_in_cooldown_is_rejected(
    ago: int, reason: RejectionReason | None
) -> None:
    moved = replace(plain().guests[VM], migrated_at=NOON - timedelta(seconds=ago))

    rejection = check((MOVE,), with_guest(plain(), moved), DEFAULT_LIMITS)

    assert (rejection.reason if rejection else None) == reason


@pytest.mark.parametrize(
    ("uptime", "reason"),
    [(59.0, RejectionReason.RECENTLY_STARTED), (60.0, None), (None, None)],
)
def test_recently_started_guest_is_rejected(
    uptime: float | None, reason: RejectionReason | None
) -> None:
    snapshot = with_guest(plain(), guest("vm", "a", 0.3, uptime=uptime))

    assert rejection_reason(snapshot) == reason


@pytest.mark.parametrize(
    ("ago", "reason"), [(599, RejectionReason.COOLDOWN), (600, None)]
)
def test_power_off_of_node_in_cooldown_is_rejected(
    ago: int, reason: RejectionReason | None
) -> None:
    nodes = plain().nodes
    powered_on = replace(nodes[B], powered_on_at=NOON - timedelta(seconds=ago))

    snapshot = replace(plain(), nodes={**nodes, B: powered_on})

    assert rejection_reason(snapshot, PowerOff(B)) == reason


def test_power_off_of_node_with_guests_is_rejected() -> None:
    assert rejection_reason(plain(), PowerOff(A)) is RejectionReason.NODE_NOT_EMPTY
    assert rejection_reason(plain(), PowerOff(B)) is None


def test_power_off_of_node_with_arriving_guest_is_rejected() -> None:
    awaiting = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.3)}, moving={"vm": "b"})

    assert rejection_reason(awaiting, PowerOff(B)) is RejectionReason.NODE_NOT_EMPTY


def test_power_off_of_node_with_stopped_guest_is_rejected() -> None:
    stopped = guest("vm2", "b", 0.0, state=GuestState.STOPPED)

    assert (
        rejection_reason(with_guest(plain(), stopped), PowerOff(B))
        is RejectionReason.NODE_NOT_EMPTY
    )


def test_power_off_of_unreachable_node_is_rejected() -> None:
    silent = with_node(plain(), node("b", None, state=NodeState.UNKNOWN))

    assert rejection_reason(silent, PowerOff(B)) is RejectionReason.NODE_UNREACHABLE
    assert rejection_reason(silent, PowerOn(B)) is None


def test_redundant_power_action_is_rejected_as_stale() -> None:
    powered_off = with_node(plain(), node("b", 0.0, state=NodeState.OFFLINE))

    assert rejection_reason(plain(), PowerOn(B)) is RejectionReason.STALE_PLAN
    assert rejection_reason(powered_off, PowerOff(B)) is RejectionReason.STALE_PLAN
    assert rejection_reason(powered_off, PowerOn(B)) is None
    assert (
        rejection_reason(powered_off, PowerOn(NodeId("z")))
        is RejectionReason.STALE_PLAN
    )


@st.composite
def starting_migrations(draw: st.DrawFn) -> tuple[Snapshot, tuple[LiveMigration, ...]]:
    """Draw a cluster, and one to three of its guests that are to go somewhere."""
    snapshot = draw(snapshots().filter(lambda drawn: bool(drawn.guests)))
    names = draw(
        st.lists(
            st.sampled_from(sorted(snapshot.guests)),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    target = draw(st.sampled_from(sorted(snapshot.nodes)))
    moves = (LiveMigration(name, snapshot.guests[name].node, target) for name in names)
    return snapshot, tuple(moves)


@given(starting_migrations())
def test_allowed_migrations_violate_no_strict_rule_and_no_headroom(
    drawn: tuple[Snapshot, tuple[LiveMigration, ...]],
) -> None:
    snapshot, moves = drawn
    rejection = check(moves, snapshot, DEFAULT_LIMITS)
    event("rejected" if rejection else "accepted")
    if rejection:
        return
    during = done = snapshot
    for move in moves:
        during, done = during.with_in_flight(move), done.apply(move)

    assert not new_violations(snapshot, during)
    assert not new_violations(snapshot, done)
    for target in {done.nodes[move.target] for move in moves}:
        assert target.online
        assert target.capacity is not None
        assert target.usage.memory is not None
        assert target.usage.memory <= target.capacity.memory * 0.95


@given(starting_migrations())
def test_looser_limits_never_add_a_rejection(
    drawn: tuple[Snapshot, tuple[LiveMigration, ...]],
) -> None:
    snapshot, moves = drawn
    free = Limits(memory_headroom=0, memory_overcommit=100, cooldown=0, min_uptime=0)
    if check(moves, snapshot, DEFAULT_LIMITS) is None:
        assert check(moves, snapshot, free) is None


@given(starting_migrations())
def test_every_rejection_has_a_detail(
    drawn: tuple[Snapshot, tuple[LiveMigration, ...]],
) -> None:
    snapshot, moves = drawn
    rejection = check(moves, snapshot, DEFAULT_LIMITS)
    if rejection is not None:
        assert len(rejection.detail) > 10
        assert str(rejection).startswith(rejection.reason)


def test_the_capacity_the_examples_count_on() -> None:
    assert CAPACITY.memory == 100 * GIB
