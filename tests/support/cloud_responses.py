"""Builders of responses of Nova and Placement."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from opendrs.platforms.openstack.reading import CloudState
from opendrs.platforms.openstack.responses import (
    Aggregate,
    ComputeService,
    Hypervisor,
    LiveMigrationProgress,
    MigrationRecord,
    ResourceProvider,
    Server,
    ServerGroup,
    parse_response,
)

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def uuid(name: str) -> str:
    """Return a UUID that begins with the 8 digits of *name*."""
    return f"{sum(map(ord, name)):08x}-0deb-4b58-b59e-f814b8066fcb"


def service(host: str, **fields: Any) -> ComputeService:  # noqa: ANN401
    plain = {
        "host": host,
        "zone": "nova",
        "status": "enabled",
        "state": "up",
        "forced_down": False,
    }
    return parse_response(ComputeService, {**plain, **fields})


def hypervisor(host: str, kind: str = "QEMU", number: int = 1) -> Hypervisor:
    body = {
        "id": f"{host}-{number}",
        "hypervisor_type": kind,
        "service": {"host": host},
    }
    return parse_response(Hypervisor, body)


def provider(
    *,
    cpus: int = 16,
    memory: int = 65_536,
    used_cpus: int = 0,
    used_memory: int = 0,
    traits: tuple[str, ...] = (),
) -> ResourceProvider:
    """Return a provider with 4 virtual CPUs per CPU and 512 MiB reserved."""
    body = {
        "inventories": {
            "VCPU": {"total": cpus, "reserved": 0, "allocation_ratio": 4.0},
            "MEMORY_MB": {"total": memory, "reserved": 512, "allocation_ratio": 1.0},
            "DISK_GB": {"total": 1000, "reserved": 0, "allocation_ratio": 1.0},
        },
        "usages": {"VCPU": used_cpus, "MEMORY_MB": used_memory, "DISK_GB": 0},
        "traits": list(traits),
    }
    return parse_response(ResourceProvider, body)


def server(
    name: str,
    host: str | None = "h1",
    *,
    extra_specs: dict[str, str] | None = None,
    **fields: Any,  # noqa: ANN401
) -> Server:
    """Return a server of 2 CPUs and 4 GiB; *fields* without their prefixes."""
    prefixes = {
        "task_state": "OS-EXT-STS:",
        "vm_state": "OS-EXT-STS:",
        "power_state": "OS-EXT-STS:",
        "launched_at": "OS-SRV-USG:",
        "availability_zone": "OS-EXT-AZ:",
        "volumes_attached": "os-extended-volumes:",
    }
    flavor = {
        "vcpus": 2,
        "ram": 4096,
        "disk": 20,
        "ephemeral": 0,
        "swap": 0,
        "extra_specs": extra_specs or {},
    }
    body = {
        "id": uuid(name),
        "name": name,
        "tenant_id": "p1",
        "flavor": flavor,
        "image": {"id": "i1"},
        "OS-EXT-SRV-ATTR:host": host,
        "OS-EXT-STS:vm_state": "active",
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-STS:task_state": None,
        "OS-SRV-USG:launched_at": "2026-11-22T11:00:00.000000",
        "pinned_availability_zone": None,
    }
    more = {prefixes.get(key, "") + key: value for key, value in fields.items()}
    return parse_response(Server, {**body, **more})


def group(policy: str, *names: str, most: int | None = None) -> ServerGroup:
    body = {
        "id": "g1",
        "name": "web",
        "policy": policy,
        "rules": {} if most is None else {"max_server_per_host": most},
        "members": [uuid(name) for name in names],
    }
    return parse_response(ServerGroup, body)


def record(number: int, status: str, **fields: Any) -> MigrationRecord:  # noqa: ANN401
    body = {
        "id": number,
        "status": status,
        "migration_type": "live-migration",
        "instance_uuid": uuid("a"),
        "source_compute": "h1",
        "dest_compute": "h2",
        "created_at": "2026-11-22T11:59:00.000000",
        "updated_at": "2026-11-22T11:59:30.000000",
    }
    return parse_response(MigrationRecord, {**body, **fields})


def progress(target: str | None, **fields: int) -> LiveMigrationProgress:
    body = {"id": 1, "status": "running", "dest_compute": target, **fields}
    return parse_response(LiveMigrationProgress, body)


def aggregate(name: str, *hosts: str, **metadata: str) -> Aggregate:
    return parse_response(
        Aggregate, {"name": name, "hosts": list(hosts), "metadata": metadata}
    )


def cloud(*servers: Server, **parts: Any) -> CloudState:  # noqa: ANN401
    """Return three online hosts h1, h2 and h3 with *servers*."""
    hosts = ("h1", "h2", "h3")
    plain = {
        "taken_at": NOON,
        "services": tuple(service(host) for host in hosts),
        "hypervisors": tuple(hypervisor(host) for host in hosts),
        "providers": {f"{host}-1": provider() for host in hosts},
        "aggregates": (),
        "servers": servers,
    }
    return CloudState(**{**plain, **parts})
