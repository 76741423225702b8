"""Move groups, and reasons of skipped guests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.arrays import (
    MobilityFilter,
    MoveGroups,
    SkippedGuest,
    SkipReason,
    compile_move_groups,
    describe_skipped,
)
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    Disk,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Rule,
    Snapshot,
    Storage,
    TagExclusion,
    Usage,
)
from opendrs.rules import compile_rules
from support.builders import NOON, cluster, guest, guest_ids

ANY_GUEST = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=True)
NODE = NodeId("node2")


def groups_of(
    *guests: Guest,
    rules: tuple[Rule, ...] = (),
    **choice: Any,  # noqa: ANN401
) -> MoveGroups:
    snapshot = snapshot_of(*guests, rules=rules)
    mobility_filter = replace(ANY_GUEST, **choice)
    return compile_move_groups(
        snapshot, compile_rules(snapshot), DEFAULT_LIMITS, mobility_filter
    )


def snapshot_of(*guests: Guest, rules: tuple[Rule, ...] = ()) -> Snapshot:
    empty = cluster({"node1": 0.5, "node2": 0.5, "node3": 0.5}, {}, rules)
    return replace(empty, guests={each.id: each for each in guests})


@pytest.mark.parametrize(
    ("shared", "allowed", "reason"),
    [
        (False, False, SkipReason.LOCAL_DISKS),
        (False, True, None),
        (None, False, None),
        (True, False, None),
    ],
)
def test_guest_with_a_local_disk_moves_only_if_the_limits_allow_it(
    *, shared: bool | None, allowed: bool, reason: SkipReason | None
) -> None:
    snapshot = snapshot_of(vm("a", disks=(Disk(storage="zfs", size=1),)))
    storages = (Storage(id="zfs", shared=shared),)
    nodes = {
        name: replace(node, storages=storages) for name, node in snapshot.nodes.items()
    }
    local = replace(snapshot, nodes=nodes)
    limits = replace(DEFAULT_LIMITS, migrate_local_disks=allowed)

    found = compile_move_groups(local, compile_rules(local), limits, ANY_GUEST)

    skipped = found.skipped.get(GuestId("a"))
    assert (skipped and skipped.reason) is reason


def vm(name: str, node_name: str = "node1", **changes: Any) -> Guest:  # noqa: ANN401
    return guest(name, node_name, 0.1, **changes)


def group_members(result: MoveGroups) -> dict[str, list[str]]:
    return {
        leader: [member.id for member in group]
        for leader, group in result.movable.items()
    }


def reasons_of(result: MoveGroups) -> dict[str, SkipReason]:
    return {guest: each.reason for guest, each in result.skipped.items()}


PAIR = (Affinity(guests=guest_ids("101", "102")),)
TRIPLE = (Affinity(guests=guest_ids("101", "102", "103")),)
STOPPED = {"state": GuestState.STOPPED}


# The cases of Proxmox VE's test_resource_bundles.
@pytest.mark.parametrize(
    ("guests", "rules", "expected"),
    [
        ([vm("101"), vm("102")], (), {"101": ["101"], "102": ["102"]}),
        ([vm("101"), vm("102")], PAIR, {"101": ["101", "102"]}),
        (
            [vm("101", **STOPPED), vm("102"), vm("103")],
            TRIPLE,
            {"102": ["102", "103"]},
        ),
        (
            [vm("101"), vm("102", **STOPPED), vm("103")],
            TRIPLE,
            {"101": ["101", "103"]},
        ),
        (
            [
                vm("101"),
                vm("102", "node2", migrating_to=NodeId("node1")),
                vm("103", "node3", migrating_to=NodeId("node1")),
            ],
            TRIPLE,
            {},
        ),
        ([vm("101"), vm("102", "node2"), vm("103", "node3")], TRIPLE, {}),
    ],
    ids=["alone", "pair", "leader stopped", "member stopped", "moving", "torn"],
)
def test_move_groups_match_proxmox(
    guests: list[Guest], rules: tuple[Rule, ...], expected: Mapping[str, list[str]]
) -> None:
    assert group_members(groups_of(*guests, rules=rules)) == expected


def test_move_groups_are_in_order_of_name() -> None:
    forth, back = groups_of(vm("101"), vm("102")), groups_of(vm("102"), vm("101"))

    assert list(forth.movable) == list(back.movable) == ["101", "102"]


def test_soft_affinity_makes_no_move_group() -> None:
    soft = (Affinity(guests=guest_ids("101", "102"), strict=False),)

    assert group_members(groups_of(vm("101"), vm("102"), rules=soft)) == {
        "101": ["101"],
        "102": ["102"],
    }


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        ({"state": GuestState.PAUSED}, SkipReason.NOT_RUNNING, "guest state paused"),
        ({"state": GuestState.UNKNOWN}, SkipReason.NOT_RUNNING, "guest state unknown"),
        (
            {"migrating_to": NODE},
            SkipReason.MIGRATION_IN_PROGRESS,
            "migration in progress",
        ),
        (
            {"managed_by": "CRS"},
            SkipReason.MANAGED_ELSEWHERE,
            "placement managed by CRS",
        ),
        ({"lock": "backup"}, SkipReason.GUEST_LOCKED, "locked: backup"),
        ({"mobility": Mobility.NONE}, SkipReason.MOBILITY_NONE, "not migratable"),
        (
            {"mobility": Mobility.NONE, "mobility_detail": "a disk of its own"},
            SkipReason.MOBILITY_NONE,
            "not migratable: a disk of its own",
        ),
        (
            {"mobility": Mobility.COLD, "mobility_detail": "a GPU"},
            SkipReason.MOBILITY_COLD,
            "not live-migratable: a GPU",
        ),
        ({"uptime": 59.9}, SkipReason.RECENTLY_STARTED, "started less than 60 s ago"),
        (
            {"migrated_at": NOON - timedelta(seconds=599)},
            SkipReason.COOLDOWN,
            "migrated less than 600 s ago",
        ),
        (
            {"migrated_at": NOON + timedelta(days=30)},
            SkipReason.COOLDOWN,
            "migrated less than 600 s ago",
        ),
        ({"usage": Usage(1.0, None)}, SkipReason.METRICS_MISSING, "usage unknown"),
        ({"usage": Usage(None, 1)}, SkipReason.METRICS_MISSING, "usage unknown"),
    ],
)
def test_immovable_guest_is_skipped_with_reason(
    changes: dict[str, Any], reason: SkipReason, detail: str
) -> None:
    result = groups_of(vm("x", **changes))

    assert result.movable == {}
    assert result.skipped == {"x": SkippedGuest(reason, detail)}


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime": 60.0},
        {"uptime": None},
        {"migrated_at": NOON - timedelta(seconds=600)},
        {"mobility": None},
        {"mobility": Mobility.COLD, "kind": GuestKind.CONTAINER},
        {"ha_managed": False},
        {"mobility_detail": "not relevant for live migration"},
        {"usage": Usage(0.0, 0), "limit": None},
    ],
)
def test_guest_without_skip_reason_is_movable(changes: dict[str, Any]) -> None:
    result = groups_of(vm("x", **changes))

    assert group_members(result) == {"x": ["x"]}
    assert result.skipped == {}


def test_stopped_guest_is_not_reported() -> None:
    assert groups_of(vm("x", **STOPPED)) == MoveGroups({}, {})


def test_guest_on_node_in_maintenance_is_skipped() -> None:
    snapshot = snapshot_of(vm("x"))
    down = replace(snapshot.nodes[NodeId("node1")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, down.id: down})

    result = compile_move_groups(
        snapshot, compile_rules(snapshot), DEFAULT_LIMITS, ANY_GUEST
    )

    assert reasons_of(result) == {"x": SkipReason.NODE_NOT_ONLINE}


def test_guests_with_excluding_or_contradictory_rules_are_skipped() -> None:
    rules: tuple[Rule, ...] = (
        Pin(guests=guest_ids("x"), name="license"),
        TagExclusion(tags=frozenset({"lab"}), name="no lab"),
        Affinity(guests=guest_ids("p", "q")),
        AntiAffinity(guests=guest_ids("p", "q")),
    )

    result = groups_of(
        vm("x"), vm("y", tags=frozenset({"lab"})), vm("p"), vm("q"), rules=rules
    )

    assert result.movable == {}
    assert reasons_of(result) == {
        "x": SkipReason.PINNED,
        "y": SkipReason.TAG_EXCLUDED,
        "p": SkipReason.CONTRADICTORY_RULES,
        "q": SkipReason.CONTRADICTORY_RULES,
    }
    assert result.skipped[GuestId("x")].detail == 'pinned by the rule "license"'
    assert (
        result.skipped[GuestId("y")].detail
        == 'excluded from migration by the rule "no lab"'
    )


def test_contradictory_rules_hide_no_other_reason() -> None:
    rules: tuple[Rule, ...] = (
        Affinity(guests=guest_ids("p", "q")),
        AntiAffinity(guests=guest_ids("p", "q")),
    )

    result = groups_of(vm("p", mobility=Mobility.NONE), vm("q"), rules=rules)

    assert reasons_of(result) == {
        "p": SkipReason.MOBILITY_NONE,
        "q": SkipReason.CONTRADICTORY_RULES,
    }


def test_container_is_skipped_without_cold_migration() -> None:
    result = groups_of(
        vm("x", kind=GuestKind.CONTAINER, mobility=None), allow_cold_migration=False
    )

    assert reasons_of(result) == {"x": SkipReason.MOBILITY_COLD}


def test_only_ha_managed_filter_skips_unmanaged_guest() -> None:
    guests = [vm("x", ha_managed=False), vm("y", ha_managed=True), vm("z")]

    result = groups_of(*guests, only_ha_managed=True)

    assert reasons_of(result) == {"x": SkipReason.NOT_HA_MANAGED}
    assert list(result.movable) == ["y", "z"]


def test_static_load_model_requires_limit_and_no_usage() -> None:
    guests = [vm("x", limit=None), vm("y", usage=Usage())]

    result = groups_of(*guests, load_model=LoadModel.STATIC)

    assert reasons_of(result) == {"x": SkipReason.METRICS_MISSING}
    assert list(result.movable) == ["y"]


def test_static_load_model_skips_guest_without_cpu_limit_by_default() -> None:
    free = vm("x", limit=Resources(0, 1))

    stays = groups_of(free, load_model=LoadModel.STATIC)
    goes = groups_of(free, load_model=LoadModel.STATIC, include_unlimited=True)

    assert reasons_of(stays) == {"x": SkipReason.NO_CPU_LIMIT}
    assert list(goes.movable) == list(groups_of(free).movable) == ["x"]


def test_immovable_member_skips_whole_group() -> None:
    result = groups_of(
        vm("101"), vm("102", mobility=Mobility.NONE), vm("103"), rules=TRIPLE
    )

    assert reasons_of(result) == {
        "101": SkipReason.GROUP_MEMBER_SKIPPED,
        "102": SkipReason.MOBILITY_NONE,
        "103": SkipReason.GROUP_MEMBER_SKIPPED,
    }


def test_group_on_two_nodes_is_skipped() -> None:
    result = groups_of(vm("101"), vm("102", "node2"), rules=PAIR)

    reason = SkipReason.GROUP_ON_SEVERAL_NODES
    assert reasons_of(result) == {"101": reason, "102": reason}


def test_describe_skipped_lists_first_guests_per_reason() -> None:
    pinned = SkippedGuest(SkipReason.PINNED, "rule: license")
    started = SkippedGuest(SkipReason.RECENTLY_STARTED, "started")
    unknown = SkippedGuest(SkipReason.METRICS_MISSING, "usage unknown")
    many = {GuestId(f"g{i}"): pinned for i in range(7)}
    one_more = {GuestId(f"h{i}"): started for i in range(6)}
    few = {GuestId(f"f{i}"): unknown for i in range(3)}

    assert describe_skipped({**many, **few, **one_more}) == (
        "guests skipped: f0, f1, f2: usage unknown",
        "guests skipped: g0, g1, g2 and 4 more: rule: license",
        "guests skipped: h0, h1, h2 and 3 more: started",
    )
