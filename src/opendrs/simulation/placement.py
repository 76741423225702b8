"""Placement of simulated guests: initial placement, anti-affinity, migrations in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.policies.consolidation.input import TargetFilter
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.workload import Integers, Mask


class ExclusionGroups:
    """The hosts that are open to each guest: those without one of its group.

    Args:
        group: Number of the group of each guest; -1 for none.
        hosts: How many hosts there are.
    """

    def __init__(self, group: Integers, hosts: int) -> None:
        self._group = group.tolist()
        self._all = np.ones(hosts, np.bool_)
        self._members: dict[int, list[int]] = {}
        for guest, number in enumerate(self._group):
            if number >= 0:
                self._members.setdefault(number, []).append(guest)
        self._host = np.full(len(group), -1, np.int64)
        self._target: dict[int, int] = {}

    def begin(self, host: Integers, migrations: Iterable[InFlightMigration]) -> None:
        """Begin a decision: each guest is on its *host*, or also bound for another."""
        self._host = host.copy()
        self._target = {migration.guest: migration.target for migration in migrations}

    def allowed_targets(self, guest: int) -> Mask:
        """Return which hosts *guest* may go to."""
        group = self._group[guest]
        if group < 0:
            return self._all
        allowed = self._all.copy()
        for other in self._members[group]:
            if other != guest and self._host[other] >= 0:
                allowed[self._host[other]] = False
                allowed[self._target.get(other, self._host[other])] = False
        return allowed

    def record_move(self, guest: int, target: int) -> None:
        """Take note that *guest* is on *target* now."""
        self._host[guest] = target


def initial_placement(
    hosts: HostSpecs, guests: GuestSpecs, target_filter: TargetFilter
) -> Integers:
    """Return where each guest begins, when nothing is known of its load.

    The thriftiest host that has room for all it may ever use; where there is none
    any more, of those with the memory the one whose CPU is promised the least.

    Raises:
        ConfigurationError: A guest finds no memory.
    """
    order = np.argsort(hosts.watts[hosts.curve, -1] / hosts.cpu, kind="stable")
    total, memory = hosts.cpu[order], hosts.memory[order].copy()
    cpu = total.copy()
    host = np.zeros(len(guests.cpu), np.int64)
    sizes = zip(guests.cpu.tolist(), guests.memory.tolist(), strict=True)
    for guest, (mips, size) in enumerate(sizes):
        feasible = (memory >= size) & target_filter.allowed_targets(guest)[order]
        if not feasible.any():
            raise ConfigurationError(
                f"guest {guest + 1} of {len(host)} finds no room on {len(cpu)} hosts"
            )
        fits = feasible & (cpu >= mips)
        free_cpu = np.where(feasible, cpu / total, -np.inf)
        row = int(np.argmax(fits) if fits.any() else np.argmax(free_cpu))
        cpu[row] -= mips
        memory[row] -= size
        host[guest] = order[row]
        target_filter.record_move(guest, int(order[row]))
    return host


@dataclass(frozen=True, slots=True)
class InFlightMigration:
    """A guest on its way; in seconds since the beginning."""

    guest: int
    target: int
    start: float
    end: float
