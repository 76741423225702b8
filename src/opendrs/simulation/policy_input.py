"""Arrays of a simulated cluster for the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.input import GuestArrays, NodeArrays
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.placement import InFlightMigration
from opendrs.simulation.workload import Floats, Integers, Mask, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyInput:
    """State of a simulated cluster after some intervals; only those are known.

    Attributes:
        policy: Policy that decides.
        workload: CPU requested by the guests.
        hosts: The hosts.
        guests: The guests.
        host: Host of each guest.
        migrations: Migrations in progress; their memory and CPU count on both hosts.
        migrated_at: End of each guest's last migration, in seconds.
        powered_on: True for hosts that are on.
        step: Number of completed intervals.
    """

    policy: Consolidate
    workload: Workload
    hosts: HostSpecs
    guests: GuestSpecs
    host: Integers
    migrations: Sequence[InFlightMigration]
    migrated_at: Floats
    powered_on: Mask
    step: int

    def guest_arrays(self) -> GuestArrays:
        """Return the guests as arrays."""
        step = self.step
        width = min(self.policy.history_length, step)
        samples = self.workload.cpu[:, step - width : step] * self.guests.cpu[:, None]
        memory = self._memory_usage(step - 1)
        movable = (
            self.migrated_at + self.policy.limits.cooldown
            <= step * self.workload.interval
        )
        movable[[migration.guest for migration in self.migrations]] = False
        return GuestArrays(
            node_of=self.host.copy(),
            samples=samples,
            lengths=np.full(len(memory), width),
            cpu_limit=self.guests.cpu,
            memory=memory,
            required=np.stack([memory, self.guests.memory], axis=1),
            movable=movable,
        )

    def _memory_usage(self, step: int) -> Floats:
        """Return the MB used by each guest; its limit if usage was not recorded."""
        if self.workload.memory is None:
            return self.guests.memory
        usage: Floats = self.workload.memory[:, step] * self.guests.memory
        return usage

    def node_arrays(self) -> NodeArrays:
        """Return the hosts as arrays."""
        step = self.step
        hosts, width = len(self.hosts.cpu), min(self.policy.history_length, step)
        overhead = np.zeros((hosts, width))
        memory_usage = self._memory_usage(step - 1)
        demand = np.stack(
            [
                np.bincount(self.host, memory_usage, hosts),
                np.bincount(self.host, self.guests.memory, hosts),
            ],
            axis=1,
        )
        for migration in self.migrations:
            demand[migration.target] += (
                memory_usage[migration.guest],
                self.guests.memory[migration.guest],
            )
            row = self.workload.cpu[migration.guest, step - width : step]
            overhead[migration.target] += row * self.guests.cpu[migration.guest]
        limits, memory = self.policy.limits, self.hosts.memory
        capacity = np.stack(
            [
                memory * (1 - limits.memory_headroom),
                memory * limits.memory_overcommit,
            ],
            axis=1,
        )
        migrating = np.array(
            [in_flight.guest for in_flight in self.migrations], np.int64
        )
        remaining = np.bincount(self.host, minlength=hosts) - np.bincount(
            self.host[migrating], minlength=hosts
        )
        receiving = np.zeros(hosts, np.bool_)
        receiving[[in_flight.target for in_flight in self.migrations]] = True
        return NodeArrays(
            cpu=self.hosts.cpu,
            base_load=overhead,
            available=capacity - demand,
            usable=capacity,
            measured=self.powered_on & ((remaining > 0) | receiving),
            can_power_on=~self.powered_on,
            has_immovable_guests=receiving,
            watts=self.hosts.watts,
            curve_of=self.hosts.curve,
        )
