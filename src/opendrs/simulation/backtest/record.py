"""Recorded load of a cluster: snapshots over time, as arrays.

Each snapshot holds until the next one. A snapshot that is followed by a gap holds for
one usual interval; nothing is known about the rest of the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

import numpy as np
import numpy.typing as npt

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import Guest, GuestId, Node, NodeId, Pressure, Rule, Snapshot, Usage

MIN_SNAPSHOTS = 2
GAP_FACTOR = 3.0  # a gap is longer than this many usual intervals

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RecordGap:
    """Time of which nothing was recorded.

    Attributes:
        start: Time from which on nothing is known.
        seconds: Seconds until the next snapshot.
    """

    start: datetime
    seconds: float


@dataclass(frozen=True, slots=True)
class _Instant:
    """One snapshot in a compact form.

    Attributes:
        nodes: The nodes as measured.
        rows: Row of each guest that exists, in the order of the snapshot.
        guests: Those guests without measurements; equal ones are one object.
        pressures: Their stalls; equal ones are one object.
        rules: The rules.
    """

    nodes: Mapping[NodeId, Node]
    rows: Indices
    guests: tuple[Guest, ...]
    pressures: tuple[Pressure, ...]
    rules: tuple[Rule, ...]


class LoadRecord:
    """Recorded snapshots of a cluster, in the order of time.

    Attributes:
        times: Time of each snapshot; T of them.
        offsets: The same in seconds from the first.
        holds: Seconds for which each snapshot holds; shape (T,).
        interval: Usual seconds between two snapshots: the median.
        gaps: Gaps between snapshots.
        node_ids: All nodes, N, by name.
        guest_ids: All guests, G, by name.
        usage: Cores and bytes used by each guest; NaN if unknown; shape (T, G, 2).
        active: True for guests that exist and are not stopped; shape (T, G).
        node_of: Recorded node of each guest; -1 for guests that do not exist; (T, G).
        capacity: Cores and bytes of each node, the last known ones; NaN if unknown;
            shape (T, N, 2).
        host_usage: Usage of each node without its measured guests; NaN if unknown;
            shape (T, N, 2). Of a node that is off, the last known one.

    Raises:
        ConfigurationError: There are fewer than two snapshots of different times.
    """

    def __init__(self, snapshots: Iterable[Snapshot], name: str) -> None:
        """Read *snapshots* in any order; of two at the same time, the later counts.

        Args:
            snapshots: The snapshots.
            name: Name of the record for errors.
        """
        interning = _Interning()
        entries = {each.taken_at: interning.compact(each) for each in snapshots}
        if len(entries) < MIN_SNAPSHOTS:
            raise ConfigurationError(
                f"{name}: expected at least {MIN_SNAPSHOTS} snapshots of different "
                f"times, got {len(entries)}",
                code=DiagnosticCode.INCOMPLETE,
            )
        self.times = tuple(sorted(entries))
        self._set_periods()
        self.guest_ids = tuple(sorted(interning.row_of))
        nodes = {node for entry, _ in entries.values() for node in entry.nodes}
        self.node_ids = tuple(sorted(nodes))
        self.node_index = {name: index for index, name in enumerate(self.node_ids)}
        self.guest_index = {name: index for index, name in enumerate(self.guest_ids)}
        # Rows were given in the order of appearance; they are in order of name now.
        final = np.array([self.guest_index[name] for name in interning.row_of], int)
        self._instants = tuple(
            replace(entries[time][0], rows=final[entries[time][0].rows])
            for time in self.times
        )
        shape = (len(self.times), len(self.guest_ids))
        self.usage: Floats = np.full((*shape, 2), np.nan)
        self._uptime: Floats = np.full(shape, np.nan)
        self._dirty_rate: Floats = np.full(shape, np.nan)
        self.active: Mask = np.zeros(shape, np.bool_)
        self.node_of: Indices = np.full(shape, -1, np.int64)
        for index, time in enumerate(self.times):
            self._fill_guests(index, entries[time][1])
        self._fill_nodes()

    def _set_periods(self) -> None:
        self.offsets = tuple(
            (time - self.times[0]).total_seconds() for time in self.times
        )
        steps = np.diff(np.array(self.offsets))
        self.interval = float(median(steps.tolist()))
        is_gap = steps > GAP_FACTOR * self.interval
        self.holds: Floats = np.append(
            np.where(is_gap, self.interval, steps), self.interval
        )
        usual = timedelta(seconds=self.interval)
        self.gaps = tuple(
            RecordGap(self.times[index] + usual, float(steps[index]) - self.interval)
            for index in np.flatnonzero(is_gap).tolist()
        )

    def _fill_guests(self, index: int, measured: Floats) -> None:
        instant = self._instants[index]
        rows = instant.rows
        self.usage[index, rows] = measured[:, :2]
        self._uptime[index, rows] = measured[:, 2]
        self._dirty_rate[index, rows] = measured[:, 3]
        self.active[index, rows] = [guest.is_active for guest in instant.guests]
        self.node_of[index, rows] = [
            self.node_index[guest.node] for guest in instant.guests
        ]

    def _fill_nodes(self) -> None:
        shape = (len(self.times), len(self.node_ids), 2)
        self.capacity: Floats = np.full(shape, np.nan)
        self.host_usage: Floats = np.full(shape, np.nan)
        for index, instant in enumerate(self._instants):
            if index:
                self.host_usage[index] = self.host_usage[index - 1]
                self.capacity[index] = self.capacity[index - 1]
            guests = self._measured_by_node(index)
            for name, node in instant.nodes.items():
                row = self.node_index[name]
                if node.capacity is not None:
                    self.capacity[index, row] = (
                        node.capacity.cpu,
                        node.capacity.memory,
                    )
                if node.reachable:
                    used = (node.usage.cpu, node.usage.memory)
                    self.host_usage[index, row] = (
                        np.array([_number(each) for each in used]) - guests[row]
                    )

    def _measured_by_node(self, index: int) -> Floats:
        """Return the summed usage of the measured guests on each node; shape (N, 2)."""
        rows = np.flatnonzero(self.active[index])
        used = np.nan_to_num(self.usage[index, rows])
        nodes = self.node_of[index, rows]
        count = len(self.node_ids)
        columns = [np.bincount(nodes, used[:, kind], count) for kind in range(2)]
        return np.stack(columns, axis=1)

    def __len__(self) -> int:
        """Return the number of snapshots."""
        return len(self.times)

    @property
    def seconds(self) -> float:
        """Return the seconds for which a snapshot holds."""
        return float(self.holds.sum())

    @property
    def end(self) -> float:
        """Return the seconds from the first snapshot to the end of the last."""
        return self.offsets[-1] + float(self.holds[-1])

    def index_at(self, offset: float) -> int:
        """Return the index of the newest snapshot *offset* seconds after the first."""
        return max(0, int(np.searchsorted(self.offsets, offset + 1e-6)) - 1)

    def measured_seconds(self, index: int, start: float, seconds: float) -> float:
        """Return how much of a period is within the time snapshot *index* holds."""
        begin = self.offsets[index]
        end = begin + float(self.holds[index])
        return max(0.0, min(start + seconds, end) - max(start, begin))

    def snapshot(self, index: int) -> Snapshot:
        """Return snapshot *index* as recorded.

        Without what a controller did at that time: migrations and moves of disks in
        progress, and times of migrations and power-ons.
        """
        instant = self._instants[index]
        usage = self.usage[index, instant.rows].tolist()
        uptime = self._uptime[index, instant.rows].tolist()
        rates = self._dirty_rate[index, instant.rows].tolist()
        guests = {
            guest.id: replace(
                guest,
                usage=Usage(_known(cpu), None if np.isnan(memory) else int(memory)),
                uptime=_known(age),
                dirty_rate=_known(rate),
                pressure=pressure,
            )
            for guest, pressure, (cpu, memory), age, rate in zip(
                instant.guests, instant.pressures, usage, uptime, rates, strict=True
            )
        }
        return Snapshot(
            taken_at=self.times[index],
            nodes=instant.nodes,
            guests=guests,
            rules=instant.rules,
        )


class _Interning:
    """Compact forms of snapshots; equal parts are one object.

    Attributes:
        row_of: Row of each guest, in the order of appearance.
    """

    def __init__(self) -> None:
        self.row_of: dict[GuestId, int] = {}
        self._guests: dict[GuestId, Guest] = {}
        self._pressures: dict[Pressure, Pressure] = {}
        self._rules: tuple[Rule, ...] = ()

    def compact(self, snapshot: Snapshot) -> tuple[_Instant, Floats]:
        """Return the compact form of *snapshot*, and the measurements of its guests.

        The columns are cores, bytes, uptime and dirty rate; NaN if unknown.
        """
        rows, guests, measured = [], [], []
        for guest in snapshot.guests.values():
            rows.append(self.row_of.setdefault(guest.id, len(self.row_of)))
            guests.append(self._guest(guest))
            numbers = (guest.usage.cpu, guest.usage.memory)
            measured.append(
                [_number(each) for each in (*numbers, guest.uptime, guest.dirty_rate)]
            )
        pressures = (guest.pressure for guest in snapshot.guests.values())
        if snapshot.rules != self._rules:
            self._rules = snapshot.rules
        instant = _Instant(
            nodes={
                name: replace(node, powered_on_at=None)
                for name, node in snapshot.nodes.items()
            },
            rows=np.array(rows, np.int64),
            guests=tuple(guests),
            pressures=tuple(
                self._pressures.setdefault(each, each) for each in pressures
            ),
            rules=self._rules,
        )
        return instant, np.array(measured, np.float64).reshape(-1, 4)

    def _guest(self, guest: Guest) -> Guest:
        """Return *guest* without measurements; the former object if it is equal.

        What the controller did at that time is left out as well.
        """
        disks = guest.disks
        if any(disk.moving_to for disk in disks or ()):
            disks = tuple(replace(disk, moving_to=None) for disk in disks or ())
        bare = replace(
            guest,
            usage=Usage(),
            pressure=Pressure(),
            uptime=None,
            dirty_rate=None,
            migrating_to=None,
            migrated_at=None,
            disks=disks,
        )
        former = self._guests.get(guest.id)
        if former == bare:
            return former
        self._guests[guest.id] = bare
        return bare


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
