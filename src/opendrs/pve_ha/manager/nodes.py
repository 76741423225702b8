"""Node states of the manager, and fencing."""

from __future__ import annotations

from collections.abc import Mapping

from opendrs.model import NodeId
from opendrs.pve_ha import log_events
from opendrs.pve_ha.process_step import ProcessStep
from opendrs.pve_ha.states import LrmMode, PveNodeState
from opendrs.pve_ha.status_files import lrm_lock_name

FENCE_DELAY = 60  # seconds offline after which a node is fenced
DELETE_DELAY = 3600  # seconds after which a node that left the cluster is deleted


class NodeTable:
    """States of the nodes during one round of the manager.

    Args:
        states: States before the round.
        last_online: Time at which each node was last online.
        step: Step of the process in which the round runs.
    """

    def __init__(
        self,
        states: Mapping[NodeId, PveNodeState],
        last_online: Mapping[NodeId, int],
        step: ProcessStep,
    ) -> None:
        self.states = dict(states)
        self.last_online = dict(last_online)
        self._step = step

    def state_of(self, node: NodeId) -> PveNodeState:
        """Return the state of *node*."""
        return self.states.get(node, PveNodeState.UNKNOWN)

    def is_online(self, node: NodeId) -> bool:
        """Return True if *node* can run services."""
        return self.state_of(node) is PveNodeState.ONLINE

    def is_operational(self, node: NodeId) -> bool:
        """Return True if *node* is online or in maintenance."""
        return self.state_of(node) in (PveNodeState.ONLINE, PveNodeState.MAINTENANCE)

    def online_nodes(self) -> list[NodeId]:
        """Return the nodes that can run services, in order of name."""
        return sorted(n for n, s in self.states.items() if s is PveNodeState.ONLINE)

    def differs_from(self, members: Mapping[NodeId, bool]) -> bool:
        """Return True if nodes joined or left the cluster."""
        return members.keys() != self.states.keys()

    def update(
        self, members: Mapping[NodeId, bool], modes: Mapping[NodeId, LrmMode]
    ) -> None:
        """Update the states from the members of the cluster and the LRM modes."""
        for node in sorted(node for node, online in members.items() if online):
            self.last_online[node] = self._step.now
            self._change(node, self._state_when_online(node, modes.get(node)))
        for node in sorted(node for node in self.states if not members.get(node)):
            if self.state_of(node) is PveNodeState.GONE:
                self._delete_gone_node(node)
            else:
                self._change(
                    node, self._state_when_offline(node, members, modes.get(node))
                )

    def is_offline_delayed(self, node: NodeId, delay: int = FENCE_DELAY) -> bool:
        """Return True if *node* has been offline for *delay* seconds.

        For a node that the manager has never seen online, the time starts now.
        """
        if self.is_online(node):
            return False
        since = self.last_online.setdefault(node, self._step.now)
        return self._step.now - since >= delay

    def fence(self, node: NodeId) -> bool:
        """Fence *node* and return True if fencing is complete."""
        if self.state_of(node) is not PveNodeState.FENCE:
            self._change(node, PveNodeState.FENCE)
            self._step.log(log_events.FencingStarted(node))
        if not self._step.acquire_lock(lrm_lock_name(node)):
            return False
        self._step.log(log_events.FencingAcknowledged(node))
        self._change(node, PveNodeState.UNKNOWN)
        self._step.log(log_events.FencingSucceeded(node))
        return True

    def _state_when_online(self, node: NodeId, mode: LrmMode | None) -> PveNodeState:
        state = self.state_of(node)
        if state is PveNodeState.FENCE:
            return state
        if state is PveNodeState.ONLINE and mode is LrmMode.MAINTENANCE:
            return PveNodeState.MAINTENANCE
        if state is PveNodeState.MAINTENANCE and mode is LrmMode.MAINTENANCE:
            return state
        return PveNodeState.ONLINE

    def _state_when_offline(
        self, node: NodeId, members: Mapping[NodeId, bool], mode: LrmMode | None
    ) -> PveNodeState:
        match self.state_of(node):
            case PveNodeState.ONLINE:
                return PveNodeState.UNKNOWN
            case PveNodeState.MAINTENANCE if mode is not LrmMode.MAINTENANCE:
                return PveNodeState.UNKNOWN
            case PveNodeState.UNKNOWN if node not in members:
                return PveNodeState.GONE
            case state:
                return state

    def _delete_gone_node(self, node: NodeId) -> None:
        if self.is_offline_delayed(node, DELETE_DELAY):
            del self.states[node]
            self._step.log(log_events.GoneNodeDeleted(node))

    def _change(self, node: NodeId, new: PveNodeState) -> None:
        old = self.state_of(node)
        if new is not old:
            self.states[node] = new
            self._step.log(log_events.NodeStateChanged(node, old, new))
