"""Joint choice of a domain for each of several rules that bind guests to one.

A choice is good if the other rules can hold with it. The search is exact, by depth
first, up to a bound of its work. Without a good choice it proves that there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from opendrs.model import (
    Affinity,
    AntiAffinity,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    rule_guests,
)
from opendrs.rules.affinity_groups import GuestSet, connected_components
from opendrs.rules.contradictions import Contradiction
from opendrs.rules.failed_migrations import HOLD_ORIGIN
from opendrs.rules.undo import ORIGIN as UNDO_ORIGIN

MAX_EVALUATIONS = 256  # sets of rules evaluated for one component

FindContradictions = Callable[[Snapshot], tuple[Contradiction, ...]]


@dataclass(frozen=True, slots=True)
class DomainOptions:
    """Domains that one rule may bind its guests to, the preferred first.

    Attributes:
        options: Strict rule that binds the guests to each domain.
        any_domain: Strict rule that binds them to the nodes of all domains.
    """

    options: tuple[NodeAffinity, ...]
    any_domain: NodeAffinity

    @property
    def guests(self) -> GuestSet:
        """Return the guests of the rule."""
        return self.any_domain.guests


@dataclass(frozen=True, slots=True)
class DomainChoice:
    """Result of a search.

    Attributes:
        chosen: The chosen option of each rule; the first ones without a good choice.
        is_proof: Whether no choice is good.
    """

    chosen: tuple[NodeAffinity, ...]
    is_proof: bool


def domain_nodes(snapshot: Snapshot, key: str) -> dict[str, list[NodeId]]:
    """Return the nodes of each known domain of *key*, both in order of name."""
    found: dict[str, list[NodeId]] = {}
    for name in sorted(snapshot.nodes):
        domain = snapshot.nodes[name].domain(key)
        if domain is not None:
            found.setdefault(domain, []).append(name)
    return dict(sorted(found.items()))


def coupled(
    choices: Sequence[DomainOptions], rules: Iterable[Rule]
) -> dict[GuestSet, list[int]]:
    """Return the indices of those of *choices* that depend on each other.

    They share guests, or strict rules between guests connect them.

    Returns:
        The indices, by the guests of all these rules.
    """
    groups = [
        rule_guests(each)
        for each in rules
        if isinstance(each, Affinity | AntiAffinity | MutualAntiAffinity)
        and each.strict
        and rule_guests(each)
    ]
    components = connected_components([*groups, *(each.guests for each in choices)])
    component_of = {guest: each for each in components for guest in each}
    found: dict[GuestSet, list[int]] = {}
    for index, each in enumerate(choices):
        found.setdefault(component_of[min(each.guests)], []).append(index)
    return found


def choose_jointly(
    choices: Sequence[DomainOptions],
    guests: GuestSet,
    snapshot: Snapshot,
    find: FindContradictions,
) -> DomainChoice:
    """Return the first good choice of one option for each of *choices*.

    Args:
        choices: Options of rules that depend on each other.
        guests: Their guests, and those that rules between guests connect to them.
        snapshot: The cluster, with the other rules.
        find: Function that returns contradictions of the strict rules of a snapshot.
    """
    if all(len(each.options) == 1 for each in choices):
        chosen = tuple(each.options[0] for each in choices)
        return DomainChoice(chosen, is_proof=False)
    return _Search(choices, _concerning(guests, snapshot), find).result()


class _Search:
    """Search by depth first; a rule without an option yet may use all domains."""

    def __init__(
        self,
        choices: Sequence[DomainOptions],
        snapshot: Snapshot,
        find: FindContradictions,
    ) -> None:
        self._choices = choices
        self._snapshot = snapshot
        self._find = find
        self._left = MAX_EVALUATIONS
        self._known = self._guests_of_contradictions(())

    def result(self) -> DomainChoice:
        """Return the result of the search."""
        found = self._extend(())
        if found is not None:
            return DomainChoice(found, is_proof=False)
        first = tuple(each.options[0] for each in self._choices)
        return DomainChoice(first, is_proof=self._left >= 0)

    def _extend(
        self, chosen: tuple[NodeAffinity, ...]
    ) -> tuple[NodeAffinity, ...] | None:
        """Return a good choice that begins with *chosen*; None without one."""
        if len(chosen) == len(self._choices):
            return chosen
        for option in self._choices[len(chosen)].options:
            self._left -= 1
            if self._left < 0:
                return None
            longer = (*chosen, option)
            if self._guests_of_contradictions(longer) <= self._known:
                found = self._extend(longer)
                if found is not None:
                    return found
        return None

    def _guests_of_contradictions(
        self, chosen: tuple[NodeAffinity, ...]
    ) -> set[GuestSet]:
        rest = (each.any_domain for each in self._choices[len(chosen) :])
        rules = (*self._snapshot.rules, *chosen, *rest)
        found = self._find(replace(self._snapshot, rules=rules))
        return {each.guests for each in found}


def _concerning(guests: GuestSet, snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with only *guests*, and the strict rules about their places.

    Rules that end by themselves are omitted.
    """
    rules = tuple(
        rule
        for rule in snapshot.rules
        if isinstance(rule, Affinity | AntiAffinity | MutualAntiAffinity | NodeAffinity)
        and rule.strict
        and rule.origin not in (UNDO_ORIGIN, HOLD_ORIGIN)
        and not rule_guests(rule).isdisjoint(guests)
    )
    existing = guests & snapshot.guests.keys()
    named = {name: snapshot.guests[name] for name in sorted(existing)}
    return replace(snapshot, guests=named, rules=rules)
