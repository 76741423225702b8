"""Nodes and guests built from rows of the Proxmox VE API."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import pytest

from opendrs.model import GuestId, GuestState, Node, NodeId, NodeState, Snapshot
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox.cluster_view import (
    ClusterView,
    NodeDetails,
    recent_history,
)
from opendrs.platforms.proxmox.reading import build_snapshot
from opendrs.platforms.proxmox.responses import (
    ClusterRow,
    GuestRow,
    NodeHistoryRow,
    ResourceRow,
    TaskRow,
)
from support.builders import NOON

Row: TypeAlias = dict[str, object]
SETTINGS = ProxmoxSettings(hosts=("h",), token_env="T")  # noqa: S106 - a name
NODE: Row = {"id": "node/n1", "type": "node", "node": "n1", "status": "online"}
FIGURES: Row = {"cpu": 0.5, "maxcpu": 8, "mem": 4000, "maxmem": 16000}
GUEST: Row = {
    "id": "qemu/100",
    "type": "qemu",
    "vmid": 100,
    "node": "n1",
    "name": "web",
    "status": "running",
}


def snapshot(*rows: Row, **changes: object) -> Snapshot:
    values: Row = {
        "resources": tuple(ResourceRow.model_validate(row) for row in rows),
        "cluster": (),
    }
    view = ClusterView(**(values | changes))  # type: ignore[arg-type]
    return build_snapshot(view, SETTINGS, (), NOON)


def node(*rows: Row, **changes: object) -> Node:
    return snapshot(*rows, **changes).nodes[NodeId("n1")]


def test_node_without_figures_has_unknown_usage() -> None:
    found = node(NODE)

    assert found.state is NodeState.ONLINE
    assert (found.capacity, found.usage.cpu, found.usage.memory) == (None, None, None)


def test_cpu_of_a_node_is_averaged_and_memory_is_current() -> None:
    history = tuple(NodeHistoryRow(time=n, cpu=n / 10, loadavg=n) for n in (1, 3))

    found = node(NODE | FIGURES, details={"n1": NodeDetails(history=history)})

    assert found.usage.cpu == pytest.approx(0.2 * 8)
    assert found.usage.memory == 4000
    assert found.load_average == pytest.approx(2)


def test_traffic_and_io_pressure_are_further_loads() -> None:
    history = tuple(
        NodeHistoryRow(
            time=n, cpu=0.5, netin=1e6 * n, netout=2e6, pressureiosome=10.0 * n
        )
        for n in (1, 3)
    )
    guests = {100: GuestRow(vmid=100, pressureiosome=5.0)}
    details = {"n1": NodeDetails(history=history, guests=guests)}
    settings = replace(SETTINGS, network_capacity=1.25e9)
    rows = tuple(ResourceRow.model_validate(each) for each in (NODE | FIGURES, GUEST))
    view = ClusterView(resources=rows, cluster=(), details=details, traffic={100: 3e5})

    found = build_snapshot(view, settings, (), NOON)

    # Mean of 1 + 2 and 3 + 2 MB/s; mean of 10 % and 30 %.
    there = found.nodes[NodeId("n1")]
    assert there.loads == {"network": 4e6, "io-pressure": pytest.approx(0.2)}
    assert there.load_capacities == {"network": 1.25e9, "io-pressure": 1.0}
    web = found.guests[GuestId("web")]
    assert web.loads == {"network": 3e5, "io-pressure": pytest.approx(0.05)}


def test_further_loads_that_are_not_reported_are_unknown() -> None:
    found = snapshot(NODE | FIGURES, GUEST)

    assert found.nodes[NodeId("n1")].loads == {}
    assert found.nodes[NodeId("n1")].load_capacities == {}
    assert found.guests[GuestId("web")].loads == {}


def test_history_without_recent_figures_is_empty() -> None:
    rows = [NodeHistoryRow(time=60 * n, cpu=0.5 if n < 10 else None) for n in range(70)]

    assert recent_history(rows, 300) == ()
    assert len(recent_history(rows[:10], 300)) == 5


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"status": "offline"}, NodeState.OFFLINE),
        ({"status": "unknown"}, NodeState.UNKNOWN),
        ({"hastate": "maintenance"}, NodeState.MAINTENANCE),
        ({"hastate": "maintenance", "status": "offline"}, NodeState.UNKNOWN),
        ({"hastate": "fence"}, NodeState.UNKNOWN),
        ({"hastate": "unknown"}, NodeState.UNKNOWN),
        ({"hastate": "online"}, NodeState.ONLINE),
    ],
)
def test_node_state_follows_the_cluster_and_ha(row: Row, expected: NodeState) -> None:
    assert node(NODE | FIGURES | row).state is expected


def test_node_that_has_left_the_cluster_is_offline() -> None:
    left = (ClusterRow(type="node", name="n1", online=False),)

    assert node(NODE | FIGURES, cluster=left).state is NodeState.OFFLINE


def test_node_that_only_guests_name_is_unknown() -> None:
    found = snapshot(GUEST)

    assert found.nodes[NodeId("n1")].state is NodeState.UNKNOWN
    assert found.guests[GuestId("web")].state is GuestState.UNKNOWN


def test_storages_and_jobs_belong_to_their_node() -> None:
    storage: Row = {"id": "s", "type": "storage", "node": "n1", "status": "available"}
    found = node(
        NODE | FIGURES,
        storage | {"storage": "ssd", "shared": 1, "maxdisk": 100, "disk": 30},
        storage | {"storage": "far", "node": "n2"},
        storage | {"storage": "gone", "status": "unknown"},
        tasks=(TaskRow(upid="u", node="n1", type="vzdump", id=""),),
    )

    assert found.storages is not None
    (only,) = found.storages
    assert (only.id, only.shared, only.capacity, only.free) == ("ssd", True, 100, 70)
    assert found.jobs == ("vzdump",)
    assert node(NODE | FIGURES).storages is None


def test_guest_has_tags_pool_and_memory_of_its_process() -> None:
    row = GUEST | {"tags": "prod;db", "pool": "team", "maxcpu": 2, "cpu": 0.5}
    row |= {"mem": 3000, "memhost": 2000, "maxmem": 4000}

    guest = snapshot(NODE | FIGURES, row).guests[GuestId("web")]

    assert guest.tags == frozenset({"prod", "db", "pool:team"})
    assert guest.usage.cpu == pytest.approx(1.0)
    assert guest.usage.memory == 2000


@pytest.mark.parametrize("amount", [10**19, 10**400, "1e19", float("inf"), -1])
def test_amounts_out_of_range_are_unknown(amount: object) -> None:
    row = GUEST | {"maxcpu": amount, "cpu": amount, "mem": amount, "maxmem": amount}

    found = snapshot(NODE | {"maxcpu": amount, "maxmem": amount}, row)

    guest = found.guests[GuestId("web")]
    assert (guest.usage.cpu, guest.usage.memory, guest.limit) == (None, None, None)
    assert found.nodes[NodeId("n1")].capacity is None


def test_impossible_figures_are_unknown() -> None:
    row = GUEST | {"maxcpu": 2, "cpu": 99.0, "mem": 10**12, "maxmem": "many"}

    guest = snapshot(NODE | FIGURES, row).guests[GuestId("web")]

    assert (guest.usage.cpu, guest.usage.memory, guest.limit) == (None, None, None)


@pytest.mark.parametrize("setting", ["ignored_nodes", "maintenance_nodes"])
def test_node_out_of_service_that_is_off_is_unknown(setting: str) -> None:
    settings = replace(SETTINGS, **{setting: ("n1",)})  # type: ignore[arg-type]
    row = ResourceRow.model_validate(NODE | {"status": "offline"})
    view = ClusterView(resources=(row,), cluster=())

    found = build_snapshot(view, settings, (), NOON)

    assert found.nodes[NodeId("n1")].state is NodeState.UNKNOWN


@pytest.mark.parametrize("ha_state", ["online", "maintenance"])
@pytest.mark.parametrize(
    ("setting", "state"),
    [
        ("ignored_nodes", NodeState.EXCLUDED),
        ("maintenance_nodes", NodeState.MAINTENANCE),
    ],
)
def test_node_out_of_service_by_setting_has_its_state(
    setting: str, state: NodeState, ha_state: str
) -> None:
    settings = replace(SETTINGS, **{setting: ("n1",)})  # type: ignore[arg-type]
    rows = (NODE | FIGURES | {"hastate": ha_state}, GUEST)
    view = ClusterView(
        resources=tuple(ResourceRow.model_validate(row) for row in rows), cluster=()
    )

    found = build_snapshot(view, settings, (), NOON)

    assert found.nodes[NodeId("n1")].state is state
