"""From settings to a platform. An adapter is loaded when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from opendrs.model import Rule
from opendrs.platforms.power import Drivers, Powered, PowerSettings
from opendrs.ports import Platform

Adapter: TypeAlias = Callable[[str, object, Iterable[Rule]], Platform]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A platform that the operator has named.

    Attributes:
        name: What the operator calls it.
        kind: One of `KINDS`.
        settings: A value of the kind's `settings_type`.
        power: How its nodes are switched on and off; None if they cannot be.
    """

    name: str
    kind: str
    settings: object
    power: PowerSettings | None = None


def _file() -> tuple[type, Adapter]:
    from opendrs.platforms.file import FilePlatform, FileSettings  # noqa: PLC0415

    def adapter(name: str, settings: object, rules: Iterable[Rule]) -> Platform:
        assert isinstance(settings, FileSettings)  # noqa: S101 - for the type checker
        return FilePlatform(settings.path, name=name, rules=rules)

    return FileSettings, adapter


def _libvirt() -> tuple[type, Adapter]:
    from opendrs.platforms.libvirt import (  # noqa: PLC0415
        LibvirtPlatform,
        LibvirtSettings,
    )

    def adapter(name: str, settings: object, rules: Iterable[Rule]) -> Platform:
        assert isinstance(settings, LibvirtSettings)  # noqa: S101 - as above
        return LibvirtPlatform(name, settings, rules)

    return LibvirtSettings, adapter


KINDS: Mapping[str, Callable[[], tuple[type, Adapter]]] = {
    "file": _file,
    "libvirt": _libvirt,
}


def settings_type(kind: str) -> type:
    """Return the frozen dataclass that holds the settings of platforms of *kind*."""
    return KINDS[kind]()[0]


def connect(connection: Connection, rules: Iterable[Rule] = ()) -> Platform:
    """Return the platform that *connection* describes, with *rules* in force.

    Raises:
        ConfigurationError: What the adapter needs is not installed, or a file
            that is named cannot be read.
        PlatformError: It cannot be reached.
    """
    adapter = KINDS[connection.kind]()[1]
    platform = adapter(connection.name, connection.settings, rules)
    if connection.power is None:
        return platform
    return Powered(platform, Drivers(connection.power))
