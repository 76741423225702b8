"""Conversion of the values of scenario files to the types of the HA manager."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from opendrs.errors import DiagnosticCode, ModelError
from opendrs.model import NodeId, Usage
from opendrs.pve_ha.config import datacenter_from_options
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator.located_values import LocatedValue
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import (
    DisarmState,
    PveNodeState,
    RequestedState,
    ServiceCommand,
    ServiceId,
    ServiceState,
)
from opendrs.pve_ha.status_files import (
    DatacenterSettings,
    DisarmStatus,
    ManagerStatus,
    QueuedMotion,
    QueuedStop,
    ServiceConfig,
    ServiceStatus,
)

SERVICE = re.compile(r"(vm|ct|fa):\d+", re.ASCII)

WordT = TypeVar("WordT", bound=StrEnum)


def parse_hosts(value: LocatedValue) -> dict[NodeId, SimulatedHost]:
    """Return the hosts in *value*."""
    return {NodeId(name): _host(entry) for name, entry in value.items()}


def parse_services(value: LocatedValue) -> dict[ServiceId, ServiceConfig]:
    """Return the services in *value*."""
    return {_service_id(name, entry): _service(entry) for name, entry in value.items()}


def parse_amounts(value: LocatedValue, cpu: str, memory: str) -> dict[ServiceId, Usage]:
    """Return the amounts of each service, under the names *cpu* and *memory*."""
    return {
        ServiceId(name): _usage(entry, cpu, memory) for name, entry in value.items()
    }


def parse_running_services(value: LocatedValue) -> frozenset[ServiceId]:
    """Return the services that are marked as running in *value*."""
    return frozenset(ServiceId(name) for name, entry in value.items() if entry.is_true)


def parse_datacenter(value: LocatedValue) -> DatacenterSettings:
    """Return the settings in *value*."""
    return datacenter_from_options(
        _JsonOptions(value.get("ha")), _JsonOptions(value.get("crs"))
    )


def parse_manager_status(value: LocatedValue) -> ManagerStatus:
    """Return the manager status in *value*."""
    master = value.get("master_node")
    requests = value.get("node_request")
    return ManagerStatus(
        master=NodeId(master.text()) if master.is_true else None,
        nodes={
            NodeId(name): _word(entry, PveNodeState)
            for name, entry in value.get("node_status").items()
        },
        services={
            ServiceId(name): _service_status(entry)
            for name, entry in value.get("service_status").items()
        },
        maintenance_requests=frozenset(
            NodeId(name)
            for name, entry in requests.items()
            if entry.get("maintenance").is_true
        ),
        disarm=_disarm(value.get("disarm")),
    )


def _host(value: LocatedValue) -> SimulatedHost:
    files, version = value.get("cfs"), value.get("pve-manager-version")
    change = value.get("shutdown")
    return SimulatedHost(
        power=_is_on(value.get("power")),
        network=_is_on(value.get("network")),
        files_readable=_works(files.get("rw")),
        files_consistent=_works(files.get("update")),
        capacity=_usage(value, "maxcpu", "maxmem", zero_is_unknown=True),
        version=version.text() if version.is_true else None,
        power_change=_word(change, PowerChange) if change.is_true else None,
    )


def _is_on(value: LocatedValue) -> bool:
    if value.is_missing or value.raw == "off":
        return False
    if value.raw == "on":
        return True
    raise value.error("expected on or off", DiagnosticCode.UNKNOWN_VALUE)


def _works(value: LocatedValue) -> bool:
    return value.is_missing or (value.is_true and value.raw != "fail")


def _service_id(name: str, value: LocatedValue) -> ServiceId:
    if not SERVICE.fullmatch(name):
        raise value.error(
            "expected a service such as vm:100, ct:100 or fa:100",
            DiagnosticCode.INVALID_VALUE,
        )
    return ServiceId(name)


def _service(value: LocatedValue) -> ServiceConfig:
    node, state = value.get("node"), value.get("state")
    group, lock = value.get("group"), value.get("lock")
    if not node.is_true:
        raise value.error("service without assigned node", DiagnosticCode.MISSING_KEY)
    requested = state.text() if state.is_true else RequestedState.DISABLED
    return ServiceConfig(
        node=NodeId(node.text()),
        state=RequestedState.STARTED if requested == "enabled" else requested,
        failback=_default_one(value.get("failback")).is_true,
        max_restart=_default_one(value.get("max_restart")).integer(),
        max_relocate=_default_one(value.get("max_relocate")).integer(),
        group=group.text() if group.is_true else None,
        lock=lock.text() if lock.is_true else None,
    )


def _default_one(value: LocatedValue) -> LocatedValue:
    return LocatedValue(1, value.location) if value.is_missing else value


def _usage(
    value: LocatedValue, cpu: str, memory: str, *, zero_is_unknown: bool = False
) -> Usage:
    cores, size = value.get(cpu), value.get(memory)
    if zero_is_unknown:
        cores, size = (
            LocatedValue(v.raw if v.is_true else None, v.location)
            for v in (cores, size)
        )
    try:
        return Usage(
            None if cores.is_missing else cores.number(),
            None if size.is_missing else size.integer(),
        )
    except ModelError as error:
        raise value.error(str(error), DiagnosticCode.OUT_OF_RANGE) from error


class _JsonOptions:
    """Options of a JSON object. Unknown words are left to the manager."""

    def __init__(self, value: LocatedValue) -> None:
        self._value = value

    def choice(self, name: str, default: str, known: Collection[str]) -> str:
        """Return the option *name*, or *default*."""
        del known
        option = self._value.get(name)
        return option.text() if option.is_true else default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return the option *name*, or *default*."""
        option = self._value.get(name)
        return default if option.is_missing else option.is_true

    def number(self, name: str, default: float) -> float:
        """Return the option *name*, or *default*."""
        option = self._value.get(name)
        return default if option.is_missing else option.number()

    fraction = number


