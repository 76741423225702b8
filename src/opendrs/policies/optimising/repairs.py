"""Broken strict rules that a plan can repair, and what prevents the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    first_few,
)
from opendrs.policies.optimising.parties import OVER_BUDGET, parties
from opendrs.policies.outlook import by_reason, not_ready
from opendrs.policies.units import Selection, obstacles
from opendrs.rules import (
    NOBODY,
    CompiledRules,
    Room,
    Targets,
    Violation,
    compile_rules,
    need,
    room_when_empty,
)
from opendrs.rules.crowds import Crowd, crowd_around
from opendrs.scoring import UsageMode

INFEASIBLE = "cannot be kept"
UNJUDGED = "cannot be judged"  # before more is known of the cluster
UNRESOLVED = "not mended"  # though another budget, or another order, might do it
FEASIBLE = "might go to"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A violation of a strict rule that remains after a plan.

    Attributes:
        violation: The violation.
        detail: What prevents its repair, or that it is judged; empty when nothing
            is known to.
        judged: Whether enough is known of the cluster to tell.
    """

    violation: Violation
    detail: str = ""
    judged: bool = True

    @property
    def repairable(self) -> bool | None:
        """Return whether nothing is known to prevent its repair; None if not judged."""
        return not self.detail if self.judged else None


def unresolved(
    remaining: Iterable[Violation],
    snapshot: Snapshot,
    limits: Limits,
    *,
    mode: UsageMode = UsageMode.DYNAMIC,
    relocate: bool = False,
) -> tuple[Unresolved, ...]:
    """Return for each violation of a strict rule whether `optimize` can repair it.

    Each violation is examined by itself. Whether the memory suffices for all repairs
    together, and in which order they are safe, only the search finds out: what is said
    to be impossible is so, what seems possible may not be.

    Args:
        remaining: The violations.
        snapshot: The cluster before the plan.
        limits: The operator's limits.
        mode: What counts as load: it must be known of all nodes.
        relocate: Whether containers may be stopped, moved and started.
    """
    strict = [found for found in remaining if found.strict]
    if not strict:
        return ()
    waiting = not_ready(snapshot, mode)
    if waiting is not None:
        return tuple(
            Unresolved(found, f"{found.rule}: {waiting[1]}", judged=False)
            for found in strict
        )
    rules = compile_rules(snapshot)
    targets = Targets(snapshot, rules, limits)
    selection = Selection(mode=mode, relocate=relocate)
    immovable = obstacles(snapshot, rules, limits, selection)
    feasibility = _Feasibility(snapshot, rules, targets, immovable, limits)
    skipped = parties(snapshot, rules, limits, selection).left_alone
    repairs = Repairs(snapshot, rules, targets, skipped)
    return tuple(
        Unresolved(found, "" if feasibility.of(found) else repairs.detail(found))
        for found in strict
    )


