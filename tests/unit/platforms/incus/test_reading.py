"""Nodes, guests, owners and rules from the documents of Incus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from opendrs.arrays import SkipReason, local_disk_reason
from opendrs.model import (
    DEFAULT_LIMITS,
    Affinity,
    AntiAffinity,
    GuestId,
    GuestPriority,
    GuestState,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Snapshot,
)
from opendrs.platforms.incus.cluster_responses import ClusterResponses
from opendrs.platforms.incus.mobility import unseen_pools
from opendrs.platforms.incus.reading import build_snapshot
from opendrs.platforms.incus.responses import (
    HostResources,
    Instance,
    Member,
    MemberState,
    Operation,
    Project,
    ServerInfo,
    StoragePool,
    parse,
)
from opendrs.platforms.incus.settings import IncusSettings, RebalancerState
from support import incus_documents as documents
from support.incus_documents import GIB

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
NAMES = ("h1", "h2", "h3")
V1 = GuestId("v1")
H1, H2, H3 = (NodeId(name) for name in NAMES)


def snapshot(  # noqa: PLR0913 - the parts of a cluster
    *instances: Mapping[str, Any],
    members: Mapping[str, Mapping[str, Any]] | None = None,
    config: Mapping[str, str] | None = None,
    version: str = "7.0.2",
    project: Mapping[str, str] | None = None,
    operations: tuple[Mapping[str, Any], ...] = (),
    used: tuple[float, float] = (0.2, 0.2),
    stale: bool = False,
    **settings: Any,  # noqa: ANN401
) -> Snapshot:
    server = documents.server(version, config)
    pools = {
        "local": {"name": "local", "driver": "dir"},
        "shared": {"name": "shared", "driver": "ceph"},
        "odd": {"name": "odd", "driver": "unheard"},
        "unlisted": {"name": "unlisted", "driver": "dir"},
    }
    changes = members or {}
    responses = ClusterResponses(
        taken_at=NOW,
        server=parse(ServerInfo, server, "server"),
        members=[
            parse(Member, documents.member(name, **changes.get(name, {})), name)
            for name in NAMES
        ],
        instances=[parse(Instance, each, "instance") for each in instances],
        operations=[parse(Operation, each, "operation") for each in operations],
        projects={
            "default": parse(
                Project, {"name": "default", "config": project or {}}, "project"
            )
        },
        pools={n: parse(StoragePool, pool, n) for n, pool in pools.items()},
        states={
            name: parse(MemberState, documents.state(used[0]), name) for name in NAMES
        },
        resources={
            name: parse(HostResources, documents.resources(used[1]), name)
            for name in NAMES
        },
        stale_resources=frozenset(NAMES if stale else ()),
    )
    return build_snapshot(responses, IncusSettings(socket=Path("/s"), **settings), ())


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("Online", NodeState.ONLINE),
        ("Evacuated", NodeState.MAINTENANCE),
        ("Evacuating", NodeState.EXCLUDED),
        ("Restoring", NodeState.EXCLUDED),
        ("Offline", NodeState.UNKNOWN),
        ("Something new", NodeState.UNKNOWN),
    ],
)
def test_status_of_member_is_the_state_of_the_node(
    status: str, state: NodeState
) -> None:
    assert snapshot(members={"h1": {"status": status}}).nodes[H1].state is state


@pytest.mark.parametrize(
    ("version", "stale", "used"),
    [
        ("7.0.2", False, 0.3),
        ("6.0.6", False, 0.3),
        ("6.0.4", False, 0.9),
        ("6.0.5", False, 0.9),
        ("7.0.2", True, 0.9),
    ],
)
def test_page_cache_is_subtracted_unless_resources_never_change(
    *, version: str, stale: bool, used: float
) -> None:
    node = snapshot(version=version, used=(0.9, 0.3), stale=stale).nodes[H1]

    assert node.usage.memory == pytest.approx(used * 16 * GIB, abs=2)


def test_node_has_groups_labels_and_failure_domain() -> None:
    changes = {
        "groups": ["default", "fast"],
        "failure_domain": "rack-1",
        "config": {"user.opendrs.labels": "ssd", "scheduler.instance": "manual"},
    }

    node = snapshot(members={"h1": changes}).nodes[H1]

    assert node.groups == {"default", "fast"}
    assert node.labels == {"ssd", "scheduler.instance=manual"}
    assert node.failure_domain == "rack-1"
    assert node.load_average == 0.5
    assert node.storages is not None
    assert [(s.id, s.shared) for s in node.storages] == [("local", False)]


NIC = {"type": "nic", "nictype": "bridged", "parent": "br0"}
MANAGED = {"type": "nic", "network": "incusbr0"}
ROOT = {"type": "disk", "path": "/", "pool": "local"}


@pytest.mark.parametrize(
    ("changes", "mobility"),
    [
        ({}, Mobility.LIVE),
        ({"type": "container"}, Mobility.NONE),
        ({"expanded_config": {"migration.stateful": "false"}}, Mobility.NONE),
        ({"expanded_config": {"limits.cpu": "0-1"}}, Mobility.NONE),
        ({"expanded_config": {"security.sev": "true"}}, Mobility.NONE),
        ({"expanded_config": {"cluster.evacuate": "stop"}}, Mobility.NONE),
        ({"expanded_devices": {"root": ROOT, "eth0": MANAGED}}, Mobility.LIVE),
        ({"expanded_devices": {"root": ROOT, "eth0": NIC}}, Mobility.NONE),
        ({"expanded_devices": {"gpu": {"type": "gpu"}}}, Mobility.NONE),
        ({"expanded_devices": {"tpm": {"type": "tpm"}}}, Mobility.LIVE),
        (
            {"expanded_devices": {"d": {"type": "disk", "pool": "shared"}}},
            Mobility.LIVE,
        ),
        ({"expanded_devices": {"d": {"type": "disk", "pool": "local"}}}, Mobility.NONE),
        (
            {
                "expanded_devices": {"gpu": {"type": "gpu"}},
                "expanded_config": {"cluster.evacuate": "live-migrate"},
            },
            Mobility.LIVE,
        ),
    ],
)
def test_mobility_follows_the_filters_of_incus(
    changes: dict[str, Any], mobility: Mobility
) -> None:
    guest = snapshot(documents.instance("v1", **changes)).guests[V1]

    assert guest.mobility is mobility
    assert (guest.mobility_detail is None) is (mobility is Mobility.LIVE)


@pytest.mark.parametrize(
    ("pool", "mobility"),
    [
        ("local", Mobility.LIVE),
        ("shared", Mobility.LIVE),
        ("odd", Mobility.NONE),
        ("unlisted", Mobility.NONE),
    ],
)
def test_disk_stays_if_it_is_unknown_whether_it_is_local(
    pool: str, mobility: Mobility
) -> None:
    guest = snapshot(on_pool(pool)).guests[V1]

    assert guest.mobility is mobility


@pytest.mark.parametrize(
    ("allowed", "reason"), [(False, SkipReason.LOCAL_DISKS), (True, None)]
)
def test_limits_decide_about_a_disk_on_a_local_pool(
    *, allowed: bool, reason: SkipReason | None
) -> None:
    seen = snapshot(on_pool("local"))
    limits = replace(DEFAULT_LIMITS, migrate_local_disks=allowed)

    skipped = local_disk_reason(seen.guests[V1], seen, limits)

    assert (skipped and skipped.reason) is reason


@pytest.mark.parametrize(("pool", "unseen"), [("local", []), ("shared", ["shared"])])
def test_pool_that_the_snapshot_does_not_contain_is_unseen(
    pool: str, unseen: list[str]
) -> None:
    seen = snapshot(on_pool("local")).guests[V1]

    assert unseen_pools(parse(Instance, on_pool(pool), "instance"), seen) == unseen
    assert unseen_pools(parse(Instance, on_pool(pool), "instance"), None) == []


def on_pool(name: str) -> dict[str, Any]:
    """Return an instance whose root disk is on the pool *name*."""
    devices = {"root": {"type": "disk", "path": "/", "pool": name}}
    return documents.instance("v1", expanded_devices=devices)


@pytest.mark.parametrize(
    ("config", "setting", "managed"),
    [
        ({"a": "b"}, RebalancerState.AUTO, False),
        ({"cluster.rebalance.interval": "0"}, RebalancerState.AUTO, False),
        ({"cluster.rebalance.interval": "-1"}, RebalancerState.AUTO, False),
        ({"cluster.rebalance.interval": "30"}, RebalancerState.AUTO, True),
        ({}, RebalancerState.AUTO, True),
        ({}, RebalancerState.OFF, False),
        ({}, RebalancerState.ON, True),
    ],
)
def test_rebalancer_owns_what_it_can_move(
    *, config: dict[str, str], setting: RebalancerState, managed: bool
) -> None:
    fixed = documents.instance("v2", expanded_config={"cluster.evacuate": "stop"})

    guests = snapshot(
        documents.instance("v1"), fixed, config=config, rebalancer=setting
    ).guests

    assert (guests[V1].managed_by is not None) is managed
    assert guests[GuestId("v2")].managed_by is None


def test_rebalancer_does_not_own_members_that_are_not_scheduled() -> None:
    seen = snapshot(
        documents.instance("v1"),
        config={"cluster.rebalance.interval": "5"},
        members={"h1": {"config": {"scheduler.instance": "manual"}}},
    )

    assert seen.guests[V1].managed_by is None


def test_evacuated_guest_is_left_to_incus() -> None:
    origin = {"volatile.evacuate.origin": "h3"}

    guest = snapshot(documents.instance("v1", config=origin)).guests[V1]

    assert "h3" in (guest.managed_by or "")


@pytest.mark.parametrize("status", ["Evacuating", "Restoring"])
def test_no_guest_moves_while_a_member_is_evacuating(status: str) -> None:
    seen = snapshot(documents.instance("v1"), members={"h3": {"status": status}})

    assert "h3" in (seen.guests[V1].managed_by or "")
    assert seen.nodes[H3].jobs == (status.lower(),)


def test_blocked_target_matters_for_a_restricted_certificate_alone() -> None:
    project = {"restricted": "true"}
    instance = documents.instance("v1")

    restricted = snapshot(instance, config={}, project=project).guests[V1]
    trusted = snapshot(instance, project=project).guests[V1]
    allowed = snapshot(
        instance,
        config={},
        project={**project, "restricted.cluster.target": "allow"},
    ).guests[V1]

    assert [guest.mobility for guest in (restricted, trusted, allowed)] == [
        Mobility.NONE,
        Mobility.LIVE,
        Mobility.LIVE,
    ]


def operation(description: str, location: str, kind: str = "task") -> dict[str, Any]:
    return {
        "id": f"{description}-{location}-{kind}",
        "class": kind,
        "description": description,
        "status_code": 103,
        "location": location,
        "resources": {"instances": ["/1.0/instances/v1"]},
    }


def test_migrating_guest_runs_on_its_source_until_it_has_moved() -> None:
    operations = (
        operation("Migrating instance", "h1"),
        operation("Creating instance", "h2"),
    )
    stopped: dict[str, Any] = {"status": "Stopped", "status_code": 102}

    before = snapshot(documents.instance("v1", **stopped), operations=operations)
    after = snapshot(documents.instance("v1", "h2"), operations=operations)

    assert before.guests[V1].migrating_to == H2
    assert before.guests[V1].state is GuestState.RUNNING
    assert before.guests[V1].lock is None
    assert after.guests[V1].migrating_to is None
    assert after.guests[V1].lock


@pytest.mark.parametrize(
    ("description", "locked"),
    [
        ("Backing up instance", True),
        ("Migrating instance", True),
        ("Executing command", False),
        ("Showing console", False),
    ],
)
def test_operation_locks_a_guest_unless_it_is_a_session(
    *, description: str, locked: bool
) -> None:
    seen = snapshot(
        documents.instance("v1"), operations=(operation(description, "h1"),)
    )

    assert (seen.guests[V1].lock is not None) is locked


def test_keys_of_instances_are_rules_with_their_origin() -> None:
    def keyed(name: str, **keys: str) -> dict[str, Any]:
        config = {f"user.opendrs.{k.replace('_', '-')}": v for k, v in keys.items()}
        return documents.instance(name, expanded_config=config)

    rules = snapshot(
        keyed("v1", anti_affinity="web,db", affinity="a", tags="x,y"),
        keyed("v2", anti_affinity="web", affinity="a", soft_anti_affinity="s"),
        keyed("v3", anti_affinity="db", soft_anti_affinity="s", pin="true"),
        keyed("v4", nodes="h1,@fast", anti_affinity="alone"),
        members={"h3": {"groups": ["fast"]}},
    ).rules

    def group(*names: str) -> frozenset[GuestId]:
        return frozenset(GuestId(name) for name in names)

    assert [(type(rule), rule.guests) for rule in rules] == [  # type: ignore[union-attr]
        (Affinity, group("v1", "v2")),
        (AntiAffinity, group("v1", "v3")),
        (AntiAffinity, group("v1", "v2")),
        (AntiAffinity, group("v2", "v3")),
        (NodeAffinity, group("v4")),
        (Pin, group("v3")),
    ]
    assert all(rule.origin.startswith("user.opendrs.") for rule in rules)
    assert [getattr(rule, "strict", True) for rule in rules].index(False) == 3
    (nodes,) = [set(rule.nodes) for rule in rules if isinstance(rule, NodeAffinity)]
    assert nodes == {H1, H3}


def test_priority_key_is_a_rule() -> None:
    config = {"user.opendrs.priority": "high"}

    (rule,) = snapshot(documents.instance("v1", expanded_config=config)).rules

    assert rule == GuestPriority(
        value=2.0,
        guests=frozenset({GuestId("v1")}),
        name="priority high",
        origin="user.opendrs.priority",
    )


def test_groups_of_incus_are_node_affinities() -> None:
    project = {"restricted": "true", "restricted.cluster.groups": "fast"}
    started = documents.instance("v1", config={"volatile.cluster.group": "fast"})

    rules = snapshot(
        started, project=project, members={"h2": {"groups": ["fast"]}}
    ).rules

    assert [rule.origin for rule in rules] == [
        "restricted.cluster.groups of the project default",
        "volatile.cluster.group",
    ]
    assert all(isinstance(r, NodeAffinity) and set(r.nodes) == {H2} for r in rules)


def test_member_that_is_not_scheduled_is_neither_source_nor_target() -> None:
    manual = {"h3": {"config": {"scheduler.instance": "manual"}}}

    rules = snapshot(
        documents.instance("v1"), documents.instance("v3", "h3"), members=manual
    ).rules

    pin, affinity = rules
    assert isinstance(pin, Pin)
    assert pin.guests == {"v3"}
    assert isinstance(affinity, NodeAffinity)
    assert affinity.guests == {"v1"}
    assert set(affinity.nodes) == {H1, H2}
