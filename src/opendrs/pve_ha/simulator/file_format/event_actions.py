"""Simulator actions of each event of a drill file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from opendrs.config import validate_rules
from opendrs.model import GuestId, NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator import actions
from opendrs.pve_ha.simulator.actions import DrillAction, SkipRounds
from opendrs.pve_ha.simulator.cmdlist import MIB
from opendrs.pve_ha.simulator.file_format.events import (
    EVENT_KINDS,
    EventEntry,
    FailureEntry,
)
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.simulator.processes import ProcessKind
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.pve_rules import translate_rules
from opendrs.pve_ha.states import RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig

EventFields = Mapping[str, Any]  # validated by the schema; nodes by their drill names
LoggedGuestAction = tuple[str, DrillAction]


def failures_from(
    entry: FailureEntry, nodes: Mapping[NodeId, NodeId]
) -> InjectedFailures:
    """Return the injected failures of a validated *entry*.

    Args:
        entry: The entry.
        nodes: Name of each node in the drill.
    """
    node = entry.get("node")
    return InjectedFailures(
        starts=entry.get("starts", 0),
        moves=entry.get("moves", 0),
        never_stops=entry.get("never_stops", False),
        node=None if node is None else nodes[NodeId(node)],
    )


def _request(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    state = fields["state"]
    change = actions.ChangeService(service, _replacing_config({"state": state}))
    return f"service {service} {state}", change


def _replacing_config(changes: EventFields) -> Callable[[ServiceConfig], ServiceConfig]:
    return lambda config: replace(config, **changes)


def _migrate(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    return _send_crm_command(f"migrate {service} {fields['to']}", service)


def _relocate(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    return _send_crm_command(f"relocate {service} {fields['to']}", service)


def _stop(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    return _send_crm_command(f"stop {service} {fields['timeout']}", service)


def _send_crm_command(request: str, service: ServiceId) -> LoggedGuestAction:
    verb, _, argument = request.partition(f" {service} ")
    return f"service {service} {verb} {argument}", actions.SendCrmCommand(request)


def _move_manually(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    target = fields["to"]
    move = actions.MoveManually(service, target)
    return f"service {service} manual-migrate {target}", move


def _crash(service: ServiceId, _: EventFields) -> LoggedGuestAction:
    return f"service {service} crash", actions.CrashService(service)


def _fail(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    failure = {key: value for key, value in fields.items() if key != "guest"}
    words = " ".join(f"{key} {str(value).lower()}" for key, value in failure.items())
    failures = InjectedFailures(**failure)
    return f"service {service} fail {words}", actions.InjectFailures(service, failures)


def _lock(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    lock = fields.get("name", "backup")
    change = actions.ChangeService(service, _replacing_config({"lock": lock}))
    return f"service {service} lock {lock}", change


def _unlock(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    name = fields.get("name")

    def change(config: ServiceConfig) -> ServiceConfig:
        return replace(config, lock=None) if name in (None, config.lock) else config

    text = f"service {service} unlock {name or ''}".rstrip()
    return text, actions.ChangeService(service, change)


def _add(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    node, running = fields["node"], fields.get("running", False)
    state = fields.get("state", RequestedState.STARTED)
    config = ServiceConfig(node=node, state=state)
    text = f"service {service} add {node} {state} {int(running)}"
    return text, actions.AddService(service, config, running)


def _delete(service: ServiceId, _: EventFields) -> LoggedGuestAction:
    return f"service {service} delete", actions.DeleteService(service)


def _set_limit(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    text = f"service {service} set-static-stats{_words(fields, 'maxcpu', 'maxmem')}"
    return text, actions.SetLimit(service, _usage(fields))


def _set_usage(service: ServiceId, fields: EventFields) -> LoggedGuestAction:
    text = f"service {service} set-dynamic-stats{_words(fields, 'cpu', 'mem')}"
    return text, actions.SetUsage(service, _usage(fields))


def _usage(fields: EventFields) -> Usage:
    return Usage(fields.get("cpu"), fields.get("memory"))


def _words(fields: EventFields, cpu: str, memory: str) -> str:
    """Return the amounts as Proxmox VE writes them, with memory in MiB."""
    cores = f" {cpu} {fields['cpu']:g}" if "cpu" in fields else ""
    size = f" {memory} {fields['memory'] / MIB:g}" if "memory" in fields else ""
    return cores + size


GUEST_ACTIONS: Mapping[str, Callable[[ServiceId, EventFields], LoggedGuestAction]] = (
    MappingProxyType(
        {
            "request": _request,
            "migrate": _migrate,
            "relocate": _relocate,
            "stop": _stop,
            "move_by_hand": _move_manually,
            "crash": _crash,
            "fail": _fail,
            "lock": _lock,
            "unlock": _unlock,
            "add": _add,
            "delete": _delete,
            "limit": _set_limit,
            "usage": _set_usage,
        }
    )
)

LoggedAction = tuple[str, DrillAction | SkipRounds]


def actions_of(event: EventEntry, names: PveNames) -> Iterator[LoggedAction]:
    """Yield the actions of *event*, each with its text in the log.

    Args:
        event: A validated event of one kind.
        names: Names of guests and nodes.
    """
    (kind,) = EVENT_KINDS & event.keys()
    fields: Any = event[kind]  # type: ignore[literal-required]
    if kind == "rules":
        yield _rules(fields, names)
    elif kind in _GLOBAL_ACTIONS:
        yield _GLOBAL_ACTIONS[kind](fields, names)
    elif kind in _NODE_ACTIONS:
        for name in fields["node"]:
            yield from _NODE_ACTIONS[kind](names.nodes[NodeId(name)], fields)
    else:
        translated = {**fields}
        for field in {"node", "to"} & fields.keys():
            translated[field] = names.nodes[NodeId(fields[field])]
        for name in fields["guest"]:
            yield GUEST_ACTIONS[kind](names.services[GuestId(name)], translated)


def _rules(entries: object, names: PveNames) -> LoggedAction:
    rules, _ = validate_rules(entries, ("rules",))
    translation = translate_rules(rules, names)
    names_of_rules = " ".join(translation.rules) or "none"
    return f"rules {names_of_rules}", actions.ReplaceRules(translation.text())


def _skip(fields: EventFields, _: PveNames) -> LoggedAction:
    kind, rounds = ProcessKind(fields["process"]), fields.get("rounds", 1)
    return f"skip-round {kind} {rounds}", SkipRounds(kind, rounds)


def _disarm(fields: EventFields, names: PveNames) -> LoggedAction:
    request = f"disarm-ha {fields['mode']}"
    return f"crm {_first_node(names)} {request}", actions.SendCrmCommand(request)


def _arm(_: EventFields, names: PveNames) -> LoggedAction:
    return f"crm {_first_node(names)} arm-ha", actions.SendCrmCommand("arm-ha")


def _first_node(names: PveNames) -> NodeId:
    """Return the node for commands in which Proxmox VE requires any node."""
    return min(names.origins, default=NodeId("-"))


_GLOBAL_ACTIONS: Mapping[str, Callable[[EventFields, PveNames], LoggedAction]] = (
    MappingProxyType({"skip_rounds": _skip, "disarm": _disarm, "arm": _arm})
)


def _power(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    state = fields["state"]
    yield f"power {node} {state}", actions.SetPower(node, on=state == "on")


def _network(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    state = fields["state"]
    on = state == "on"
    change = actions.ChangeHost(node, lambda host: replace(host, network=on))
    yield f"network {node} {state}", change


def _files(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    for field, word, key in (
        ("readable", "rw", "files_readable"),
        ("consistent", "update", "files_consistent"),
    ):
        if field in fields:
            changes = {key: fields[field]}
            state = "work" if fields[field] else "fail"
            change = actions.ChangeHost(node, _replacing(changes))
            yield f"cfs {node} {word} {state}", change


def _version(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    change = actions.ChangeHost(node, _replacing({"version": fields["to"]}))
    yield f"pve-manager-version {node} set {fields['to']}", change


def _replacing(changes: EventFields) -> Callable[[Any], Any]:
    return lambda value: replace(value, **changes)


def _shutdown(node: NodeId, _: EventFields) -> Iterable[LoggedAction]:
    yield f"shutdown {node}", actions.ShutDownNode(node, PowerChange.SHUTDOWN)


def _reboot(node: NodeId, _: EventFields) -> Iterable[LoggedAction]:
    yield f"reboot {node}", actions.ShutDownNode(node, PowerChange.REBOOT)


def _maintenance(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    verb = "enable" if fields["state"] == "on" else "disable"
    request = f"{verb}-node-maintenance"
    yield f"crm {node} {request}", actions.SendCrmCommand(f"{request} {node}")


def _restart_lrm(node: NodeId, _: EventFields) -> Iterable[LoggedAction]:
    yield f"restart-lrm {node}", actions.RestartLrm(node)


def _crm(node: NodeId, fields: EventFields) -> Iterable[LoggedAction]:
    stops = fields["do"] == "stop"
    action = actions.StopCrm if stops else actions.StartCrm
    yield f"crm {node} {fields['do']}", action(node)


_NODE_ACTIONS: Mapping[str, Callable[[NodeId, EventFields], Iterable[LoggedAction]]] = (
    MappingProxyType(
        {
            "power": _power,
            "network": _network,
            "files": _files,
            "version": _version,
            "shutdown": _shutdown,
            "reboot": _reboot,
            "maintenance": _maintenance,
            "restart_lrm": _restart_lrm,
            "crm": _crm,
        }
    )
)
