"""Files whose permissions let other users read a secret, or replace what is trusted."""

from __future__ import annotations

import logging
import os
import re
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from opendrs.controller.settings import Settings
from opendrs.controller.telling import tell
from opendrs.platforms.connect import Connection
from opendrs.platforms.file import Location, dotted, shown_path
from opendrs.platforms.power import CommandSettings, DriverSettings, RedfishSettings

INLINE = (
    "a password seems to stand here, and ps shows it to everybody while a command "
    "runs; give it in a file that the command reads"
)
_BESIDE_RECORD = ("", "-journal", ".lock")  # of SQLite, and the lease
_READ, _WRITE, _GROUP, _OTHERS = 0o044, 0o022, 0o070, 0o007
_SECRET_NAME = re.compile(
    r"(?i)(?!.*(file|path|env))(.*_)?(pass|password|passwd|passphrase|pwd|pw|secret|token)"
)
_SECRET_OPTION = re.compile(r"(?i)--?(pass|password|passwd|pwd|secret|token)(=.+)?")
_SECRET_FLAGS = {"ipmitool": "-P", "sshpass": "-p"}


class Guarded(Enum):
    """What other users must not do with a file."""

    SECRET = auto()  # neither read nor change it
    RECORD = auto()  # the same, but a group may be let read it, so that it can plan
    TRUSTED = auto()  # not change it


@dataclass(frozen=True, slots=True)
class Exposure:
    """Permissions that are too wide.

    Attributes:
        at: The setting that names the file.
        path: The file, or a directory above it.
        mode: Its permissions.
        danger: What other users can do.
        fix: What to do about it.
    """

    at: Location
    path: Path
    mode: int
    danger: str
    fix: str

    @property
    def message(self) -> str:
        """What it says, without the setting."""
        found = f"{shown_path(self.path)} has mode {self.mode:04o}"
        return f"{self.danger}: {found}; {self.fix}"

    def __str__(self) -> str:
        return f"{dotted(self.at)}: {self.message}"


def exposures(config: Path, settings: Settings) -> tuple[Exposure, ...]:
    """Return the permissions that are too wide, each file and directory once.

    Args:
        config: The file of the settings.
        settings: What it says.
    """
    found: dict[Path, Exposure] = {}
    for at, path, kind in _guarded(config, settings):
        for exposure in (*_of_file(at, path, kind), *_of_directories(at, path, kind)):
            found.setdefault(exposure.path, exposure)
    return tuple(found.values())


def log_exposures(config: Path, settings: Settings) -> None:
    """Log the permissions that are too wide, and passwords in the configuration."""
    for exposure in exposures(config, settings):
        tell(
            "file-exposed",
            str(exposure),
            level=logging.WARNING,
            setting=dotted(exposure.at),
            path=str(exposure.path),
            mode=f"{exposure.mode:04o}",
        )
    for at in inline_passwords(settings):
        setting = dotted(at)
        message = f"{setting}: {INLINE}"
        tell("password-inline", message, level=logging.WARNING, setting=setting)


def inline_passwords(settings: Settings) -> Iterator[Location]:
    """Yield where a password seems to stand in the configuration itself."""
    for connection in settings.platforms.values():
        for node, driver in _drivers(connection):
            if isinstance(driver, CommandSettings) and _holds_password(driver):
                yield ("platform", connection.name, "power", *node)


def _guarded(
    config: Path, settings: Settings
) -> Iterator[tuple[Location, Path, Guarded]]:
    inline = any(True for _ in inline_passwords(settings))
    yield ("configuration",), config, Guarded.SECRET if inline else Guarded.TRUSTED
    if (requests := settings.requests) is not None:
        yield ("requests", "key"), requests.key, Guarded.SECRET
        yield ("requests", "tokens"), requests.tokens, Guarded.SECRET
        yield ("requests", "certificate"), requests.certificate, Guarded.TRUSTED
    if (agent := settings.agent) is not None:
        yield ("agent", "token_file"), agent.token_file, Guarded.SECRET
        if agent.ca is not None:
            yield ("agent", "ca"), agent.ca, Guarded.TRUSTED
    for connection in settings.platforms.values():
        yield from _guarded_by_power(connection)
    for record in _records(settings):
        for ending in _BESIDE_RECORD:
            beside = record.parent / f"{record.name}{ending}"
            yield ("store", "path"), beside, Guarded.RECORD


