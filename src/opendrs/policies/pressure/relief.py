"""Who is helped, who of those in trouble is not, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from opendrs.model import GIB, GuestId, Snapshot, first_few
from opendrs.policies.board import Board
from opendrs.policies.closed import closed_nodes
from opendrs.policies.outlook import MOST_TOLD
from opendrs.policies.passage import Journey
from opendrs.policies.pressure.places import Places
from opendrs.policies.pressure.trouble import (
    Bounds,
    Trouble,
    crowded,
    judged,
    ranked,
    subjects,
)
from opendrs.scoring import AhpMethod


class Relief:
    """The search for a guest in trouble that finds a place.

    Args:
        board: The cluster.
        bounds: From when on a guest is in trouble.
        resting: Why guests that could move are left alone all the same.
    """

    def __init__(
        self, board: Board, bounds: Bounds, resting: Mapping[GuestId, str]
    ) -> None:
        self._board, self._resting = board, resting
        self._places = Places(board, bounds)
        self._unit_of = {
            guest.id: index
            for index in range(len(board.columns.demand))
            for guest in board.members(index)
        }
        self.stuck: list[Trouble] = []
        self._alone: defaultdict[str, list[str]] = defaultdict(list)

    def help(self, troubles: Sequence[Trouble], method: AhpMethod) -> Journey | None:
        """Return where the first guest, the worst off first, goes that has a place."""
        for trouble in ranked([t for t in troubles if self._may_move(t)], method):
            unit = self._unit_of[trouble.guest.id]
            target = self._places.target(unit)
            if target is not None:
                why = self._why(trouble, unit, target)
                members, node = self._board.members(unit), self._board.nodes[target]
                return Journey(members, node, why)
            self.stuck.append(trouble)
        return None

    def told(self) -> tuple[str, ...]:
        """Return who of those in trouble is not helped, and why."""
        alone = (
            f"in trouble, and left alone: {first_few(names)}: {why}"
            for why, names in self._alone.items()
        )
        nowhere = (
            f"in trouble, and nowhere to go: {trouble.guest.id}: "
            f"{self._places.dead_end(self._unit_of[trouble.guest.id])}"
            for trouble in self.stuck[:MOST_TOLD]
        )
        left = len(self.stuck) - MOST_TOLD
        more = [f"in trouble, and nowhere to go: {left} more"] if left > 0 else []
        return *alone, *nowhere, *more

    def _may_move(self, trouble: Trouble) -> bool:
        name = trouble.guest.id
        why = self._board.units.left_alone.get(name) or self._resting.get(name)
        if why is not None:
            self._alone[why].append(name)
        return why is None

    def _why(self, trouble: Trouble, unit: int, target: int) -> str:
        members = self._board.members(unit)
        cpu, memory = self._board.columns.demand[unit].tolist()
        way = f"from {trouble.guest.node} to {self._board.nodes[target]}"
        taken = f"takes {cpu:.2f} cores and {memory / GIB:.2f} GiB {way}"
        sentences = [trouble.why, f"{taken}, where it would best start"]
        if len(members) > 1:
            names = first_few([guest.id for guest in members], joint=" and ")
            sentences.append(f"{names} must stay together and move as one")
        closed = closed_nodes(self._places.nearer(unit, target))
        return "; ".join([*sentences, *closed])


def measures(snapshot: Snapshot, bounds: Bounds) -> dict[str, float]:
    """Return the measures of a cluster by name, as far as they are known.

    How many guests wait for cpu too long, how many are on nodes short of memory,
    and the most that is waited and used.
    """
    nodes = [node for node in snapshot.nodes.values() if judged(node)]
    if not nodes:
        return {}
    guests = subjects(snapshot)
    waits = [w for guest in guests if (w := guest.pressure.cpu.some) is not None]
    short = {node.id for node in nodes if crowded(node, bounds)}
    parts = [
        node.usage.memory / node.capacity.memory
        for node in nodes
        if node.capacity is not None and node.usage.memory is not None
    ]
    found: dict[str, float] = {
        "waiting_guests": sum(wait > bounds.cpu_pressure for wait in waits),
        "crowded_guests": sum(guest.node in short for guest in guests),
        "highest_memory": max(parts),
    }
    if waits:
        found["highest_cpu_pressure"] = max(waits)
    return found


def unknown(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what is not known of *snapshot* that would tell of trouble."""
    dark = sorted(n.id for n in snapshot.nodes.values() if n.online and not judged(n))
    unmerged = sorted(
        node.id
        for node in snapshot.nodes.values()
        if judged(node) and node.ksm_shared is None
    )
    silent = [g.id for g in subjects(snapshot) if g.pressure.cpu.some is None]
    lines = (
        (dark, "not measured, so that nobody there is judged"),
        (silent, "how long it waits for cpu is not known"),
        (unmerged, "how much memory is merged (KSM) is not known"),
    )
    return tuple(f"{first_few(names)}: {why}" for names, why in lines if names)
