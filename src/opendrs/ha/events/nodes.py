"""What the manager says of nodes."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.ha.events.event import Event
from opendrs.ha.states import NodeState
from opendrs.model import NodeId


@dataclass(frozen=True, slots=True)
class NodeStateChanged(Event):
    """The manager thinks otherwise of a node."""

    node: NodeId
    old: NodeState
    new: NodeState


@dataclass(frozen=True, slots=True)
class GoneNodeForgotten(Event):
    """A node that left the cluster is forgotten."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingBegun(Event):
    """A mail: a node is to be fenced."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingAcknowledged(Event):
    """The agent of a node is certainly dead: its lock was taken."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencingSucceeded(Event):
    """A mail: a node was fenced."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class FencedWithoutServices(Event):
    """A node waits for its fencing though it has no service."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class MasterOffline(Event):
    """The node of the master is not in the cluster."""
