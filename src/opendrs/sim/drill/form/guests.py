"""What happens to guests in a drill file, in the words of Proxmox VE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from opendrs.ha.documents import ServiceConfig
from opendrs.ha.identifiers import ServiceId
from opendrs.ha.states import Requested
from opendrs.model import NodeId, Usage
from opendrs.sim.drill import actions
from opendrs.sim.drill.actions import Action
from opendrs.sim.drill.failing import Failures
from opendrs.sim.drill.form.happenings import Failing
from opendrs.sim.drill.parsing import MIB

Fields = Mapping[str, Any]  # checked by the wire, nodes as they are called here
GuestDeed = tuple[str, Action]


def failures_from(entry: Failing, nodes: Mapping[NodeId, NodeId]) -> Failures:
    """Return the failures a checked *entry* describes.

    Args:
        entry: The entry.
        nodes: What each node is called in the drill.
    """
    node = entry.get("node")
    return Failures(
        starts=entry.get("starts", 0),
        moves=entry.get("moves", 0),
        never_stops=entry.get("never_stops", False),
        node=None if node is None else nodes[NodeId(node)],
    )


def _request(service: ServiceId, fields: Fields) -> GuestDeed:
    state = fields["state"]
    change = actions.ChangeService(service, _replacing({"state": state}))
    return f"service {service} {state}", change


def _replacing(changes: Fields) -> Callable[[ServiceConfig], ServiceConfig]:
    return lambda config: replace(config, **changes)


def _migrate(service: ServiceId, fields: Fields) -> GuestDeed:
    return _asked(f"migrate {service} {fields['to']}", service)


def _relocate(service: ServiceId, fields: Fields) -> GuestDeed:
    return _asked(f"relocate {service} {fields['to']}", service)


def _stop(service: ServiceId, fields: Fields) -> GuestDeed:
    return _asked(f"stop {service} {fields['timeout']}", service)


def _asked(request: str, service: ServiceId) -> GuestDeed:
    verb, _, argument = request.partition(f" {service} ")
    return f"service {service} {verb} {argument}", actions.Ask(request)


def _move_by_hand(service: ServiceId, fields: Fields) -> GuestDeed:
    target = fields["to"]
    move = actions.MoveByHand(service, target)
    return f"service {service} manual-migrate {target}", move


def _crash(service: ServiceId, _: Fields) -> GuestDeed:
    return f"service {service} crash", actions.Crash(service)


def _fail(service: ServiceId, fields: Fields) -> GuestDeed:
    said = {key: value for key, value in fields.items() if key != "guest"}
    words = " ".join(f"{key} {str(value).lower()}" for key, value in said.items())
    failures = Failures(**said)
    return f"service {service} fail {words}", actions.LetFail(service, failures)


def _lock(service: ServiceId, fields: Fields) -> GuestDeed:
    lock = fields.get("name", "backup")
    change = actions.ChangeService(service, _replacing({"lock": lock}))
    return f"service {service} lock {lock}", change


def _unlock(service: ServiceId, fields: Fields) -> GuestDeed:
    name = fields.get("name")

    def change(config: ServiceConfig) -> ServiceConfig:
        return replace(config, lock=None) if name in (None, config.lock) else config

    text = f"service {service} unlock {name or ''}".rstrip()
    return text, actions.ChangeService(service, change)


def _add(service: ServiceId, fields: Fields) -> GuestDeed:
    node, running = fields["node"], fields.get("running", False)
    state = fields.get("state", Requested.STARTED)
    config = ServiceConfig(node=node, state=state)
    text = f"service {service} add {node} {state} {int(running)}"
    return text, actions.AddService(service, config, running)


def _delete(service: ServiceId, _: Fields) -> GuestDeed:
    return f"service {service} delete", actions.DeleteService(service)


def _limit(service: ServiceId, fields: Fields) -> GuestDeed:
    text = f"service {service} set-static-stats{_words(fields, 'maxcpu', 'maxmem')}"
    return text, actions.SetLimit(service, _usage(fields))


def _usage_told(service: ServiceId, fields: Fields) -> GuestDeed:
    text = f"service {service} set-dynamic-stats{_words(fields, 'cpu', 'mem')}"
    return text, actions.SetUsage(service, _usage(fields))


def _usage(fields: Fields) -> Usage:
    return Usage(fields.get("cpu"), fields.get("memory"))


def _words(fields: Fields, cpu: str, memory: str) -> str:
    """Return what *fields* say as Proxmox VE writes it: memory in MiB."""
    cores = f" {cpu} {fields['cpu']:g}" if "cpu" in fields else ""
    size = f" {memory} {fields['memory'] / MIB:g}" if "memory" in fields else ""
    return cores + size


GUEST_DEEDS: Mapping[str, Callable[[ServiceId, Fields], GuestDeed]] = MappingProxyType(
    {
        "request": _request,
        "migrate": _migrate,
        "relocate": _relocate,
        "stop": _stop,
        "move_by_hand": _move_by_hand,
        "crash": _crash,
        "fail": _fail,
        "lock": _lock,
        "unlock": _unlock,
        "add": _add,
        "delete": _delete,
        "limit": _limit,
        "usage": _usage_told,
    }
)
