"""Help the guest that is worst off, one at a time.

The balancer that A. Derumier proposed for Proxmox VE's HA manager in April 2022: it
looks at guests rather than at how even nodes are. Guests that wait for processors,
or are on a node short of memory, are ranked by TOPSIS with weights from AHP, and the
first that finds a place is moved. What is missing of the proposal or contradicts
itself is read like this:

- The criterion that has two names there, total_cpu and totalcpu, is one.
- Criteria that are 0 for all stay so, and of equals the name decides.
- Only guests that run and are not on the move are moved.
- Pressure is a part of the time, and the threshold of 0.75 a part of it too.
- The guest that was moved last stays until another is moved, or, if asked for, for
  some time. A look lost to a change costs a whole interval, as there.

Whatever it would do, rules, memory with its headroom, processors, and what may move
always bind, and guests that a rule keeps together move as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, GuestId, Limits, Snapshot
from opendrs.model.limits import LONGEST_TIME
from opendrs.model.quantities import Seconds
from opendrs.policies.base import Decision, Reason, require_ratio
from opendrs.policies.board import Board
from opendrs.policies.outlook import notes, under_way
from opendrs.policies.passage import in_turn
from opendrs.policies.pressure.memories import (
    Memory,
    checked,
    moved,
    no_memory,
    quiet_for,
    since,
    watched,
)
from opendrs.policies.pressure.relief import Relief, measures, unknown
from opendrs.policies.pressure.trouble import Bounds, Trouble, judged, troubles_in
from opendrs.policies.units import Selection
from opendrs.scoring import AhpMethod, UsageMode

MOVING = Selection(mode=UsageMode.DYNAMIC, relocate=False, only_ha_managed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureRelief:
    """Move the guest that is in most trouble to where it would best start.

    Attributes:
        cpu_pressure: Part of the time, in [0, 1], above which a guest that waits for
            cpu is in trouble.
        memory: Part of a node's memory, in [0, 1], above which its guests are.
        memory_ksm: The same for a node on which much memory is merged (KSM).
        ksm: Part of a node's memory, in [0, 1], above which much of it is.
        uptime: Seconds that a guest must have run; 0 to take no account of it.
        interval: Seconds from one check to the next.
        quiet: Seconds for which no guest may have changed its state or its node.
        forget_after: Seconds after which the guest that was moved last may be moved
            again; None for when another one was.
        weights: How weights are drawn from the preferences among the criteria.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "pressure"
    cpu_pressure: float = 0.75
    memory: float = 0.85
    memory_ksm: float = 0.8
    ksm: float = 0.2
    uptime: Seconds = 300.0
    interval: Seconds = 60.0
    quiet: Seconds = 60.0
    forget_after: Seconds | None = None
    weights: AhpMethod = AhpMethod.ROW_MEANS
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("cpu_pressure", "memory", "memory_ksm", "ksm"):
            require_ratio(name, getattr(self, name), 1.0)
        for name in ("uptime", "interval", "quiet"):
            require_ratio(name, getattr(self, name), LONGEST_TIME)
        if self.forget_after is not None:
            require_ratio("forget_after", self.forget_after, LONGEST_TIME)

    def initial_memory(self) -> Memory:
        """Return the memory of who has not looked yet."""
        return no_memory()

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision[Memory]:
        """Return the move of the guest that is worst off, if one is due.

        Args:
            snapshot: The cluster now.
            memory: What was seen and done in the cycles before.
        """
        seen = watched(memory, snapshot)
        before = measures(snapshot, self.bounds)
        not_now = self._not_yet_due(seen, snapshot)
        if not_now is None:
            seen = checked(seen, snapshot.taken_at)
            not_now = self._not_ready(seen, snapshot)
        if not_now is not None:
            reason, detail = not_now
            return Decision(reason, seen, detail=detail, before=before, after=before)
        troubles = troubles_in(snapshot, self.bounds)
        if troubles:
            return self._relief(snapshot, seen, troubles, before)
        return Decision(
            Reason.NO_PRESSURE,
            seen,
            detail="no guest is in trouble",
            before=before,
            after=before,
            notes=unknown(snapshot),
        )

    @property
    def bounds(self) -> Bounds:
        """Return from when on a guest is in trouble."""
        return Bounds(
            cpu_pressure=self.cpu_pressure,
            memory=self.memory,
            memory_ksm=self.memory_ksm,
            ksm=self.ksm,
        )

    def _not_yet_due(
        self, seen: Memory, snapshot: Snapshot
    ) -> tuple[Reason, str] | None:
        """Return that it is too early for a check; the time begins at first sight."""
        left = self.interval - since(seen["checked_at"], snapshot.taken_at)
        if left <= 0:
            return None
        why = f"the next check is in {left:g} s; there is one every {self.interval:g} s"
        return Reason.NOT_YET_DUE, why

    def _not_ready(self, seen: Memory, snapshot: Snapshot) -> tuple[Reason, str] | None:
        """Return why the cluster cannot be judged now, or None if it can."""
        quiet = quiet_for(seen, snapshot)
        if quiet < self.quiet:
            why = f"a guest changed {quiet:g} s ago; {self.quiet:g} s must be quiet"
            return Reason.RECENTLY_CHANGED, why
        if not any(judged(node) for node in snapshot.nodes.values()):
            return Reason.NOT_MEASURED, "no node is online and measured"
        return under_way(snapshot)

    def _relief(
        self,
        snapshot: Snapshot,
        seen: Memory,
        troubles: Sequence[Trouble],
        before: Mapping[str, float],
    ) -> Decision[Memory]:
        board = Board(snapshot, self.limits, MOVING)
        relief = Relief(board, self.bounds, self._resting(board, seen))
        found = relief.help(troubles, self.weights)
        told = (*relief.told(), *notes(board), *unknown(snapshot))
        count = f"guests in trouble: {len(troubles)}"
        if found is None:
            return Decision(
                Reason.NO_CANDIDATE,
                seen,
                detail=f"{count}; none of them may move anywhere",
                before=before,
                after=before,
                notes=told,
            )
        way = in_turn([found], snapshot, board.rules, self.limits)
        return Decision(
            Reason.RELIEVES_PRESSURE,
            moved(seen, found.name, snapshot.taken_at),
            way.plan,
            f"{count}; one is helped",
            before,
            measures(snapshot.after(*way.actions), self.bounds),
            (*told, *way.notes),
        )

    def _resting(self, board: Board, seen: Memory) -> dict[GuestId, str]:
        """Return why guests that may move are left alone all the same."""
        found = {}
        for unit in board.units.movable.values():
            last = self._moved_last(unit[0].id, seen, board.snapshot)
            for guest in unit:
                if guest.uptime is None and self.uptime:
                    found[guest.id] = "how long it has run is not known"
                elif guest.uptime is not None and guest.uptime < self.uptime:
                    found[guest.id] = f"it has run for less than {self.uptime:g} s"
                elif last:
                    found[guest.id] = "it was the last to be moved"
        return found

    def _moved_last(self, leader: GuestId, seen: Memory, snapshot: Snapshot) -> bool:
        if seen["last"] != leader:
            return False
        rested = since(seen["last_at"], snapshot.taken_at)
        return self.forget_after is None or rested < self.forget_after
