"""Parser of command lists in the format of the Proxmox VE simulator."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    InvalidFileError,
    ModelError,
)
from opendrs.model import NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator import actions
from opendrs.pve_ha.simulator.actions import DelayCommands, DrillAction, SkipRounds
from opendrs.pve_ha.simulator.processes import ProcessKind
from opendrs.pve_ha.simulator.scenario import CommandBatch
from opendrs.pve_ha.states import DisarmMode, RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig

MIB = 1 << 20
SERVICE = re.compile(r"(vm|ct|fa):\d+", re.ASCII)

CommandWords = Sequence[str]


class CommandSyntaxError(ConfigurationError):
    """Invalid command."""


@dataclass(frozen=True, slots=True)
class CommandStep:
    """A parsed command.

    Attributes:
        text: Its text.
        location: Its location, for error messages.
        action: Its action.
    """

    text: str
    location: str
    action: DrillAction | DelayCommands | SkipRounds


def parse_batches(
    batches: Sequence[CommandBatch], nodes: Collection[NodeId], origin: str
) -> list[list[CommandStep]]:
    """Return the parsed commands of *batches*.

    Args:
        batches: Lists of commands.
        nodes: Existing nodes.
        origin: Name of the source, for error messages.

    Raises:
        InvalidFileError: Commands are invalid; contains all errors with locations.
    """
    errors: list[str] = []
    codes: list[DiagnosticCode] = []
    result: list[list[CommandStep]] = []
    for number, batch in enumerate(batches, start=1):
        steps = []
        for position, text in enumerate(batch, start=1):
            location = f"{origin}: batch {number}, command {position}: '{text}'"
            try:
                steps.append(CommandStep(text, location, _action(text.split(), nodes)))
            except (CommandSyntaxError, ModelError) as error:
                errors.append(f"{location}: {error}")
                codes += (
                    (DiagnosticCode.OUT_OF_RANGE,)
                    if isinstance(error, ModelError)
                    else error.codes
                )
        result.append(steps)
    if errors:
        raise InvalidFileError(*errors, code=codes)
    return result


def _action(
    words: CommandWords, nodes: Collection[NodeId]
) -> DrillAction | DelayCommands | SkipRounds:
    match words:
        case ["delay", seconds] if seconds.isdecimal():
            return DelayCommands(int(seconds))
        case ["skip-round", ("crm" | "lrm") as kind]:
            return SkipRounds(ProcessKind(kind), 1)
        case ["skip-round", ("crm" | "lrm") as kind, rounds] if rounds.isdecimal():
            return SkipRounds(ProcessKind(kind), int(rounds))
        case ["service", name, verb, *rest]:
            return _service_action(_service(name), verb, rest, nodes)
        case [command, name, *rest] if command in _NODE_COMMANDS:
            return _NODE_COMMANDS[command](_node(name, nodes), rest)
        case _:
            raise CommandSyntaxError(
                "unknown command", code=DiagnosticCode.UNKNOWN_VALUE
            )


def _node(name: str, nodes: Collection[NodeId]) -> NodeId:
    node = NodeId(name)
    if node not in nodes:
        raise CommandSyntaxError(
            f"no such node '{name}'", code=DiagnosticCode.UNKNOWN_NAME
        )
    return node


def _service(name: str) -> ServiceId:
    if not SERVICE.fullmatch(name):
        raise CommandSyntaxError(f"service '{name}': expected a name such as vm:100")
    return ServiceId(name)


def _power(node: NodeId, rest: CommandWords) -> DrillAction:
    return actions.SetPower(node, on=_switch(rest))


def _network(node: NodeId, rest: CommandWords) -> DrillAction:
    on = _switch(rest)
    return actions.ChangeHost(node, lambda host: replace(host, network=on))


def _switch(rest: CommandWords) -> bool:
    match rest:
        case ["on"]:
            return True
        case ["off"]:
            return False
        case _:
            raise CommandSyntaxError(
                "expected on or off", code=DiagnosticCode.UNKNOWN_VALUE
            )


def _files(node: NodeId, rest: CommandWords) -> DrillAction:
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
            raise CommandSyntaxError("expected rw or update, then work or fail")


def _crm(node: NodeId, rest: CommandWords) -> DrillAction:
    match rest:
        case ["stop"]:
            return actions.StopCrm(node)
        case ["start"]:
            return actions.StartCrm(node)
        case [("enable-node-maintenance" | "disable-node-maintenance") as request]:
            return actions.SendCrmCommand(f"{request} {node}")
        case ["disarm-ha", mode] if mode in set(DisarmMode):
            return actions.SendCrmCommand(f"disarm-ha {mode}")
        case ["arm-ha"]:
            return actions.SendCrmCommand("arm-ha")
        case _:
            raise CommandSyntaxError(
                "unknown crm command", code=DiagnosticCode.UNKNOWN_VALUE
            )


def _version(node: NodeId, rest: CommandWords) -> DrillAction:
    match rest:
        case ["set", version]:
            return actions.ChangeHost(node, lambda h: replace(h, version=version))
        case _:
            raise CommandSyntaxError("expected set and a version")


def _reboot(node: NodeId, _: CommandWords) -> DrillAction:
    return actions.ShutDownNode(node, PowerChange.REBOOT)


def _shutdown(node: NodeId, _: CommandWords) -> DrillAction:
    return actions.ShutDownNode(node, PowerChange.SHUTDOWN)


def _restart_lrm(node: NodeId, _: CommandWords) -> DrillAction:
    return actions.RestartLrm(node)


_NODE_COMMANDS: Mapping[str, Callable[[NodeId, CommandWords], DrillAction]] = (
    MappingProxyType(
        {
            "power": _power,
            "network": _network,
            "cfs": _files,
            "crm": _crm,
            "pve-manager-version": _version,
            "reboot": _reboot,
            "shutdown": _shutdown,
            "restart-lrm": _restart_lrm,
        }
    )
)


def _service_action(
    service: ServiceId, verb: str, rest: CommandWords, nodes: Collection[NodeId]
) -> DrillAction:
    if verb in _AMOUNTS:
        action, names = _AMOUNTS[verb]
        return action(service, _amount(rest, *names))
    match [verb, *rest]:
        case [("migrate" | "relocate" | "stop"), argument] if (
            verb != "stop" or argument.isdecimal()
        ):
            # An unknown target is passed on, because the manager rejects it.
            return actions.SendCrmCommand(f"{verb} {service} {argument}")
        case ["add", node, *options]:
            return _add_service(service, _node(node, nodes), options)
        case ["manual-migrate", target]:
            return actions.MoveManually(service, _node(target, nodes))
        case ["delete"]:
            return actions.DeleteService(service)
    return actions.ChangeService(service, _service_change([verb, *rest]))


_AMOUNTS: Mapping[
    str, tuple[Callable[[ServiceId, Usage], DrillAction], tuple[str, str]]
] = MappingProxyType(
    {
        "set-static-stats": (actions.SetLimit, ("maxcpu", "maxmem")),
        "set-dynamic-stats": (actions.SetUsage, ("cpu", "mem")),
    }
)


def _service_change(words: CommandWords) -> Callable[[ServiceConfig], ServiceConfig]:
    match words:
        case [state] if state in set(RequestedState):
            return lambda config: replace(config, state=state)
        case ["lock", *names] if len(names) < 2:
            lock = names[0] if names else "backup"
            return lambda config: replace(config, lock=lock)
        case ["unlock"]:
            return lambda config: replace(config, lock=None)
        case ["unlock", name]:
            return lambda c: replace(c, lock=None if c.lock == name else c.lock)
        case _:
            raise CommandSyntaxError(
                "unknown service command", code=DiagnosticCode.UNKNOWN_VALUE
            )


def _add_service(
    service: ServiceId, node: NodeId, options: CommandWords
) -> DrillAction:
    state, running, *more = [*options, *("started", "0")[len(options) :]]
    if more or state not in set(RequestedState):
        raise CommandSyntaxError("expected NODE [STATE [RUNNING]]")
    config = ServiceConfig(node=node, state=state)
    return actions.AddService(service, config, running not in ("", "0"))


def _amount(pairs: CommandWords, cpu: str, memory: str) -> Usage:
    """Return the amounts in *pairs* of names and numbers; memory is in MiB."""
    if not pairs or len(pairs) % 2:
        raise CommandSyntaxError(f"expected {cpu} or {memory}, each with a number")
    amounts: dict[str, float] = {}
    for name, number in zip(pairs[::2], pairs[1::2], strict=True):
        if name not in (cpu, memory):
            raise CommandSyntaxError(
                f"unknown name '{name}'; use {cpu} or {memory}",
                code=DiagnosticCode.UNKNOWN_KEY,
            )
        try:
            amounts[name] = float(number)
        except ValueError as error:
            raise CommandSyntaxError(
                f"not a number: '{number}'", code=DiagnosticCode.WRONG_TYPE
            ) from error
        if not math.isfinite(amounts[name]):
            raise CommandSyntaxError(
                f"not a finite number: '{number}'", code=DiagnosticCode.OUT_OF_RANGE
            )
    mebibytes = amounts.get(memory)
    return Usage(amounts.get(cpu), None if mebibytes is None else int(mebibytes * MIB))
