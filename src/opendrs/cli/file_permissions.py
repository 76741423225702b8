"""Detection of file permissions that expose secrets or trusted files to other users."""

from __future__ import annotations

import logging
import os
import re
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, auto
from pathlib import Path

from opendrs.cli.platforms import kind_of, power_settings
from opendrs.config import KeyPath, display_path, path_text
from opendrs.config.platform_kinds import PlatformConnection
from opendrs.config.settings import Settings
from opendrs.config.web_settings import WebSettings
from opendrs.controller.events import LogEventCode, log_event
from opendrs.power import PowerCommandSettings, PowerDriverSettings

_IN_COMMAND = (
    "seems to contain a password, which ps shows to all users while a command runs; "
    "use a file that the command reads"
)
_IN_CONFIGURATION = (
    "secret in the configuration; put it into a file, which the setting with the "
    "suffix _file names"
)
_STORE_SUFFIXES = ("", "-wal", "-shm", ".lock")  # files of SQLite, and the lease
_READ, _WRITE, _GROUP, _OTHERS = 0o044, 0o022, 0o070, 0o007
_SECRET_NAME = re.compile(
    r"(?i)(?!.*(file|path|env|keyring))(.*_)?(pass|password|passwd|passphrase|pwd|pw|secret|token)"
)
_SECRET_FILE = re.compile(r"(.*_)?(token_file|password_file|key|key_file|clouds_file)")
_TRUSTED_FILE = re.compile(r"(.*_)?(ca|certificate|cert)")
_SECRET_OPTION = re.compile(r"(?i)--?(pass|password|passwd|pwd|secret|token)(=.+)?")
_SECRET_FLAGS = {"ipmitool": "-P", "sshpass": "-p"}


class FileProtection(Enum):
    """Required protection of a file against other users."""

    SECRET = auto()  # neither readable nor writable
    RECORD = auto()  # like SECRET, but the group may read it, to run opendrs plan
    TRUSTED = auto()  # not writable


@dataclass(frozen=True, slots=True)
class Exposure:
    """A file or directory with too many permissions.

    Attributes:
        at: The setting that names the file.
        path: The file, or a directory above it.
        mode: Its permissions.
        danger: What other users can do, such as `others can read it`.
        fix: What to do, such as a `chmod` command.
    """

    at: KeyPath
    path: Path
    mode: int
    danger: str
    fix: str

    @property
    def message(self) -> str:
        """The message without the setting."""
        mode_text = f"{display_path(self.path)} has mode {self.mode:04o}"
        return f"{self.danger}: {mode_text}; {self.fix}"

    def __str__(self) -> str:
        return f"{path_text(self.at)}: {self.message}"


def find_exposures(config: Path, settings: Settings) -> tuple[Exposure, ...]:
    """Return the exposed files and directories, each once.

    Args:
        config: The configuration file.
        settings: Its settings.
    """
    exposures: dict[Path, Exposure] = {}
    for at, path, protection in _protected_files(config, settings):
        for exposure in (
            *_file_exposures(at, path, protection),
            *_directory_exposures(at, path, protection),
        ):
            exposures.setdefault(exposure.path, exposure)
    return tuple(exposures.values())


def log_exposures(config: Path, settings: Settings) -> None:
    """Log exposed files, and passwords in the configuration, as warnings."""
    for exposure in find_exposures(config, settings):
        log_event(
            LogEventCode.FILE_EXPOSED,
            str(exposure),
            level=logging.WARNING,
            setting=path_text(exposure.at),
            path=str(exposure.path),
            mode=f"{exposure.mode:04o}",
        )
    for at, problem in inline_passwords(settings):
        setting = path_text(at)
        message = f"{setting}: {problem}"
        log_event(
            LogEventCode.PASSWORD_INLINE,
            message,
            level=logging.WARNING,
            setting=setting,
        )


