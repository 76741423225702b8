"""Rules that a plan repairs, and the part of each move in that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from opendrs.model import (
    AntiAffinity,
    GuestId,
    NodeAffinity,
    Rule,
    Snapshot,
    format_list,
)
from opendrs.rules import Violation, excess, is_drain, violations


@dataclass(frozen=True, slots=True)
class MoveRepair:
    """Contribution of a move to the repair of a rule.

    Attributes:
        violation: A violation of the rule before the plan.
        where: Guests of the violation, each with its node before the plan.
        is_complete: True if the rule holds after the plan; False if fewer guests
            violate it than before.
    """

    violation: Violation
    where: tuple[str, ...]
    is_complete: bool

    def __str__(self) -> str:
        rule = self.violation.rule
        if is_drain(rule):
            return str(rule)
        kind = "rule" if self.violation.strict else "soft rule"
        effect = f"reduces the violation of a {kind}"
        if self.is_complete:
            effect = f"repairs a violated {kind}"
        return f"{effect}: {rule} (before the plan: {format_list(self.where)})"


class RepairedRules:
    """Rules that are violated less after a plan than before it.

    Args:
        before: Cluster before the plan.
        after: Cluster after the plan.
        strict: True for strict rules, False for soft ones.
    """

    def __init__(
        self, before: Snapshot, after: Snapshot, *, strict: bool = True
    ) -> None:
        # The same objects as rules, which identify them.
        self._before, self._after = before, replace(before, guests=after.guests)
        self._remaining = _by_rule(violations(self._after), strict=strict)
        self._violated = _by_rule(violations(before), strict=strict)
        self._rules_of: defaultdict[GuestId, list[object]] = defaultdict(list)
        for key, found in self._violated.items():
            if _degree(self._remaining.get(key, ())) < _degree(found):
                for guest in sorted(_concerned(found)):
                    self._rules_of[guest].append(key)

    def repair_of(self, guests: Iterable[GuestId]) -> MoveRepair | None:
        """Return the most important repair by the move of *guests*, or None.

        That is to drain a node, then a rule that holds after the plan.

        Args:
            guests: Guests that migrate together.
        """
        found = [
            repair
            for name in guests
            for key in self._rules_of.get(name, ())
            if (repair := self._repair(name, key)) is not None
        ]
        return min(found, key=_importance, default=None)

    def _repair(self, name: GuestId, key: object) -> MoveRepair | None:
        violated, remaining = self._violated[key], self._remaining.get(key, [])
        if not self._leaves(name, violated[0].rule):
            return None
        own = [each for each in violated if name in each.guests]
        # A guest of the chosen domain is in no violation, but may follow the others.
        candidates = own if own or remaining else violated
        former = [each for each in candidates if not _remains(each, name, remaining)]
        if not former:
            return None
        placed = self._before.guests
        names = sorted(former[0].guests)
        where = tuple(f"{each} on {placed[each].node}" for each in names)
        return MoveRepair(former[0], where, is_complete=not remaining)

    def _leaves(self, name: GuestId, rule: Rule) -> bool:
        """Return True if the guest *name* leaves its node, or the domain of *rule*."""
        nodes = self._before.nodes
        former, now = (
            nodes[each.guests[name].node] for each in (self._before, self._after)
        )
        key = rule.domain if isinstance(rule, AntiAffinity | NodeAffinity) else ""
        if not key:
            return former.id != now.id
        return former.domain(key) != now.domain(key)


def _by_rule(
    found: Iterable[Violation], *, strict: bool
) -> dict[object, list[Violation]]:
    """Return the violations of each rule of this kind, all drains as one rule."""
    result: defaultdict[object, list[Violation]] = defaultdict(list)
    for each in found:
        if each.strict is strict:
            result["" if is_drain(each.rule) else id(each.rule)].append(each)
    return dict(result)


def _degree(found: Sequence[Violation]) -> int:
    """Return how far one rule is violated: by pairs, or by guests that are too many."""
    if not found:
        return 0
    rule = found[0].rule
    if _is_limit(rule):
        return sum(excess(len(each.guests), rule.max_guests) for each in found)
    return len(found)


def _concerned(found: Sequence[Violation]) -> frozenset[GuestId]:
    """Return the guests whose moves can repair the violations of one rule."""
    guests = frozenset[GuestId]().union(*(each.guests for each in found))
    rule = found[0].rule
    return guests | rule.guests if _is_choice(rule) else guests


def _remains(
    violation: Violation, name: GuestId, remaining: Iterable[Violation]
) -> bool:
    """Return True if *violation* is among *remaining*, or its part of *name*."""
    if _is_limit(violation.rule):
        return any(name in each.guests for each in remaining)
    return any(violation.guests == each.guests for each in remaining)


def _is_limit(rule: Rule) -> TypeGuard[AntiAffinity]:
    """Return True if a violation of *rule* is about all guests of a domain."""
    return isinstance(rule, AntiAffinity) and not rule.is_pairwise


def _is_choice(rule: Rule) -> TypeGuard[NodeAffinity]:
    """Return True if the guests of *rule* may gather in any domain."""
    return isinstance(rule, NodeAffinity) and bool(rule.domain)


def _importance(repair: MoveRepair) -> int:
    if is_drain(repair.violation.rule):
        return 0
    return 1 if repair.is_complete else 2
