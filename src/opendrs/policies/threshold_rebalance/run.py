"""One run: guests of the busiest host go to less busy ones, first fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.model import GIB, Guest, GuestId, GuestKind, NodeId, Resources, first_few
from opendrs.model.resources import NOTHING
from opendrs.policies.base import Reason
from opendrs.policies.board import Board
from opendrs.policies.closed import closed_nodes
from opendrs.policies.passage import Journey
from opendrs.policies.threshold_rebalance.forms import Form
from opendrs.policies.threshold_rebalance.standing import Gap, Standing
from opendrs.scoring import UsageMode, demand

NEARER = 3  # less busy hosts that are named with what closes them
MOST_TOLD = 5  # guests of the busiest host of which it is told why they stay
Need = tuple[float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a run keeps to; as the settings of the policy have it.

    Attributes:
        form: Whose arithmetic and habits.
        mode: What a guest counts for.
        threshold: From how far apart hosts are evened.
        floor: Points from which a host is busy at all.
        batch: Units that are moved at most.
    """

    form: Form
    mode: UsageMode
    threshold: float
    floor: float
    batch: int

    def content(self, gap: Gap) -> str | None:
        """Return why nothing (more) need be done about *gap*, or None."""
        if gap.highest == 0:
            return "nobody is busy"
        if gap.highest < 100 * self.floor:
            return (
                f"the busiest, {gap.busiest}, has {gap.highest} points, below the "
                f"floor {100 * self.floor:g}"
            )
        if gap.difference < self.threshold:
            return f"{gap}, less than the threshold {self.threshold:.0%}"
        return None


@dataclass(frozen=True, slots=True)
class Stay:
    """A unit that stays on the busiest host, and why.

    Attributes:
        unit: Its index on the board.
        why: The reason; None when no less busy host is open to it.
    """

    unit: int
    why: str | None


@dataclass(frozen=True, slots=True)
class Fit:
    """A unit that may go, and what becomes of its target.

    Attributes:
        unit: Its index on the board.
        target: The host that receives it.
        expected: Points of the target with it.
        goal: Points below which the target must stay.
    """

    unit: int
    target: NodeId
    expected: int
    goal: int


