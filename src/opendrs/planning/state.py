"""State of the sequencing: free memory, guests on nodes, pending moves."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from opendrs.arrays import ClusterArrays, ResourceAmounts, domain_change
from opendrs.model import GuestId
from opendrs.planning.moves import NO_AMOUNTS, WITHOUT_SPACE, PendingMove, fits, plus


class SequencingState:
    """Cluster after the moves made so far, and the pending moves.

    Args:
        cluster: The cluster before the plan.
        free_memory: Free memory of its nodes; it is modified.
        moves: The moves; earlier ones have precedence.

    Attributes:
        cluster: The cluster before the plan.
        free_memory: Free memory of each node.
        guests_on: Guests with anti-affinity rules on each node.
        pending: Pending moves by name.
        arrivals: Pending moves to each node.
        departures: Pending moves from each node.
        expected: Bytes of measured memory of the pending moves to each node.
        free_places: Further guests that each domain with a limit may hold.
        completed: Moves that were made, in this order.
        changed: Nodes that have changed since this set was last cleared.
    """

    def __init__(
        self,
        cluster: ClusterArrays,
        free_memory: FreeMemory,
        moves: Iterable[PendingMove],
    ) -> None:
        self.cluster = cluster
        self.free_memory = free_memory
        self.guests_on = _GuestsOnNodes(cluster.anti_affine_guests)
        self.pending: dict[GuestId, PendingMove] = {}
        self.arrivals: defaultdict[int, list[PendingMove]] = defaultdict(list)
        self.departures: defaultdict[int, list[PendingMove]] = defaultdict(list)
        self.expected = array("d", bytes(8 * len(cluster.node_ids)))
        self.free_places = dict(cluster.free_places)
        self.completed: list[PendingMove] = []
        self.changed: set[int] = set()
        for move in moves:
            self._enqueue(move)

    def advance(self, nodes: Iterable[int]) -> None:
        """Make the possible moves to *nodes*, and then to the nodes that they leave.

        Memory that is freed in one round counts in the next, so that few moves depend
        on others.
        """
        while nodes:
            started = [
                move
                for node in sorted(nodes)
                for move in tuple(self.arrivals[node])
                if self._start(move)
            ]
            nodes = self._leave(started)

    def try_move(self, move: PendingMove) -> bool:
        """Make *move* if it is possible, and no other; return whether it was made."""
        started = self._start(move)
        if started:
            self._leave([move])
        return started

    def make_detour(self, move: PendingMove, staging_node: int) -> None:
        """Move the guests of *move* to *staging_node*, and on from there later."""
        self.drop(move)
        detour, rest = move.group_move.split_via(self.cluster.node_ids[staging_node])
        first = PendingMove(detour, self.cluster, is_detour=True)
        self._arrive(first)
        self._enqueue(PendingMove(rest, self.cluster, from_detour=True))
        self.advance(self._leave([first]) | {move.target})

    def drop(self, move: PendingMove) -> None:
        """Remove *move* from the pending moves."""
        del self.pending[move.name]
        self.arrivals[move.target].remove(move)
        self.expected[move.target] -= move.required[0]
        for node in move.sources:
            self.departures[node].remove(move)
        self.changed |= {move.target, *move.sources}

    def violates_anti_affinity(self, move: PendingMove, node: int) -> bool:
        """Return whether a guest with anti-affinity to *move* is on *node*."""
        return bool(move.anti_affine) and not move.anti_affine.isdisjoint(
            self.guests_on[node]
        )

    def exceeds_domain(self, move: PendingMove, node: int) -> bool:
        """Return whether a domain of *node* would hold too many guests with *move*."""
        change = move.in_domains
        if change.arrivals or change.departures:
            if node != move.target:
                target = self.cluster.node_ids[node]
                guests = move.group_move.guests
                change = domain_change(self.cluster.rules, guests, target)
            return any(
                count > self.free_places[domain]
                for domain, count in change.arrivals.items()
            )
        return False

    def can_arrive_eventually(self, move: PendingMove) -> bool:
        """Return whether *move* fits on its target after all pending moves.

        All pending arrivals must fit: otherwise none of them can rely on it.
        """
        initial = arrived = required = NO_AMOUNTS
        staying = set(self.guests_on[move.target])
        for other in self.departures[move.target]:
            for node, guest, freed in other.freed:
                if node == move.target:
                    staying.discard(guest)
                    if other.from_detour:
                        arrived = plus(arrived, freed)
                    else:
                        initial = plus(initial, freed)
        for other in self.arrivals[move.target]:
            required = plus(required, other.required)
        available = self.free_memory.free(move.target, initial, arrived)
        return (
            fits(required, available)
            and staying.isdisjoint(move.anti_affine)
            and self._has_places_eventually(move)
        )

    def _has_places_eventually(self, move: PendingMove) -> bool:
        """Return whether the limits of domains hold after all pending moves."""
        return all(
            self.free_places[domain]
            + sum(
                len(each.in_domains.departures.get(domain, ()))
                - each.in_domains.arrivals.get(domain, 0)
                for each in self.pending.values()
            )
            >= 0
            for domain in move.in_domains.arrivals
        )

    def _start(self, move: PendingMove) -> bool:
        """Make *move* if it is possible; return whether it was made."""
        if not fits(move.required, self.free_memory.free(move.target)):
            return False
        if self.violates_anti_affinity(move, move.target):
            return False
        if self.exceeds_domain(move, move.target):
            return False
        self.drop(move)
        self._arrive(move)
        return True

    def _arrive(self, move: PendingMove) -> None:
        self.completed.append(move)
        self.free_memory.reserve(move.target, move.required)
        self._admit(move.target, move.guests)
        for domain, count in move.in_domains.arrivals.items():
            self.free_places[domain] -= count
        self.changed.add(move.target)

    def _leave(self, moves: Sequence[PendingMove]) -> set[int]:
        """Free the memory that *moves* have left; return the source nodes."""
        nodes = set()
        for move in moves:
            for node, guest, freed in move.freed:
                self.free_memory.release(node, freed, initial=not move.from_detour)
                self.guests_on[node].discard(guest)
                nodes.add(node)
            nodes |= self._free_domains(move)
        self.changed |= nodes
        return nodes

    def _free_domains(self, move: PendingMove) -> set[int]:
        """Free the places that *move* leaves; return the targets that wait for one."""
        left = move.in_domains.departures
        for domain, guests in left.items():
            self.free_places[domain] += len(guests)
        if not left:
            return set()
        return {
            each.target
            for each in self.pending.values()
            if not each.in_domains.arrivals.keys().isdisjoint(left)
        }

    def _enqueue(self, move: PendingMove) -> None:
        self.pending[move.name] = move
        self.arrivals[move.target].append(move)
        self.expected[move.target] += move.required[0]
        for node in move.sources:
            self.departures[node].append(move)
        self.changed |= {move.target, *move.sources}

    def _admit(self, node: int, guests: Iterable[GuestId]) -> None:
        apart = self.cluster.rules.apart
        self.guests_on[node].update(name for name in guests if name in apart)


class _GuestsOnNodes(dict[int, set[GuestId]]):
    """Guests by node, copied from *initial* for the nodes that are looked at."""

    def __init__(self, initial: Mapping[int, Collection[GuestId]]) -> None:
        super().__init__()
        self._initial = initial

    def __missing__(self, node: int) -> set[GuestId]:
        guests = self[node] = set(self._initial.get(node, ()))
        return guests


Column: TypeAlias = "array[float]"


class FreeMemory:
    """Free memory, virtual cores and space of each node, while guests come and go.

    Memory freed by guests that were there from the beginning is limited to the usable
    memory of the node, because a guest may seem to use more than its node. An arriving
    guest takes the memory that it requires, and frees the same amount when it leaves.
    Amounts are whole bytes, so that results do not depend on the order of additions.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: ClusterArrays) -> None:
        limits_cpu = cluster.limits_cpu
        self._initial = _columns(cluster.available, limits_cpu=limits_cpu)
        self._usable = _columns(cluster.usable, limits_cpu=limits_cpu)
        empty = np.zeros_like(cluster.usable)
        self._reserved = _columns(empty, limits_cpu=limits_cpu)
        self._has_space = len(self._initial) > WITHOUT_SPACE

    def free(
        self,
        node: int,
        initial: ResourceAmounts = NO_AMOUNTS,
        arrived: ResourceAmounts = NO_AMOUNTS,
    ) -> ResourceAmounts:
        """Return the free memory of *node* after guests have left.

        Args:
            node: Index of the node.
            initial: Memory freed by guests that were there from the beginning.
            arrived: Memory freed by guests that have arrived since.
        """
        if self._has_space:
            return self._free_with_space(node, initial, arrived)
        measured, committed, cpu = self._initial
        max_measured, max_committed, max_cpu = self._usable
        taken_measured, taken_committed, taken_cpu = self._reserved
        return (
            min(measured[node] + initial[0], max_measured[node])
            - taken_measured[node]
            + arrived[0],
            min(committed[node] + initial[1], max_committed[node])
            - taken_committed[node]
            + arrived[1],
            min(cpu[node] + initial[2], max_cpu[node]) - taken_cpu[node] + arrived[2],
        )

    def _free_with_space(
        self, node: int, initial: ResourceAmounts, arrived: ResourceAmounts
    ) -> ResourceAmounts:
        """Return the same, with the space of storages."""
        missing = (0.0,) * (len(self._initial) - WITHOUT_SPACE)
        columns = zip(
            self._initial,
            self._usable,
            self._reserved,
            (*initial, *missing),
            (*arrived, *missing),
            strict=False,
        )
        return tuple(
            min(base[node] + left, most[node]) - taken[node] + freed
            for base, most, taken, left, freed in columns
        )

    def reserve(self, node: int, required: ResourceAmounts) -> None:
        """Reserve *required* on *node*."""
        for reserved, amount in zip(self._reserved, required, strict=True):
            reserved[node] += amount

    def release(self, node: int, freed: ResourceAmounts, *, initial: bool) -> None:
        """Free *freed* on *node*.

        Args:
            node: Index of the node.
            freed: Freed memory.
            initial: Whether the guest was there from the beginning.
        """
        for resource, amount in enumerate(freed):
            if initial:
                base, maximum = self._initial[resource], self._usable[resource]
                base[node] = min(base[node] + amount, maximum[node])
            else:
                self._reserved[resource][node] -= amount

    def max_free(self) -> float:
        """Return the largest measured free memory of any node."""
        return float(
            (np.frombuffer(self._initial[0]) - np.frombuffer(self._reserved[0])).max()
        )

    def surplus(
        self, nodes: npt.NDArray[np.intp], expected: array[float]
    ) -> npt.NDArray[np.float64]:
        """Return the measured free memory of *nodes* less the *expected* arrivals."""
        free = np.frombuffer(self._initial[0]) - np.frombuffer(self._reserved[0])
        surplus: npt.NDArray[np.float64] = (free - np.frombuffer(expected))[nodes]
        return surplus

    def nodes_with(self, required: ResourceAmounts) -> npt.NDArray[np.intp]:
        """Return the indices of the nodes with at least *required* free memory."""
        suffices = [
            np.frombuffer(base) - np.frombuffer(reserved) >= amount
            for base, reserved, amount in zip(
                self._initial, self._reserved, required, strict=True
            )
        ]
        return np.flatnonzero(np.logical_and.reduce(suffices))


def _columns(
    amounts: npt.NDArray[np.float64], *, limits_cpu: bool
) -> tuple[Column, ...]:
    """Return memory and space in whole bytes, and committed CPU in millicores.

    The latter is 0 if no node limits it, as what guests require is.
    """
    columns = [array("d", each) for each in np.floor(amounts).T.tolist()]
    cpu = [] if limits_cpu else [array("d", bytes(8 * len(amounts)))]
    return (*columns[:2], *cpu, *columns[2:])
