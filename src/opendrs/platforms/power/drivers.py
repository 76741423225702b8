"""From settings to drivers."""

from __future__ import annotations

from opendrs.model import NodeId
from opendrs.platforms.power.command import CommandDriver
from opendrs.platforms.power.driver import Driver
from opendrs.platforms.power.settings import (
    CommandSettings,
    DriverSettings,
    PowerSettings,
    RedfishSettings,
)


class Drivers:
    """The driver of each node; None for a node without power.

    Args:
        settings: What the operator said about the nodes.

    Raises:
        ConfigurationError: A file that they name cannot be read.
    """

    def __init__(self, settings: PowerSettings) -> None:
        self._default = settings.default
        self._made = {
            NodeId(node): driver_of(NodeId(node), own)
            for node, own in settings.nodes.items()
        }

    def __call__(self, node: NodeId) -> Driver | None:
        """Return the driver of *node*, or None."""
        if node not in self._made:
            self._made[node] = driver_of(node, self._default)
        return self._made[node]


def driver_of(node: NodeId, settings: DriverSettings | None) -> Driver | None:
    """Return the driver of *node* that *settings* describe, or None.

    Raises:
        ConfigurationError: A file that they name cannot be read.
    """
    if isinstance(settings, CommandSettings):
        return CommandDriver(node, settings)
    if isinstance(settings, RedfishSettings):
        # Loaded when needed: few clusters have it, and it takes a moment.
        from opendrs.platforms.power.redfish import RedfishDriver  # noqa: PLC0415

        return RedfishDriver(node, settings)
    return None
