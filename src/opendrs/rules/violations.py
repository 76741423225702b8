"""What is broken here.

Judges a snapshot rule by rule, as the operator wrote them. It shares nothing
with compilation and targets, which build placements, so that each can be
checked against the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    first_few,
)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, and where.

    Attributes:
        rule: The rule.
        guests: The guests that break it.
        nodes: The nodes on which they do.
    """

    rule: Rule
    guests: frozenset[GuestId]
    nodes: frozenset[NodeId]

    @property
    def strict(self) -> bool:
        """Return whether the rule had to be kept."""
        return getattr(self.rule, "strict", True)

    def __str__(self) -> str:
        guests, nodes = first_few(sorted(self.guests)), first_few(sorted(self.nodes))
        return f"{self.rule}: broken by {guests} on {nodes}"


def violations(snapshot: Snapshot) -> tuple[Violation, ...]:
    """Return what is broken, in the order of the rules.

    A guest that is moving counts on both nodes, a stopped one on none. Each
    anti-affinity rule gives one violation per pair of guests, each affinity
    rule one for all guests that are apart, each node affinity one per guest.
    Pins and exclusions concern moves, not places, and are never broken here.
    """
    found: list[Violation] = []
    for rule in snapshot.rules:
        if isinstance(rule, AntiAffinity):
            found += _too_close(rule, snapshot)
        elif isinstance(rule, Affinity):
            found += _too_far(rule, snapshot)
        elif isinstance(rule, NodeAffinity):
            found += _misplaced(rule, snapshot)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ViolationChange:
    """The violations of one cluster before and after a plan.

    Attributes:
        before: All violations before, of strict and of soft rules.
        after: All violations once the plan is done.
    """

    before: tuple[Violation, ...]
    after: tuple[Violation, ...]

    @property
    def strict_before(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules before the plan."""
        return tuple(found for found in self.before if found.strict)

    @property
    def strict_after(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules that remain after the plan."""
        return tuple(found for found in self.after if found.strict)

    @property
    def repaired(self) -> tuple[Violation, ...]:
        """Return the violations of strict rules that the plan removes."""
        remaining = {_signature(found) for found in self.strict_after}
        return tuple(
            found for found in self.strict_before if _signature(found) not in remaining
        )


def violation_change(before: Snapshot, after: Snapshot) -> ViolationChange:
    """Return the violations *before* a plan and *after* it."""
    return ViolationChange(violations(before), violations(after))


def newly_broken(before: Snapshot, after: Snapshot) -> tuple[Violation, ...]:
    """Return the strict rules broken in *after* more than they were in *before*.

    A guest that breaks a rule may go on breaking it, on any node: what counts
    is which guests break which rule.
    """
    known = {_signature(found) for found in violations(before) if found.strict}
    return tuple(
        found
        for found in violations(after)
        if found.strict and _signature(found) not in known
    )


def _signature(found: Violation) -> tuple[object, ...]:
    """Return what is broken: of two rules that ask the same both are, or none."""
    nodes = found.rule.nodes if isinstance(found.rule, NodeAffinity) else ()
    return type(found.rule), frozenset(nodes), found.guests


def _present(rule: Affinity | AntiAffinity | NodeAffinity, at: Snapshot) -> list[Guest]:
    known = (at.guests.get(name) for name in sorted(rule.guests))
    return [guest for guest in known if guest is not None and guest.present]


def _too_close(rule: AntiAffinity, snapshot: Snapshot) -> list[Violation]:
    return [
        Violation(rule, frozenset({one.id, other.id}), frozenset(shared))
        for one, other in combinations(_present(rule, snapshot), 2)
        if (shared := set(one.locations) & set(other.locations))
    ]


def _too_far(rule: Affinity, snapshot: Snapshot) -> list[Violation]:
    guests = _present(rule, snapshot)
    if not guests or set.intersection(*(set(guest.locations) for guest in guests)):
        return []
    nodes = frozenset(node for guest in guests for node in guest.locations)
    return [Violation(rule, frozenset(guest.id for guest in guests), nodes)]


def _misplaced(rule: NodeAffinity, snapshot: Snapshot) -> list[Violation]:
    return [
        Violation(rule, frozenset({guest.id}), frozenset(wrong))
        for guest in _present(rule, snapshot)
        if (wrong := set(guest.locations) - set(rule.nodes))
    ]
