"""Reads a scenario from a directory in the layout of Proxmox VE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from opendrs.errors import InvalidFileError
from opendrs.ha import ManagerStatus, Requested, ServiceConfig, ServiceId
from opendrs.model import NodeId, Usage
from opendrs.sim.drill import documents
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.scenario import Scenario
from opendrs.sim.drill.values import Value, read_text, read_value

MIB = 1 << 20
USUAL_CAPACITY = Usage(24.0, 131_072 * MIB)
USUAL_LIMIT = Usage(4.0, 4096 * MIB)
USUAL_USAGE = Usage(2.0, 2048 * MIB)
USUAL_NODES = (NodeId("node1"), NodeId("node2"), NodeId("node3"))
USUAL_SERVICES = tuple(ServiceId(f"vm:{number}") for number in range(101, 107))


def read_scenario(directory: Path) -> Scenario:
    """Return the scenario in *directory*; what is not written there is as usual.

    Raises:
        InvalidFileError: A file is missing, or does not hold what it should;
            says which, and where.
    """
    if not directory.is_dir():
        raise InvalidFileError(f"{directory}: not a directory")
    hosts, services = _hosts(directory), _services(directory)
    limits, usages = _amounts(directory, services)
    _require_nodes(directory, hosts, services)
    settings = read_value(directory / "datacenter.cfg")
    return Scenario(
        hosts=hosts,
        services=services,
        batches=tuple(_batches(directory)),
        status=_status(directory),
        rules=read_text(directory / "rules_config") or "",
        groups=read_text(directory / "groups") or "",
        datacenter=documents.datacenter(settings or Value(None, "datacenter.cfg")),
        limits=limits,
        usages=usages,
        running=_running(directory, hosts),
        origin=str(directory / "cmdlist"),
    )


def _hosts(directory: Path) -> Mapping[NodeId, Host]:
    value = read_value(directory / "hardware_status")
    if value is None:
        return dict.fromkeys(USUAL_NODES, Host(capacity=USUAL_CAPACITY))
    return documents.hosts(value)


def _services(directory: Path) -> Mapping[ServiceId, ServiceConfig]:
    value = read_value(directory / "service_config")
    if value is not None:
        return documents.services(value)
    nodes = (*USUAL_NODES, *USUAL_NODES)
    return {
        service: ServiceConfig(node=node, state=Requested.DISABLED)
        for service, node in zip(USUAL_SERVICES, nodes, strict=True)
    }


def _require_nodes(
    directory: Path,
    hosts: Mapping[NodeId, Host],
    services: Mapping[ServiceId, ServiceConfig],
) -> None:
    complaints = [
        f"{directory / 'service_config'}: {service}: no such node '{config.node}'"
        for service, config in services.items()
        if config.node not in hosts
    ]
    if complaints:
        raise InvalidFileError(*complaints)


def _amounts(
    directory: Path, services: Mapping[ServiceId, ServiceConfig]
) -> tuple[Mapping[ServiceId, Usage], Mapping[ServiceId, Usage]]:
    """Return what each service may use, and what it uses."""
    value = read_value(directory / "static_service_stats")
    limits = (
        dict.fromkeys(services, USUAL_LIMIT)
        if value is None
        else documents.amounts(value, "maxcpu", "maxmem")
    )
    value = read_value(directory / "dynamic_service_stats")
    usages = (
        dict.fromkeys(limits, USUAL_USAGE)
        if value is None
        else documents.amounts(value, "cpu", "mem")
    )
    return limits, usages


def _status(directory: Path) -> ManagerStatus:
    value = read_value(directory / "manager_status")
    return ManagerStatus() if value is None else documents.manager_status(value)


def _running(
    directory: Path, hosts: Mapping[NodeId, Host]
) -> Mapping[NodeId, frozenset[ServiceId]]:
    tables = {node: read_value(directory / f"service_status_{node}") for node in hosts}
    return {
        node: documents.running(value)
        for node, value in tables.items()
        if value is not None
    }


def _batches(directory: Path) -> Iterator[tuple[str, ...]]:
    value = read_value(directory / "cmdlist")
    if value is None:
        raise InvalidFileError(f"{directory / 'cmdlist'}: no such file")
    for batch in value.entries():
        yield tuple(command.text() for command in batch.entries())
