"""High availability of Proxmox VE: status, owners of guests, rules and groups."""

from __future__ import annotations

import pytest

from opendrs.model import Affinity, AntiAffinity, GuestId, NodeAffinity, NodeId
from opendrs.platforms.proxmox.ha import (
    HaService,
    HaStatus,
    HaView,
    ha_owner,
    ha_rules,
    parse_auto_rebalance,
    parse_ha_status,
    rebalanced_resources,
)
from opendrs.platforms.proxmox.responses import HaGroupRow, HaResourceRow, HaRuleRow

GUESTS = {f"vm:{number}": GuestId(f"g{number}") for number in (1, 2, 3)}
NODES = [NodeId("n1"), NodeId("n2")]


def resource(sid: str, **changes: object) -> HaResourceRow:
    return HaResourceRow.model_validate({"sid": sid, "state": "started", **changes})


def rule(**fields: object) -> HaRuleRow:
    return HaRuleRow.model_validate({"rule": "r", **fields})


def view(service: str = "started", **changes: object) -> HaView:
    status = HaStatus(services={"vm:1": HaService(service, "n1")})
    values: dict[str, object] = {
        "resources": {"vm:1": resource("vm:1")},
        "status": status,
    }
    return HaView(**(values | changes))  # type: ignore[arg-type]


def test_status_without_a_master_is_empty() -> None:
    status = parse_ha_status({"manager_status": {"node_status": {}}}, "test")

    assert status == HaStatus()


def test_states_of_another_type_are_unknown() -> None:
    odd: dict[str, object] = {"n1": {}, "n2": [], "n3": None, "n4": "maintenance"}

    status = parse_ha_status({"manager_status": {"node_status": odd}}, "test")

    assert status == HaStatus(maintenance=frozenset({"n4"}))


def test_status_has_services_maintenance_and_the_latest_time() -> None:
    status = parse_ha_status(
        {
            "manager_status": {
                "timestamp": 100,
                "node_status": {"n1": "online", "n2": "maintenance", "n3": "fence"},
                "node_request": {"n1": {}, "n4": {"maintenance": 1}},
                "service_status": {
                    "vm:1": {"state": "migrate", "node": "n1", "target": "n2"}
                },
                "disarm": {"mode": "freeze", "state": "disarmed"},
            },
            "lrm_status": {"n1": {"timestamp": 107}, "n2": {"timestamp": 99}},
        },
        "test",
    )

    assert status.services == {"vm:1": HaService("migrate", "n1", "n2")}
    assert status.maintenance == frozenset({"n2", "n4"})
    assert status.lost_nodes == frozenset({"n3"})
    assert (status.disarm_mode, status.reported_at) == ("freeze", 107)


@pytest.mark.parametrize(
    ("scheduling", "expected"),
    [
        ({"crs": {"ha": "dynamic", "ha-auto-rebalance": 1}}, True),
        ({"crs": {"ha": "dynamic", "ha-auto-rebalance": "1"}}, True),
        ({"crs": {"ha": "dynamic", "ha-auto-rebalance": 0}}, False),
        ({"crs": {"ha": "static"}}, False),
        ({}, False),
    ],
)
def test_auto_rebalance_is_read_from_the_scheduler(
    scheduling: dict[str, object], *, expected: bool
) -> None:
    assert parse_auto_rebalance(scheduling, "test") is expected


@pytest.mark.parametrize(
    "state", ["migrate", "request_stop", "fence", "recovery", "error", "freeze"]
)
def test_guest_the_ha_manager_acts_on_has_an_owner(state: str) -> None:
    assert "HA manager" in str(ha_owner(view(state), "vm:1", "started"))


def test_guest_on_node_in_ha_maintenance_has_an_owner() -> None:
    status = HaStatus(
        services={"vm:1": HaService("started", "n1")}, maintenance=frozenset({"n1"})
    )

    assert "maintenance" in str(ha_owner(view(status=status), "vm:1", "started"))


def test_guest_in_a_settled_state_has_no_owner() -> None:
    assert ha_owner(view(), "vm:1", "started") is None
    assert ha_owner(view(), "vm:2", None) is None


@pytest.mark.parametrize(
    ("state", "is_owned"),
    [
        ("started", False),
        ("request_stop", False),
        ("error", False),
        ("migrate", True),
        ("fence", True),
    ],
)
def test_guest_of_an_ignoring_ha_stack_has_an_owner_until_its_migration_ends(
    state: str, *, is_owned: bool
) -> None:
    status = HaStatus(disarm_mode="ignore", services={"vm:1": HaService(state, "n1")})

    assert (ha_owner(view(status=status), "vm:1", state) is not None) is is_owned


def test_ignored_resource_is_not_managed() -> None:
    ignored = view(resources={"vm:1": resource("vm:1", state="ignored")})

    assert not ignored.is_managed("vm:1")
    assert ha_owner(ignored, "vm:1", "ignored") is None


def test_rebalanced_guest_belongs_to_the_cluster() -> None:
    rebalanced = view(rebalanced=frozenset({"vm:1"}))

    assert "CRS" in str(ha_owner(rebalanced, "vm:1", "started"))


def test_resources_bound_to_an_excluded_one_are_not_rebalanced() -> None:
    rows = [resource("vm:1", **{"auto-rebalance": 0}), resource("vm:2")]
    rows += [resource("vm:3"), resource("vm:4", **{"auto-rebalance": 1})]
    together = {"type": "resource-affinity", "affinity": "positive"}
    rules = [
        rule(**together, resources="vm:2,vm:3"),
        rule(**together, resources="vm:1,vm:2"),
        rule(**together, resources="vm:3,vm:4", disable=1),
    ]

    assert rebalanced_resources(rows, rules) == frozenset({"vm:4"})


def test_rules_become_placement_rules() -> None:
    affinity = {"type": "resource-affinity", "resources": "vm:1,vm:2,vm:9"}
    rules = ha_rules(
        HaView(
            rules=(
                rule(**affinity, affinity="positive"),
                rule(**affinity, affinity="negative"),
                rule(type="node-affinity", resources="vm:3", nodes="n1:2,n2,n9"),
                rule(type="node-affinity", resources="vm:3", nodes="n1", strict=1),
                rule(**affinity, affinity="negative", disable=1),
                rule(type="resource-affinity", resources="vm:1", affinity="positive"),
                rule(type="unknown", resources="vm:1"),
            )
        ),
        GUESTS,
        NODES,
    )

    assert [type(each) for each in rules] == [
        Affinity,
        AntiAffinity,
        NodeAffinity,
        NodeAffinity,
    ]
    preferred, strict = rules[2], rules[3]
    assert isinstance(preferred, NodeAffinity)
    assert dict(preferred.nodes) == {"n1": 2, "n2": 0}
    assert not preferred.strict
    assert isinstance(strict, NodeAffinity)
    assert strict.strict


def test_groups_of_version_8_become_node_affinity() -> None:
    resources = {sid: resource(sid, group="front") for sid in ("vm:1", "vm:2")}
    group = HaGroupRow.model_validate(
        {"group": "front", "nodes": "n1:1,n2:2", "restricted": 1}
    )

    (found,) = ha_rules(HaView(resources=resources, groups=(group,)), GUESTS, NODES)

    assert isinstance(found, NodeAffinity)
    assert (found.name, found.strict) == ("front", True)
    assert set(found.guests) == {"g1", "g2"}
