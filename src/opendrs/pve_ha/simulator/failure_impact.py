"""Impact of a node failure: restarted guests, memory and rules."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Guest, GuestId, Node, NodeId
from opendrs.pve_ha.simulator.history import DrillHistory
from opendrs.pve_ha.simulator.run import Drill
from opendrs.pve_ha.simulator.setup import DrillSetup
from opendrs.rules import AvailableMemory, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedGuest:
    """A guest that ran on a failed node.

    Attributes:
        guest: The guest.
        source: The failed node.
        managed: True if it is a service of the HA manager.
        target: Node on which it restarted; None if it did not.
        downtime: Seconds until it restarted; None if it did not.
        blocker: Reason for which it cannot start on another node; None if it can.
    """

    guest: Guest
    source: NodeId
    managed: bool
    target: NodeId | None
    downtime: int | None
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """A node that received guests.

    Attributes:
        node: The node before the failure.
        before: Memory available within the limits before the failure.
        after: Memory available after the recovery; negative if it is insufficient.
    """

    node: Node
    before: AvailableMemory
    after: AvailableMemory

    @property
    def fits(self) -> bool | None:
        """Return True if the memory suffices; None if it is unknown."""
        known = [
            r for r in (self.after.measured, self.after.committed) if r is not None
        ]
        return all(left >= 0 for left in known) if known else None

    @property
    def missing_memory(self) -> float:
        """Return the missing memory in bytes; 0 if it suffices."""
        available = [
            r for r in (self.after.measured, self.after.committed) if r is not None
        ]
        return max(0.0, -min(available, default=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureImpact:
    """Impact of the failure of nodes.

    Attributes:
        nodes: Failed nodes.
        quorate: True if the remaining nodes are a majority.
        affected_guests: Guests that ran on the failed nodes.
        targets: Nodes that received guests.
        new_violations: Strict rules violated only after the failure.
        side_effect_migrations: Guests of other nodes that moved because of the failure.
        moved_before: Guests that the HA manager moved before the failure to satisfy
            rules.
        includes_master: True if a failed node was the HA master in this drill.
        setup: Initial state of the drill.
        drill: The drill.
        history: Its history.
    """

    nodes: tuple[NodeId, ...]
    quorate: bool
    affected_guests: tuple[AffectedGuest, ...]
    targets: tuple[RecoveryTarget, ...]
    new_violations: tuple[Violation, ...]
    side_effect_migrations: tuple[GuestId, ...]
    moved_before: tuple[GuestId, ...]
    includes_master: bool
    setup: DrillSetup
    drill: Drill
    history: DrillHistory

    @property
    def recovered(self) -> tuple[AffectedGuest, ...]:
        """Return the guests that restarted."""
        return tuple(
            affected for affected in self.affected_guests if affected.target is not None
        )

    @property
    def stranded(self) -> tuple[AffectedGuest, ...]:
        """Return the guests that the HA manager should have restarted and did not."""
        return tuple(
            affected
            for affected in self.affected_guests
            if affected.managed and affected.target is None and affected.blocker is None
        )

    @property
    def unrestartable(self) -> tuple[AffectedGuest, ...]:
        """Return the managed guests that cannot start on another node."""
        return tuple(
            affected
            for affected in self.affected_guests
            if affected.managed
            and affected.target is None
            and affected.blocker is not None
        )

    @property
    def unprotected(self) -> tuple[AffectedGuest, ...]:
        """Return the guests that are not restarted because they are not HA-managed."""
        return tuple(
            affected for affected in self.affected_guests if not affected.managed
        )

    @property
    def survived(self) -> bool:
        """Return True if all restartable managed guests run again and fit.

        Unknown memory of a node does not count as sufficient. A cluster without managed
        guests does not survive.
        """
        fit = all(target.fits for target in self.targets)
        protected = bool(self.setup.names.services) or not self.affected_guests
        return protected and not self.stranded and not self.new_violations and fit
