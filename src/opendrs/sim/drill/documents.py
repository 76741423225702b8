"""From the values of a scenario's files to what the HA stack works with."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from typing import TypeVar

from opendrs.errors import ModelError
from opendrs.ha import (
    Datacenter,
    Disarm,
    DisarmState,
    ManagerStatus,
    Motion,
    NodeState,
    PowerChange,
    Requested,
    ServiceConfig,
    ServiceId,
    ServiceState,
    ServiceStatus,
    Stop,
    Task,
)
from opendrs.ha.files import datacenter_of
from opendrs.model import NodeId, Usage
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.values import Value

SERVICE = re.compile(r"(vm|ct|fa):\d+", re.ASCII)

WordT = TypeVar("WordT", bound=StrEnum)


def hosts(value: Value) -> dict[NodeId, Host]:
    """Return the hosts *value* describes."""
    return {NodeId(name): _host(entry) for name, entry in value.items()}


def services(value: Value) -> dict[ServiceId, ServiceConfig]:
    """Return the services *value* describes."""
    return {_service_id(name, entry): _service(entry) for name, entry in value.items()}


def amounts(value: Value, cpu: str, memory: str) -> dict[ServiceId, Usage]:
    """Return what *value* says of each service, under the names *cpu* and *memory*."""
    return {
        ServiceId(name): _usage(entry, cpu, memory) for name, entry in value.items()
    }


def running(value: Value) -> frozenset[ServiceId]:
    """Return the services of which *value* says that they run."""
    return frozenset(ServiceId(name) for name, entry in value.items() if entry.true)


def datacenter(value: Value) -> Datacenter:
    """Return the settings *value* describes."""
    return datacenter_of(_Options(value.get("ha")), _Options(value.get("crs")))


def manager_status(value: Value) -> ManagerStatus:
    """Return the status *value* describes."""
    master = value.get("master_node")
    requests = value.get("node_request")
    return ManagerStatus(
        master=NodeId(master.text()) if master.true else None,
        nodes={
            NodeId(name): _word(entry, NodeState)
            for name, entry in value.get("node_status").items()
        },
        services={
            ServiceId(name): _service_status(entry)
            for name, entry in value.get("service_status").items()
        },
        maintenance_requests=frozenset(
            NodeId(name)
            for name, entry in requests.items()
            if entry.get("maintenance").true
        ),
        disarm=_disarm(value.get("disarm")),
    )


def _host(value: Value) -> Host:
    files, version = value.get("cfs"), value.get("pve-manager-version")
    change = value.get("shutdown")
    return Host(
        power=_is_on(value.get("power")),
        network=_is_on(value.get("network")),
        files_readable=_works(files.get("rw")),
        files_consistent=_works(files.get("update")),
        capacity=_usage(value, "maxcpu", "maxmem", zero_is_unknown=True),
        version=version.text() if version.true else None,
        power_change=_word(change, PowerChange) if change.true else None,
    )


def _is_on(value: Value) -> bool:
    if value.missing or value.raw == "off":
        return False
    if value.raw == "on":
        return True
    raise value.complaint("must be on or off")


def _works(value: Value) -> bool:
    return value.missing or (value.true and value.raw != "fail")


def _service_id(name: str, value: Value) -> ServiceId:
    if not SERVICE.fullmatch(name):
        raise value.complaint("a service is called vm:100, ct:100 or fa:100")
    return ServiceId(name)


def _service(value: Value) -> ServiceConfig:
    node, state = value.get("node"), value.get("state")
    group, lock = value.get("group"), value.get("lock")
    if not node.true:
        raise value.complaint("service without assigned node")
    wanted = state.text() if state.true else Requested.DISABLED
    return ServiceConfig(
        node=NodeId(node.text()),
        state=Requested.STARTED if wanted == "enabled" else wanted,
        failback=_or_one(value.get("failback")).true,
        max_restart=_or_one(value.get("max_restart")).integer(),
        max_relocate=_or_one(value.get("max_relocate")).integer(),
        group=group.text() if group.true else None,
        lock=lock.text() if lock.true else None,
    )


def _or_one(value: Value) -> Value:
    return Value(1, value.place) if value.missing else value


def _usage(
    value: Value, cpu: str, memory: str, *, zero_is_unknown: bool = False
) -> Usage:
    cores, size = value.get(cpu), value.get(memory)
    if zero_is_unknown:
        cores, size = (Value(v.raw if v.true else None, v.place) for v in (cores, size))
    try:
        return Usage(
            None if cores.missing else cores.number(),
            None if size.missing else size.integer(),
        )
    except ModelError as error:
        raise value.complaint(str(error)) from error


class _Options:
    """The options of a JSON object; words without meaning are for the manager."""

    def __init__(self, value: Value) -> None:
        self._value = value

    def word(self, name: str, usual: str, known: Collection[str]) -> str:
        """Return the option *name*, or *usual*."""
        del known
        said = self._value.get(name)
        return said.text() if said.true else usual

    def flag(self, name: str, *, usual: bool) -> bool:
        """Return the option *name*, or *usual*."""
        said = self._value.get(name)
        return usual if said.missing else said.true

    def number(self, name: str, usual: float) -> float:
        """Return the option *name*, or *usual*."""
        said = self._value.get(name)
        return usual if said.missing else said.number()

    share = number


def _service_status(value: Value) -> ServiceStatus:
    uid, target, timeout = value.get("uid"), value.get("target"), value.get("timeout")
    refuge, node = value.get("maintenance_node"), value.get("node")
    failed = value.get("failed_nodes")
    return ServiceStatus(
        state=_word(value.get("state"), ServiceState),
        node=NodeId(node.text()),
        uid=uid.text() if uid.true else None,
        target=NodeId(target.text()) if target.true else None,
        timeout=None if timeout.missing else timeout.integer(),
        order=_order(value.get("cmd")),
        running=value.get("running").true,
        failed_nodes=()
        if failed.missing
        else tuple(NodeId(entry.text()) for entry in failed.entries()),
        maintenance_node=NodeId(refuge.text()) if refuge.true else None,
    )


def _order(value: Value) -> Motion | Stop | None:
    if value.missing:
        return None
    match [entry.raw for entry in value.entries()]:
        case [("migrate" | "relocate") as task, str() as target]:
            return Motion(Task(task), NodeId(target))
        case ["stop", int() | str()]:
            return Stop(list(value.entries())[1].integer())
        case _:
            raise value.complaint("must be migrate or relocate and a node, or stop")


def _disarm(value: Value) -> Disarm | None:
    if not value.true:
        return None
    mode, state = value.get("mode"), value.get("state")
    return Disarm(mode.text() if mode.true else "", _word(state, DisarmState))


def _word(value: Value, words: type[WordT]) -> WordT:
    try:
        return words(value.text())
    except ValueError as error:
        known = ", ".join(words)
        raise value.complaint(f"must be one of {known}") from error
