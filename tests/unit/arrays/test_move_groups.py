"""Which guests may be moved, which move as one, and why the others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.arrays import (
    MobilityFilter,
    MoveGroups,
    compile_move_groups,
    describe_skipped,
)
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
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


def vm(name: str, node_name: str = "node1", **changes: Any) -> Guest:  # noqa: ANN401
    return guest(name, node_name, 0.1, **changes)


def group_members(result: MoveGroups) -> dict[str, list[str]]:
    return {
        leader: [member.id for member in group]
        for leader, group in result.movable.items()
    }


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


def test_the_order_of_guests_does_not_matter() -> None:
    forth, back = groups_of(vm("101"), vm("102")), groups_of(vm("102"), vm("101"))

    assert list(forth.movable) == list(back.movable) == ["101", "102"]


def test_soft_affinity_makes_no_move_group() -> None:
    soft = (Affinity(guests=guest_ids("101", "102"), strict=False),)

    assert group_members(groups_of(vm("101"), vm("102"), rules=soft)) == {
        "101": ["101"],
        "102": ["102"],
    }


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"state": GuestState.PAUSED}, "guest state paused"),
        ({"state": GuestState.UNKNOWN}, "guest state unknown"),
        ({"migrating_to": NODE}, "it is on the move"),
        ({"mobility": Mobility.NONE}, "it cannot move"),
        (
            {"mobility": Mobility.NONE, "mobility_detail": "a disk of its own"},
            "it cannot move: a disk of its own",
        ),
        (
            {"mobility": Mobility.COLD, "mobility_detail": "a GPU"},
            "it cannot move live: a GPU",
        ),
        ({"uptime": 59.9}, "it started less than 60 s ago"),
        (
            {"migrated_at": NOON - timedelta(seconds=599)},
            "it was moved less than 600 s ago",
        ),
        (
            {"migrated_at": NOON + timedelta(days=30)},
            "it was moved less than 600 s ago",
        ),
        ({"usage": Usage(1.0, None)}, "its usage is not known"),
        ({"usage": Usage(None, 1)}, "its usage is not known"),
    ],
)
def test_immovable_guest_is_skipped_with_reason(
    changes: dict[str, Any], detail: str
) -> None:
    result = groups_of(vm("x", **changes))

    assert result.movable == {}
    assert result.skipped == {"x": detail}


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime": 60.0},
        {"uptime": None},
        {"migrated_at": NOON - timedelta(seconds=600)},
        {"mobility": None},
        {"mobility": Mobility.COLD, "kind": GuestKind.CONTAINER},
        {"ha_managed": False},
        {"mobility_detail": "only an obstacle to something else"},
        {"usage": Usage(0.0, 0), "limit": None},
    ],
)
def test_a_guest_that_nothing_holds_may_be_moved(changes: dict[str, Any]) -> None:
    result = groups_of(vm("x", **changes))

    assert group_members(result) == {"x": ["x"]}
    assert result.skipped == {}


def test_a_stopped_guest_is_not_worth_a_word() -> None:
    assert groups_of(vm("x", **STOPPED)) == MoveGroups({}, {})


def test_guests_of_a_node_that_is_not_online_stay() -> None:
    snapshot = snapshot_of(vm("x"))
    down = replace(snapshot.nodes[NodeId("node1")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, down.id: down})

    result = compile_move_groups(
        snapshot, compile_rules(snapshot), DEFAULT_LIMITS, ANY_GUEST
    )

    assert result.skipped == {"x": "its node node1 is maintenance"}


def test_pinned_excluded_and_contradicted_guests_stay() -> None:
    rules: tuple[Rule, ...] = (
        Pin(guests=guest_ids("x"), name="licence"),
        TagExclusion(tags=frozenset({"lab"}), name="no lab"),
        Affinity(guests=guest_ids("p", "q")),
        AntiAffinity(guests=guest_ids("p", "q")),
    )

    result = groups_of(
        vm("x"), vm("y", tags=frozenset({"lab"})), vm("p"), vm("q"), rules=rules
    )

    assert result.movable == {}
    assert result.skipped[GuestId("x")] == "rule: licence"
    assert result.skipped[GuestId("y")] == "rule: no lab"
    assert "contradict" in result.skipped[GuestId("p")]


def test_containers_stay_where_they_may_not_be_stopped() -> None:
    result = groups_of(
        vm("x", kind=GuestKind.CONTAINER, mobility=None), allow_cold_migration=False
    )

    assert result.skipped == {
        "x": "it is a container, which would have to be stopped to move"
    }


def test_guests_that_no_ha_manager_knows_stay_where_only_those_move() -> None:
    guests = [vm("x", ha_managed=False), vm("y", ha_managed=True), vm("z")]

    result = groups_of(*guests, only_ha_managed=True)

    assert result.skipped == {"x": "it is not managed by the HA manager"}
    assert list(result.movable) == ["y", "z"]


def test_in_static_mode_a_guest_must_have_a_limit_and_need_not_be_measured() -> None:
    guests = [vm("x", limit=None), vm("y", usage=Usage())]

    result = groups_of(*guests, load_model=LoadModel.STATIC)

    assert result.skipped == {"x": "its usage is not known"}
    assert list(result.movable) == ["y"]


def test_static_load_model_skips_guest_without_cpu_limit_by_default() -> None:
    free = vm("x", limit=Resources(0, 1))

    stays = groups_of(free, load_model=LoadModel.STATIC)
    goes = groups_of(free, load_model=LoadModel.STATIC, include_unlimited=True)

    assert stays.skipped == {"x": "it has no cpu limit to be weighed by"}
    assert list(goes.movable) == list(groups_of(free).movable) == ["x"]


def test_immovable_member_skips_whole_group() -> None:
    result = groups_of(
        vm("101"), vm("102", mobility=Mobility.NONE), vm("103"), rules=TRIPLE
    )

    assert result.skipped == {
        "101": "it moves only with 102, and it cannot move",
        "102": "it cannot move",
        "103": "it moves only with 102, and it cannot move",
    }


def test_a_group_that_is_torn_apart_stays_and_says_so() -> None:
    result = groups_of(vm("101"), vm("102", "node2"), rules=PAIR)

    detail = "it must be together with guests that are on other nodes"
    assert result.skipped == {"101": detail, "102": detail}


def test_the_summary_names_a_few_guests_for_each_reason() -> None:
    many = {GuestId(f"g{i}"): "why not" for i in range(7)}
    one_more = {GuestId(f"h{i}"): "why" for i in range(6)}
    few = {GuestId(f"f{i}"): "because" for i in range(3)}

    assert describe_skipped({**many, **few, **one_more}) == (
        "left alone: f0, f1, f2: because",
        "left alone: g0, g1, g2 and 4 more: why not",
        "left alone: h0, h1, h2 and 3 more: why",
    )
