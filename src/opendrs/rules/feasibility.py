"""Feasible target nodes of a move group, and why other nodes are infeasible."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial

from opendrs.model import (
    GIB,
    FurtherLoad,
    Guest,
    GuestId,
    Limits,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    Snapshot,
    format_list,
    missing_storages,
    needed_storages,
)
from opendrs.rules.affinity_groups import NO_GUESTS
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.load_limits import (
    AvailableLoads,
    available_loads,
    compared_loads,
    load_shortage,
)
from opendrs.rules.memory import (
    MILLICORES,
    AvailableMemory,
    available_memory,
    required_memory,
)
from opendrs.rules.storage_space import (
    Space,
    available_space,
    required_space,
    space_shortage,
)

MoveGroup = Sequence[Guest]

_LOCAL_STORAGE = re.compile(r"\blocal\b|\bnot on shared storage\b", re.IGNORECASE)
UNLISTED = -1  # priority of a node that a rule does not name, as in Proxmox VE


def node_priority(rankings: Iterable[NodeAffinity], node: NodeId) -> float:
    """Return the sum of the priorities of *node* in *rankings*, by their weights."""
    return sum(rule.weight * rule.nodes.get(node, UNLISTED) for rule in rankings)


class FeasibilityChecker:
    """Feasible target nodes of the move groups of one snapshot, or after migrations.

    A move group is one or more running guests on one node that migrate as one. A node
    is feasible if every strict rule holds, the memory suffices, and no soft rule is
    violated more than now. Among nodes that node-affinity rules rank, only the online
    nodes of the highest priority are feasible, as in Proxmox VE.
    """

    def __init__(
        self, snapshot: Snapshot, rules: CompiledRules, limits: Limits
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._limits = limits

    def update(self, after: Snapshot, nodes: Iterable[NodeId]) -> None:
        """Replace *nodes* and their guests by those in *after*.

        Args:
            after: Part of the cluster after migrations: all guests on *nodes*.
            nodes: Nodes that the migrations have changed.
        """
        names = frozenset(nodes)
        self._guests_on.update(_guests_by_node(after, names))
        available = available_memory(after, self._limits)
        self.available_memory.update({name: available[name] for name in names})
        self._available_space.update(
            (name, space)
            for name, space in available_space(after).items()
            if name in names
        )
        loads = available_loads(after, self._loads)
        self._available_loads.update(
            {name: loads[name] for name in names & loads.keys()}
        )

    def infeasible_nodes(self, group: MoveGroup) -> dict[NodeId, str]:
        """Return why each infeasible node, except its own, is infeasible for *group*.

        Feasible nodes are absent. A group on several nodes has no node of its own;
        those of its guests that are on a node already need no memory there.
        """
        if _is_split(group):
            rejections = {
                name: self.rejection(group, name)
                for name in sorted(self._snapshot.nodes)
            }
        else:
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
        """Return why *node*, not its own, is infeasible for *group*, or None.

        Guests of the group that are there already need no memory.
        """
        if _is_split(group):
            group = tuple(guest for guest in group if guest.node != node)
        return self._rejection(
            group, required_memory(group), self._snapshot.nodes[node]
        )

    def feasible_nodes(self, group: MoveGroup) -> tuple[NodeId, ...]:
        """Return the nodes that are feasible for *group*, in order of name."""
        infeasible = {*self.infeasible_nodes(group), group[0].node}
        return tuple(sorted(set(self._snapshot.nodes) - infeasible))

    def incompatibility(self, group: MoveGroup, node: Node) -> str | None:
        """Return why *node* is infeasible for *group*, other guests aside, or None.

        The result is the same for all guests with the same rules and hardware.
        """
        describe = self._find_incompatibility(group, node)
        return None if describe is None else describe()

    def is_compatible(self, group: MoveGroup, node: Node) -> bool:
        """Return whether `incompatibility` is None; faster, without its message."""
        return self._find_incompatibility(group, node) is None

    def is_allowed(self, group: MoveGroup, node: Node) -> bool:
        """Return whether *node* is allowed for *group*, even if others rank higher."""
        return self._find_prohibition(group, node) is None

    def is_suited(self, guest: Guest, node: Node) -> bool:
        """Return whether *guest* can run on *node*, rules and memory aside."""
        return self._find_unsuited((guest,), node) is None

    def preferred_nodes(self, guest: GuestId) -> frozenset[NodeId]:
        """Return the online nodes that rules rank highest for *guest*."""
        allowed = self._rules.nodes.get(guest, self._online) & self._online
        rankings = self._rules.rankings.get(guest)
        if rankings is None or not allowed:
            return allowed
        priority = {node: node_priority(rankings, node) for node in allowed}
        highest = max(priority.values())
        return frozenset(node for node in allowed if priority[node] == highest)

    def affinity_conflict(self, group: MoveGroup, node: NodeId) -> str | None:
        """Return which guests, present or absent, make *node* infeasible, or None."""
        return _affinity_conflict(group, node, self._guests_on, self._rules)

    @cached_property
    def _guests_on(self) -> dict[NodeId, set[GuestId]]:
        """Guests on each node; a migrating guest is on two."""
        return _guests_by_node(self._snapshot, self._snapshot.nodes.keys())

    @cached_property
    def available_memory(self) -> dict[NodeId, AvailableMemory]:
        """Return the available memory of each node."""
        return available_memory(self._snapshot, self._limits)

    @cached_property
    def _available_space(self) -> dict[NodeId, Space]:
        """Free space of the storages of each node."""
        return available_space(self._snapshot)

    @cached_property
    def _loads(self) -> tuple[FurtherLoad, ...]:
        """Further loads that some node has a capacity of."""
        return compared_loads(self._snapshot, self._limits)

    @cached_property
    def _available_loads(self) -> dict[NodeId, AvailableLoads]:
        """Amounts of further loads that each node may still receive."""
        return available_loads(self._snapshot, self._loads)

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
            or _shortage(self.available_memory[node.id].minus(required))
            or self._space_shortage(group, node.id)
            or self._load_shortage(group, node.id)
        )

    def _load_shortage(self, group: MoveGroup, node: NodeId) -> str | None:
        """Return the further load that *group* must not add to *node*, or None."""
        if not self._loads:
            return None
        return load_shortage(group, self._loads, self._available_loads[node])

    def _space_shortage(self, group: MoveGroup, node: NodeId) -> str | None:
        """Return the storage of *node* without space for local disks, or None."""
        if not any(guest.disks for guest in group):
            return None
        required = required_space(group, self._snapshot.nodes)
        storages = self._snapshot.nodes[node].storages or ()
        unknown = {storage.id for storage in storages if storage.free is None}
        return space_shortage(required, self._available_space[node], unknown)

    def _find_incompatibility(
        self, group: MoveGroup, node: Node
    ) -> Callable[[], str] | None:
        """Return a function that describes why *node* is incompatible, or None."""
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
        """Return a function that describes why *node* is not allowed, or None."""
        leader = group[0].id
        describe = self._find_unsuited(group, node)
        if describe is not None:
            return describe
        if node.id not in self._rules.nodes.get(leader, (node.id,)):
            rule = partial(self._forbidding_rule, leader, node.id)
            return lambda: f'forbidden by the rule "{rule()}"'
        return None

    def _find_unsuited(self, group: MoveGroup, node: Node) -> Callable[[], str] | None:
        """Return a function that describes why *node* cannot run *group*, or None."""
        if not node.online:
            return lambda: f"node state {node.state}"
        for guest in group:
            architecture = self._snapshot.nodes[guest.node].architecture
            if None not in (architecture, node.architecture) and (
                architecture != node.architecture
            ):
                return lambda: f"node architecture {node.architecture}"
            if guest.cpu_model not in (None, node.cpu_model):
                return partial("node CPU model is not {}".format, guest.cpu_model)
            source = self._snapshot.nodes[guest.node].storages
            needed = needed_storages(guest.disks, source)
            if missing := missing_storages(needed, node.storages):
                return partial("node has no storage {}".format, min(missing))
        return None

    def _forbidding_rule(self, guest: GuestId, node: NodeId) -> NodeAffinity:
        """Return the rule that forbids *node* for *guest* or a member of its group."""
        members = self._rules.together.get(guest, frozenset({guest}))
        return next(
            rule
            for rule in self._strict_node_affinities
            if node not in rule.nodes and not rule.guests.isdisjoint(members)
        )

    @cached_property
    def _strict_node_affinities(self) -> tuple[NodeAffinity, ...]:
        return tuple(
            rule
            for rule in self._snapshot.rules
            if isinstance(rule, NodeAffinity) and rule.strict
        )


def _is_split(group: MoveGroup) -> bool:
    return any(guest.node != group[0].node for guest in group)


def _guests_by_node(
    snapshot: Snapshot, nodes: Collection[NodeId]
) -> dict[NodeId, set[GuestId]]:
    """Return the guests on each of *nodes*."""
    guests_on: dict[NodeId, set[GuestId]] = {name: set() for name in nodes}
    for name, guest in snapshot.guests.items():
        for node in guest.occupied_nodes:
            if node in guests_on:
                guests_on[node].add(name)
    return guests_on


def _affinity_conflict(
    group: MoveGroup,
    node: NodeId,
    present: Mapping[NodeId, set[GuestId]],
    rules: CompiledRules,
) -> str | None:
    """Return which guests, present or absent, make *node* infeasible, or None.

    Args:
        group: Guests that migrate as one.
        node: Node to which they would migrate.
        present: Guests on each node.
        rules: Compiled rules.
    """

    def guests_on(names: frozenset[GuestId], where: NodeId) -> frozenset[GuestId]:
        return names & present[where]

    for guest in group:
        conflicting = guests_on(rules.apart.get(guest.id, NO_GUESTS), node)
        if conflicting:
            return f"anti-affinity of {guest.id} to {_format_guests(conflicting)}"
    limits = {each for guest in group for each in rules.limits_of.get(guest.id, ())}
    for index in sorted(limits):
        detail = rules.domain_limits[index].conflict(group, node, present)
        if detail is not None:
            return detail
    members = {guest.id for guest in group}
    for guest in group:
        others = rules.soft_apart.get(guest.id, NO_GUESTS)
        conflicting = guests_on(others, node)
        if len(conflicting) > len(guests_on(others, guest.node)):
            return f"soft anti-affinity of {guest.id} to {_format_guests(conflicting)}"
        others = rules.soft_together.get(guest.id, NO_GUESTS) - members
        remaining = guests_on(others, guest.node)
        if len(remaining) > len(guests_on(others, node)):
            return f"soft affinity of {guest.id} to {_format_guests(remaining)}"
    return None


def _shortage(left: AvailableMemory) -> str | None:
    if left.measured is None or left.committed is None:
        return "memory of the node or the guest is unknown"
    if left.measured < 0:
        return f"insufficient memory: {-left.measured / GIB:.1f} GiB short"
    if left.committed < 0:
        return f"memory overcommitted by {-left.committed / GIB:.1f} GiB"
    if left.millicores is None:
        return "CPU limit and CPU usage of a guest are unknown"
    if left.millicores < 0:
        return f"CPU overcommitted by {-left.millicores / MILLICORES:g} cores"
    return None


def _format_guests(guests: Iterable[GuestId]) -> str:
    return format_list(sorted(guests), separator=" and ")


def restart_blocker(guest: Guest, node: Node) -> str | None:
    """Return why *guest* cannot start on another node when *node* fails, or None.

    A pin or a lock does not prevent a restart: the guest has no other choice. A guest
    that only lacks live migration restarts as well, unless a disk is on its node alone.
    A local disk is found by the storages of *node*. Where these are unknown, it is
    found by the sentence with which the platform explains the cold mobility.
    """
    local = {each.id for each in node.storages or () if each.shared is False}
    disks = sorted({disk.storage for disk in guest.disks or ()} & local)
    if disks:
        return f"disk on {disks[0]}, a storage of {node.id} alone"
    detail, mobility = guest.mobility_detail, guest.effective_mobility
    if mobility is Mobility.NONE:
        return detail or "not migratable"
    is_local = mobility is Mobility.COLD and _LOCAL_STORAGE.search(detail or "")
    return detail if is_local else None
