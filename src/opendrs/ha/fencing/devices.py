"""Fence devices, and the commands that switch a node off with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opendrs.model import NodeId

PLAIN = re.compile(r"[A-Za-z0-9_!%+,\-./:@^]+")

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubDevice:
    """One of the devices that must all be switched for a node to go down.

    Attributes:
        agent: The program that speaks to it.
        arguments: What it is told about the device.
        connections: What it is told about each node.
    """

    agent: str
    arguments: Arguments
    connections: Mapping[NodeId, Arguments] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Device:
    """Devices of one name, used together.

    Attributes:
        priority: When its turn comes; the smallest is the first.
        parts: The devices by their numbers.
    """

    priority: int
    parts: Mapping[int, SubDevice]

    def connects(self, node: NodeId) -> bool:
        """Return whether any of the devices is connected to *node*."""
        return any(node in part.connections for part in self.parts.values())


@dataclass(frozen=True, slots=True)
class FenceCommand:
    """A program, and what it is told.

    Attributes:
        agent: The program.
        arguments: Words, or names and values with an equals sign between.
    """

    agent: str
    arguments: Arguments

    def __str__(self) -> str:
        return " ".join([self.agent, *map(_shown, self.arguments)])


def fence_commands(
    devices: Iterable[Device], node: NodeId, attempt: int
) -> tuple[FenceCommand, ...]:
    """Return the commands that switch *node* off, all to be run together.

    Args:
        devices: The devices there are.
        node: The node to be switched off.
        attempt: How many devices were tried before; each is tried once.

    Returns:
        No commands when no device is left.
    """
    connected = sorted(
        (device for device in devices if device.connects(node)),
        key=lambda device: device.priority,
    )
    if attempt >= len(connected):
        return ()
    return tuple(
        FenceCommand(part.agent, (*part.arguments, *part.connections[node]))
        for _, part in sorted(connected[attempt].parts.items())
        if node in part.connections
    )


def _shown(argument: str) -> str:
    name, has_value, rest = argument.partition("=")
    value = rest.partition("=")[0]
    if len(name) == 1:
        return f"-{name} {_quoted(value)}" if has_value else f"-{name}"
    return f"--{name}={_quoted(value)}" if has_value else f"--{name}"


def _quoted(value: str) -> str:
    if PLAIN.fullmatch(value):
        return value
    inner = value.replace("'", "'\\''")
    return f"'{inner}'"
