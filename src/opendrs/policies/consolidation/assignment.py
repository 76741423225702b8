"""Assignment of guests to nodes while moves are selected, with undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from opendrs.arrays import AssignmentState
from opendrs.policies.consolidation.detector import OverloadCounters
from opendrs.policies.consolidation.history import Floats, Integers, LoadHistories, Mask
from opendrs.policies.consolidation.input import (
    TIE_BREAK_DIGITS,
    GuestArrays,
    NodeArrays,
    TargetFilter,
)
from opendrs.policies.consolidation.power_curve import power_draw
from opendrs.policies.consolidation.settings import DetectorSettings, PlacementStrategy

UNPLACED = -1  # row of the node of a guest that was removed and not placed yet


@dataclass(frozen=True, slots=True)
class NodeMove:
    """Move of one guest from one node to another, as row indices."""

    guest: int
    source: int
    target: int


class NodeAssignment(AssignmentState):
    """Node of each guest, including the moves selected so far.

    Attributes:
        cpu_demand: Mean CPU of each guest over the last samples; shape (guests,).
        cpu_usage: CPU in use on each node; shape (nodes,).
        guest_count: Number of guests on each node, immovable ones excluded.
        powered_on: Nodes that have to be powered on for these moves.
    """

    def __init__(
        self,
        averaging_window: int,
        node_arrays: NodeArrays,
        guest_arrays: GuestArrays,
        target_filter: TargetFilter,
    ) -> None:
        """Compute the initial sums per node.

        Args:
            averaging_window: Number of samples over which the demand of a guest
                is averaged.
            node_arrays: The nodes.
            guest_arrays: The guests.
            target_filter: Nodes that rules and hardware allow for each guest.
        """
        super().__init__(
            guest_arrays.node_of,
            guest_arrays.required,
            node_arrays.available,
            node_arrays.usable,
        )
        self.node_arrays, self.guest_arrays, self.target_filter = (
            node_arrays,
            guest_arrays,
            target_filter,
        )
        hosts, width = node_arrays.base_load.shape
        self.cpu_demand = recent_mean(
            guest_arrays.samples, guest_arrays.lengths, averaging_window
        )
        base_load_lengths = np.where(node_arrays.measured, width, 0)
        self.cpu_usage = np.bincount(
            guest_arrays.node_of, self.cpu_demand, hosts
        ) + recent_mean(node_arrays.base_load, base_load_lengths, averaging_window)
        self.guest_count = np.bincount(guest_arrays.node_of, minlength=hosts)
        self.powered_on = np.zeros(hosts, np.bool_)

    def usage_history(self) -> Floats:
        """Return the CPU in use on each node, per sample; shape (nodes, samples).

        The current assignment is applied to all past samples.
        """
        return self.node_arrays.base_load + sum_by_node(
            self.guest_arrays.samples, self.node_of, len(self.guest_count)
        )

    def guests_on(self, host: int) -> Integers:
        """Return the guests that are assigned to *host* now."""
        return np.flatnonzero(self.node_of == host)

    def place(self, guest: int, target: int) -> Callable[[], None]:
        """Move *guest* to *target*; return a function that undoes it."""
        was_powered_on = self.powered_on[target]
        undo = super().place(guest, target)

        def undo_all() -> None:
            undo()
            self.powered_on[target] = was_powered_on

        return undo_all

    def remove(self, guest: int) -> None:
        """Remove *guest* from its node without a target."""
        source = int(self.node_of[guest])
        self.node_of[guest] = UNPLACED
        self.cpu_usage[source] -= self.cpu_demand[guest]
        self.guest_count[source] -= 1

    def _move(self, guest: int, source: int, target: int) -> None:
        super()._move(guest, source, target)
        self.cpu_usage[source] -= self.cpu_demand[guest]
        self.cpu_usage[target] += self.cpu_demand[guest]
        self.guest_count[source] -= 1
        self.guest_count[target] += 1
        self.powered_on[target] |= self.node_arrays.can_power_on[target]
        self.target_filter.record_move(guest, target)


def recent_mean(samples: Floats, lengths: Integers, count: int) -> Floats:
    """Return the mean of the last *count* samples of each row, or of fewer."""
    total = samples[:, -count:].sum(axis=1)
    mean: Floats = total / np.clip(lengths, 1, count)
    return mean


def sum_by_node(samples: Floats, host: Integers, hosts: int) -> Floats:
    """Return the sum of the guests' *samples* on each node."""
    columns = [np.bincount(host, each, hosts) for each in samples.T]
    return np.stack(columns, axis=1) if columns else np.zeros((hosts, 0))


NODES_PER_BATCH = 8  # nodes whose history is evaluated together


class MovePurpose(Enum):
    """Reason why a guest migrates."""

    RELIEF = "relief"
    DRAIN = "drain"


