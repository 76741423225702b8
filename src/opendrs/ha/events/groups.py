"""What the manager says while it turns groups into rules."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.states import NodeState
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class GroupsBegun(Event):
    """Groups are to become rules."""


@dataclass(frozen=True, slots=True)
class GroupsNode(Event):
    """How a node is."""

    node: NodeId
    state: NodeState


@dataclass(frozen=True, slots=True)
class GroupsAgent(Event):
    """How an agent is."""

    node: NodeId
    state: str
    mode: str


@dataclass(frozen=True, slots=True)
class GroupsVersion(Event):
    """What a node runs."""

    node: NodeId
    version: str


@dataclass(frozen=True, slots=True)
class GroupRulesWritten(Event):
    """Rules stand in place of the groups."""


@dataclass(frozen=True, slots=True)
class GroupsLeft(Event):
    """No service is in a group any more."""


@dataclass(frozen=True, slots=True)
class GroupsDeleted(Event):
    """There are no groups any more."""


@dataclass(frozen=True, slots=True)
class GroupsDone(Event):
    """Groups have become rules."""


@dataclass(frozen=True, slots=True)
class GroupsAborted(Event):
    """Groups cannot become rules yet."""

    why: str


@dataclass(frozen=True, slots=True)
class GroupsFailed(Event):
    """Groups have not become rules."""


@dataclass(frozen=True, slots=True)
class GroupsLater(Event):
    """It will be tried again."""

    rounds: int
    seconds: int
