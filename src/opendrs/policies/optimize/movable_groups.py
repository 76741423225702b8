"""Move groups that may migrate, and the reasons why other guests stay.

Guests with a strict affinity are one move group. If they run on several nodes, the rule
is violated, and its repair is to gather them. The home of such a group is the best of
its nodes. Guests elsewhere migrate there if the group does not move to another node.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opendrs.arrays import (
    ClusterArrays,
    MobilityFilter,
    MoveGroup,
    SkippedGuest,
    SkipReason,
    move_groups,
    skip_reasons,
)
from opendrs.metrics import LoadModel, demand
from opendrs.model import (
    GIB,
    NO_RESOURCES,
    Affinity,
    Guest,
    GuestId,
    Limits,
    Node,
    NodeId,
    Snapshot,
    format_list,
)
from opendrs.planning import migration_costs
from opendrs.rules import (
    CompiledRules,
    drained_nodes,
    required_memory,
    required_space,
)


class GroupTarget:
    """Selection of the home of move groups.

    Attributes:
        feasibility: Feasible nodes of guests.

    Args:
        cluster: Nodes with a known load.
        load_model: Load that counts.
        fewest_migrations: True to prefer the home with the fewest migrations to that
            with the best balance.
    """

    def __init__(
        self,
        cluster: ClusterArrays,
        load_model: LoadModel,
        *,
        fewest_migrations: bool = False,
    ) -> None:
        self.feasibility = cluster.feasibility
        self._snapshot = cluster.snapshot
        self._nodes = cluster.snapshot.nodes
        self._cluster = cluster
        self._fewest_migrations = fewest_migrations
        self._load_model = load_model
        self._loads = cluster.loads
        known = self._loads.values()
        cpu = sum(each.usage.cpu for each in known)
        memory = sum(each.usage.memory for each in known)
        # Balanced load, as a fraction of the capacity.
        self._cpu = cpu / (sum(each.capacity.cpu for each in known) or 1.0)
        self._memory = memory / (sum(each.capacity.memory for each in known) or 1.0)

    def architectures(self, nodes: Iterable[NodeId]) -> frozenset[str]:
        """Return the known architectures of *nodes*."""
        known = (self._nodes[name].architecture for name in nodes)
        return frozenset(each for each in known if each is not None)

    def best_home(self, group: MoveGroup) -> NodeId:
        """Return the node of *group* that holds all of it with the least imbalance.

        Among equals it is the one with the least migration cost. The number of
        migrations comes before the imbalance if the fewest are requested.
        """

        def rank(node: NodeId) -> tuple[int, int, float, float, NodeId]:
            displaced = tuple(guest for guest in group if guest.node != node)
            closed = self.feasibility.rejection(displaced, node) is not None
            imbalance = round(self._imbalance(group, node), 9)
            migrations = len(displaced) if self._fewest_migrations else 0
            cost = float(migration_costs(displaced, self._cluster).sum())
            return int(closed), migrations, imbalance, cost, node

        return min({guest.node for guest in group}, key=rank)

    def transfer(self, guests: Iterable[Guest]) -> float:
        """Return the memory and disks that migrating *guests* transfers, in GiB."""
        return sum(self._snapshot.transfer_size(guest.id) for guest in guests) / GIB

    def _imbalance(self, group: MoveGroup, home: NodeId) -> float:
        """Return the imbalance of the nodes of *group* with all of it on *home*."""
        loads = {name: self._loads.get(name) for name in {g.node for g in group}}
        for guest in group:
            required = demand(guest, self._load_model) or NO_RESOURCES
            here, there = loads[guest.node], loads[home]
            if guest.node == home or here is None or there is None:
                continue
            loads[guest.node] = here.without_guest(required)
            loads[home] = there.with_guest(required)
        return sum(
            (each.cpu / (self._cpu or 1.0) - 1) ** 2
            + (each.memory / (self._memory or 1.0) - 1) ** 2
            for each in loads.values()
            if each is not None
        )


OVER_BUDGET = SkippedGuest(
    SkipReason.OVER_BUDGET,
    "gathering its move group exceeds the budget",
)


@dataclass(frozen=True, slots=True)
class EncodedGroup:
    """Guests that share a node after the plan.

    Attributes:
        guests: Guests of the group that can migrate.
        home: Node of the group, on which it is gathered if it is on several.
        is_free: True if the group may run on nodes other than its home.
        gather_transfer: What gathering the group at home transfers, in GiB.
    """

    guests: MoveGroup
    home: NodeId
    is_free: bool = True
    gather_transfer: float = 0.0

    @property
    def displaced(self) -> MoveGroup:
        """Guests that are not at home."""
        return tuple(guest for guest in self.guests if guest.node != self.home)


@dataclass(frozen=True, slots=True)
class MovableGroups:
    """Move groups that may migrate, and skipped guests.

    Attributes:
        groups: Groups that may migrate, in order of name.
        skipped: Reason of each skipped guest; stopped guests are absent.
        immovable: Skipped guests that may not migrate in any plan.
    """

    groups: tuple[EncodedGroup, ...]
    skipped: Mapping[GuestId, SkippedGuest]
    immovable: frozenset[GuestId]

    @property
    def fixed(self) -> frozenset[GuestId]:
        """Guests that may not migrate, whatever becomes of contradictory rules."""
        return frozenset(
            name
            for name in self.immovable
            if name in self.skipped
            and self.skipped[name].reason is not SkipReason.CONTRADICTORY_RULES
        )

    def within(self, gib: float, migrations: float) -> MovableGroups:
        """Return the groups without those that exceed this budget when gathered."""
        scattered = [group for group in self.groups if group.displaced]
        if not scattered:
            return self
        kept = [group for group in self.groups if not group.displaced]
        skipped = dict(self.skipped)
        for group in sorted(scattered, key=lambda each: each.gather_transfer):
            gib -= group.gather_transfer
            migrations -= len(group.displaced)
            if gib >= 0 and migrations >= 0:
                kept.append(group)
                continue
            gib += group.gather_transfer
            migrations += len(group.displaced)
            skipped.update({guest.id: OVER_BUDGET for guest in group.guests})
        ordered = tuple(sorted(kept, key=_group_name))
        return MovableGroups(ordered, skipped, self.immovable)


def movable_groups(
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    selection: MobilityFilter,
    *,
    fewest_migrations: bool = False,
) -> MovableGroups:
    """Return the groups of *snapshot* that may migrate, at any cost.

    Args:
        snapshot: Cluster.
        rules: Compiled rules.
        limits: Limits of the operator.
        selection: Guests that may migrate.
        fewest_migrations: True to gather groups with the fewest migrations, otherwise
            with the best balance.
    """
    skipped = skip_reasons(snapshot, rules, limits, selection)
    immovable = frozenset(skipped)
    load_model = selection.load_model
    cluster = ClusterArrays(snapshot, rules, limits, load_model=load_model)
    group_target = GroupTarget(cluster, load_model, fewest_migrations=fewest_migrations)
    groups: list[EncodedGroup] = []
    for guests in move_groups(snapshot, rules):
        if len(guests) == 1 and guests[0].id not in skipped:
            groups.append(EncodedGroup(guests, guests[0].node))
            continue
        stuck = [guest for guest in guests if guest.id in skipped]
        group, reason = _encode_group(guests, stuck, skipped, group_target)
        if group is not None:
            groups.append(group)
        moving = () if group is None else group.guests
        for guest in guests:
            if reason is not None and guest not in moving:
                skipped.setdefault(guest.id, reason)
    return MovableGroups(tuple(groups), skipped, immovable)


def _encode_group(
    guests: MoveGroup,
    stuck: list[Guest],
    skipped: Mapping[GuestId, SkippedGuest],
    group_target: GroupTarget,
) -> tuple[EncodedGroup | None, SkippedGuest | None]:
    """Return *guests* as a group, and why some of it stay; one may be None."""
    nodes = {guest.node for guest in guests}
    architectures = sorted(group_target.architectures(nodes))
    if len(architectures) > 1:
        listed = format_list(architectures)
        detail = f"its group is on nodes of different architectures: {listed}"
        return None, SkippedGuest(SkipReason.NO_COMMON_NODE, detail)
    if not stuck:
        if len(nodes) == 1:
            return EncodedGroup(guests, guests[0].node), None
        home = group_target.best_home(guests)
        displaced = tuple(guest for guest in guests if guest.node != home)
        transfer = group_target.transfer(displaced)
        return EncodedGroup(guests, home, gather_transfer=transfer), None
    fixed_nodes = {guest.node for guest in stuck}
    names = format_list([guest.id for guest in stuck], separator=" and ")
    detail = f"it moves only with {names}: {skipped[stuck[0].id].detail}"
    reason = SkippedGuest(SkipReason.GROUP_MEMBER_SKIPPED, detail)
    if len(nodes) == 1 or len(fixed_nodes) > 1:
        return None, reason
    (home,) = fixed_nodes
    displaced = tuple(guest for guest in guests if guest.node != home)
    closed = group_target.feasibility.rejection(displaced, home)
    if closed is not None:
        detail = f"it must be with {names} on {home}, and {closed}"
        return None, SkippedGuest(SkipReason.NO_COMMON_NODE, detail)
    transfer = group_target.transfer(displaced)
    group = EncodedGroup(displaced, home, is_free=False, gather_transfer=transfer)
    return group, reason


def _group_name(group: EncodedGroup) -> GuestId:
    return group.guests[0].id


def movable_units(
    snapshot: Snapshot,
    groups: MovableGroups,
    nodes: Collection[NodeId],
    *,
    among: Collection[GuestId] | None = None,
) -> Iterator[EncodedGroup]:
    """Yield the guests that may migrate, each with those that must move with it.

    Their home is where they are. A guest without a way to be gathered with its group
    may still move alone. One whose memory, CPU or local disks are of unknown size
    stays.

    Args:
        snapshot: Cluster.
        groups: Its move groups.
        nodes: Nodes with metrics.
        among: Guests of which each unit has one; None for all units.
    """
    fixed = groups.fixed
    for unit in units_of(snapshot, among):
        if unit[0].node in nodes and fixed.isdisjoint(each.id for each in unit):
            required = required_memory(unit)
            amounts = required.measured, required.committed, required.millicores
            if None not in amounts and _has_known_space(unit, snapshot.nodes):
                yield EncodedGroup(unit, unit[0].node)


def departing_groups(
    snapshot: Snapshot, groups: MovableGroups, nodes: Collection[NodeId]
) -> Sequence[EncodedGroup]:
    """Return the groups whose load a plan can take off drained nodes.

    They are *groups* if no node is drained. Otherwise guests of no group count as well,
    which may leave alone.

    Args:
        snapshot: Cluster.
        groups: Its move groups.
        nodes: Nodes with metrics.
    """
    if not drained_nodes(snapshot):
        return groups.groups
    return [*movable_units(snapshot, groups, nodes)]


def _has_known_space(unit: MoveGroup, nodes: Mapping[NodeId, Node]) -> bool:
    """Return True if the sizes of all local disks of *unit* are known."""
    if not any(guest.disks for guest in unit):
        return True
    return math.inf not in required_space(unit, nodes).values()


def units_of(
    snapshot: Snapshot, among: Collection[GuestId] | None = None
) -> Iterator[MoveGroup]:
    """Yield the active guests, those together that a kept affinity rule binds.

    Args:
        snapshot: Cluster.
        among: Guests of which each unit has one; None for all units.
    """
    guests = snapshot.guests
    bound: dict[GuestId, set[GuestId]] = {}
    for rule in snapshot.rules:
        if not (isinstance(rule, Affinity) and rule.strict):
            continue
        members = [guests[name] for name in rule.guests if name in guests]
        active = [guest for guest in members if guest.is_active]
        if len({guest.occupied_nodes for guest in active}) == 1:
            merged = set().union(*(bound.get(each.id, {each.id}) for each in active))
            bound.update(dict.fromkeys(merged, merged))
    names = guests if among is None else among & guests.keys()
    first = {min(bound[name]) if name in bound else name for name in names}
    for name in sorted(first):
        if guests[name].is_active:
            yield tuple(guests[each] for each in sorted(bound.get(name, (name,))))
