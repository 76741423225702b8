"""Setup of a drill from a snapshot: names, services, rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestKind,
    GuestState,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Resources,
    Rule,
    TagExclusion,
    Usage,
)
from opendrs.pve_ha.config.rules import (
    NodeAffinityRule,
    ResourceAffinityRule,
    read_rules,
)
from opendrs.pve_ha.config.rules import PveAffinity as Direction
from opendrs.pve_ha.simulator.pve_names import assign_names
from opendrs.pve_ha.simulator.pve_rules import translate_rules
from opendrs.pve_ha.simulator.service_requests import ServiceRequest, ServiceRequests
from opendrs.pve_ha.simulator.setup import prepare_drill
from opendrs.pve_ha.states import ServiceId
from support.builders import cluster, guest, guest_ids

CLUSTER = cluster(
    nodes={"a": 0.4, "b": 0.2}, guests={"vm:1": ("a", 0.2), "web": ("b", 0.2)}
)


def assigned_name(name: str, kind: GuestKind = GuestKind.VM) -> str:
    (service,) = assign_names([guest(name, "a", None, kind=kind)], []).services.values()
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
def test_assign_names_keeps_valid_names(
    name: str, kind: GuestKind, service: str
) -> None:
    assert assigned_name(name, kind) == service


def test_names_are_unique() -> None:
    guests = [guest(name, "a", None) for name in ("x y", "x_y", "vm:x_y")]

    names = assign_names(guests, [NodeId("a.b"), NodeId("a-b")])

    assert len(set(names.services.values())) == 3
    assert len(set(names.nodes.values())) == 2
    assert names.node_name(names.nodes[NodeId("a.b")]) == "a.b"
    assert all(names.guest_name(names.services[one.id]) == one.id for one in guests)


def test_running_and_stopped_guests_keep_their_state() -> None:
    stopped = guest("old", "a", None, state=GuestState.STOPPED)
    snapshot = replace(CLUSTER, guests={**CLUSTER.guests, stopped.id: stopped})

    scenario = prepare_drill(snapshot).scenario

    assert scenario.running == {"a": {"vm:1"}, "b": {"vm:web"}}
    assert {name: one.state for name, one in scenario.services.items()} == {
        "vm:1": "started",
        "vm:web": "started",
        "vm:old": "stopped",
    }


def test_service_requests_override_the_snapshot() -> None:
    request = ServiceRequest(max_restart=3, failback=False, lock="backup")
    (web,) = guest_ids("web")

    scenario = prepare_drill(CLUSTER, ServiceRequests(by_guest={web: request})).scenario

    result = {str(name): one for name, one in scenario.services.items()}
    assert result["vm:web"].max_restart == 3
    assert result["vm:web"].lock == "backup"
    assert not result["vm:web"].failback
    assert result["vm:1"].max_restart == 1


def test_nodes_start_in_their_state() -> None:
    a, b = CLUSTER.nodes.values()
    nodes = {
        a.id: replace(a, state=NodeState.OFFLINE),
        b.id: replace(b, state=NodeState.MAINTENANCE),
    }

    setup = prepare_drill(replace(CLUSTER, nodes=nodes))

    assert [one.step.text for one in setup.initial_events] == [
        "power b on",
        "crm b enable-node-maintenance",
    ]
    assert setup.scenario.running == {"b": {"vm:web"}}


def test_guest_without_core_limit_has_limit_of_node() -> None:
    limited = guest("x", "a", None, limit=Resources(0, 2 * GIB))
    unknown = guest("y", "a", None)
    guests = {limited.id: limited, unknown.id: unknown}

    scenario = prepare_drill(replace(CLUSTER, guests=guests)).scenario

    assert dict(scenario.limits) == {"vm:x": Usage(10, 2 * GIB), "vm:y": Usage()}


def services(*names: str) -> frozenset[ServiceId]:
    return frozenset(ServiceId(name) for name in names)


NAMES = assign_names(CLUSTER.guests.values(), CLUSTER.nodes)


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
def test_rule_is_translated_to_pve_rule(
    rule: Rule, expected: NodeAffinityRule | ResourceAffinityRule
) -> None:
    result = translate_rules([rule], NAMES)

    assert dict(read_rules(result.text()).rules) == {"near": expected}
    assert result.notes == []


@pytest.mark.parametrize(
    "rule",
    [
        Pin(guests=guest_ids("web")),
        TagExclusion(tags=frozenset(["old"])),
        Affinity(guests=guest_ids("web", "vm:1"), strict=False),
        AntiAffinity(guests=guest_ids("web", "vm:1"), strict=False),
        AntiAffinity(guests=guest_ids("web", "unmanaged")),
        NodeAffinity(guests=guest_ids("unmanaged"), nodes={NodeId("a"): 0}),
        AntiAffinity(guests=guest_ids("web", "db"), domain="rack"),
        AntiAffinity(guests=guest_ids("web", "db", "api"), max_guests=2),
        MutualAntiAffinity(guests=guest_ids("web"), other_guests=guest_ids("db")),
    ],
)
def test_untranslatable_rule_is_noted(rule: Rule) -> None:
    result = translate_rules([rule], NAMES)

    assert not result.rules
    (note,) = result.notes
    assert note.startswith(f'rule "{rule}" ignored: ')


def test_unmanaged_guests_of_a_rule_are_noted() -> None:
    rule = AntiAffinity(guests=guest_ids("web", "vm:1", "unmanaged"), name="apart")

    result = translate_rules([rule, rule], NAMES)

    assert list(result.rules) == ["apart", "apart-2"]
    assert result.notes[0].startswith("apart: ")
    assert result.notes[0].endswith(": unmanaged")