def _service_status(value: LocatedValue) -> ServiceStatus:
    uid, target, timeout = value.get("uid"), value.get("target"), value.get("timeout")
    fallback_node, node = value.get("maintenance_node"), value.get("node")
    failed = value.get("failed_nodes")
    return ServiceStatus(
        state=_word(value.get("state"), ServiceState),
        node=NodeId(node.text()),
        uid=uid.text() if uid.is_true else None,
        target=NodeId(target.text()) if target.is_true else None,
        timeout=None if timeout.is_missing else timeout.integer(),
        queued_command=_queued_command(value.get("cmd")),
        running=value.get("running").is_true,
        failed_nodes=()
        if failed.is_missing
        else tuple(NodeId(entry.text()) for entry in failed.entries()),
        maintenance_node=NodeId(fallback_node.text())
        if fallback_node.is_true
        else None,
    )


def _queued_command(value: LocatedValue) -> QueuedMotion | QueuedStop | None:
    if value.is_missing:
        return None
    match [entry.raw for entry in value.entries()]:
        case [("migrate" | "relocate") as command, str() as target]:
            return QueuedMotion(ServiceCommand(command), NodeId(target))
        case ["stop", int() | str()]:
            return QueuedStop(list(value.entries())[1].integer())
        case _:
            raise value.error(
                "expected migrate or relocate with a node, or stop with a timeout",
                DiagnosticCode.INVALID_VALUE,
            )


def _disarm(value: LocatedValue) -> DisarmStatus | None:
    if not value.is_true:
        return None
    mode, state = value.get("mode"), value.get("state")
    return DisarmStatus(mode.text() if mode.is_true else "", _word(state, DisarmState))


def _word(value: LocatedValue, words: type[WordT]) -> WordT:
    try:
        return words(value.text())
    except ValueError as error:
        known = ", ".join(words)
        message = f"expected one of {known}"
        raise value.error(message, DiagnosticCode.UNKNOWN_VALUE) from error
