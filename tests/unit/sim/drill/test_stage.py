"""From a snapshot to the beginning of a drill: names, services, rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import cluster, guest, guest_ids
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.rules import Affinity as Direction
from opendrs.ha.rules import NodeAffinityRule, ResourceAffinityRule, read_rules
from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    Exclusion,
    GuestKind,
    GuestState,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Rule,
    Usage,
)
from opendrs.sim.drill.naming import names_for
from opendrs.sim.drill.stage import staged
from opendrs.sim.drill.translation import translation_of
from opendrs.sim.drill.wishes import Wish, Wishes

CLUSTER = cluster(
    nodes={"a": 0.4, "b": 0.2}, guests={"vm:1": ("a", 0.2), "web": ("b", 0.2)}
)


def called(name: str, kind: GuestKind = GuestKind.VM) -> str:
    (service,) = names_for([guest(name, "a", None, kind=kind)], []).services.values()
    return service


@pytest.mark.parametrize(
    ("name", "kind", "service"),
    [
        ("vm:1", GuestKind.VM, "vm:1"),
        ("ct:1", GuestKind.CONTAINER, "ct:1"),
        ("web", GuestKind.VM, "vm:web"),
        ("web", GuestKind.CONTAINER, "ct:web"),
        ("ct:1", GuestKind.VM, "vm:ct:1"),
        ("fa:199", GuestKind.VM, "vm:fa:199"),
        ("my web, old", GuestKind.VM, "vm:my_web__old"),
    ],
)
def test_a_guest_keeps_its_name_where_that_fits(
    name: str, kind: GuestKind, service: str
) -> None:
    assert called(name, kind) == service


def test_no_two_are_called_alike() -> None:
    guests = [guest(name, "a", None) for name in ("x y", "x_y", "vm:x_y")]

    names = names_for(guests, [NodeId("a.b"), NodeId("a-b")])

    assert len(set(names.services.values())) == 3
    assert len(set(names.nodes.values())) == 2
    assert names.node(names.nodes[NodeId("a.b")]) == "a.b"
    assert all(names.guest(names.services[one.id]) == one.id for one in guests)


def test_running_guests_run_and_stopped_ones_are_wanted_stopped() -> None:
    stopped = guest("old", "a", None, state=GuestState.STOPPED)
    snapshot = replace(CLUSTER, guests={**CLUSTER.guests, stopped.id: stopped})

    scenario = staged(snapshot).scenario

    assert scenario.running == {"a": {"vm:1"}, "b": {"vm:web"}}
    assert {name: one.state for name, one in scenario.services.items()} == {
        "vm:1": "started",
        "vm:web": "started",
        "vm:old": "stopped",
    }


def test_what_the_operator_wants_of_services_goes_before() -> None:
    wish = Wish(max_restart=3, failback=False, lock="backup")
    (web,) = guest_ids("web")

    scenario = staged(CLUSTER, Wishes(of={web: wish})).scenario

    found = {str(name): one for name, one in scenario.services.items()}
    assert found["vm:web"].max_restart == 3
    assert found["vm:web"].lock == "backup"
    assert not found["vm:web"].failback
    assert found["vm:1"].max_restart == 1


def test_nodes_begin_as_they_are() -> None:
    a, b = CLUSTER.nodes.values()
    nodes = {
        a.id: replace(a, state=NodeState.OFFLINE),
        b.id: replace(b, state=NodeState.MAINTENANCE),
    }

    stage = staged(replace(CLUSTER, nodes=nodes))

    assert [one.step.text for one in stage.opening] == [
        "power b on",
        "crm b enable-node-maintenance",
    ]
    assert stage.scenario.running == {"b": {"vm:web"}}


def test_a_guest_without_a_limit_of_cores_may_use_all_of_its_node() -> None:
    limited = guest("x", "a", None, limit=Resources(0, 2 * GIB))
    unknown = guest("y", "a", None)
    guests = {limited.id: limited, unknown.id: unknown}

    scenario = staged(replace(CLUSTER, guests=guests)).scenario

    assert dict(scenario.limits) == {"vm:x": Usage(10, 2 * GIB), "vm:y": Usage()}


def services(*names: str) -> frozenset[ServiceId]:
    return frozenset(ServiceId(name) for name in names)


NAMES = names_for(CLUSTER.guests.values(), CLUSTER.nodes)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            NodeAffinity(guests=guest_ids("web"), nodes={NodeId("a"): 2}, name="near"),
            NodeAffinityRule(
                resources=services("vm:web"), nodes={NodeId("a"): 2}, strict=True
            ),
        ),
        (
            NodeAffinity(
                guests=guest_ids("web"),
                nodes={NodeId("a"): -1, NodeId("b"): 1},
                strict=False,
                name="near",
            ),
            NodeAffinityRule(
                resources=services("vm:web"),
                nodes={NodeId("a"): 0, NodeId("b"): 2},
                strict=False,
            ),
        ),
        (
            Affinity(guests=guest_ids("web", "vm:1"), name="near"),
            ResourceAffinityRule(
                resources=services("vm:web", "vm:1"), affinity=Direction.POSITIVE
            ),
        ),
        (
            AntiAffinity(guests=guest_ids("web", "vm:1"), name="near"),
            ResourceAffinityRule(
                resources=services("vm:web", "vm:1"), affinity=Direction.NEGATIVE
            ),
        ),
    ],
)
def test_a_rule_means_the_same_to_proxmox_ve(
    rule: Rule, expected: NodeAffinityRule | ResourceAffinityRule
) -> None:
    found = translation_of([rule], NAMES)

    assert dict(read_rules(found.text()).rules) == {"near": expected}
    assert found.remarks == []


@pytest.mark.parametrize(
    "rule",
    [
        Pin(guests=guest_ids("web")),
        Exclusion(tags=frozenset(["old"])),
        Affinity(guests=guest_ids("web", "vm:1"), strict=False),
        AntiAffinity(guests=guest_ids("web", "vm:1"), strict=False),
        AntiAffinity(guests=guest_ids("web", "unmanaged")),
        NodeAffinity(guests=guest_ids("unmanaged"), nodes={NodeId("a"): 0}),
    ],
)
def test_a_rule_without_counterpart_is_left_out_and_named(rule: Rule) -> None:
    found = translation_of([rule], NAMES)

    assert not found.rules
    (remark,) = found.remarks
    assert remark.startswith(f"rule left out: {rule} (")


def test_a_rule_binds_only_those_the_manager_knows_and_says_so() -> None:
    rule = AntiAffinity(guests=guest_ids("web", "vm:1", "unmanaged"), name="apart")

    found = translation_of([rule, rule], NAMES)

    assert list(found.rules) == ["apart", "apart-2"]
    assert found.remarks[0] == (
        "apart: does not bind unmanaged, which are not HA-managed"
    )
