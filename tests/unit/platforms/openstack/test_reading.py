"""Responses of Nova and Placement as nodes and guests."""

from __future__ import annotations

from typing import Any

import pytest

from opendrs.model import (
    GIB,
    Allocation,
    Disk,
    Guest,
    GuestState,
    Mobility,
    Node,
    NodeState,
    Resources,
    Storage,
    Usage,
)
from opendrs.platforms.openstack.reading import (
    CloudState,
    guest_ids,
    guests_of,
    managed_services,
    nodes_of,
)
from opendrs.platforms.openstack.responses import Server, parse_response
from support.cloud_responses import (
    aggregate,
    cloud,
    group,
    hypervisor,
    progress,
    provider,
    record,
    server,
    service,
    uuid,
)

MIB = 1 << 20


def nodes(state: CloudState, zones: tuple[str, ...] = ()) -> dict[str, Node]:
    found = nodes_of(state, managed_services(state, zones))
    return {str(name): node for name, node in found.items()}


def guests(state: CloudState) -> dict[str, Guest]:
    """Return the guests by the name of the server."""
    services = managed_services(state)
    found = guests_of(state, guest_ids(state.servers), nodes_of(state, services))
    return {name.partition("/")[0]: guest for name, guest in found.items()}


def guest(state: CloudState) -> Guest:
    (found,) = guests(state).values()
    return found


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, NodeState.ONLINE),
        ({"status": "disabled"}, NodeState.MAINTENANCE),
        ({"state": "down"}, NodeState.UNKNOWN),
        ({"state": "down", "status": "disabled"}, NodeState.UNKNOWN),
        ({"state": "down", "forced_down": True}, NodeState.OFFLINE),
        ({"status": "disabled", "forced_down": True}, NodeState.UNKNOWN),
        ({"status": "UNKNOWN", "state": None, "zone": None}, NodeState.UNKNOWN),
    ],
)
def test_node_state_follows_service(
    fields: dict[str, Any], expected: NodeState
) -> None:
    state = cloud(services=(service("h1", **fields),))

    assert nodes(state)["h1"].state is expected


def test_node_has_capacity_and_limits_of_placement_and_no_load() -> None:
    node = nodes(cloud())["h1"]

    assert node.capacity == Resources(16.0, 65_536 * MIB)
    assert node.allocation == Allocation(
        cpu_ratio=4.0, memory_ratio=1.0, reserved_cpu=0.0, reserved_memory=512 * MIB
    )
    assert node.usage == Usage()
    assert node.storages == (
        Storage(id="local", capacity=1000 * GIB),
        Storage(id="volumes", shared=True),
    )


def test_allocations_of_other_consumers_are_reserved() -> None:
    # The server has 2 CPUs and 4096 MiB; others have 8 virtual CPUs, 2 CPUs at ratio 4.
    busy = provider(used_cpus=10, used_memory=5120)

    node = nodes(cloud(server("a"), providers={"h1-1": busy}))["h1"]

    assert node.allocation.reserved_cpu == 2.0
    assert node.allocation.reserved_memory == (512 + 1024) * MIB


def test_allocation_of_arriving_server_is_not_reserved() -> None:
    busy = provider(used_cpus=2, used_memory=4096)
    state = cloud(
        server("a", task_state="migrating"),
        providers={"h2-1": busy},
        progress={uuid("a"): progress("h2")},
    )

    assert nodes(state)["h2"].allocation.reserved_memory == 512 * MIB


def test_node_without_provider_has_unknown_capacity() -> None:
    found = nodes(cloud(providers={"h1-1": provider()}))

    assert found["h1"].capacity is not None
    assert found["h2"].capacity is None
    assert found["h2"].online


def test_node_has_aggregates_zone_and_traits_of_operator() -> None:
    traits = ("HW_ARCH_X86_64", "CUSTOM_GOLD", "COMPUTE_NODE")
    state = cloud(
        providers={"h1-1": provider(traits=traits)},
        aggregates=(
            aggregate("rack1", "h1", ssd="true"),
            aggregate("az1", "h1", "h2", availability_zone="nova"),
        ),
    )

    node = nodes(state)["h1"]

    assert node.groups == {"rack1", "az1"}
    assert node.labels == {"ssd=true", "CUSTOM_GOLD"}
    assert node.failure_domain == "nova"
    assert node.architecture == "x86_64"


def test_bare_metal_and_other_zones_are_no_nodes() -> None:
    state = cloud(
        services=(service("h1"), service("h2", zone="dc2"), service("metal")),
        hypervisors=(
            hypervisor("h1"),
            hypervisor("h2"),
            hypervisor("metal", "ironic", 1),
            hypervisor("metal", "ironic", 2),
        ),
    )

    assert set(nodes(state)) == {"h1", "h2"}
    assert set(nodes(state, ("nova",))) == {"h1"}


def test_guest_has_flavor_as_limit_and_no_load() -> None:
    found = guest(cloud(server("a")))

    assert found.id == f"a/{uuid('a')[:8]}"
    assert found.limit == Resources(2.0, 4096 * MIB)
    assert found.usage == Usage()
    assert found.uptime == 3600.0
    assert (found.mobility, found.lock) == (Mobility.LIVE, None)
    assert found.disks == (Disk(storage="local", size=20 * GIB),)