def inline_passwords(settings: Settings) -> Iterator[tuple[KeyPath, str]]:
    """Yield the settings that seem to contain a secret, and what to do about it."""
    if settings.store is not None and settings.store.password is not None:
        yield ("store", "password"), _IN_CONFIGURATION
    for index, table in enumerate(settings.notifications):
        for name in ("secret", "password"):
            if getattr(table, name, None) is not None:
                yield ("notifications", index, name), _IN_CONFIGURATION
    for connection in settings.platforms.values():
        for at, name, value in _platform_settings(connection):
            if isinstance(value, str) and _SECRET_NAME.fullmatch(name):
                yield (*at, name), _IN_CONFIGURATION
        for node, driver in _drivers(connection):
            if isinstance(driver, PowerCommandSettings) and _holds_password(driver):
                yield ("platform", connection.name, "power", *node), _IN_COMMAND


def _protected_files(
    config: Path, settings: Settings
) -> Iterator[tuple[KeyPath, Path, FileProtection]]:
    inline = any(True for _ in inline_passwords(settings))
    yield (
        ("configuration",),
        config,
        FileProtection.SECRET if inline else FileProtection.TRUSTED,
    )
    if (api := settings.api) is not None:
        yield ("api", "key"), api.key, FileProtection.SECRET
        yield ("api", "tokens"), api.tokens, FileProtection.SECRET
        yield ("api", "certificate"), api.certificate, FileProtection.TRUSTED
    yield from _web_files(settings.web)
    if (agent := settings.agent) is not None:
        yield ("agent", "token_file"), agent.token_file, FileProtection.SECRET
        if agent.ca is not None:
            yield ("agent", "ca"), agent.ca, FileProtection.TRUSTED
    yield from _notification_files(settings)
    for connection in settings.platforms.values():
        for at, name, value in _platform_settings(connection):
            if isinstance(value, Path) and _SECRET_FILE.fullmatch(name):
                yield (*at, name), value, FileProtection.SECRET
            elif isinstance(value, Path) and _TRUSTED_FILE.fullmatch(name):
                yield (*at, name), value, FileProtection.TRUSTED
    yield from _store_files(settings)


def _web_files(web: WebSettings) -> Iterator[tuple[KeyPath, Path, FileProtection]]:
    if web.key is not None and web.certificate is not None:
        yield ("web", "key"), web.key, FileProtection.SECRET
        yield ("web", "certificate"), web.certificate, FileProtection.TRUSTED
    if (oidc := web.oidc) is not None:
        at: KeyPath = ("web", "oidc")
        if (secret := oidc.client_secret_file) is not None:
            yield (*at, "client_secret_file"), secret, FileProtection.SECRET
        if oidc.ca is not None:
            yield (*at, "ca"), oidc.ca, FileProtection.TRUSTED


def _notification_files(
    settings: Settings,
) -> Iterator[tuple[KeyPath, Path, FileProtection]]:
    for index, table in enumerate(settings.notifications):
        for name in ("url_file", "secret_file", "password_file"):
            if (file := getattr(table, name, None)) is not None:
                yield ("notifications", index, name), file, FileProtection.SECRET
        if (ca := getattr(table, "ca", None)) is not None:
            yield ("notifications", index, "ca"), ca, FileProtection.TRUSTED


def _store_files(
    settings: Settings,
) -> Iterator[tuple[KeyPath, Path, FileProtection]]:
    """Yield the files of the stores, and that of the password of a database."""
    store = settings.store
    if store is not None and store.password_file is not None:
        yield ("store", "password_file"), store.password_file, FileProtection.SECRET
    for record in _store_paths(settings):
        for ending in _STORE_SUFFIXES:
            beside = record.parent / f"{record.name}{ending}"
            yield ("store", "path"), beside, FileProtection.RECORD


def _platform_settings(
    connection: PlatformConnection,
) -> Iterator[tuple[KeyPath, str, object]]:
    """Yield path, name and value of each setting of a platform and its extensions."""
    at: KeyPath = ("platform", connection.name)
    tables = {at: connection.settings}
    tables |= {(*at, name): table for name, table in connection.extensions.items()}
    tables |= {(*at, "power", *node): driver for node, driver in _drivers(connection)}
    for path, table in tables.items():
        if is_dataclass(table):
            for field in fields(table):
                yield path, field.name, getattr(table, field.name)


