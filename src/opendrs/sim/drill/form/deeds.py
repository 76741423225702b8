"""From an event of a drill file to what is done, in the words of Proxmox VE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from opendrs.ha.observation import PowerChange
from opendrs.model import GuestId, NodeId
from opendrs.platforms.file import check_rules
from opendrs.sim.drill import actions
from opendrs.sim.drill.actions import Action, SkipRounds
from opendrs.sim.drill.form.guests import GUEST_DEEDS
from opendrs.sim.drill.form.happenings import VERBS, EventEntry
from opendrs.sim.drill.machinery import Kind
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.translation import translation_of

Deed = tuple[str, Action | SkipRounds]
Fields = Mapping[str, Any]  # checked by the wire


def deeds_of(event: EventEntry, names: Names) -> Iterator[Deed]:
    """Yield what *event* does, and how that is written in the log.

    Args:
        event: A checked event, with one verb.
        names: What its guests and nodes are called.
    """
    (verb,) = VERBS & event.keys()
    fields: Any = event[verb]  # type: ignore[literal-required]
    if verb == "rules":
        yield _rules(fields, names)
    elif verb in _OF_ALL:
        yield _OF_ALL[verb](fields, names)
    elif verb in _OF_NODES:
        for name in fields["node"]:
            yield from _OF_NODES[verb](names.nodes[NodeId(name)], fields)
    else:
        translated = {**fields}
        for field in {"node", "to"} & fields.keys():
            translated[field] = names.nodes[NodeId(fields[field])]
        for name in fields["guest"]:
            yield GUEST_DEEDS[verb](names.services[GuestId(name)], translated)


def _rules(entries: object, names: Names) -> Deed:
    rules, _ = check_rules(entries, ("rules",))
    translation = translation_of(rules, names)
    called = " ".join(translation.rules) or "none"
    return f"rules {called}", actions.WriteRules(translation.text())


def _skip(fields: Fields, _: Names) -> Deed:
    kind, rounds = Kind(fields["process"]), fields.get("rounds", 1)
    return f"skip-round {kind} {rounds}", SkipRounds(kind, rounds)


def _disarm(fields: Fields, names: Names) -> Deed:
    request = f"disarm-ha {fields['mode']}"
    return f"crm {_first(names)} {request}", actions.Ask(request)


def _arm(_: Fields, names: Names) -> Deed:
    return f"crm {_first(names)} arm-ha", actions.Ask("arm-ha")


def _first(names: Names) -> NodeId:
    """Return the node that is named where Proxmox VE wants one, whichever it is."""
    return min(names.origins, default=NodeId("-"))


_OF_ALL: Mapping[str, Callable[[Fields, Names], Deed]] = MappingProxyType(
    {"skip_rounds": _skip, "disarm": _disarm, "arm": _arm}
)


def _power(node: NodeId, fields: Fields) -> Iterable[Deed]:
    state = fields["state"]
    yield f"power {node} {state}", actions.SetPower(node, on=state == "on")


def _network(node: NodeId, fields: Fields) -> Iterable[Deed]:
    state = fields["state"]
    on = state == "on"
    change = actions.ChangeHost(node, lambda host: replace(host, network=on))
    yield f"network {node} {state}", change


def _files(node: NodeId, fields: Fields) -> Iterable[Deed]:
    for field, word, key in (
        ("readable", "rw", "files_readable"),
        ("consistent", "update", "files_consistent"),
    ):
        if field in fields:
            changes = {key: fields[field]}
            state = "work" if fields[field] else "fail"
            change = actions.ChangeHost(node, _replacing(changes))
            yield f"cfs {node} {word} {state}", change


def _version(node: NodeId, fields: Fields) -> Iterable[Deed]:
    change = actions.ChangeHost(node, _replacing({"version": fields["to"]}))
    yield f"pve-manager-version {node} set {fields['to']}", change


def _replacing(changes: Fields) -> Callable[[Any], Any]:
    return lambda value: replace(value, **changes)


def _shutdown(node: NodeId, _: Fields) -> Iterable[Deed]:
    yield f"shutdown {node}", actions.GoDown(node, PowerChange.SHUTDOWN)


def _reboot(node: NodeId, _: Fields) -> Iterable[Deed]:
    yield f"reboot {node}", actions.GoDown(node, PowerChange.REBOOT)


def _maintenance(node: NodeId, fields: Fields) -> Iterable[Deed]:
    act = "enable" if fields["state"] == "on" else "disable"
    request = f"{act}-node-maintenance"
    yield f"crm {node} {request}", actions.Ask(f"{request} {node}")


def _restart(node: NodeId, _: Fields) -> Iterable[Deed]:
    yield f"restart-lrm {node}", actions.RestartAgent(node)


def _manager(node: NodeId, fields: Fields) -> Iterable[Deed]:
    stops = fields["do"] == "stop"
    action = actions.StopManager if stops else actions.StartManager
    yield f"crm {node} {fields['do']}", action(node)


_OF_NODES: Mapping[str, Callable[[NodeId, Fields], Iterable[Deed]]] = MappingProxyType(
    {
        "power": _power,
        "network": _network,
        "files": _files,
        "version": _version,
        "shutdown": _shutdown,
        "reboot": _reboot,
        "maintenance": _maintenance,
        "restart_lrm": _restart,
        "crm": _manager,
    }
)
