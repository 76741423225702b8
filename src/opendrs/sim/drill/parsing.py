"""From the words of a command list to actions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.errors import InvalidFileError, ModelError
from opendrs.ha import DisarmMode, PowerChange, Requested, ServiceConfig, ServiceId
from opendrs.model import NodeId, Usage
from opendrs.sim.drill import actions
from opendrs.sim.drill.actions import Action, Delay, SkipRounds
from opendrs.sim.drill.machinery import Kind
from opendrs.sim.drill.scenario import Batch

MIB = 1 << 20
SERVICE = re.compile(r"(vm|ct|fa):\d+", re.ASCII)

Words = Sequence[str]


class MalformedError(Exception):
    """A command that has no meaning."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and what it means.

    Attributes:
        text: Its words.
        place: Where it stands, for complaints.
        action: What it means.
    """

    text: str
    place: str
    action: Action | Delay | SkipRounds


def parse_batches(
    batches: Sequence[Batch], nodes: Collection[NodeId], origin: str
) -> list[list[Step]]:
    """Return what the commands of *batches* mean.

    Args:
        batches: Lists of commands.
        nodes: The nodes there are.
        origin: Where the commands stand, for complaints.

    Raises:
        InvalidFileError: Some have no meaning; says which, and why.
    """
    complaints = []
    result: list[list[Step]] = []
    for number, batch in enumerate(batches, start=1):
        steps = []
        for position, text in enumerate(batch, start=1):
            place = f"{origin}: batch {number}, command {position}: '{text}'"
            try:
                steps.append(Step(text, place, _action(text.split(), nodes)))
            except (MalformedError, ModelError) as error:
                complaints.append(f"{place}: {error}")
        result.append(steps)
    if complaints:
        raise InvalidFileError(*complaints)
    return result


def _action(words: Words, nodes: Collection[NodeId]) -> Action | Delay | SkipRounds:
    match words:
        case ["delay", seconds] if seconds.isdecimal():
            return Delay(int(seconds))
        case ["skip-round", ("crm" | "lrm") as kind]:
            return SkipRounds(Kind(kind), 1)
        case ["skip-round", ("crm" | "lrm") as kind, rounds] if rounds.isdecimal():
            return SkipRounds(Kind(kind), int(rounds))
        case ["service", name, verb, *rest]:
            return _service_action(_service(name), verb, rest, nodes)
        case [command, name, *rest] if command in _NODE_COMMANDS:
            return _NODE_COMMANDS[command](_node(name, nodes), rest)
        case _:
            raise MalformedError("unknown command")


def _node(name: str, nodes: Collection[NodeId]) -> NodeId:
    node = NodeId(name)
    if node not in nodes:
        raise MalformedError(f"no such node '{name}'")
    return node


def _service(name: str) -> ServiceId:
    if not SERVICE.fullmatch(name):
        raise MalformedError(f"no such service '{name}'; one is called vm:100")
    return ServiceId(name)


def _power(node: NodeId, rest: Words) -> Action:
    return actions.SetPower(node, on=_switch(rest))


def _network(node: NodeId, rest: Words) -> Action:
    on = _switch(rest)
    return actions.ChangeHost(node, lambda host: replace(host, network=on))


def _switch(rest: Words) -> bool:
    match rest:
        case ["on"]:
            return True
        case ["off"]:
            return False
        case _:
            raise MalformedError("say on or off")


def _files(node: NodeId, rest: Words) -> Action:
    match rest:
        case ["rw", ("work" | "fail") as word]:
            works = word == "work"
            return actions.ChangeHost(node, lambda h: replace(h, files_readable=works))
        case ["update", ("work" | "fail") as word]:
            works = word == "work"
            return actions.ChangeHost(
                node, lambda h: replace(h, files_consistent=works)
            )
        case _:
            raise MalformedError("say rw or update, and work or fail")


def _manager(node: NodeId, rest: Words) -> Action:
    match rest:
        case ["stop"]:
            return actions.StopManager(node)
        case ["start"]:
            return actions.StartManager(node)
        case [("enable-node-maintenance" | "disable-node-maintenance") as request]:
            return actions.Ask(f"{request} {node}")
        case ["disarm-ha", mode] if mode in set(DisarmMode):
            return actions.Ask(f"disarm-ha {mode}")
        case ["arm-ha"]:
            return actions.Ask("arm-ha")
        case _:
            raise MalformedError("unknown command for a manager")


def _version(node: NodeId, rest: Words) -> Action:
    match rest:
        case ["set", version]:
            return actions.ChangeHost(node, lambda h: replace(h, version=version))
        case _:
            raise MalformedError("say set, and a version")


def _reboot(node: NodeId, _: Words) -> Action:
    return actions.GoDown(node, PowerChange.REBOOT)


def _shutdown(node: NodeId, _: Words) -> Action:
    return actions.GoDown(node, PowerChange.SHUTDOWN)


def _restart_agent(node: NodeId, _: Words) -> Action:
    return actions.RestartAgent(node)


_NODE_COMMANDS: Mapping[str, Callable[[NodeId, Words], Action]] = MappingProxyType(
    {
        "power": _power,
        "network": _network,
        "cfs": _files,
        "crm": _manager,
        "pve-manager-version": _version,
        "reboot": _reboot,
        "shutdown": _shutdown,
        "restart-lrm": _restart_agent,
    }
)


def _service_action(
    service: ServiceId, verb: str, rest: Words, nodes: Collection[NodeId]
) -> Action:
    if verb in _AMOUNTS:
        action, names = _AMOUNTS[verb]
        return action(service, _amount(rest, *names))
    match [verb, *rest]:
        case [("migrate" | "relocate" | "stop"), argument] if (
            verb != "stop" or argument.isdecimal()
        ):
            # A target that does not exist is for the manager to refuse.
            return actions.Ask(f"{verb} {service} {argument}")
        case ["add", node, *options]:
            return _addition(service, _node(node, nodes), options)
        case ["manual-migrate", target]:
            return actions.MoveByHand(service, _node(target, nodes))
        case ["delete"]:
            return actions.DeleteService(service)
    return actions.ChangeService(service, _service_change([verb, *rest]))


_AMOUNTS: Mapping[str, tuple[Callable[[ServiceId, Usage], Action], tuple[str, str]]] = (
    MappingProxyType(
        {
            "set-static-stats": (actions.SetLimit, ("maxcpu", "maxmem")),
            "set-dynamic-stats": (actions.SetUsage, ("cpu", "mem")),
        }
    )
)


def _service_change(words: Words) -> Callable[[ServiceConfig], ServiceConfig]:
    match words:
        case [state] if state in set(Requested):
            return lambda config: replace(config, state=state)
        case ["lock", *names] if len(names) < 2:
            lock = names[0] if names else "backup"
            return lambda config: replace(config, lock=lock)
        case ["unlock"]:
            return lambda config: replace(config, lock=None)
        case ["unlock", name]:
            return lambda c: replace(c, lock=None if c.lock == name else c.lock)
        case _:
            raise MalformedError("unknown command for a service")


def _addition(service: ServiceId, node: NodeId, options: Words) -> Action:
    state, running, *more = [*options, *("started", "0")[len(options) :]]
    if more or state not in set(Requested):
        raise MalformedError("say a node, a state, and whether it runs")
    config = ServiceConfig(node=node, state=state)
    return actions.AddService(service, config, running not in ("", "0"))


def _amount(pairs: Words, cpu: str, memory: str) -> Usage:
    """Return what *pairs* of names and numbers say; memory is given in MiB."""
    if not pairs or len(pairs) % 2:
        raise MalformedError(f"say {cpu} or {memory}, each with a number")
    said: dict[str, float] = {}
    for name, number in zip(pairs[::2], pairs[1::2], strict=True):
        if name not in (cpu, memory):
            raise MalformedError(f"unknown name '{name}'; say {cpu} or {memory}")
        try:
            said[name] = float(number)
        except ValueError as error:
            raise MalformedError(f"not a number: '{number}'") from error
        if not math.isfinite(said[name]):
            raise MalformedError(f"not a finite number: '{number}'")
    mebibytes = said.get(memory)
    return Usage(said.get(cpu), None if mebibytes is None else int(mebibytes * MIB))
