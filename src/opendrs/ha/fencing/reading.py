"""From the text of fence.cfg to devices."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from opendrs.ha.fencing.devices import Device, SubDevice
from opendrs.model import NodeId

LINE = re.compile(r"(device|connect)\s+(\S+)\s+(\S+)\s+(\S.*)")
NAME = re.compile(r"(\w+)(?::(\d+))?")
TARGET = re.compile(r"node=(\w+)")

Devices = dict[str, Device]


class FenceConfigError(Exception):
    """A configuration that cannot be meant.

    Attributes:
        complaints: What is wrong with it, one line each.
    """

    def __init__(self, file: str, complaints: tuple[str, ...]) -> None:
        lines = "\n".join(complaints)
        super().__init__(f"Encountered error(s) on parsing '{file}':\n{lines}")
        self.complaints = complaints


class _LineError(Exception):
    """What is wrong with one line."""


def read_fencing(text: str, file: str) -> dict[str, Device]:
    """Return the devices of *text*, by name; lines without meaning are left out.

    Args:
        text: The text of the file.
        file: The name of the file, for complaints.

    Raises:
        FenceConfigError: Devices are declared twice, or connected before they
            are declared; tells of all of them.
    """
    devices: Devices = {}
    complaints = []
    for number, line in enumerate(text.split("\n"), start=1):
        match = LINE.fullmatch(line.strip(" \t"))
        if match is None or line.lstrip(" \t").startswith("#"):
            continue
        name = NAME.fullmatch(match[2])
        if name is None:
            continue
        try:
            words = _words(match[4])
            part = int(name[2] or 1)
            _TAKES[match[1]](devices, name[1], part, match[3], words)
        except _LineError as error:
            complaints.append(f"line {number}: {error}")
    if complaints:
        raise FenceConfigError(file, tuple(complaints))
    return devices


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise _LineError(str(error)) from error


def _declare(
    devices: Devices, name: str, part: int, agent: str, words: tuple[str, ...]
) -> None:
    known = devices.get(name)
    if known is not None and part in known.parts:
        raise _LineError(f"device '{name}:{part}' already declared")
    # Proxmox VE takes the priority 0 of the first device for none, and gives
    # it another one when a second part follows; the order stays.
    priority = known.priority if known and known.priority else _next(devices)
    parts = {} if known is None else known.parts
    devices[name] = Device(priority, {**parts, part: SubDevice(agent, words)})


def _next(devices: Devices) -> int:
    return max((device.priority for device in devices.values()), default=-1) + 1


def _connect(
    devices: Devices, name: str, part: int, target: str, words: tuple[str, ...]
) -> None:
    device = devices.get(name)
    if device is None:
        raise _LineError(
            f"device '{name}' must be declared before you can connect to it"
        )
    if part not in device.parts:
        raise _LineError(f"No parallel device '{name}:{part}' found")
    match = TARGET.search(target)
    if match is None:
        raise _LineError(f"node=nodename needed to connect device '{name}' to node")
    node, known = NodeId(match[1]), device.parts[part]
    if node in known.connections:
        raise _LineError(f"node '{node}' already connected to device '{name}:{part}'")
    connected = replace(known, connections={**known.connections, node: words})
    devices[name] = replace(device, parts={**device.parts, part: connected})


Take = Callable[[Devices, str, int, str, tuple[str, ...]], None]
_TAKES: Mapping[str, Take] = MappingProxyType({"device": _declare, "connect": _connect})
