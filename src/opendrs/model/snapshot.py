"""State of a cluster at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import TypeVar

from opendrs.errors import ModelError, UnknownGuestError, UnknownNodeError
from opendrs.model.disk_copies import copied_size, copy_disks
from opendrs.model.disk_moves import finish_disk_move, start_disk_move
from opendrs.model.guest import Guest
from opendrs.model.identifiers import GuestId, NodeId
from opendrs.model.node import Node, NodeState
from opendrs.model.plan import (
    Action,
    DiskMove,
    PowerOff,
    PowerOn,
    Relocation,
    Transfer,
)
from opendrs.model.resources import MAX_AMOUNT, UNKNOWN_PRESSURE, LoadAmounts, Usage
from opendrs.model.rule import Rule

Amount = TypeVar("Amount", int, float)

# Each action makes a new snapshot, so all guests are checked at once.
_NODE, _MIGRATING_TO = attrgetter("node"), attrgetter("migrating_to")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of a cluster at one instant: the complete input of a decision.

    Attributes:
        taken_at: Time of the observation, time zone aware.
        nodes: All nodes by id.
        guests: All guests by id.
        rules: Placement rules, in the order of the operator.
        bandwidth: Bytes per second of recent live migrations over the link of one node;
            None if unknown.

    Raises:
        ModelError: A guest is on, or migrates to, a node that is not in the snapshot,
            or the time has no time zone.
    """

    taken_at: datetime
    nodes: Mapping[NodeId, Node]
    guests: Mapping[GuestId, Guest]
    rules: tuple[Rule, ...] = ()
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        if self.taken_at.tzinfo is None:
            raise ModelError(f"taken_at: expected a time zone, got {self.taken_at}")
        guests = self.guests.values()
        named = {*map(_NODE, guests), *map(_MIGRATING_TO, guests)}
        if named - {None} <= self.nodes.keys():
            return
        for guest in guests:
            if guest.node not in self.nodes:
                raise ModelError(f"{guest.id}: node {guest.node} is not in the cluster")
            if guest.migrating_to is not None and guest.migrating_to not in self.nodes:
                raise ModelError(
                    f"{guest.id}: migration target {guest.migrating_to} is not in "
                    "the cluster"
                )

    def apply(self, *actions: Action) -> Snapshot:
        """Return the cluster after *actions* are done, in this order.

        A guest is assumed to use the same amounts on the target as on the source. Its
        busy cores are added to the load average of the target and removed from that of
        the source. A further load of a node is unknown afterwards if that of the guest
        is. The pressure of both nodes and of the guest is unknown afterwards. A
        powered-on node is assumed to use nothing, and so is a stopped guest. Local
        disks of a guest are on the target, and occupy space there. A moved disk
        occupies its new storage.

        Raises:
            UnknownGuestError: A guest is not in the snapshot.
            UnknownNodeError: A node is not in the snapshot.
            ModelError: A guest is not on the source, or a disk not on its storage.
        """
        nodes, guests = dict(self.nodes), dict(self.guests)
        for action in actions:
            if isinstance(action, PowerOn | PowerOff):
                node = _require_node(action.node, nodes)
                nodes[node.id] = _apply_power_action(node, action)
                continue
            guest = _migrating_guest(action, nodes, guests)
            if isinstance(action, DiskMove):
                guests[guest.id] = finish_disk_move(guest, action, nodes)
            else:
                if not isinstance(action, Relocation):
                    for name, sign in ((action.source, -1), (action.target, 1)):
                        nodes[name] = _add_usage(nodes[name], guest, sign)
                guest, *changed = copy_disks(
                    guest, nodes[action.source], nodes[action.target]
                )
                nodes.update({node.id: node for node in changed})
                guests[guest.id] = _place_guest(guest, action.target)
        return self._after_action(nodes, guests)

    def transfer_size(self, guest: GuestId) -> int:
        """Return the bytes that a migration of *guest* transfers.

        These are its memory in use and its local disks; unknown ones count 0.
        """
        there = self.guests[guest]
        return (there.usage.memory or 0) + copied_size(there, self.nodes[there.node])

    def transferred(self, action: Transfer) -> int:
        """Return the bytes that *action* copies; unknown ones count 0."""
        if not isinstance(action, DiskMove):
            return self.transfer_size(action.guest)
        disks = self.guests[action.guest].disks or ()
        return sum(disk.size or 0 for disk in disks if disk.name == action.disk)

    def with_in_flight(self, action: Transfer) -> Snapshot:
        """Return the cluster while *action* is in progress.

        A migrating guest then counts on both nodes, a moving disk on both storages.

        Raises:
            UnknownGuestError: The guest is not in the snapshot.
            UnknownNodeError: A node is not in the snapshot.
            ModelError: The guest is not on the source, or the disk not on its storage.
        """
        guest = _migrating_guest(action, self.nodes, self.guests)
        if isinstance(action, DiskMove):
            migrating = start_disk_move(guest, action)
        else:
            migrating = replace(guest, migrating_to=action.target)
        return self._after_action(self.nodes, {**self.guests, migrating.id: migrating})

    def _after_action(
        self, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
    ) -> Snapshot:
        """Return the cluster with *nodes* and *guests*, without a check of each guest.

        The check takes most of the time of an action, which has only known nodes.
        """
        changed = object.__new__(Snapshot)
        values = (self.taken_at, nodes, guests, self.rules, self.bandwidth)
        for field, value in zip(self.__slots__, values, strict=True):
            object.__setattr__(changed, field, value)
        return changed


