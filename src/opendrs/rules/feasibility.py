"""Feasible target nodes of a move group, and why the others are infeasible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

from opendrs.model import (
    GIB,
    Guest,
    GuestId,
    Limits,
    Node,
    NodeAffinity,
    NodeId,
    Snapshot,
    format_list,
)
from opendrs.rules.affinity_groups import NO_GUESTS
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.memory import AvailableMemory, available_memory, required_memory

MoveGroup = Sequence[Guest]

UNLISTED = -1  # priority of a node that a rule does not name, as in Proxmox VE


class FeasibilityChecker:
    """Where the guests of one snapshot may go.

    A unit is one or more running guests on one node that move as one. They
    may go where every strict rule holds, the memory suffices, and no soft rule
    is kept worse than it is now. Of nodes that node-affinity rules rank, only
    the highest that are online count, as in Proxmox VE.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._limits = limits

    def infeasible_nodes(self, group: MoveGroup) -> dict[NodeId, str]:
        """Return why each node but its own is closed to *group*.

        Nodes that are not in the answer are open to it.
        """
        required = required_memory(group)
        rejections = {
            name: self._rejection(group, required, node)
            for name, node in sorted(self._snapshot.nodes.items())
            if name != group[0].node
        }
        return {
            name: detail for name, detail in rejections.items() if detail is not None
        }

    def rejection(self, group: MoveGroup, node: NodeId) -> str | None:
        """Return why *node* is closed to *group*, which is elsewhere; or None."""
        return self._rejection(
            group, required_memory(group), self._snapshot.nodes[node]
        )

    def feasible_nodes(self, group: MoveGroup) -> tuple[NodeId, ...]:
        """Return the nodes open to *group*, in order of name."""
        infeasible = {*self.infeasible_nodes(group), group[0].node}
        return tuple(sorted(set(self._snapshot.nodes) - infeasible))

    def incompatibility(self, group: MoveGroup, node: Node) -> str | None:
        """Return why *node* can never take *group*, whoever is on it; or None.

        This is what guests with the same rules have in common.
        """
        describe = self._find_incompatibility(group, node)
        return None if describe is None else describe()

    def is_compatible(self, group: MoveGroup, node: Node) -> bool:
        """Return whether *node* is not unsuitable to *group*.

        Without the words for it, which among many rules take long to find.
        """
        return self._find_incompatibility(group, node) is None

    def is_allowed(self, group: MoveGroup, node: Node) -> bool:
        """Return whether *node* may take *group*, even where others are preferred."""
        return self._find_prohibition(group, node) is None

    def preferred_nodes(self, guest: GuestId) -> frozenset[NodeId]:
        """Return the online nodes that rules rank highest for *guest*."""
        allowed = self._rules.nodes.get(guest, self._online) & self._online
        rankings = self._rules.rankings.get(guest)
        if rankings is None or not allowed:
            return allowed
        priority = {
            node: sum(rule.nodes.get(node, UNLISTED) for rule in rankings)
            for node in allowed
        }
        highest = max(priority.values())
        return frozenset(node for node in allowed if priority[node] == highest)

    def affinity_conflict(self, group: MoveGroup, node: NodeId) -> str | None:
        """Return whose presence or absence closes *node* to *group*; or None."""
        rules = self._rules
        for guest in group:
            conflicting = self._guests_on(rules.apart.get(guest.id, NO_GUESTS), node)
            if conflicting:
                return f"{guest.id} must be apart from {_format_guests(conflicting)}"
        for guest in group:
            others = rules.soft_apart.get(guest.id, NO_GUESTS)
            conflicting = self._guests_on(others, node)
            if len(conflicting) > len(self._guests_on(others, guest.node)):
                return f"{guest.id} would better be apart from {_format_guests(conflicting)}"
            others = rules.soft_together.get(guest.id, NO_GUESTS) - {
                g.id for g in group
            }
            remaining = self._guests_on(others, guest.node)
            if len(remaining) > len(self._guests_on(others, node)):
                return f"{guest.id} would better stay with {_format_guests(remaining)}"
        return None

    @cached_property
    def available_memory(self) -> dict[NodeId, AvailableMemory]:
        """Return the room of every node."""
        return available_memory(self._snapshot, self._limits)

    @cached_property
    def _online(self) -> frozenset[NodeId]:
        nodes = self._snapshot.nodes.values()
        return frozenset(node.id for node in nodes if node.online)

    def _rejection(
        self, group: MoveGroup, required: AvailableMemory, node: Node
    ) -> str | None:
        return (
            self.incompatibility(group, node)
            or self.affinity_conflict(group, node.id)
            or _memory_shortage(self.available_memory[node.id].minus(required))
        )

    def _find_incompatibility(
        self, group: MoveGroup, node: Node
    ) -> Callable[[], str] | None:
        """Return what tells why *node* can never take *group*; or None."""
        leader = group[0].id
        describe = self._find_prohibition(group, node)
        if describe is not None:
            return describe
        if leader in self._rules.rankings and node.id not in self.preferred_nodes(
            leader
        ):
            ranking = self._rules.rankings[leader]
            return lambda: f"other nodes are preferred: {'; '.join(map(str, ranking))}"
        return None

    def _find_prohibition(
        self, group: MoveGroup, node: Node
    ) -> Callable[[], str] | None:
        """Return what tells why *node* must not take *group*; or None."""
        source, leader = self._snapshot.nodes[group[0].node], group[0].id
        if not node.online:
            return lambda: f"it is {node.state}"
        if None not in (source.architecture, node.architecture) and (
            source.architecture != node.architecture
        ):
            return lambda: f"its architecture is {node.architecture}"
        for guest in group:
            if guest.cpu_model not in (None, node.cpu_model):
                return partial("its processor is not {}".format, guest.cpu_model)
        if node.id not in self._rules.nodes.get(leader, (node.id,)):
            return lambda: (
                f"a rule forbids it: {self._forbidding_rule(leader, node.id)}"
            )
        return None

    def _forbidding_rule(self, guest: GuestId, node: NodeId) -> NodeAffinity:
        """Return the rule that keeps *guest*, or who stays with it, from *node*."""
        members = self._rules.together.get(guest, frozenset({guest}))
        return next(
            rule
            for rule in self._snapshot.rules
            if isinstance(rule, NodeAffinity)
            and rule.strict
            and rule.guests & members
            and node not in rule.nodes
        )

    def _guests_on(self, guests: frozenset[GuestId], node: NodeId) -> list[GuestId]:
        return [
            name
            for name in guests
            if node in self._snapshot.guests[name].occupied_nodes
        ]


def _memory_shortage(left: AvailableMemory) -> str | None:
    if left.measured is None or left.committed is None:
        return "its memory, or that of the guest, is not known"
    if left.measured < 0:
        return f"it lacks {-left.measured / GIB:.1f} GiB of free memory"
    if left.committed < 0:
        return f"its memory would be overbooked by {-left.committed / GIB:.1f} GiB"
    return None


def _format_guests(guests: Sequence[GuestId]) -> str:
    return format_list(sorted(guests), separator=" and ")
