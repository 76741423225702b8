"""Kinds and extensions of platforms, the connection to one, and a connected cluster.

A new kind or extension is one line here. Adapters are imported on demand, so that a
snapshot file does not require the library of a hypervisor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any

from opendrs.config.platform_kinds import (
    PlatformConnection,
    PlatformKind,
    PlatformRegistry,
)
from opendrs.model import Network, Rule
from opendrs.ports import Clock, Platform
from opendrs.power import PowerSettings

POWER = "power"


def _on_demand(target: str) -> Callable[[], Any]:
    """Return a function that imports and returns *target*, given as module:name."""
    return partial(resolve_name, target)


PLATFORMS = PlatformRegistry(
    kinds={
        "file": _on_demand("opendrs.platforms.snapshot_file:KIND"),
        "libvirt": _on_demand("opendrs.platforms.libvirt:KIND"),
        "incus": _on_demand("opendrs.platforms.incus:KIND"),
        "command": _on_demand("opendrs.platforms.command:KIND"),
        "proxmox": _on_demand("opendrs.platforms.proxmox:KIND"),
        "openstack": _on_demand("opendrs.platforms.openstack:KIND"),
    },
    extensions={
        "load": _on_demand("opendrs.platforms.prometheus:EXTENSION"),
        POWER: _on_demand("opendrs.power:EXTENSION"),
    },
)


def kind_of(connection: PlatformConnection) -> PlatformKind[Any]:
    """Return the kind of a configured platform."""
    return PLATFORMS.kinds[connection.kind]()


def connect_platform(
    connection: PlatformConnection, rules: Iterable[Rule] = ()
) -> Platform:
    """Return the platform for *connection*, with the placement rules *rules*.

    Raises:
        ConfigurationError: A required library is not installed, or a file named in
            the settings cannot be read.
        PlatformError: The platform is unreachable.
    """
    create = kind_of(connection).create
    platform = create(connection.name, connection.settings, rules)
    for name, settings in connection.extensions.items():
        platform = PLATFORMS.extensions[name]().extend(platform, settings)
    return platform


def power_settings(connection: PlatformConnection) -> PowerSettings | None:
    """Return the power settings of a configured platform; None if it has none."""
    settings: PowerSettings | None = connection.extensions.get(POWER)
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSource:
    """A platform with its clock, rules and networks.

    Attributes:
        platform: The platform.
        clock: The clock of the platform; simulated platforms have their own.
        rules: The rules of the configuration.
        networks: The networks of the configuration.
        is_persistent: True if the platform outlives this process, so that records
            must be stored on disk.
    """

    platform: Platform
    clock: Clock
    rules: tuple[Rule, ...] = ()
    networks: tuple[Network, ...] = ()
    is_persistent: bool = True
