"""Rules that cannot all be kept, wherever the guests go."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    first_few,
)
from opendrs.rules.groups import NOBODY, Guests, known
from opendrs.rules.matching import most_apart


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Rules that cannot all be kept, wherever the guests go.

    Attributes:
        rules: The rules that stand in each other's way.
        guests: The guests they bind, and that are therefore left alone.
        why: What is impossible, in words for the operator.
    """

    rules: tuple[Rule, ...]
    guests: Guests
    why: str

    def __str__(self) -> str:
        names = first_few([f'"{rule}"' for rule in self.rules], joint="; ")
        return f"{self.why} ({names})"


def contradictions(
    snapshot: Snapshot,
    together: Mapping[GuestId, Guests],
    nodes: Mapping[GuestId, frozenset[NodeId]],
    fixed: Collection[GuestId],
) -> tuple[Contradiction, ...]:
    """Return what cannot be kept.

    Not looked for is what several anti-affinity rules make impossible only
    together: guests that are apart pair by pair may need more nodes than any
    one rule asks for.

    Args:
        snapshot: The cluster and its rules.
        together: The group of each guest that strict affinity binds.
        nodes: The nodes each guest may be on; absent when all.
        fixed: The guests that a rule forbids to move.
    """
    return (
        *_torn_groups(snapshot, together),
        *_homeless(snapshot, together, nodes),
        *_crowded(snapshot, together, nodes),
        *_fixed_apart(snapshot, together, fixed),
    )


def _torn_groups(
    snapshot: Snapshot, together: Mapping[GuestId, Guests]
) -> Iterator[Contradiction]:
    for rule in snapshot.rules:
        if not (isinstance(rule, AntiAffinity) and rule.strict):
            continue
        for one, other in combinations(sorted(known(rule.guests, snapshot)), 2):
            if other in together.get(one, NOBODY):
                binding = _rules_about(snapshot, together[one], Affinity)
                yield Contradiction(
                    (*binding, rule),
                    together[one],
                    f"{one} and {other} must be together and apart",
                )


def _homeless(
    snapshot: Snapshot,
    together: Mapping[GuestId, Guests],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Iterator[Contradiction]:
    told: set[Guests] = set()
    for guest in sorted(nodes):
        group = together.get(guest, frozenset({guest}))
        if group in told or nodes[guest] & set(snapshot.nodes):
            continue
        told.add(group)
        binding = _rules_about(snapshot, group, NodeAffinity)
        if len(group) > 1:
            binding = (*binding, *_rules_about(snapshot, group, Affinity))
        names = first_few(sorted(group), joint=" and ")
        yield Contradiction(binding, group, f"no node of the cluster may hold {names}")


def _crowded(
    snapshot: Snapshot,
    together: Mapping[GuestId, Guests],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Iterator[Contradiction]:
    everywhere = frozenset(snapshot.nodes)
    for rule in snapshot.rules:
        if not (isinstance(rule, AntiAffinity) and rule.strict):
            continue
        guests = known(rule.guests, snapshot)
        choices = {g: nodes.get(g, everywhere) & everywhere for g in sorted(guests)}
        if not all(choices.values()):
            continue  # told as homeless
        placed = most_apart(choices)
        if placed < len(guests):
            bound = NOBODY.union(*(together.get(g, frozenset({g})) for g in guests))
            yield Contradiction(
                (rule, *_rules_about(snapshot, bound, NodeAffinity)),
                guests,
                f"{len(guests)} guests must be apart and their nodes suffice for "
                f"{placed}",
            )


def _fixed_apart(
    snapshot: Snapshot,
    together: Mapping[GuestId, Guests],
    fixed: Collection[GuestId],
) -> Iterator[Contradiction]:
    for group in dict.fromkeys(together.values()):
        held = {
            snapshot.guests[guest].node
            for guest in group
            if guest in fixed or snapshot.guests[guest].mobility is Mobility.NEVER
        }
        if len(held) > 1:
            yield Contradiction(
                _rules_about(snapshot, group, Affinity),
                group,
                f"{first_few(sorted(group), joint=' and ')} must be together, and some "
                f"of them cannot leave {first_few(sorted(held), joint=' and ')}",
            )


def _rules_about(
    snapshot: Snapshot, guests: Guests, kind: type[Affinity | NodeAffinity]
) -> tuple[Rule, ...]:
    return tuple(
        rule
        for rule in snapshot.rules
        if isinstance(rule, kind) and rule.strict and rule.guests & guests
    )
