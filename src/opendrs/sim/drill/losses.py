"""What follows when hosts die: who restarts where, and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import Guest, GuestId, Node, NodeId
from opendrs.rules import Room, Violation
from opendrs.sim.drill.history import History
from opendrs.sim.drill.running import Drill
from opendrs.sim.drill.stage import Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Casualty:
    """A guest that ran on a host that died.

    Attributes:
        guest: The guest.
        source: The host.
        managed: Whether the HA manager knows it.
        target: Where it runs again; None when it does not.
        down: Seconds until then; None when it does not run again.
        blocker: Why it can start on no other node; None when it can.
    """

    guest: Guest
    source: NodeId
    managed: bool
    target: NodeId | None
    down: int | None
    blocker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """A node that took guests over.

    Attributes:
        node: The node, as it was.
        before: The memory that was left within the limits.
        after: The memory that is left then; less than 0 if it does not suffice.
    """

    node: Node
    before: Room
    after: Room

    @property
    def fits(self) -> bool | None:
        """Return whether the memory suffices; None when nothing is known of it."""
        known = [r for r in (self.after.used, self.after.promised) if r is not None]
        return all(left >= 0 for left in known) if known else None

    @property
    def missing(self) -> float:
        """Return how many bytes are missing; 0 when it suffices."""
        left = [r for r in (self.after.used, self.after.promised) if r is not None]
        return max(0.0, -min(left, default=0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What follows when hosts die.

    Attributes:
        nodes: The hosts that die.
        quorate: Whether those left are a majority.
        casualties: The guests that ran there.
        filled: The nodes that took them over.
        broken: Strict rules that are newly broken then.
        displaced: Guests of other hosts that moved because of it.
        moved_before: Guests that the HA manager moved before the loss already, so
            that rules hold.
        master: Whether one of them was the HA master in this drill.
        stage: How it began.
        drill: What happened.
        history: What became of everything.
    """

    nodes: tuple[NodeId, ...]
    quorate: bool
    casualties: tuple[Casualty, ...]
    filled: tuple[Filled, ...]
    broken: tuple[Violation, ...]
    displaced: tuple[GuestId, ...]
    moved_before: tuple[GuestId, ...]
    master: bool
    stage: Stage
    drill: Drill
    history: History

    @property
    def recovered(self) -> tuple[Casualty, ...]:
        """Return the guests that run again."""
        return tuple(lost for lost in self.casualties if lost.target is not None)

    @property
    def stranded(self) -> tuple[Casualty, ...]:
        """Return the guests that the HA manager should bring back and does not."""
        return tuple(
            lost
            for lost in self.casualties
            if lost.managed and lost.target is None and lost.blocker is None
        )

    @property
    def bound(self) -> tuple[Casualty, ...]:
        """Return the managed guests that can start on no other node."""
        return tuple(
            lost
            for lost in self.casualties
            if lost.managed and lost.target is None and lost.blocker is not None
        )

    @property
    def unprotected(self) -> tuple[Casualty, ...]:
        """Return the guests nobody brings back, since no HA manager knows them."""
        return tuple(lost for lost in self.casualties if not lost.managed)

    @property
    def survived(self) -> bool:
        """Return whether all managed guests that can run again do, and fit there.

        That nothing is known of a node's memory does not mean that they fit, and
        a cluster in which no guest is managed survives nothing.
        """
        fit = all(filled.fits for filled in self.filled)
        protected = bool(self.stage.names.services) or not self.casualties
        return protected and not self.stranded and not self.broken and fit