class FilledAssignment(NodeAssignment):
    """Node of each guest, with the usage history and fill limits of each node.

    Attributes:
        usage_samples: CPU in use on each node, per sample; shape (nodes, samples).
        lengths: Number of valid samples in each row; shape (nodes,).
    """

    def __init__(
        self,
        settings: DetectorSettings,
        node_arrays: NodeArrays,
        guest_arrays: GuestArrays,
        target_filter: TargetFilter,
    ) -> None:
        super().__init__(
            settings.averaging_window, node_arrays, guest_arrays, target_filter
        )
        self.settings = settings
        self.usage_samples = self.usage_history()
        self.lengths = np.zeros(len(node_arrays.cpu), np.int64)
        np.maximum.at(self.lengths, guest_arrays.node_of, guest_arrays.lengths)
        self._overload_level = settings.overload_threshold * node_arrays.cpu
        self._fill_limits = {
            MovePurpose.DRAIN: settings.fill_target * node_arrays.cpu,
            MovePurpose.RELIEF: settings.relief_target * node_arrays.cpu,
        }

    def histories(self, hosts: Integers | None = None) -> LoadHistories:
        """Return the load of *hosts*, or of all nodes, as fractions of their CPU."""
        which = slice(None) if hosts is None else hosts
        parts = self.usage_samples[which] / self.node_arrays.cpu[which, None]
        return LoadHistories(parts, self.lengths[which])

    def find_target(
        self, guest: int, receiving: Mask, purpose: MovePurpose
    ) -> int | None:
        """Return the target of *guest*, or None if no node has capacity.

        Args:
            guest: Guest that migrates.
            receiving: Running nodes that may receive guests.
            purpose: Reason for the move. For relief, empty nodes may receive too,
                and nodes may be powered on.
        """
        fits = self._has_capacity(guest, purpose)
        occupied = (self.guest_count > 0) | self.node_arrays.has_immovable_guests
        running = receiving & fits
        tiers = [running & occupied]
        if purpose is MovePurpose.RELIEF:
            tiers += [
                running & ~occupied,
                self.node_arrays.can_power_on & ~self.powered_on & fits,
            ]
        for rank, tier in enumerate(tiers):
            hosts = np.flatnonzero(tier)
            if len(hosts):
                order = self._best_first(guest, hosts, purpose, empty=rank > 0)
                target = self._first_within_bound(guest, hosts[order])
                if target is not None:
                    return target
        return None

    def place(self, guest: int, target: int) -> Callable[[], None]:
        """Move *guest* to *target*; return a function that undoes it."""
        length = self.lengths[target]
        undo = super().place(guest, target)

        def undo_all() -> None:
            undo()
            self.lengths[target] = length

        return undo_all

    def remove(self, guest: int) -> None:
        """Remove *guest* from its node without a target."""
        self.usage_samples[int(self.node_of[guest])] -= self.guest_arrays.samples[guest]
        super().remove(guest)

    def _move(self, guest: int, source: int, target: int) -> None:
        super()._move(guest, source, target)
        self.usage_samples[source] -= self.guest_arrays.samples[guest]
        self.usage_samples[target] += self.guest_arrays.samples[guest]
        length = self.guest_arrays.lengths[guest]
        self.lengths[target] = max(self.lengths[target], length)

    def _has_capacity(self, guest: int, purpose: MovePurpose) -> Mask:
        fits = self.cpu_usage + self.cpu_demand[guest] <= self._fill_limits[purpose]
        fits &= self.has_resources(guest)
        fits[self.node_of[guest]] = False
        allowed = fits.any() and self.target_filter.allowed_targets(guest)
        return np.asarray(fits & allowed)

    def _best_first(
        self, guest: int, hosts: Integers, purpose: MovePurpose, *, empty: bool
    ) -> Integers:
        load, cpu = self.cpu_usage[hosts], self.node_arrays.cpu[hosts]
        if self.settings.placement is PlacementStrategy.POWER_AWARE:
            watts, curve = self.node_arrays.watts, self.node_arrays.curve_of[hosts]
            after = power_draw(watts, curve, (load + self.cpu_demand[guest]) / cpu)
            now = power_draw(watts, curve, np.clip(load / cpu, 0, 1))
            return np.argsort(np.round(after - now, TIE_BREAK_DIGITS), kind="stable")
        if empty:
            return np.lexsort((cpu, self.node_arrays.watts_per_core[hosts]))
        if (
            self.settings.placement is PlacementStrategy.SPREAD
            and purpose is MovePurpose.RELIEF
        ):
            return np.argsort(np.round(load / cpu, TIE_BREAK_DIGITS), kind="stable")
        remaining = np.round(self._fill_limits[purpose][hosts] - load, TIE_BREAK_DIGITS)
        return np.argsort(remaining, kind="stable")

    def _first_within_bound(self, guest: int, hosts: Integers) -> int | None:
        """Return the first of *hosts* that stays within the bound on overload."""
        if self.settings.max_overload_fraction >= 1:
            return int(hosts[0])
        added = self.guest_arrays.samples[guest]
        for start in range(0, len(hosts), NODES_PER_BATCH):
            batch = hosts[start : start + NODES_PER_BATCH]
            over = self.usage_samples[batch] + added > self._overload_level[batch, None]
            time = np.maximum(self.lengths[batch], self.guest_arrays.lengths[guest])
            within_bound = (
                over.sum(axis=1) <= self.settings.max_overload_fraction * time
            )
            if within_bound.any():
                return int(batch[np.argmax(within_bound)])
        return None


@dataclass(frozen=True, slots=True)
class MoveList:
    """Moves selected in one cycle.

    Attributes:
        relief: Moves off overloaded nodes, in this order.
        drains: Moves off each drained node, in the order of the drains.
        overloaded: True for nodes that are overloaded; shape (nodes,).
        counters: Updated counters of the detector.
        assignment: Node of each guest after all moves.
        risk: Fraction of time for which each node was expected to lack CPU before
            the moves; None without a forecast.
    """

    relief: list[NodeMove]
    drains: list[list[NodeMove]]
    overloaded: Mask
    counters: OverloadCounters
    assignment: NodeAssignment
    risk: Floats | None = None
