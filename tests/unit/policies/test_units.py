"""Which guests may be moved, which move as one, and why the others stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import NOON, cluster, guest, guest_ids
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    Exclusion,
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
    Usage,
)
from opendrs.policies.units import Selection, Units, summary, units
from opendrs.rules import compile_rules
from opendrs.scoring import UsageMode

WILLING = Selection(mode=UsageMode.DYNAMIC, relocate=True)
NODE = NodeId("node2")


def found(*guests: Guest, rules: tuple[Rule, ...] = (), **choice: Any) -> Units:  # noqa: ANN401
    snapshot = scene(*guests, rules=rules)
    selection = replace(WILLING, **choice)
    return units(snapshot, compile_rules(snapshot), DEFAULT_LIMITS, selection)


def scene(*guests: Guest, rules: tuple[Rule, ...] = ()) -> Snapshot:
    empty = cluster({"node1": 0.5, "node2": 0.5, "node3": 0.5}, {}, rules)
    return replace(empty, guests={each.id: each for each in guests})


def vm(name: str, where: str = "node1", **changes: Any) -> Guest:  # noqa: ANN401
    return guest(name, where, 0.1, **changes)


def bundles(result: Units) -> dict[str, list[str]]:
    return {
        leader: [member.id for member in unit]
        for leader, unit in result.movable.items()
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
def test_bundles_are_those_of_proxmox(
    guests: list[Guest], rules: tuple[Rule, ...], expected: Mapping[str, list[str]]
) -> None:
    assert bundles(found(*guests, rules=rules)) == expected


def test_the_order_of_guests_does_not_matter() -> None:
    forth, back = found(vm("101"), vm("102")), found(vm("102"), vm("101"))

    assert list(forth.movable) == list(back.movable) == ["101", "102"]


def test_soft_affinity_makes_no_bundle() -> None:
    soft = (Affinity(guests=guest_ids("101", "102"), strict=False),)

    assert bundles(found(vm("101"), vm("102"), rules=soft)) == {
        "101": ["101"],
        "102": ["102"],
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": GuestState.PAUSED}, "guest state paused"),
        ({"state": GuestState.UNKNOWN}, "guest state unknown"),
        ({"migrating_to": NODE}, "it is on the move"),
        ({"moves": Mobility.NEVER}, "it cannot move"),
        (
            {"moves": Mobility.NEVER, "obstacle": "a disk of its own"},
            "it cannot move: a disk of its own",
        ),
        (
            {"moves": Mobility.STOPPED, "obstacle": "a GPU"},
            "it cannot move live: a GPU",
        ),
        ({"uptime": 59.9}, "it started less than 60 s ago"),
        (
            {"moved_at": NOON - timedelta(seconds=599)},
            "it was moved less than 600 s ago",
        ),
        (
            {"moved_at": NOON + timedelta(days=30)},
            "it was moved less than 600 s ago",
        ),
        ({"usage": Usage(1.0, None)}, "its usage is not known"),
        ({"usage": Usage(None, 1)}, "its usage is not known"),
    ],
)
def test_a_guest_that_cannot_be_moved_now_is_left_alone(
    changes: dict[str, Any], why: str
) -> None:
    result = found(vm("x", **changes))

    assert result.movable == {}
    assert result.left_alone == {"x": why}


@pytest.mark.parametrize(
    "changes",
    [
        {"uptime": 60.0},
        {"uptime": None},
        {"moved_at": NOON - timedelta(seconds=600)},
        {"moves": None},
        {"moves": Mobility.STOPPED, "kind": GuestKind.CONTAINER},
        {"ha_managed": False},
        {"obstacle": "only an obstacle to something else"},
        {"usage": Usage(0.0, 0), "limit": None},
    ],
)
def test_a_guest_that_nothing_holds_may_be_moved(changes: dict[str, Any]) -> None:
    result = found(vm("x", **changes))

    assert bundles(result) == {"x": ["x"]}
    assert result.left_alone == {}


def test_a_stopped_guest_is_not_worth_a_word() -> None:
    assert found(vm("x", **STOPPED)) == Units({}, {})


def test_guests_of_a_node_that_is_not_online_stay() -> None:
    snapshot = scene(vm("x"))
    down = replace(snapshot.nodes[NodeId("node1")], state=NodeState.MAINTENANCE)
    snapshot = replace(snapshot, nodes={**snapshot.nodes, down.id: down})

    result = units(snapshot, compile_rules(snapshot), DEFAULT_LIMITS, WILLING)

    assert result.left_alone == {"x": "its node node1 is maintenance"}


def test_pinned_excluded_and_contradicted_guests_stay() -> None:
    rules: tuple[Rule, ...] = (
        Pin(guests=guest_ids("x"), name="licence"),
        Exclusion(tags=frozenset({"lab"}), name="no lab"),
        Affinity(guests=guest_ids("p", "q")),
        AntiAffinity(guests=guest_ids("p", "q")),
    )

    result = found(
        vm("x"), vm("y", tags=frozenset({"lab"})), vm("p"), vm("q"), rules=rules
    )

    assert result.movable == {}
    assert result.left_alone[GuestId("x")] == "rule: licence"
    assert result.left_alone[GuestId("y")] == "rule: no lab"
    assert "contradict" in result.left_alone[GuestId("p")]


def test_containers_stay_where_they_may_not_be_stopped() -> None:
    result = found(vm("x", kind=GuestKind.CONTAINER, moves=None), relocate=False)

    assert result.left_alone == {
        "x": "it is a container, which would have to be stopped to move"
    }


def test_guests_that_no_ha_manager_knows_stay_where_only_those_move() -> None:
    guests = [vm("x", ha_managed=False), vm("y", ha_managed=True), vm("z")]

    result = found(*guests, only_ha_managed=True)

    assert result.left_alone == {"x": "it is not managed by the HA manager"}
    assert list(result.movable) == ["y", "z"]


def test_in_static_mode_a_guest_must_have_a_limit_and_need_not_be_measured() -> None:
    guests = [vm("x", limit=None), vm("y", usage=Usage())]

    result = found(*guests, mode=UsageMode.STATIC)

    assert result.left_alone == {"x": "its usage is not known"}
    assert list(result.movable) == ["y"]


def test_in_static_mode_a_guest_without_cpu_limit_stays_unless_asked_for() -> None:
    free = vm("x", limit=Resources(0, 1))

    stays = found(free, mode=UsageMode.STATIC)
    goes = found(free, mode=UsageMode.STATIC, unlimited=True)

    assert stays.left_alone == {"x": "it has no cpu limit to be weighed by"}
    assert list(goes.movable) == list(found(free).movable) == ["x"]


def test_one_who_stays_keeps_all_of_its_group() -> None:
    result = found(vm("101"), vm("102", moves=Mobility.NEVER), vm("103"), rules=TRIPLE)

    assert result.left_alone == {
        "101": "it moves only with 102, and it cannot move",
        "102": "it cannot move",
        "103": "it moves only with 102, and it cannot move",
    }


def test_a_group_that_is_torn_apart_stays_and_says_so() -> None:
    result = found(vm("101"), vm("102", "node2"), rules=PAIR)

    why = "it must be together with guests that are on other nodes"
    assert result.left_alone == {"101": why, "102": why}


def test_the_summary_names_a_few_guests_for_each_reason() -> None:
    many = {GuestId(f"g{i}"): "why not" for i in range(7)}
    one_more = {GuestId(f"h{i}"): "why" for i in range(6)}
    few = {GuestId(f"f{i}"): "because" for i in range(3)}

    assert summary({**many, **few, **one_more}) == (
        "left alone: f0, f1, f2: because",
        "left alone: g0, g1, g2 and 4 more: why not",
        "left alone: h0, h1, h2 and 3 more: why",
    )