def _migrating_guest(
    migration: Transfer, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
) -> Guest:
    guest = guests.get(migration.guest)
    if guest is None:
        raise UnknownGuestError(f"guest {migration.guest} is not in the cluster")
    for name in (migration.source, migration.target):
        _require_node(name, nodes)
    if guest.node != migration.source:
        raise ModelError(
            f"{guest.id}: expected on node {migration.source}, is on {guest.node}"
        )
    return guest


def _require_node(name: NodeId, nodes: Mapping[NodeId, Node]) -> Node:
    if name not in nodes:
        raise UnknownNodeError(f"node {name} is not in the cluster")
    return nodes[name]


def _apply_power_action(node: Node, action: PowerOn | PowerOff) -> Node:
    if isinstance(action, PowerOff):
        return replace(node, state=NodeState.OFFLINE)
    if node.state is not NodeState.OFFLINE:
        return replace(node, state=NodeState.ONLINE)
    return replace(node, state=NodeState.ONLINE, usage=Usage(0.0, 0))


def _place_guest(guest: Guest, target: NodeId) -> Guest:
    return replace(guest, node=target, migrating_to=None, pressure=UNKNOWN_PRESSURE)


def _add_usage(node: Node, guest: Guest, sign: int) -> Node:
    """Return *node* with the use of *guest* added (1) or removed (-1).

    It is unknown where that of the node or of the guest is.
    """
    usage = guest.usage
    return replace(
        node,
        usage=Usage(
            _add_amount(node.usage.cpu, usage.cpu, sign),
            _add_amount(node.usage.memory, usage.memory, sign),
        ),
        load_average=_add_amount(node.load_average, usage.cpu, sign),
        pressure=UNKNOWN_PRESSURE,
        loads=_add_loads(node.loads, guest.loads, sign),
    )


def _add_loads(loads: LoadAmounts, amounts: LoadAmounts, sign: int) -> LoadAmounts:
    """Return *loads* with *amounts* added or removed; absent where one is unknown."""
    if not loads:
        return loads
    return {
        name: total
        for name, amount in loads.items()
        if (total := _add_amount(amount, amounts.get(name), sign)) is not None
    }


def _add_amount(
    value: Amount | None, amount: Amount | None, sign: int
) -> Amount | None:
    if value is None or amount is None:
        return None
    return min(max(value + sign * amount, 0), MAX_AMOUNT)
