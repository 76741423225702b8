"""Where guests may go, and why not elsewhere."""

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
    first_few,
)
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.groups import NOBODY
from opendrs.rules.room import Room, need, room

Unit = Sequence[Guest]

UNLISTED = -1  # priority of a node that a rule does not name, as in Proxmox VE


class Targets:
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

    def excluded(self, unit: Unit) -> dict[NodeId, str]:
        """Return why each node but its own is closed to *unit*.

        Nodes that are not in the answer are open to it.
        """
        asked = need(unit)
        verdicts = {
            name: self._obstacle(unit, asked, node)
            for name, node in sorted(self._snapshot.nodes.items())
            if name != unit[0].node
        }
        return {name: why for name, why in verdicts.items() if why is not None}

    def obstacle(self, unit: Unit, node: NodeId) -> str | None:
        """Return why *node* is closed to *unit*, which is elsewhere; or None."""
        return self._obstacle(unit, need(unit), self._snapshot.nodes[node])

    def open(self, unit: Unit) -> tuple[NodeId, ...]:
        """Return the nodes open to *unit*, in order of name."""
        closed = {*self.excluded(unit), unit[0].node}
        return tuple(sorted(set(self._snapshot.nodes) - closed))

    def unsuitable(self, unit: Unit, node: Node) -> str | None:
        """Return why *node* can never take *unit*, whoever is on it; or None.

        This is what guests with the same rules have in common.
        """
        misfit = self._misfit(unit, node)
        return None if misfit is None else misfit()

    def suits(self, unit: Unit, node: Node) -> bool:
        """Return whether *node* is not unsuitable to *unit*.

        Without the words for it, which among many rules take long to find.
        """
        return self._misfit(unit, node) is None

    def allows(self, unit: Unit, node: Node) -> bool:
        """Return whether *node* may take *unit*, even where others are preferred."""
        return self._prohibition(unit, node) is None

    def preferred(self, guest: GuestId) -> frozenset[NodeId]:
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

    def disturbed(self, unit: Unit, node: NodeId) -> str | None:
        """Return whose presence or absence closes *node* to *unit*; or None."""
        rules = self._rules
        for guest in unit:
            near = self._present(rules.apart.get(guest.id, NOBODY), node)
            if near:
                return f"{guest.id} must be apart from {_names(near)}"
        for guest in unit:
            others = rules.soft_apart.get(guest.id, NOBODY)
            near = self._present(others, node)
            if len(near) > len(self._present(others, guest.node)):
                return f"{guest.id} would better be apart from {_names(near)}"
            others = rules.soft_together.get(guest.id, NOBODY) - {g.id for g in unit}
            left = self._present(others, guest.node)
            if len(left) > len(self._present(others, node)):
                return f"{guest.id} would better stay with {_names(left)}"
        return None

    @cached_property
    def room(self) -> dict[NodeId, Room]:
        """Return the room of every node."""
        return room(self._snapshot, self._limits)

    @cached_property
    def _online(self) -> frozenset[NodeId]:
        nodes = self._snapshot.nodes.values()
        return frozenset(node.id for node in nodes if node.online)

    def _obstacle(self, unit: Unit, asked: Room, node: Node) -> str | None:
        return (
            self.unsuitable(unit, node)
            or self.disturbed(unit, node.id)
            or _shortage(self.room[node.id].minus(asked))
        )

    def _misfit(self, unit: Unit, node: Node) -> Callable[[], str] | None:
        """Return what tells why *node* can never take *unit*; or None."""
        leader = unit[0].id
        found = self._prohibition(unit, node)
        if found is not None:
            return found
        if leader in self._rules.rankings and node.id not in self.preferred(leader):
            ranking = self._rules.rankings[leader]
            return lambda: f"other nodes are preferred: {'; '.join(map(str, ranking))}"
        return None

    def _prohibition(self, unit: Unit, node: Node) -> Callable[[], str] | None:
        """Return what tells why *node* must not take *unit*; or None."""
        source, leader = self._snapshot.nodes[unit[0].node], unit[0].id
        if not node.online:
            return lambda: f"it is {node.state}"
        if None not in (source.architecture, node.architecture) and (
            source.architecture != node.architecture
        ):
            return lambda: f"its architecture is {node.architecture}"
        for guest in unit:
            if guest.cpu_model not in (None, node.cpu_model):
                return partial("its processor is not {}".format, guest.cpu_model)
        if node.id not in self._rules.nodes.get(leader, (node.id,)):
            return lambda: f"a rule forbids it: {self._forbidding(leader, node.id)}"
        return None

    def _forbidding(self, guest: GuestId, node: NodeId) -> NodeAffinity:
        """Return the rule that keeps *guest*, or who stays with it, from *node*."""
        bound = self._rules.together.get(guest, frozenset({guest}))
        return next(
            rule
            for rule in self._snapshot.rules
            if isinstance(rule, NodeAffinity)
            and rule.strict
            and rule.guests & bound
            and node not in rule.nodes
        )

    def _present(self, guests: frozenset[GuestId], node: NodeId) -> list[GuestId]:
        return [
            name for name in guests if node in self._snapshot.guests[name].locations
        ]


def _shortage(left: Room) -> str | None:
    if left.used is None or left.promised is None:
        return "its memory, or that of the guest, is not known"
    if left.used < 0:
        return f"it lacks {-left.used / GIB:.1f} GiB of free memory"
    if left.promised < 0:
        return f"its memory would be overbooked by {-left.promised / GIB:.1f} GiB"
    return None


def _names(guests: Sequence[GuestId]) -> str:
    return first_few(sorted(guests), joint=" and ")
