"""What the drill itself says, beside what managers and agents say."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events import Event
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class DrillBegun(Event):
    """The drill begins."""


@dataclass(frozen=True, slots=True)
class DrillEnded(Event):
    """The drill came to its end."""


@dataclass(frozen=True, slots=True)
class DrillFailed(Event):
    """The drill could not go on."""

    error: str


@dataclass(frozen=True, slots=True)
class Executed(Event):
    """Something was done to the cluster from outside."""

    command: str


@dataclass(frozen=True, slots=True)
class RoundSkipped(Event):
    """All processes of a kind miss a turn."""

    kind: str


@dataclass(frozen=True, slots=True)
class LoopEnded(Event):
    """A process has ended."""


@dataclass(frozen=True, slots=True)
class KilledByPowerOff(Event):
    """A process died with its node."""


@dataclass(frozen=True, slots=True)
class WatchdogBit(Event):
    """A watchdog that nobody fed switched its node off."""

    node: NodeId