def _guarded_by_power(
    connection: Connection,
) -> Iterator[tuple[Location, Path, Guarded]]:
    for node, driver in _drivers(connection):
        at = ("platform", connection.name, "power", *node)
        if isinstance(driver, RedfishSettings):
            if driver.password_file is not None:
                yield (*at, "password_file"), driver.password_file, Guarded.SECRET
            if driver.ca is not None:
                yield (*at, "ca"), driver.ca, Guarded.TRUSTED


def _records(settings: Settings) -> Iterator[Path]:
    """Yield where records are kept; one of a file is never kept."""
    agent = settings.agent
    names = [f"agent-{agent.node}"] if agent is not None else []
    if agent is None:  # whose platform is its host, of which it keeps no record
        platforms = settings.platforms.values()
        names += [each.name for each in platforms if each.kind != "file"]
    yield from dict.fromkeys(map(settings.store_path, names))


def _drivers(
    connection: Connection,
) -> Iterator[tuple[tuple[str, ...], DriverSettings]]:
    if connection.power is not None:
        if connection.power.default is not None:
            yield (), connection.power.default
        for node, driver in connection.power.nodes.items():
            yield ("nodes", node), driver


def _holds_password(driver: CommandSettings) -> bool:
    if any(_SECRET_NAME.fullmatch(name) for name in driver.variables):
        return True
    for words in filter(None, (driver.on, driver.off, driver.state)):
        flag = _SECRET_FLAGS.get(os.path.basename(words[0]))  # noqa: PTH119 - a word
        for word in words[1:]:
            if _SECRET_OPTION.fullmatch(word) or (flag and word.startswith(flag)):
                return True
    return False


def _of_file(at: Location, path: Path, kind: Guarded) -> Iterator[Exposure]:
    """Yield the exposure of the file itself; one that is absent is not exposed.

    Of a secret that root owns, the group may read it: as PostgreSQL has it for its
    key (libpq, "ssl_key_file"), since a service reads it by its group.
    """
    found = _status(path)
    if found is None:
        return
    wide = found.st_mode & (_READ | _WRITE)
    if kind is Guarded.TRUSTED:
        wide &= _WRITE
    if kind is Guarded.RECORD or found.st_uid == 0:
        wide &= ~(_READ & _GROUP)
    if found.st_gid == 0:
        wide &= ~_GROUP
    if wide:
        actions = {_READ: "read", _WRITE: "change"}
        verbs = " and ".join(verb for bits, verb in actions.items() if wide & bits)
        yield _exposure(at, path, found.st_mode, f"can {verbs} it", wide)


def _of_directories(at: Location, path: Path, kind: Guarded) -> Iterator[Exposure]:
    """Yield the directories above in which another user can replace what is there."""
    if "\0" in str(path):  # no file has that name, as whoever opens it says
        return
    above = (*path.absolute().parents, *path.resolve().parents)
    for directory in dict.fromkeys(above):
        found = _status(directory)
        if found is None:
            continue
        wide = found.st_mode & _WRITE
        if found.st_gid == 0:
            wide &= ~_GROUP
        if not wide:
            continue
        if not found.st_mode & stat.S_ISVTX:
            yield _exposure(at, directory, found.st_mode, "can replace it", wide)
        elif kind is Guarded.RECORD and directory == path.absolute().parent:
            yield Exposure(
                at,
                directory,
                stat.S_IMODE(found.st_mode),
                "others can put a file in its place before it is made",
                "keep it in a directory that only its owner may write",
            )


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _exposure(at: Location, path: Path, mode: int, danger: str, wide: int) -> Exposure:
    who = "others" if wide & _OTHERS else "its group"
    users = ("g" if wide & _GROUP else "") + ("o" if wide & _OTHERS else "")
    rights = ("r" if wide & _READ else "") + ("w" if wide & _WRITE else "")
    fix = f"run chmod {users}-{rights} {shlex.quote(str(path))}"
    return Exposure(at, path, stat.S_IMODE(mode), f"{who} {danger}", fix)
