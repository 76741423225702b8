"""Broken strict rules that a plan can repair, and what prevents the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from opendrs.policies.units import Selection
from opendrs.rules import (
    CompiledRules,
    Targets,
    Violation,
    compile_rules,
)
from opendrs.rules.crowds import Crowd, crowd_around
from opendrs.scoring import UsageMode

INFEASIBLE = "cannot be kept"
UNRESOLVED = "not mended"  # though another budget, or another order, might do it
FEASIBLE = "might go to"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A violation of a strict rule that remains after a plan.

    Attributes:
        violation: The violation.
        detail: What prevents its repair; empty when nothing is known to.
    """

    violation: Violation
    detail: str = ""

    @property
    def repairable(self) -> bool:
        """Return whether a guest of it has a node where the rule holds."""
        return not self.detail


def unresolved(
    remaining: Iterable[Violation],
    snapshot: Snapshot,
    limits: Limits,
    *,
    mode: UsageMode = UsageMode.DYNAMIC,
    relocate: bool = False,
) -> tuple[Unresolved, ...]:
    """Return for each violation of a strict rule whether `optimize` can repair it.

    Each violation is examined by itself, on the cluster as it is now. The memory and
    the order of all repairs together are examined only by the search.

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
        why = f"no plan is possible now: {waiting[1]}"
        return tuple(Unresolved(found, f"{found.rule}: {why}") for found in strict)
    rules = compile_rules(snapshot)
    selection = Selection(mode=mode, relocate=relocate)
    skipped = parties(snapshot, rules, limits, selection).left_alone
    repairs = Repairs(snapshot, rules, Targets(snapshot, rules, limits), skipped)
    return tuple(repairs.of(found) for found in strict)


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

    def of(self, found: Violation) -> Unresolved:
        """Return whether *found* can be repaired, or what prevents it."""
        prevented = self._prevented(found)
        if prevented is None and self._is_repairable(found):
            return Unresolved(found)
        return Unresolved(found, prevented or self._by_guest(found)[0])

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
        unit = self._group(name)
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

    def _is_repairable(self, found: Violation) -> bool:
        free = sorted(found.guests - self._skipped.keys())
        if isinstance(found.rule, Affinity):  # they have a node in common
            return bool(free)
        return any(map(self._can_move, free))

    def _can_move(self, name: GuestId) -> bool:
        unit = self._group(name)
        return any(
            self._targets.obstacle(unit, node) is None
            for node in sorted(self._snapshot.nodes)
            if node != unit[0].node
        )

    def _group(self, name: GuestId) -> Sequence[Guest]:
        together = self._rules.together.get(name, frozenset({name}))
        everybody = [self._snapshot.guests[each] for each in sorted(together)]
        return [each for each in everybody if each.present]

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


def _crowded(crowd: Crowd) -> str:
    rules = first_few([f'"{rule}"' for rule in crowd.rules])
    nodes = first_few(sorted(crowd.nodes)) or "none"
    return (
        f"{rules}: {first_few(sorted(crowd.guests))} must all be apart, and the nodes "
        f"open to them ({nodes}) suffice for {crowd.most} of {len(crowd.guests)}"
    )
