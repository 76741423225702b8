"""Emptying: taking all guests off hosts that have little to do.

The host with the least load goes first. All its guests find room on other
running hosts, or none leaves. A host that received a guest is not emptied
afterwards, and one that was emptied receives none, so nobody moves twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from opendrs.model import NodeId
from opendrs.policies.consolidation.guests import GuestLoad, HostRoom
from opendrs.policies.consolidation.histories import Integers, Truths
from opendrs.policies.consolidation.placement import Demands, Rooms, Targets


class Place(Protocol):
    """Finds a host for each guest, or None when they do not all fit."""

    def __call__(
        self, guests: Sequence[GuestLoad], hosts: Sequence[HostRoom]
    ) -> Targets | None:
        """Return where *guests* go among *hosts*."""


class Search(Protocol):
    """Finds a host for each guest in columns, or None when they do not all fit."""

    def __call__(self, demands: Demands, rooms: Rooms) -> Integers | None:
        """Return the host of each guest, as its place in *rooms*."""


def emptied(
    underloaded: Iterable[NodeId],
    hosts: Mapping[NodeId, HostRoom],
    guests: Mapping[NodeId, Sequence[GuestLoad]],
    place: Place,
    *,
    last_n: int = 2,
) -> dict[NodeId, Targets]:
    """Return where the guests of each host go that can be emptied.

    Args:
        underloaded: The hosts that should be emptied.
        hosts: The running hosts that may give and receive.
        guests: Who is on each of them; a host without guests receives none.
        place: How room is found.
        last_n: How many samples a guest's need is averaged over.

    Returns:
        The emptied hosts, in the order they are emptied in.
    """
    rooms, kept = dict(hosts), set[NodeId]()
    found: dict[NodeId, Targets] = {}
    for source in sorted(underloaded, key=lambda each: _rank(hosts[each])):
        if source in kept or not guests.get(source):
            continue
        others = [
            room
            for name, room in rooms.items()
            if name != source and name not in found and guests.get(name)
        ]
        targets = place(guests[source], others)
        if targets is not None and len(targets) == len(guests[source]):
            found[source] = targets
            kept.update(targets.values())
            for guest in guests[source]:
                _fill(rooms, targets[guest.id], guest, last_n)
    return found


def emptied_columns(
    underloaded: Truths, rooms: Rooms, demands: Demands, host: Integers, place: Search
) -> Integers:
    """Return where each guest goes, as `emptied` does; -1 for who stays.

    Args:
        underloaded: Whether each host should be emptied; shape (hosts,).
        rooms: What hosts have; those allowed give and receive.
        demands: What guests need.
        host: Where each guest is; shape (guests,).
        place: How room is found.
    """
    occupied = np.bincount(host, minlength=len(rooms.cpu)) > 0
    taking = rooms.allowed & rooms.awake & occupied
    cpu, memory = rooms.cpu_used.copy(), rooms.memory_used.copy()
    kept = ~(underloaded & taking)
    targets = np.full(len(host), -1, dtype=np.int64)
    for source in np.argsort(rooms.cpu_used / rooms.cpu, kind="stable"):
        if kept[source]:
            continue
        leaving = np.flatnonzero(host == source)
        others = taking & (np.arange(len(taking)) != source)
        found = place(
            Demands(demands.cpu[leaving], demands.memory[leaving]),
            replace(rooms, cpu_used=cpu, memory_used=memory, allowed=others),
        )
        if found is not None:
            targets[leaving], taking[source], kept[found] = found, False, True
            np.add.at(cpu, found, demands.cpu[leaving])
            np.add.at(memory, found, demands.memory[leaving])
    return targets


def _rank(host: HostRoom) -> tuple[float, NodeId]:
    return host.cpu_used / host.cpu, host.id


def _fill(
    rooms: dict[NodeId, HostRoom], target: NodeId, guest: GuestLoad, last_n: int
) -> None:
    room = rooms[target]
    rooms[target] = replace(
        room,
        cpu_used=room.cpu_used + (guest.demand(last_n) or 0.0),
        memory_used=room.memory_used + guest.memory,
    )
