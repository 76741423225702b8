"""Start times of guests, learned from one observation to the next.

libvirt does not report them. Neither does the monitor of QEMU: of all its queries and
properties, only the clock of the guest, its registers and counts of interrupts change
with time (QEMU 7.2). A guest that has booted on a node where it did not run in the
observation before has started in between. The start of all others is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.platforms.libvirt.guest_location import GuestLocation


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a guest.

    Attributes:
        node: Node that the guest was last seen on.
        domain_id: Id of the domain there, which each start on a host changes.
        started_at: Monotonic time of the observation in which it was first seen; None
            if it may have run before.
    """

    node: NodeId
    domain_id: int | None
    started_at: float | None


class StartTimes:
    """Start times of all guests of one cluster, and what they are derived from."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}
        self._observed: frozenset[NodeId] = frozenset()

    def update(
        self, locations: Iterable[GuestLocation], sampled_at: Mapping[NodeId, float]
    ) -> None:
        """Compare the guests with those of the observation before.

        Args:
            locations: The guests on the nodes that respond.
            sampled_at: Monotonic time at which each of these nodes was read.
        """
        runs = {
            location.domain.uuid: self._run(location, sampled_at[location.node])
            for location in locations
            if location.domain.is_active
        }
        # A guest of an unreachable node may run on unseen.
        unseen = {
            uuid: run for uuid, run in self._runs.items() if run.node not in sampled_at
        }
        self._runs = unseen | runs
        self._observed = frozenset(sampled_at)

    def uptime(self, location: GuestLocation, sampled_at: float) -> float | None:
        """Return the seconds since the guest was first seen running.

        This is shorter than its uptime by at most the time between two observations.

        Args:
            location: A guest of the last update.
            sampled_at: Monotonic time at which its node was read.

        Returns:
            None if the start is unknown, or the guest does not run.
        """
        run = self._runs.get(location.domain.uuid)
        if run is None or run.started_at is None or not location.is_running:
            return None
        return max(0.0, sampled_at - run.started_at)

    def _run(self, location: GuestLocation, now: float) -> _Run:
        node, domain_id = location.node, location.domain.domain_id
        before = self._runs.get(location.domain.uuid)
        if before is not None and (before.node, before.domain_id) == (node, domain_id):
            return before
        if location.domain.is_booted:
            return _Run(node, domain_id, now if node in self._observed else None)
        return _Run(node, domain_id, None if before is None else before.started_at)
