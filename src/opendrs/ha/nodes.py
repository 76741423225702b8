"""What the manager thinks of each node."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.ha import events
from opendrs.ha.locks import agent_lock
from opendrs.ha.states import LrmMode, NodeState
from opendrs.ha.turn import Turn
from opendrs.model import NodeId

FENCE_DELAY = 60  # seconds offline after which a node is fenced
FORGET_DELAY = 3600  # seconds after which a node that left is forgotten


class NodeTable:
    """The states of the nodes during one round of the manager.

    Args:
        states: What the manager thought of the nodes before.
        last_online: When each was last seen online.
        turn: The turn in which the round is held.
    """

    def __init__(
        self,
        states: Mapping[NodeId, NodeState],
        last_online: Mapping[NodeId, int],
        turn: Turn,
    ) -> None:
        self.states = dict(states)
        self.last_online = dict(last_online)
        self._turn = turn

    def state(self, node: NodeId) -> NodeState:
        """Return what the manager thinks of *node*."""
        return self.states.get(node, NodeState.UNKNOWN)

    def is_online(self, node: NodeId) -> bool:
        """Return whether *node* may run services."""
        return self.state(node) is NodeState.ONLINE

    def is_operational(self, node: NodeId) -> bool:
        """Return whether *node* works, be it in maintenance."""
        return self.state(node) in (NodeState.ONLINE, NodeState.MAINTENANCE)

    def online(self) -> list[NodeId]:
        """Return the nodes that may run services, in order of name."""
        return sorted(n for n, s in self.states.items() if s is NodeState.ONLINE)

    def differs_from(self, members: Mapping[NodeId, bool]) -> bool:
        """Return whether nodes came to the cluster or left it."""
        return members.keys() != self.states.keys()

    def update(
        self, members: Mapping[NodeId, bool], modes: Mapping[NodeId, LrmMode]
    ) -> None:
        """Learn which nodes are online, and what their agents are about."""
        for node in sorted(node for node, online in members.items() if online):
            self.last_online[node] = self._turn.now
            self._change(node, self._seen_online(node, modes.get(node)))
        for node in sorted(node for node in self.states if not members.get(node)):
            if self.state(node) is NodeState.GONE:
                self._forget(node)
            else:
                self._change(node, self._seen_offline(node, members, modes.get(node)))

    def offline_delayed(self, node: NodeId, delay: int = FENCE_DELAY) -> bool:
        """Return whether *node* has been offline for *delay* seconds.

        A manager that has never seen it online begins to count now.
        """
        if self.is_online(node):
            return False
        since = self.last_online.setdefault(node, self._turn.now)
        return self._turn.now - since >= delay

    def fence(self, node: NodeId) -> bool:
        """Fence *node*, and return whether it is certainly dead now."""
        if self.state(node) is not NodeState.FENCE:
            self._change(node, NodeState.FENCE)
            self._turn.say(events.FencingBegun(node))
        if not self._turn.acquire(agent_lock(node)):
            return False
        self._turn.say(events.FencingAcknowledged(node))
        self._change(node, NodeState.UNKNOWN)
        self._turn.say(events.FencingSucceeded(node))
        return True

    def _seen_online(self, node: NodeId, mode: LrmMode | None) -> NodeState:
        state = self.state(node)
        if state is NodeState.FENCE:
            return state
        if state is NodeState.ONLINE and mode is LrmMode.MAINTENANCE:
            return NodeState.MAINTENANCE
        if state is NodeState.MAINTENANCE and mode is LrmMode.MAINTENANCE:
            return state
        return NodeState.ONLINE

    def _seen_offline(
        self, node: NodeId, members: Mapping[NodeId, bool], mode: LrmMode | None
    ) -> NodeState:
        match self.state(node):
            case NodeState.ONLINE:
                return NodeState.UNKNOWN
            case NodeState.MAINTENANCE if mode is not LrmMode.MAINTENANCE:
                return NodeState.UNKNOWN
            case NodeState.UNKNOWN if node not in members:
                return NodeState.GONE
            case state:
                return state

    def _forget(self, node: NodeId) -> None:
        if self.offline_delayed(node, FORGET_DELAY):
            del self.states[node]
            self._turn.say(events.GoneNodeForgotten(node))

    def _change(self, node: NodeId, new: NodeState) -> None:
        old = self.state(node)
        if new is not old:
            self.states[node] = new
            self._turn.say(events.NodeStateChanged(node, old, new))
