"""Settings of power drivers."""

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

from opendrs.config.secret_sources import given_sources, source_names, source_problems
from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

MAX_DURATION = 3_600  # seconds
NODE_VARIABLE = "node"  # the predefined variable
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_SYSTEM_ID = re.compile(r"(?!\.{1,2}$)[ -~]{1,200}")  # a path component except ".."
_INVALID_URL = "url: expected a URL such as https://bmc-h1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCommandSettings:
    """Settings of the driver that runs commands without a shell.

    Attributes:
        on_command: Program and arguments that power a node on.
        off_command: Program and arguments that power a node off.
        state_command: Program and arguments that determine the power state: exit
            status 0 for on, 1 for off, any other for unknown. None for no command.
        variables: Values that replace {name} in the commands; {node} is predefined.
        timeout: Seconds after which a command is killed.
        transition_timeout: Seconds in which a node must change its state.
        detached: Ignore the exit status of `off_command`, because the host closes the
            connection when it powers off.
        off_confirm_time: Without `state_command`: seconds for which a node that was
            powered off must be unresponsive before it counts as off.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
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
    """Redfish reset type with which a node is powered off."""

    GRACEFUL_SHUTDOWN = "GracefulShutdown"
    FORCE_OFF = "ForceOff"
    PUSH_POWER_BUTTON = "PushPowerButton"
    SUSPEND = "Suspend"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedfishSettings:
    """Settings of the driver for management controllers with Redfish.

    Attributes:
        url: URL of the management controller, such as https://bmc-h1.
        system: Id of the system that is the node; None for the only one.
        user: User name.
        password_file: File with the password.
        password_env: Environment variable with the password.
        password_keyring: Entry SERVICE/USER of the keyring with the password.
        password: The password; better in one of the places before.
        ca: File with the only trusted certificates; None for the system trust store.
        off_method: Reset type with which the node is powered off.
        timeout: Seconds in which the controller must respond.
        transition_timeout: Seconds in which a node must change its state; servers
            take minutes to boot.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.

    Source:
        DMTF DSP0266 (Redfish specification) and the schema ComputerSystem.
    """

    url: str
    user: str
    system: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    password_keyring: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    off_method: OffMethod = OffMethod.GRACEFUL_SHUTDOWN
    timeout: Seconds = 10.0
    transition_timeout: Seconds = 600.0

    def __post_init__(self) -> None:
        if problems := tuple(_redfish_problems(self)):
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPowerSettings:
    """No power driver: the node can be powered neither on nor off."""


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
    """Power settings of one platform.

    Attributes:
        nodes: Settings of individual nodes.
        default: Settings of all other nodes; None if they have no power driver.
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
            yield f"{name}: expected a list of a program and its arguments"
        for variable in sorted(set(variables_in(command)) - known):
            yield (
                f"{name}: unknown variable: {variable}; expected one of "
                f"{', '.join(sorted(known))}; write {{{{ for a brace"
            )
    for name in settings.variables:
        if name == NODE_VARIABLE or not _VARIABLE_NAME.fullmatch(name):
            yield (
                f"variables.{name}: invalid name; expected letters, digits and "
                f"underscores, and not {NODE_VARIABLE}"
            )
    yield from _duration_problems(
        settings, "timeout", "transition_timeout", "off_confirm_time"
    )
    if (
        settings.state_command is None
        and settings.transition_timeout <= settings.off_confirm_time
    ):
        yield (
            "transition_timeout: expected more than off_confirm_time "
            f"({settings.off_confirm_time:g} s), got "
            f"{settings.transition_timeout:g} s; otherwise no power-off is confirmed"
        )


def _redfish_problems(settings: RedfishSettings) -> Iterator[str]:
    yield from _url_problems(settings.url)
    if settings.system is not None and not _SYSTEM_ID.fullmatch(settings.system):
        yield "system: expected the id of a system, such as 1"
    if not given_sources(settings, "password"):
        names = ", ".join(source_names("password"))
        yield f"password_file: expected one of {names}, got none"
    yield from source_problems(settings, "password")
    if not settings.user:
        yield "user: expected a user name, got an empty value"
    yield from _duration_problems(settings, "timeout", "transition_timeout")


def _url_problems(text: str) -> Iterator[str]:
    """Yield the errors of a URL, without the URL: it may contain a password."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # invalid brackets or port
        yield _INVALID_URL
        return
    if url.username is not None or url.password is not None:
        yield "url: contains a user or password; use user and password_file"
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
    """Return True if *name* is an IP address or a valid host name."""
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
                f"{name}: expected more than 0 and at most {MAX_DURATION} s, got "
                f"{seconds}"
            )


_VARIABLE_OR_BRACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variables_in(command: Iterable[str]) -> Iterator[str]:
    """Yield the names of the variables in *command*, such as `node` for `{node}`."""
    for word in command:
        for part in _VARIABLE_OR_BRACE.finditer(word):
            if part[1] is not None:
                yield part[1]


def substitute_variables(
    command: Iterable[str], values: Mapping[str, str]
) -> tuple[str, ...]:
    """Return *command* with its variables replaced by *values*.

    An argument remains one argument, whatever its value contains. Two consecutive
    braces stand for one.
    """

    def value(part: re.Match[str]) -> str:
        return part[0][0] if part[1] is None else values[part[1]]

    return tuple(_VARIABLE_OR_BRACE.sub(value, word) for word in command)
