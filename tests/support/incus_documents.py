"""Documents of an Incus cluster of a test, in the forms of the recordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.incus_double import EXTENSIONS, Document, IncusDouble

GIB = 1 << 30
STARTED = "2026-11-22T06:00:00.123456789Z"


def server(version: str = "7.0.2", config: Mapping[str, str] | None = None) -> Document:
    """Return the answer to `GET /1.0`; without *config*, the rebalancer is off."""
    visible = {"cluster.https_address": "127.0.0.1:8443"}
    return {
        "auth": "trusted",
        "api_extensions": list(EXTENSIONS),
        "auth_user_name": "f" * 64,
        "config": visible if config is None else dict(config),
        "environment": {
            "server": "incus",
            "server_version": version,
            "server_clustered": True,
            "server_name": "h1",
            "storage_supported_drivers": [
                {"Name": "dir", "Version": "1", "Remote": False},
                {"Name": "ceph", "Version": "1", "Remote": True},
            ],
        },
    }


def member(name: str, **changes: Any) -> Document:  # noqa: ANN401
    """Return a member."""
    return {
        "server_name": name,
        "status": "Online",
        "message": "Fully operational",
        "url": f"https://{name}:8443",
        "architecture": "x86_64",
        "groups": ["default"],
        "failure_domain": "default",
        "config": {},
        **changes,
    }


def state(used: float = 0.2, load: float = 0.5, total: int = 16 * GIB) -> Document:
    """Return the state of a member with the fraction *used* of its memory."""
    free = total - int(total * used)
    return {
        "sysinfo": {
            "uptime": 1000,
            "load_averages": [load, load, load],
            "total_ram": total,
            "free_ram": free,
            "buffered_ram": 0,
        },
        "storage_pools": {"local": {"space": {"used": GIB, "total": 10 * GIB}}},
    }


def resources(used: float = 0.2, load: float = 0.5, threads: int = 8) -> Document:
    """Return the resources of a member."""
    total = 16 * GIB
    return {
        "cpu": {
            "architecture": "x86_64",
            "total": threads,
            "sockets": [{"name": "CPU of the test"}],
        },
        "memory": {"used": int(total * used), "total": total},
        "load": {"Average1Min": load, "Average5Min": load, "Average10Min": load},
    }


def instance(name: str, location: str = "h1", **changes: Any) -> Document:  # noqa: ANN401
    """Return a running virtual machine; *changes* may have `expanded_config`."""
    config = {
        "limits.cpu": "1",
        "limits.memory": "1GiB",
        "migration.stateful": "true",
        **changes.pop("expanded_config", {}),
    }
    return {
        "name": name,
        "project": "default",
        "location": location,
        "type": "virtual-machine",
        "status": "Running",
        "status_code": 103,
        "ephemeral": False,
        "last_used_at": STARTED,
        "config": {"volatile.uuid": f"uuid-of-{name}"},
        "expanded_devices": {
            "root": {"type": "disk", "path": "/", "pool": "local", "size": "1GiB"}
        },
        **changes,
        "expanded_config": config,
    }


def metrics(name: str, seconds: float = 10.0, resident: int = GIB // 2) -> str:
    """Return the metrics of one virtual machine."""
    labels = f'name="{name}",project="default",type="virtual-machine"'
    return (
        f'incus_cpu_seconds_total{{cpu="0",mode="user",{labels}}} {seconds}\n'
        f'incus_cpu_seconds_total{{cpu="0",mode="idle",{labels}}} 99999\n'
        f"incus_memory_MemTotal_bytes{{{labels}}} {GIB}\n"
        f"incus_memory_MemAvailable_bytes{{{labels}}} {GIB - resident}\n"
    )


def network_metrics(name: str, counts: Mapping[str, int]) -> str:
    """Return the metrics of interfaces with the bytes of each, a fifth of them sent."""
    lines = []
    for device, count in counts.items():
        labels = f'device="{device}",name="{name}",project="default"'
        sent = count // 5
        lines += [
            f"incus_network_receive_bytes_total{{{labels}}} {count - sent}",
            f"incus_network_receive_packets_total{{{labels}}} 7",
            f"incus_network_transmit_bytes_total{{{labels}}} {sent}",
        ]
    return "\n".join([*lines, ""])


def double(*instances: Document) -> IncusDouble:
    """Return a cluster of the members h1, h2 and h3 with *instances*."""
    names = ("h1", "h2", "h3")
    return IncusDouble(
        server=server(),
        members=[member(name) for name in names],
        states={name: state() for name in names},
        resources={name: resources() for name in names},
        metrics=dict.fromkeys(names, ""),
        instances=list(instances),
        projects=[{"name": "default", "config": {}}],
        pools={"local": {"name": "local", "driver": "dir", "locations": list(names)}},
    )