def test_server_that_boots_from_volume_has_no_local_disk() -> None:
    state = cloud(server("a", image="", volumes_attached=[{"id": "v1"}]))

    assert guest(state).disks == (Disk(storage="volumes"),)


def test_servers_of_one_name_have_different_ids() -> None:
    same_digits = server("a", id=f"{uuid('a')[:8]}-1111-2222-3333-444444444444")
    ids = guest_ids((server("a"), server("a", id="9" * 36), same_digits))

    assert len(set(ids.values())) == 3
    assert ids["9" * 36] == "a/99999999"
    assert ids[uuid("a")] == f"a/{uuid('a')}"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"vm_state": "active"}, GuestState.RUNNING),
        ({"vm_state": "paused", "power_state": 3}, GuestState.PAUSED),
        ({"vm_state": "stopped", "power_state": 4}, GuestState.STOPPED),
        ({"vm_state": "suspended", "power_state": 4}, GuestState.STOPPED),
        ({"vm_state": "error", "power_state": 1}, GuestState.RUNNING),
        ({"vm_state": "error", "power_state": 0}, GuestState.UNKNOWN),
        ({"vm_state": "rescued", "power_state": 1}, GuestState.RUNNING),
        ({"vm_state": "building", "power_state": 0}, GuestState.UNKNOWN),
    ],
)
def test_guest_state_follows_vm_state(
    fields: dict[str, Any], expected: GuestState
) -> None:
    assert guest(cloud(server("a", **fields))).state is expected


def test_guest_on_unreachable_node_has_unknown_state() -> None:
    state = cloud(server("a"), services=(service("h1", state="down"),))

    assert guest(state).state is GuestState.UNKNOWN
    assert guest(state).uptime is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"vm_state": "rescued"}, "vm_state is rescued"),
        ({"vm_state": "resized"}, "vm_state is resized"),
        ({"vm_state": "error"}, "vm_state is error"),
        ({"extra_specs": {"pci_passthrough:alias": "gpu:1"}}, "PCI device"),
        ({"extra_specs": {"resources:VGPU": "1"}}, "virtual GPU"),
        ({"extra_specs": {"hw:mem_encryption": "True"}}, "encrypted"),
    ],
)
def test_server_that_nova_cannot_migrate_is_not_movable(
    fields: dict[str, Any], reason: str
) -> None:
    found = guest(cloud(server("a", **fields)))

    assert found.mobility is Mobility.NONE
    assert reason in (found.mobility_detail or "")


def test_extra_spec_that_is_off_does_not_prevent_migration() -> None:
    state = cloud(server("a", extra_specs={"hw:mem_encryption": "false"}))

    assert guest(state).mobility is Mobility.LIVE


@pytest.mark.parametrize(
    ("fields", "lock"),
    [
        ({"task_state": "image_snapshot"}, "image_snapshot"),
        ({"task_state": "migrating"}, "migrating"),
        ({"locked": True}, "locked by its owner"),
        ({"locked": True, "locked_reason": "audit"}, "locked by its owner: audit"),
    ],
)
def test_busy_or_locked_server_has_lock(fields: dict[str, Any], lock: str) -> None:
    assert guest(cloud(server("a", **fields))).lock == lock


def test_migrating_server_is_on_both_nodes_without_lock() -> None:
    state = cloud(
        server("a", task_state="migrating"), progress={uuid("a"): progress("h2")}
    )

    assert (guest(state).node, guest(state).migrating_to) == ("h1", "h2")
    assert guest(state).lock is None


@pytest.mark.parametrize("target", [None, "h1", "elsewhere"])
def test_migration_to_unknown_or_current_node_is_a_lock(target: str | None) -> None:
    state = cloud(
        server("a", task_state="migrating"), progress={uuid("a"): progress(target)}
    )

    assert guest(state).migrating_to is None
    assert guest(state).lock == "migrating"


def test_migrated_at_is_end_of_last_completed_migration() -> None:
    later = "2026-11-22T11:59:59.000000"
    state = cloud(
        server("a"),
        completed=(record(7, "completed", updated_at=later), record(3, "completed")),
    )

    found = guest(state).migrated_at

    assert found is not None
    assert found.isoformat() == "2026-11-22T11:59:59+00:00"


def test_servers_without_host_or_details_are_left_out() -> None:
    partial = parse_response(Server, {"id": uuid("z"), "status": "UNKNOWN"})

    assert guests(cloud(server("a"), server("b", None), partial)).keys() == {"a"}


def test_affinity_group_on_one_host_is_not_movable() -> None:
    state = cloud(server("a"), server("b"), groups=(group("affinity", "a", "b"),))

    assert {each.mobility for each in guests(state).values()} == {Mobility.NONE}


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity"])
def test_split_or_soft_affinity_group_is_movable(policy: str) -> None:
    host = "h2" if policy == "affinity" else "h1"
    state = cloud(server("a"), server("b", host), groups=(group(policy, "a", "b"),))

    assert {each.mobility for each in guests(state).values()} == {Mobility.LIVE}
