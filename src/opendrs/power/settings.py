"""What an operator says about how nodes are switched on and off."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

MAX_DURATION = 3_600  # seconds
NODE_VARIABLE = "node"  # the variable that is always there
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")  # of a host
_SYSTEM_ID = re.compile(r"(?!\.{1,2}$)[ -~]{1,200}")  # one part of a path, and not ".."
_INVALID_URL = "url: is not a URL such as https://bmc-h1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCommandSettings:
    """Power by commands, which are run without a shell.

    Attributes:
        on_command: Words of the command that wakes a node.
        off_command: Words of the command that puts it to sleep.
        state_command: Words of the command that tells how it is: exit status 0 for on,
            1 for off, anything else for unknown. None where there is none.
        variables: What stands in the words for {name}; {node} is the node.
        timeout: Seconds after which a command is ended.
        transition_timeout: Seconds in which a node should have followed.
        detached: Whether the end of `off_command` tells nothing, because the host
            takes the connection down with it.
        off_confirm_time: Without `state_command`: seconds for which a host that was switched
            off must not have answered before it counts as off.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
    """

    on_command: tuple[str, ...]
    off_command: tuple[str, ...]
    state_command: tuple[str, ...] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout: Seconds = 30.0
    transition_timeout: Seconds = 300.0
    detached: bool = False
    off_confirm_time: Seconds = 60.0

    def __post_init__(self) -> None:
        frozen = MappingProxyType(dict(self.variables))
        object.__setattr__(self, "variables", frozen)
        if problems := tuple(_command_problems(self)):
            raise InvalidSettingError(*problems)


class OffMethod(StrEnum):
    """How Redfish is asked to switch a node off."""

    GRACEFUL_SHUTDOWN = "GracefulShutdown"
    FORCE_OFF = "ForceOff"
    PUSH_POWER_BUTTON = "PushPowerButton"
    SUSPEND = "Suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishSettings:
    """Power by the management controller of a host, over Redfish.

    Attributes:
        url: The management controller, such as https://bmc-h1.
        system: Which of its systems the node is; None for the only one.
        user: Who asks.
        password_file: The file with the password.
        password_env: The environment variable with the password.
        ca: Certificates to trust besides none; None for those of the system.
        off_method: How the node is switched off.
        timeout: Seconds in which it must answer.
        transition_timeout: Seconds in which a node should have followed; servers take
            minutes from power to a system that runs.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.

    Source:
        DMTF DSP0266 (Redfish specification) and the schema ComputerSystem.
    """

    url: str
    user: str
    system: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    ca: Path | None = None
    off_method: OffMethod = OffMethod.GRACEFUL_SHUTDOWN
    timeout: Seconds = 10.0
    transition_timeout: Seconds = 600.0

    def __post_init__(self) -> None:
        if problems := tuple(_redfish_problems(self)):
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPowerSettings:
    """No power: the node can be neither switched on nor off."""


PowerDriverSettings: TypeAlias = (
    PowerCommandSettings | RedfishSettings | NoPowerSettings
)

POWER_DRIVERS: Mapping[str, type[PowerDriverSettings]] = {
    "command": PowerCommandSettings,
    "redfish": RedfishSettings,
    "none": NoPowerSettings,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSettings:
    """How the nodes of one platform are switched on and off.

    Attributes:
        nodes: Of each node that has settings of its own, these.
        default: Of every other node; None when they have no power.
    """

    nodes: Mapping[str, PowerDriverSettings] = field(default_factory=dict)
    default: PowerDriverSettings | None = None


def _command_problems(settings: PowerCommandSettings) -> Iterator[str]:
    known = {NODE_VARIABLE, *settings.variables}
    for name in ("on_command", "off_command", "state_command"):
        command = getattr(settings, name)
        if command is None:
            continue
        if not command or not command[0]:
            yield f"{name}: name a program, and its arguments as further words"
        for variable in sorted(set(variables_in(command)) - known):
            yield (
                f"{name}: there is no variable {variable} (there is: "
                f"{', '.join(sorted(known))}); a brace is written as two"
            )
    for name in settings.variables:
        if name == NODE_VARIABLE or not _VARIABLE_NAME.fullmatch(name):
            yield f"variables.{name}: a variable cannot be called that"
    yield from _duration_problems(
        settings, "timeout", "transition_timeout", "off_confirm_time"
    )
    if (
        settings.state_command is None
        and settings.transition_timeout <= settings.off_confirm_time
    ):
        yield (
            f"transition_timeout: must be more than off_confirm_time, {settings.off_confirm_time:g}, not "
            f"{settings.transition_timeout:g}: nothing could be confirmed"
        )


def _redfish_problems(settings: RedfishSettings) -> Iterator[str]:
    yield from _url_problems(settings.url)
    if settings.system is not None and not _SYSTEM_ID.fullmatch(settings.system):
        yield "system: is not the id of a system"
    if (settings.password_file is None) == (settings.password_env is None):
        yield "password_file, password_env: give one of the two"
    if not settings.user:
        yield "user: must not be empty"
    yield from _duration_problems(settings, "timeout", "transition_timeout")


def _url_problems(text: str) -> Iterator[str]:
    """Yield what is wrong with a URL, which is not shown: it may hold a password."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # brackets, or a port, that are none
        yield _INVALID_URL
        return
    if url.username is not None or url.password is not None:
        yield "url: holds a password; give it in a file (password_file)"
    elif (
        url.scheme != "https"
        or port == 0
        or not _is_host(url.hostname or "")
        or not text.isprintable()
        or " " in text
        or url.query
        or url.fragment
    ):
        yield _INVALID_URL


def _is_host(name: str) -> bool:
    """Return whether *name* is an address, or can be one that is looked up."""
    try:
        ip_address(name)
    except ValueError:
        labels = name.removesuffix(".").split(".")
        return not labels[-1].isdecimal() and all(map(_HOST_LABEL.fullmatch, labels))
    return True


def _duration_problems(settings: object, *names: str) -> Iterator[str]:
    for name in names:
        seconds = getattr(settings, name)
        if not (math.isfinite(seconds) and 0 < seconds <= MAX_DURATION):
            yield (
                f"{name}: must be more than 0 seconds and at most {MAX_DURATION}, "
                f"not {seconds}"
            )


_VARIABLE_OR_BRACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variables_in(command: Iterable[str]) -> Iterator[str]:
    """Yield the names of the variables in *command*."""
    for word in command:
        for part in _VARIABLE_OR_BRACE.finditer(word):
            if part[1] is not None:
                yield part[1]


def substitute_variables(
    command: Iterable[str], values: Mapping[str, str]
) -> tuple[str, ...]:
    """Return *command* with *values* in place of their variables.

    A word stays one word, whatever a value holds. Two braces stand for one.
    """

    def value(part: re.Match[str]) -> str:
        return part[0][0] if part[1] is None else values[part[1]]

    return tuple(_VARIABLE_OR_BRACE.sub(value, word) for word in command)
