"""Kinds and extensions of platforms that a configuration may name.

Adapters define them. The command line lists them and passes them to the reader of the
configuration, so that `config` imports no adapter.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from opendrs.config.diagnostics import Diagnostic, KeyPath
from opendrs.model import Rule, Snapshot, StorageGroup
from opendrs.ports import Platform

SettingsT = TypeVar("SettingsT")


def _nodes_not_listed(settings: object) -> None:
    """Return None: the platform itself knows its nodes."""
    del settings


def _check_nothing(at: KeyPath, settings: object) -> Iterator[Diagnostic]:
    """Yield no diagnostics."""
    del at, settings
    yield from ()


def _check_no_snapshot(snapshot: Snapshot) -> Iterator[OnlineCheck]:
    """Yield no results."""
    del snapshot
    yield from ()


def _check_no_disk_moves(
    name: str, settings: object, groups: Sequence[StorageGroup]
) -> Iterator[OnlineCheck]:
    """Yield no results."""
    del name, settings, groups
    yield from ()


def _require_nothing() -> None:
    """Return: no library is required."""


def on_demand(target: str) -> Callable[..., Any]:
    """Return a function that imports *target*, given as module:name, and calls it.

    Settings can then be read without the modules and libraries of the adapter.
    """

    def call(*arguments: object) -> Any:  # noqa: ANN401 - the result of the target
        return resolve_name(target)(*arguments)

    return call


@dataclass(frozen=True, slots=True)
class OnlineCheck:
    """Result of one check of a platform that answers.

    Attributes:
        subject: What was checked, such as connection, version, or a permission.
        ok: True if OpenDRS can work with it.
        detail: What was found, for the operator.
        remedy: Command of the platform, or change, that corrects it; empty if none.
    """

    subject: str
    ok: bool
    detail: str
    remedy: str = ""


class Questioner(Protocol):
    """Dialog with the operator who connects a platform."""

    def text(self, prompt: str, default: str = "") -> str:
        """Return the answer to *prompt*."""

    def secret(self, setting: str, prompt: str) -> Path:
        """Ask for a secret and write it to a file for the owner alone.

        Args:
            setting: Name of the secret; part of the name of the file.
            prompt: The question; the answer is not shown.

        Returns:
            Path of the file, relative to the directory of the configuration.
        """

    def confirm(self, prompt: str) -> bool:
        """Return whether the operator answers yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformKind(Generic[SettingsT]):
    """One kind of platform.

    Attributes:
        settings_type: Frozen dataclass of the settings; its fields are the keys of the
            table, and paths in it are relative to the directory of the configuration.
        create: Returns the platform for its name, its settings and the placement rules
            of the configuration. May raise `ConfigurationError` or `PlatformError`.
        read_only: True if the platform cannot execute actions. It then has no store
            and no extensions.
        nodes: Returns the names of the nodes; None if the settings do not list them.
        check: Yields the errors and warnings of settings at a path, without
            connecting to the platform.
        require_library: Raises `ConfigurationError` if a library is not installed.
        check_online: Yields the results of checks that connect to the platform, given
            its name and its settings. May raise `OpenDRSError`. An observation follows
            them; None if it is the only check.
        check_snapshot: Yields the results of further checks of that observation.
        check_disk_moves: Yields the results of checks that connect to the platform and
            concern moves of disks among groups of storages. Called if there are any.
        ask: Returns the table of the platform from the answers of the operator; None
            if its settings must be written by hand.
        copies_local_disks: True if the platform copies local disks of guests that
            migrate. Then `opendrs connect` asks for the permission, which is a limit.
    """

    settings_type: type[SettingsT]
    create: Callable[[str, SettingsT, Iterable[Rule]], Platform]
    read_only: bool = False
    nodes: Callable[[SettingsT], Collection[str] | None] = _nodes_not_listed
    check: Callable[[KeyPath, SettingsT], Iterator[Diagnostic]] = _check_nothing
    require_library: Callable[[], object] = _require_nothing
    check_online: Callable[[str, SettingsT], Iterator[OnlineCheck]] | None = None
    check_snapshot: Callable[[Snapshot], Iterator[OnlineCheck]] = _check_no_snapshot
    check_disk_moves: Callable[
        [str, SettingsT, Sequence[StorageGroup]], Iterator[OnlineCheck]
    ] = _check_no_disk_moves
    ask: Callable[[Questioner], dict[str, object]] | None = None
    copies_local_disks: bool = False


@dataclass(frozen=True, slots=True)
class ExtensionTable:
    """Table of an extension within the table of a platform.

    Attributes:
        value: Values as parsed from TOML or JSON.
        path: Path of the table in its file.
        nodes: Names of the nodes of the platform; None if the settings of the platform
            do not list them.
        directory: Directory that relative paths refer to.
    """

    value: object
    path: KeyPath
    nodes: Collection[str] | None
    directory: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformExtension(Generic[SettingsT]):
    """Addition to a platform, such as power actions, with a table of its own.

    Attributes:
        read: Returns the settings, a dataclass, and all errors in a table; None if no
            settings can be built. Paths that are fields of the settings may be
            relative.
        extend: Returns a platform with the addition.
    """

    read: Callable[[ExtensionTable], tuple[SettingsT | None, Iterable[Diagnostic]]]
    extend: Callable[[Platform, SettingsT], Platform]


KindLoader: TypeAlias = Callable[[], PlatformKind[Any]]
ExtensionLoader: TypeAlias = Callable[[], PlatformExtension[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRegistry:
    """The known kinds and extensions; each is imported when it is needed.

    Attributes:
        kinds: Values of `kind` in the table of a platform.
        extensions: Keys of the tables of extensions in the table of a platform.
    """

    kinds: Mapping[str, KindLoader]
    extensions: Mapping[str, ExtensionLoader]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformConnection:
    """Configuration of one platform.

    Attributes:
        name: The name in the configuration.
        kind: The kind of the platform, by its name in the registry.
        settings: An instance of the `settings_type` of the kind; None if invalid.
        nodes: Names of the nodes; None if the settings do not list them.
        extensions: Settings of the extensions, by their names in the registry.
    """

    name: str
    kind: str
    settings: object
    nodes: Collection[str] | None = None
    extensions: Mapping[str, Any] = field(default_factory=dict)
