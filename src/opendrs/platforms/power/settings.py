"""What an operator says about how nodes are switched on and off."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from opendrs.errors import InvalidSettingError
from opendrs.model.quantities import Seconds
from opendrs.platforms.power.words import variables_in

LONGEST_WAIT = 3_600  # seconds
NODE = "node"  # the variable that is always there
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")  # of a host
_SYSTEM = re.compile(r"(?!\.{1,2}$)[ -~]{1,200}")  # one part of a path, and not ".."
_NO_URL = "url: is not a URL such as https://bmc-h1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSettings:
    """Power by commands, which are run without a shell.

    Attributes:
        on: Words of the command that wakes a node.
        off: Words of the command that puts it to sleep.
        state: Words of the command that tells how it is: exit status 0 for on,
            1 for off, anything else for unknown. None where there is none.
        variables: What stands in the words for {name}; {node} is the node.
        timeout: Seconds after which a command is ended.
        patience: Seconds in which a node should have followed.
        detached: Whether the end of `off` tells nothing, because the host
            takes the connection down with it.
        silence: Without `state`: seconds for which a host that was switched
            off must not have answered before it counts as off.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
    """

    on: tuple[str, ...]
    off: tuple[str, ...]
    state: tuple[str, ...] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    timeout: Seconds = 30.0
    patience: Seconds = 300.0
    detached: bool = False
    silence: Seconds = 60.0

    def __post_init__(self) -> None:
        frozen = MappingProxyType(dict(self.variables))
        object.__setattr__(self, "variables", frozen)
        if complaints := tuple(_about_commands(self)):
            raise InvalidSettingError(*complaints)


class Ending(StrEnum):
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
        off: How the node is switched off.
        timeout: Seconds in which it must answer.
        patience: Seconds in which a node should have followed; servers take
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
    off: Ending = Ending.GRACEFUL_SHUTDOWN
    timeout: Seconds = 10.0
    patience: Seconds = 600.0

    def __post_init__(self) -> None:
        if complaints := tuple(_about_redfish(self)):
            raise InvalidSettingError(*complaints)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneSettings:
    """No power: the node can be neither switched on nor off."""


DriverSettings: TypeAlias = CommandSettings | RedfishSettings | NoneSettings
DRIVERS: Mapping[str, type[DriverSettings]] = {
    "command": CommandSettings,
    "redfish": RedfishSettings,
    "none": NoneSettings,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSettings:
    """How the nodes of one platform are switched on and off.

    Attributes:
        nodes: Of each node that has settings of its own, these.
        default: Of every other node; None when they have no power.
    """

    nodes: Mapping[str, DriverSettings] = field(default_factory=dict)
    default: DriverSettings | None = None


def _about_commands(settings: CommandSettings) -> Iterator[str]:
    known = {NODE, *settings.variables}
    for name in ("on", "off", "state"):
        words = getattr(settings, name)
        if words is None:
            continue
        if not words or not words[0]:
            yield f"{name}: name a program, and its arguments as further words"
        for variable in sorted(set(variables_in(words)) - known):
            yield (
                f"{name}: there is no variable {variable} (there is: "
                f"{', '.join(sorted(known))}); a brace is written as two"
            )
    for name in settings.variables:
        if name == NODE or not _VARIABLE.fullmatch(name):
            yield f"variables.{name}: a variable cannot be called that"
    yield from _about_seconds(settings, "timeout", "patience", "silence")
    if settings.state is None and settings.patience <= settings.silence:
        yield (
            f"patience: must be more than silence, {settings.silence:g}, not "
            f"{settings.patience:g}: nothing could be confirmed"
        )


def _about_redfish(settings: RedfishSettings) -> Iterator[str]:
    yield from _about_url(settings.url)
    if settings.system is not None and not _SYSTEM.fullmatch(settings.system):
        yield "system: is not the id of a system"
    if (settings.password_file is None) == (settings.password_env is None):
        yield "password_file, password_env: give one of the two"
    if not settings.user:
        yield "user: must not be empty"
    yield from _about_seconds(settings, "timeout", "patience")


def _about_url(text: str) -> Iterator[str]:
    """Yield what is wrong with a URL, which is not shown: it may hold a password."""
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:  # brackets, or a port, that are none
        yield _NO_URL
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
        yield _NO_URL


def _is_host(name: str) -> bool:
    """Return whether *name* is an address, or can be one that is looked up."""
    try:
        ip_address(name)
    except ValueError:
        labels = name.removesuffix(".").split(".")
        return not labels[-1].isdecimal() and all(map(_LABEL.fullmatch, labels))
    return True


def _about_seconds(settings: object, *names: str) -> Iterator[str]:
    for name in names:
        seconds = getattr(settings, name)
        if not (math.isfinite(seconds) and 0 < seconds <= LONGEST_WAIT):
            yield (
                f"{name}: must be more than 0 seconds and at most {LONGEST_WAIT}, "
                f"not {seconds}"
            )