class Run:
    """One run, on a board of its own.

    Args:
        board: The cluster, on which the moves are made.
        standing: The hosts of it that take part.
        terms: What it keeps to.
        resting: Why guests that could move are left alone all the same.
    """

    def __init__(
        self,
        board: Board,
        standing: Standing,
        terms: Terms,
        resting: Mapping[GuestId, str],
    ) -> None:
        self._board, self._standing, self._terms = board, standing, terms
        self._index = {name: place for place, name in enumerate(board.nodes)}
        self._resting = resting
        self._units = _units_of(board)
        self.journeys: list[Journey] = []
        self.reason = Reason.BALANCED
        self.verdicts: list[str] = []
        self.stays: list[str] = []
        for group in standing.groups:
            self._even(group)

    def _even(self, group: Sequence[NodeId]) -> None:
        """Move guests within *group*, until that is enough or no more may go."""
        while True:
            gap = self._standing.gap(group)
            content = self._terms.content(gap)
            if content is not None:
                self.verdicts.append(content)
                return
            if len(self.journeys) >= self._terms.batch:
                self._end(Reason.LIMIT_REACHED, f"{gap}; the batch is used up")
                return
            receivers = self._standing.receivers(group, gap)
            stays = self._relieve(gap, receivers)
            if stays is not None:
                names = first_few(receivers, joint=" or ")
                verdict = f"{gap}; no guest may move to {names}"
                self._end(Reason.NO_CANDIDATE, verdict)
                self.stays += self._told(gap, group, stays)
                return

    def _end(self, reason: Reason, verdict: str) -> None:
        self.reason = reason
        self.verdicts.append(verdict)

    def _relieve(self, gap: Gap, receivers: Sequence[NodeId]) -> list[Stay] | None:
        """Move the first unit that may go; return why all stay if none may."""
        waiting = self._units[gap.busiest]
        stays: list[Stay] = []
        for unit in tuple(waiting):
            verdict = self._judged(unit, gap, receivers)
            if isinstance(verdict, Fit) or self._terms.form.original:
                waiting.remove(unit)  # Incus looks at each once
            if isinstance(verdict, Fit):
                self._move(verdict, gap, receivers)
                return None
            stays.append(verdict)
        return stays

    def _judged(self, unit: int, gap: Gap, receivers: Sequence[NodeId]) -> Stay | Fit:
        """Return whether *unit* fits on the least busy host that is open to it."""
        for guest in self._board.members(unit):
            if guest.id in self._resting:
                return Stay(unit, self._resting[guest.id])
            if guest.kind is not GuestKind.VM:
                return Stay(unit, "only virtual machines are moved")
        open_ = self._board.open_to(unit)
        target = next((n for n in receivers if open_[self._index[n]]), None)
        if target is None:
            return Stay(unit, None)
        standing = self._standing
        goal = (gap.highest + standing.compared(target)) // 2
        now = standing.points(target)
        expected = standing.expected(target, *_sum(self._needs(unit)))
        if now >= goal or expected >= goal:
            why = f"{target} would go from {now} to {expected} points, and not stay"
            return Stay(unit, f"{why} below the goal {goal}")
        return Fit(unit, target, expected, goal)

    def _move(self, fit: Fit, gap: Gap, receivers: Sequence[NodeId]) -> None:
        members = self._board.members(fit.unit)
        why = self._why(fit, gap, receivers)
        self.journeys.append(Journey(members, fit.target, why))
        for guest, need in zip(members, self._needs(fit.unit), strict=True):
            freed = (guest.usage.cpu or 0.0, guest.usage.memory or 0)
            self._standing.moved(gap.busiest, fit.target, need, freed)
        self._board.move(fit.unit, self._index[fit.target])

    def _why(self, fit: Fit, gap: Gap, receivers: Sequence[NodeId]) -> str:
        """Return why this unit, why there, and why not to who is less busy."""
        members, target = self._board.members(fit.unit), fit.target
        cpu, memory = _sum(self._needs(fit.unit))
        brought = f"{cpu:.2f} cores and {memory / GIB:.2f} GiB to {target}"
        change = f"{self._standing.points(target)} → {fit.expected} points"
        sentences = [f"{gap}; brings {brought} ({change}, below the goal {fit.goal})"]
        if len(members) > 1:
            names = first_few([guest.id for guest in members], joint=" and ")
            sentences.append(f"{names} must stay together and move as one")
        closed = (
            (f"{name} ({self._standing.points(name)})", why)
            for name in receivers[: receivers.index(target)][:NEARER]
            if (why := self._closed(fit.unit, name)) is not None
        )
        return "; ".join([*sentences, *closed_nodes(closed, "is less busy")])

    def _closed(self, unit: int, node: NodeId) -> str | None:
        return self._board.why_closed(unit, self._index[node])

    def _needs(self, unit: int) -> list[Need]:
        return [needs(guest, self._terms) for guest in self._board.members(unit)]

    def _told(
        self, gap: Gap, group: Sequence[NodeId], stays: Sequence[Stay]
    ) -> list[str]:
        """Return why the first few units stay on the busiest host."""
        receivers = self._standing.receivers(group, gap)
        lines = []
        for stay in stays[:MOST_TOLD]:
            members = [guest.id for guest in self._board.members(stay.unit)]
            names = first_few(members, joint=" and ")
            why = stay.why or self._nowhere(stay.unit, receivers)
            lines.append(f"stays on {gap.busiest}: {names}: {why}")
        if (left := len(stays) - MOST_TOLD) > 0:
            lines.append(f"stays on {gap.busiest}: {left} more")
        return lines

    def _nowhere(self, unit: int, receivers: Sequence[NodeId]) -> str:
        whys = [f"{name}: {self._closed(unit, name)}" for name in receivers[:NEARER]]
        more = [f"{left} more"] if (left := len(receivers) - NEARER) > 0 else []
        return "; ".join(["nowhere to go", *whys, *more])


def needs(guest: Guest, terms: Terms) -> Need:
    """Return the cores and bytes that *guest* is taken to need on its target.

    A limit that is exceeded counts as what is used. Incus takes a guest without
    limit to need one core and 1 GiB.
    """
    known = demand(guest, terms.mode) or NOTHING
    if terms.form.original:
        return known.cpu or 1.0, known.memory or GIB
    used = Resources(guest.usage.cpu or 0.0, guest.usage.memory or 0)
    return max(known.cpu, used.cpu), max(known.memory, used.memory)


def _sum(parts: Sequence[Need]) -> Need:
    return sum(cpu for cpu, _ in parts), sum(memory for _, memory in parts)


def _units_of(board: Board) -> dict[NodeId, list[int]]:
    """Return the units of each node, in order of name."""
    found: dict[NodeId, list[int]] = {name: [] for name in board.nodes}
    for unit, place in enumerate(np.asarray(board.columns.node_of).tolist()):
        found[board.nodes[place]].append(unit)
    return found
