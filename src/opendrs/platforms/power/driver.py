"""What switches a node on and off, and tells how it is."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol


class PowerState(StrEnum):
    """Whether a node has power; UNKNOWN also while that changes."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Driver(Protocol):
    """The power of one node.

    To switch it twice does no harm. `on` and `off` return when the request was
    handed over, which is not when the node has followed it. Every method may
    raise `PlatformError`; nothing it says holds a secret.
    """

    @property
    def silence(self) -> float | None:
        """Return what stands for `state` where there is no way to ask for it.

        That is the seconds for which a node that was switched off must not have
        answered the platform before it counts as off; None where `state` tells.
        """

    @property
    def patience(self) -> float:
        """Return the seconds in which a node should have followed a request."""

    @property
    def detached(self) -> bool:
        """Return whether a complaint of `off` may mean nothing.

        A host that goes to sleep takes down the connection over which it was
        asked to; then only what is seen afterwards tells.
        """

    def on(self) -> None:
        """Ask for the node to be switched on."""

    def off(self) -> None:
        """Ask for the node to be switched off."""

    def state(self) -> PowerState:
        """Return whether the node is on; UNKNOWN where that cannot be told."""
