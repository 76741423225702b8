"""What a policy sees of a simulated data centre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.policies import Consolidate
from opendrs.policies.consolidation.fleet import Crowd, Fleet
from opendrs.sim.consolidation.hardware import Floats, Integers, Truths
from opendrs.sim.consolidation.machines import Machines, Tenants
from opendrs.sim.consolidation.moment import Flight
from opendrs.sim.consolidation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenery:
    """A data centre when so many intervals are over, and only they are known.

    Attributes:
        policy: Who looks.
        work: What guests ask for.
        machines: The hosts.
        tenants: The guests.
        host: Where each guest is.
        flights: Who is on the way; on both hosts, as memory and CPU go.
        rested: When each guest last arrived somewhere, in seconds.
        on: Which hosts are on.
        step: How many intervals are over.
    """

    policy: Consolidate
    work: Workload
    machines: Machines
    tenants: Tenants
    host: Integers
    flights: Sequence[Flight]
    rested: Floats
    on: Truths
    step: int

    def crowd(self) -> Crowd:
        """Return the guests."""
        step = self.step
        width = min(self.policy.history, step)
        samples = self.work.cpu[:, step - width : step] * self.tenants.cpu[:, None]
        used = self._memory(step - 1)
        cooled = self.rested + self.policy.limits.cooldown <= step * self.work.interval
        cooled[[each.guest for each in self.flights]] = False
        return Crowd(
            host=self.host.copy(),
            samples=samples,
            lengths=np.full(len(used), width),
            most=self.tenants.cpu,
            memory=used,
            need=np.stack([used, self.tenants.memory], axis=1),
            movable=cooled,
        )

    def _memory(self, step: int) -> Floats:
        """Return the MB each guest uses; all it may where that was not recorded."""
        if self.work.memory is None:
            return self.tenants.memory
        part: Floats = self.work.memory[:, step] * self.tenants.memory
        return part

    def fleet(self) -> Fleet:
        """Return the hosts."""
        step = self.step
        hosts, width = len(self.machines.cpu), min(self.policy.history, step)
        own = np.zeros((hosts, width))
        used = self._memory(step - 1)
        taken = np.stack(
            [
                np.bincount(self.host, used, hosts),
                np.bincount(self.host, self.tenants.memory, hosts),
            ],
            axis=1,
        )
        for flight in self.flights:
            taken[flight.target] += (
                used[flight.guest],
                self.tenants.memory[flight.guest],
            )
            row = self.work.cpu[flight.guest, step - width : step]
            own[flight.target] += row * self.tenants.cpu[flight.guest]
        limits, memory = self.policy.limits, self.machines.memory
        most = np.stack(
            [
                memory * (1 - limits.memory_headroom),
                memory * limits.memory_overbooking,
            ],
            axis=1,
        )
        leaving = np.array([each.guest for each in self.flights], np.int64)
        left = np.bincount(self.host, minlength=hosts) - np.bincount(
            self.host[leaving], minlength=hosts
        )
        expecting = np.zeros(hosts, np.bool_)
        expecting[[each.target for each in self.flights]] = True
        return Fleet(
            cpu=self.machines.cpu,
            own=own,
            room=most - taken,
            most=most,
            known=self.on & ((left > 0) | expecting),
            wakeable=~self.on,
            stuck=expecting,
            watts=self.machines.watts,
            curve=self.machines.curve,
        )
