"""Registry of platform kinds, and creation of a platform from its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from opendrs.model import Rule
from opendrs.ports import Platform
from opendrs.power import PowerDrivers, PoweredPlatform, PowerSettings

PlatformFactory: TypeAlias = Callable[[str, object, Iterable[Rule]], Platform]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformConnection:
    """Configuration of one platform.

    Attributes:
        name: The name in the configuration.
        kind: A key of `KINDS`.
        settings: An instance of the `settings_type` of the kind.
        power: The power settings of its nodes; None if there are none.
    """

    name: str
    kind: str
    settings: object
    power: PowerSettings | None = None


def _load_snapshot_file() -> tuple[type, PlatformFactory]:
    from opendrs.platforms.snapshot_file import (  # noqa: PLC0415
        SnapshotFilePlatform,
        SnapshotFileSettings,
    )

    def create(name: str, settings: object, rules: Iterable[Rule]) -> Platform:
        assert isinstance(settings, SnapshotFileSettings)  # noqa: S101 - for the type checker
        return SnapshotFilePlatform(settings.path, name=name, rules=rules)

    return SnapshotFileSettings, create


def _load_libvirt() -> tuple[type, PlatformFactory]:
    from opendrs.platforms.libvirt import (  # noqa: PLC0415
        LibvirtPlatform,
        LibvirtSettings,
    )

    def create(name: str, settings: object, rules: Iterable[Rule]) -> Platform:
        assert isinstance(settings, LibvirtSettings)  # noqa: S101 - as above
        return LibvirtPlatform(name, settings, rules)

    return LibvirtSettings, create


KINDS: Mapping[str, Callable[[], tuple[type, PlatformFactory]]] = {
    "file": _load_snapshot_file,
    "libvirt": _load_libvirt,
}


def settings_type(kind: str) -> type:
    """Return the frozen dataclass of the settings of platforms of *kind*."""
    return KINDS[kind]()[0]


def connect_platform(
    connection: PlatformConnection, rules: Iterable[Rule] = ()
) -> Platform:
    """Return the platform for *connection*, with the placement rules *rules*.

    Raises:
        ConfigurationError: A required library is not installed, or a file named in
            the settings cannot be read.
        PlatformError: The platform is unreachable.
    """
    create = KINDS[connection.kind]()[1]
    platform = create(connection.name, connection.settings, rules)
    if connection.power is None:
        return platform
    return PoweredPlatform(platform, PowerDrivers(connection.power))