def _store_paths(settings: Settings) -> Iterator[Path]:
    """Yield the paths of the stores; read-only platforms have none."""
    agent = settings.agent
    names = [f"agent-{agent.node}"] if agent is not None else []
    if agent is None:  # an agent has no store for its platform
        platforms = settings.platforms.values()
        names += [each.name for each in platforms if not kind_of(each).read_only]
    paths = dict.fromkeys(map(settings.store_path, names))
    yield from (path for path in paths if path is not None)


def _drivers(
    connection: PlatformConnection,
) -> Iterator[tuple[tuple[str, ...], PowerDriverSettings]]:
    power = power_settings(connection)
    if power is not None:
        if power.default is not None:
            yield (), power.default
        for node, driver in power.nodes.items():
            yield ("nodes", node), driver


def _holds_password(driver: PowerCommandSettings) -> bool:
    if any(_SECRET_NAME.fullmatch(name) for name in driver.variables):
        return True
    for words in filter(
        None, (driver.on_command, driver.off_command, driver.state_command)
    ):
        flag = _SECRET_FLAGS.get(os.path.basename(words[0]))  # noqa: PTH119 - a word
        for word in words[1:]:
            if _SECRET_OPTION.fullmatch(word) or (flag and word.startswith(flag)):
                return True
    return False


def _file_exposures(
    at: KeyPath, path: Path, protection: FileProtection
) -> Iterator[Exposure]:
    """Yield the exposure of the file itself; nothing if it does not exist.

    A secret of root may be readable by its group, so that a service can read it
    (like the key in PostgreSQL: libpq, "ssl_key_file").
    """
    status = _status(path)
    if status is None:
        return
    wide = status.st_mode & (_READ | _WRITE)
    if protection is FileProtection.TRUSTED:
        wide &= _WRITE
    if protection is FileProtection.RECORD or status.st_uid == 0:
        wide &= ~(_READ & _GROUP)
    if status.st_gid == 0:
        wide &= ~_GROUP
    if wide:
        actions = {_READ: "read", _WRITE: "change"}
        verbs = " and ".join(verb for bits, verb in actions.items() if wide & bits)
        yield _exposure(at, path, status.st_mode, f"can {verbs} it", wide)


def _directory_exposures(
    at: KeyPath, path: Path, protection: FileProtection
) -> Iterator[Exposure]:
    """Yield the parent directories in which another user can replace the file."""
    if "\0" in str(path):  # not a valid name; opening it reports the error
        return
    above = (*path.absolute().parents, *path.resolve().parents)
    for directory in dict.fromkeys(above):
        status = _status(directory)
        if status is None:
            continue
        wide = status.st_mode & _WRITE
        if status.st_gid == 0:
            wide &= ~_GROUP
        if not wide:
            continue
        if not status.st_mode & stat.S_ISVTX:
            yield _exposure(at, directory, status.st_mode, "can replace it", wide)
        elif (
            protection is FileProtection.RECORD and directory == path.absolute().parent
        ):
            yield Exposure(
                at,
                directory,
                stat.S_IMODE(status.st_mode),
                "others can create a file in its place",
                "use a directory that only its owner can write",
            )


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _exposure(at: KeyPath, path: Path, mode: int, danger: str, wide: int) -> Exposure:
    subject = "others" if wide & _OTHERS else "its group"
    users = ("g" if wide & _GROUP else "") + ("o" if wide & _OTHERS else "")
    rights = ("r" if wide & _READ else "") + ("w" if wide & _WRITE else "")
    fix = f"run chmod {users}-{rights} {shlex.quote(str(path))}"
    return Exposure(at, path, stat.S_IMODE(mode), f"{subject} {danger}", fix)