class _Feasibility:
    """Answer for violations of strict rules whether a plan might repair them.

    A plan may move others away first. So a node can receive a guest that it allows, for
    which it has the memory once all have left that may move, and from which no guest
    must be apart that stays there.

    Args:
        snapshot: The cluster before a plan.
        rules: Its rules.
        targets: The nodes where guests may go.
        immovable: The reason of each guest that may not be moved by itself.
        limits: The operator's limits.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        targets: Targets,
        immovable: Mapping[GuestId, str],
        limits: Limits,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._targets = targets
        self._immovable = immovable
        self._limits = limits

    def of(self, found: Violation) -> bool:
        """Return whether a plan might repair *found*."""
        if isinstance(found.rule, Affinity):
            names = sorted(found.guests)
            guests = [self._snapshot.guests[name] for name in names]
            return any(self._can_gather(guests, node) for node in self._snapshot.nodes)
        if isinstance(found.rule, AntiAffinity) and (
            crowd_around(found.rule, self._snapshot, self._rules) is not None
        ):
            return False
        return any(self._can_leave(name) for name in sorted(found.guests))

    def _can_gather(self, guests: Sequence[Guest], node: NodeId) -> bool:
        strays = [guest for guest in guests if guest.node != node]
        movable = not any(guest.id in self._immovable for guest in strays)
        return movable and self._can_receive(strays, node)

    def _can_leave(self, name: GuestId) -> bool:
        unit = group_of(name, self._snapshot, self._rules)
        here = self._snapshot.guests[name].node
        nodes = (node for node in self._snapshot.nodes if node != here)
        return any(self._can_gather(unit, node) for node in nodes)

    def _can_receive(self, unit: Sequence[Guest], node: NodeId) -> bool:
        left = self._vacated[node].minus(need(unit))
        if min(left.used or 0.0, left.promised or 0.0) < 0:
            return False
        if not self._targets.allows(unit, self._snapshot.nodes[node]):
            return False
        apart = frozenset[GuestId]().union(
            *(self._rules.apart.get(guest.id, NOBODY) for guest in unit)
        )
        return not any(
            name in self._immovable and node in self._snapshot.guests[name].locations
            for name in apart
        )

    @cached_property
    def _vacated(self) -> dict[NodeId, Room]:
        """The memory of each node once all have left it that may move."""
        leaving: defaultdict[NodeId, list[Guest]] = defaultdict(list)
        for guest in self._snapshot.guests.values():
            if guest.present and guest.id not in self._immovable:
                leaving[guest.node].append(guest)
        return {
            name: left.plus(
                need(leaving[name]),
                room_when_empty(self._snapshot.nodes[name], self._limits),
            )
            for name, left in self._targets.room.items()
        }


class Repairs:
    """Answer for violations of strict rules what prevents their repair.

    Args:
        snapshot: The cluster before a plan.
        rules: Its rules.
        targets: The nodes where guests may go.
        skipped: The reason of each guest that may not be moved.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        targets: Targets,
        skipped: Mapping[GuestId, str],
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._targets = targets
        self._skipped = skipped

    def detail(self, found: Violation) -> str:
        """Return what prevents the repair of *found*, with its rule."""
        return self._prevented(found) or self._by_guest(found)[0]

    def explain(self, found: Violation) -> str:
        """Return why *found* remains, with its rule, and whether it has to."""
        prevented = self._prevented(found)
        if prevented is not None:
            return f"{INFEASIBLE}: {prevented}"
        reported, repairable = self._by_guest(found)
        return f"{UNRESOLVED if repairable else INFEASIBLE}: {reported}"

    def obstacle(self, name: GuestId) -> str:
        """Return what keeps the guest *name* where it is."""
        if name in self._skipped:
            return f"left alone: {self._skipped[name]}"
        unit = group_of(name, self._snapshot, self._rules)
        closed = self._targets.excluded(unit)
        open_ = [
            each
            for each in sorted(self._snapshot.nodes)
            if each not in closed and each != unit[0].node
        ]
        if not open_:
            return f"nowhere to go: {by_reason(closed)}"
        return (
            f"{FEASIBLE} {first_few(open_)}, and no plan within the budget and in a "
            "safe order does it without worse"
        )

    def _prevented(self, found: Violation) -> str | None:
        """Return what makes *found* impossible to repair for all its guests."""
        if isinstance(found.rule, AntiAffinity):
            crowd = crowd_around(found.rule, self._snapshot, self._rules)
            return None if crowd is None else _crowded(crowd)
        if isinstance(found.rule, Affinity):
            closed = self._nowhere_together(found)
            if closed:
                names = first_few(sorted(found.guests), joint=" and ")
                return (
                    f"{found.rule}: {names} fit together nowhere: {by_reason(closed)}"
                )
        return None

    def _by_guest(self, found: Violation) -> tuple[str, bool]:
        """Return what keeps each guest of *found*, and whether one might move."""
        reasons: defaultdict[str, list[GuestId]] = defaultdict(list)
        for name in sorted(found.guests):
            reasons[self.obstacle(name)].append(name)
        reported = "; ".join(f"{first_few(who)}: {why}" for why, who in reasons.items())
        repairable = any(FEASIBLE in why or OVER_BUDGET in why for why in reasons)
        return f"{found.rule}: {reported}", repairable

    def _nowhere_together(self, found: Violation) -> Mapping[NodeId, str]:
        """Return why each node is closed to all of them; nothing if one is not."""
        if any(name in self._skipped for name in found.guests):
            return {}
        guests = [self._snapshot.guests[name] for name in sorted(found.guests)]
        closed = {}
        for name in sorted(self._snapshot.nodes):
            strays = [guest for guest in guests if guest.node != name]
            why = self._targets.obstacle(strays, name)
            if why is None:
                return {}
            closed[name] = why
        return closed


def group_of(
    name: GuestId, snapshot: Snapshot, rules: CompiledRules
) -> Sequence[Guest]:
    """Return the active guests that must be together with *name*, and itself."""
    together = rules.together.get(name, frozenset({name}))
    everybody = [snapshot.guests[each] for each in sorted(together)]
    return [each for each in everybody if each.present]


def _crowded(crowd: Crowd) -> str:
    rules = first_few([f'"{rule}"' for rule in crowd.rules])
    nodes = first_few(sorted(crowd.nodes)) or "none"
    return (
        f"{rules}: {first_few(sorted(crowd.guests))} must all be apart, and the nodes "
        f"open to them ({nodes}) suffice for {crowd.most} of {len(crowd.guests)}"
    )
