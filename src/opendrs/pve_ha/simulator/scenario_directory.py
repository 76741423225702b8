"""Reader of scenario directories in the layout of Proxmox VE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.model import NodeId, Usage
from opendrs.pve_ha.simulator import initial_state
from opendrs.pve_ha.simulator.located_values import LocatedValue, read_text, read_value
from opendrs.pve_ha.simulator.scenario import DrillScenario, SimulatedHost
from opendrs.pve_ha.states import RequestedState, ServiceId
from opendrs.pve_ha.status_files import ManagerStatus, ServiceConfig

MIB = 1 << 20
DEFAULT_CAPACITY = Usage(24.0, 131_072 * MIB)
DEFAULT_LIMIT = Usage(4.0, 4096 * MIB)
DEFAULT_USAGE = Usage(2.0, 2048 * MIB)
DEFAULT_NODES = (NodeId("node1"), NodeId("node2"), NodeId("node3"))
DEFAULT_SERVICES = tuple(ServiceId(f"vm:{number}") for number in range(101, 107))


def read_scenario(directory: Path) -> DrillScenario:
    """Return the scenario in *directory*; missing files have defaults.

    Raises:
        InvalidFileError: `cmdlist` is missing or a file is invalid; contains the
            location.
    """
    if not directory.is_dir():
        raise InvalidFileError(f"{directory}: not a directory")
    hosts, services = _hosts(directory), _services(directory)
    limits, usages = _amounts(directory, services)
    _require_nodes(directory, hosts, services)
    settings = read_value(directory / "datacenter.cfg")
    return DrillScenario(
        hosts=hosts,
        services=services,
        batches=tuple(_batches(directory)),
        status=_status(directory),
        rules=read_text(directory / "rules_config") or "",
        groups=read_text(directory / "groups") or "",
        datacenter=initial_state.parse_datacenter(
            settings or LocatedValue(None, "datacenter.cfg")
        ),
        limits=limits,
        usages=usages,
        running=_running(directory, hosts),
        origin=str(directory / "cmdlist"),
    )


def _hosts(directory: Path) -> Mapping[NodeId, SimulatedHost]:
    value = read_value(directory / "hardware_status")
    if value is None:
        return dict.fromkeys(DEFAULT_NODES, SimulatedHost(capacity=DEFAULT_CAPACITY))
    return initial_state.parse_hosts(value)


def _services(directory: Path) -> Mapping[ServiceId, ServiceConfig]:
    value = read_value(directory / "service_config")
    if value is not None:
        return initial_state.parse_services(value)
    nodes = (*DEFAULT_NODES, *DEFAULT_NODES)
    return {
        service: ServiceConfig(node=node, state=RequestedState.DISABLED)
        for service, node in zip(DEFAULT_SERVICES, nodes, strict=True)
    }


def _require_nodes(
    directory: Path,
    hosts: Mapping[NodeId, SimulatedHost],
    services: Mapping[ServiceId, ServiceConfig],
) -> None:
    errors = [
        f"{directory / 'service_config'}: {service}: no such node '{config.node}'"
        for service, config in services.items()
        if config.node not in hosts
    ]
    if errors:
        raise InvalidFileError(*errors, code=DiagnosticCode.UNKNOWN_NAME)


def _amounts(
    directory: Path, services: Mapping[ServiceId, ServiceConfig]
) -> tuple[Mapping[ServiceId, Usage], Mapping[ServiceId, Usage]]:
    """Return the limits and the usage of each service."""
    value = read_value(directory / "static_service_stats")
    limits = (
        dict.fromkeys(services, DEFAULT_LIMIT)
        if value is None
        else initial_state.parse_amounts(value, "maxcpu", "maxmem")
    )
    value = read_value(directory / "dynamic_service_stats")
    usages = (
        dict.fromkeys(limits, DEFAULT_USAGE)
        if value is None
        else initial_state.parse_amounts(value, "cpu", "mem")
    )
    return limits, usages


def _status(directory: Path) -> ManagerStatus:
    value = read_value(directory / "manager_status")
    return (
        ManagerStatus() if value is None else initial_state.parse_manager_status(value)
    )


def _running(
    directory: Path, hosts: Mapping[NodeId, SimulatedHost]
) -> Mapping[NodeId, frozenset[ServiceId]]:
    tables = {node: read_value(directory / f"service_status_{node}") for node in hosts}
    return {
        node: initial_state.parse_running_services(value)
        for node, value in tables.items()
        if value is not None
    }


def _batches(directory: Path) -> Iterator[tuple[str, ...]]:
    value = read_value(directory / "cmdlist")
    if value is None:
        raise InvalidFileError(
            f"{directory}: expected a drill file, or a scenario directory of Proxmox "
            "VE with the file cmdlist"
        )
    for batch in value.entries():
        yield tuple(command.text() for command in batch.entries())
