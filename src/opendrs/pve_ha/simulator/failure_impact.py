"""What follows when hosts die: who restarts where, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Guest, GuestId, Node, NodeId
from opendrs.pve_ha.simulator.history import DrillHistory
from opendrs.pve_ha.simulator.run import Drill
from opendrs.pve_ha.simulator.setup import DrillSetup
from opendrs.rules import AvailableMemory, Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedGuest:
    """A guest that ran on a host that died.

    Attributes:
        guest: The guest.
        source: The host.
        managed: Whether the HA manager knows it.
        target: Where it runs again; None when it does not.
        downtime: Seconds until then; None when it does not run again.
        blocker: Why it can start on no other node; None when it can.
    """

    guest: Guest
    source: NodeId
    managed: bool
    target: NodeId | None
    downtime: int | None
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryTarget:
    """A node that took guests over.

    Attributes:
        node: The node, as it was.
        before: The memory that was left within the limits.
        after: The memory that is left then; less than 0 if it does not suffice.
    """

    node: Node
    before: AvailableMemory
    after: AvailableMemory

    @property
    def fits(self) -> bool | None:
        """Return whether the memory suffices; None when nothing is known of it."""
        known = [
            r for r in (self.after.measured, self.after.committed) if r is not None
        ]
        return all(left >= 0 for left in known) if known else None

    @property
    def missing_memory(self) -> float:
        """Return how many bytes are missing; 0 when it suffices."""
        available = [
            r for r in (self.after.measured, self.after.committed) if r is not None
        ]
        return max(0.0, -min(available, default=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureImpact:
    """What follows when hosts die.

    Attributes:
        nodes: The hosts that die.
        quorate: Whether those left are a majority.
        affected_guests: The guests that ran there.
        targets: The nodes that took them over.
        new_violations: Strict rules that are newly broken then.
        side_effect_migrations: Guests of other hosts that moved because of it.
        moved_before: Guests that the HA manager moved before the loss already, so
            that rules hold.
        includes_master: Whether one of them was the HA master in this drill.
        setup: How it began.
        drill: What happened.
        history: What became of everything.
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
        """Return the guests that run again."""
        return tuple(
            affected for affected in self.affected_guests if affected.target is not None
        )

    @property
    def stranded(self) -> tuple[AffectedGuest, ...]:
        """Return the guests that the HA manager should bring back and does not."""
        return tuple(
            affected
            for affected in self.affected_guests
            if affected.managed and affected.target is None and affected.blocker is None
        )

    @property
    def unrestartable(self) -> tuple[AffectedGuest, ...]:
        """Return the managed guests that can start on no other node."""
        return tuple(
            affected
            for affected in self.affected_guests
            if affected.managed
            and affected.target is None
            and affected.blocker is not None
        )

    @property
    def unprotected(self) -> tuple[AffectedGuest, ...]:
        """Return the guests nobody brings back, since no HA manager knows them."""
        return tuple(
            affected for affected in self.affected_guests if not affected.managed
        )

    @property
    def survived(self) -> bool:
        """Return whether all managed guests that can run again do, and fit there.

        That nothing is known of a node's memory does not mean that they fit, and
        a cluster in which no guest is managed survives nothing.
        """
        fit = all(target.fits for target in self.targets)
        protected = bool(self.setup.names.services) or not self.affected_guests
        return protected and not self.stranded and not self.new_violations and fit
