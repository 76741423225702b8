"""Rules that cannot hold together, for any placement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Mobility,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    format_list,
)
from opendrs.rules.affinity_groups import (
    NO_GUESTS,
    GuestSet,
    existing_guests,
    maximum_matching,
)
from opendrs.rules.domain_limits import most_in_domains


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Rules that cannot hold together, for any placement.

    Attributes:
        rules: The contradictory rules.
        guests: Guests that the contradiction affects; they are not migrated.
        detail: Why the rules cannot hold together, for the operator.
    """

    rules: tuple[Rule, ...]
    guests: GuestSet
    detail: str

    def __str__(self) -> str:
        names = format_list([f'"{rule}"' for rule in self.rules], separator="; ")
        return f"{self.detail} ({names})"


def find_contradictions(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    nodes: Mapping[GuestId, frozenset[NodeId]],
    immovable: Collection[GuestId],
) -> tuple[Contradiction, ...]:
    """Return the contradictions among the rules.

    Contradictions of several anti-affinity rules are not searched for. Guests that are
    pairwise apart may need more nodes than any one rule requires. Nor is every division
    of the nodes between two sides: one side has the only nodes of its guests.

    Args:
        snapshot: The cluster and its rules.
        together: Members of the strict affinity group of each guest.
        nodes: Nodes that each guest may be on; absent if all.
        immovable: Guests that a rule excludes from migration.
    """
    existing = _existing_nodes(nodes, snapshot)
    return (
        *_affinity_and_anti_affinity(snapshot, together),
        *_without_allowed_node(snapshot, together, existing),
        *_without_enough_nodes(snapshot, together, existing),
        *_without_nodes_beside(snapshot, together, existing),
        *_immovable_apart(snapshot, together, immovable),
    )


def _existing_nodes(
    nodes: Mapping[GuestId, frozenset[NodeId]], snapshot: Snapshot
) -> dict[GuestId, frozenset[NodeId]]:
    """Return those of *nodes* that the cluster has; guests may share one set."""
    all_nodes = frozenset(snapshot.nodes)
    by_set = {id(listed): listed for listed in nodes.values()}
    existing = {key: listed & all_nodes for key, listed in by_set.items()}
    return {guest: existing[id(listed)] for guest, listed in nodes.items()}


def _affinity_and_anti_affinity(
    snapshot: Snapshot, together: Mapping[GuestId, GuestSet]
) -> Iterator[Contradiction]:
    for rule in snapshot.rules:
        pairs: Iterable[tuple[GuestId, GuestId]] = ()
        if isinstance(rule, MutualAntiAffinity) and rule.strict:
            pairs = _joined_pairs(rule, together)
        elif isinstance(rule, AntiAffinity) and rule.strict and rule.is_pairwise:
            pairs = combinations(sorted(existing_guests(rule.guests, snapshot)), 2)
        elif isinstance(rule, AntiAffinity) and rule.strict:
            yield from _affinity_above_limit(rule, snapshot, together)
        for one, other in pairs:
            if other in together.get(one, NO_GUESTS):
                rules = _strict_rules_of(snapshot, together[one], Affinity)
                yield Contradiction(
                    (*rules, rule),
                    together[one],
                    f"both affinity and anti-affinity between {one} and {other}",
                )


def _joined_pairs(
    rule: MutualAntiAffinity, together: Mapping[GuestId, GuestSet]
) -> Iterator[tuple[GuestId, GuestId]]:
    """Yield one pair of guests of both sides for each affinity group with some."""
    for group in dict.fromkeys(together.values()):
        one, other = rule.guests & group, rule.other_guests & group
        if one and other:
            yield min(one), min(other)


def _affinity_above_limit(
    rule: AntiAffinity, snapshot: Snapshot, together: Mapping[GuestId, GuestSet]
) -> Iterator[Contradiction]:
    """Yield the groups with more guests than *rule* allows in a domain."""
    for group in dict.fromkeys(together.values()):
        named = sorted(guest for guest in group & rule.guests)
        active = [guest for guest in named if snapshot.guests[guest].is_active]
        if len(active) > rule.max_guests:
            rules = _strict_rules_of(snapshot, group, Affinity)
            names = format_list(active, separator=" and ")
            detail = f"affinity of {names}, but {_demand_of(rule, len(active))}"
            yield Contradiction((*rules, rule), group, detail)


def _without_allowed_node(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Iterator[Contradiction]:
    reported: set[GuestSet] = set()
    for guest in sorted(nodes):
        group = together.get(guest, frozenset({guest}))
        if group in reported or nodes[guest]:
            continue
        reported.add(group)
        rules = _strict_rules_of(snapshot, group, NodeAffinity)
        if len(group) > 1:
            rules = (*rules, *_strict_rules_of(snapshot, group, Affinity))
        names = format_list(sorted(group), separator=" and ")
        yield Contradiction(rules, group, f"no allowed node in the cluster for {names}")


def _without_enough_nodes(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Iterator[Contradiction]:
    all_nodes = frozenset(snapshot.nodes)
    for rule in snapshot.rules:
        if not (isinstance(rule, AntiAffinity) and rule.strict):
            continue
        guests = existing_guests(rule.guests, snapshot)
        if not rule.is_pairwise:  # stopped guests count in no domain
            guests = frozenset(g for g in guests if snapshot.guests[g].is_active)
        allowed = {g: nodes.get(g, all_nodes) for g in sorted(guests)}
        fewest = min(map(len, allowed.values()), default=0)
        if not fewest:
            continue  # reported by _without_allowed_node
        if rule.is_pairwise and fewest >= len(guests):
            continue  # each one in turn finds a node
        placed = (
            maximum_matching(allowed)
            if rule.is_pairwise
            else most_in_domains(rule, snapshot, allowed)
        )
        if placed < len(guests):
            members = NO_GUESTS.union(
                *(together.get(g, frozenset({g})) for g in guests)
            )
            yield Contradiction(
                (rule, *_strict_rules_of(snapshot, members, NodeAffinity)),
                guests,
                f"{_demand_of(rule, len(guests))}, but their allowed nodes suffice "
                f"for {placed}",
            )


def _without_nodes_beside(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    nodes: Mapping[GuestId, frozenset[NodeId]],
) -> Iterator[Contradiction]:
    """Yield guests that may be only on nodes that the other side cannot leave."""
    all_nodes = frozenset(snapshot.nodes)
    for rule in snapshot.rules:
        if not (isinstance(rule, MutualAntiAffinity) and rule.strict):
            continue
        one, other = (
            {g: nodes.get(g, all_nodes) for g in side}
            for side in (
                existing_guests(rule.guests, snapshot),
                existing_guests(rule.other_guests, snapshot),
            )
        )
        trapped = {**_trapped(one, other), **_trapped(other, one)}
        if trapped:
            guest, blockers = min(trapped.items())
            guests = frozenset(trapped).union(*trapped.values())
            members = NO_GUESTS.union(
                *(together.get(g, frozenset({g})) for g in guests)
            )
            yield Contradiction(
                (rule, *_strict_rules_of(snapshot, members, NodeAffinity)),
                guests,
                f"anti-affinity of {guest} to "
                f"{format_list(sorted(blockers), separator=' and ')}, which may only "
                f"be on the nodes allowed for {guest}",
            )


def _trapped(
    side: Mapping[GuestId, frozenset[NodeId]],
    opposite: Mapping[GuestId, frozenset[NodeId]],
) -> dict[GuestId, GuestSet]:
    """Return the guests of *side* without a node beside *opposite*.

    Args:
        side: Nodes that each guest may be on.
        opposite: The same for the guests of the other side.

    Returns:
        A guest of the other side for each node that it may be on, by the guest.
    """
    taken = {min(nodes): guest for guest, nodes in opposite.items() if len(nodes) == 1}
    return {
        guest: frozenset(taken[node] for node in nodes)
        for guest, nodes in side.items()
        if nodes and nodes <= taken.keys()
    }


def _demand_of(rule: AntiAffinity, count: int) -> str:
    if rule.is_pairwise:
        return f"anti-affinity among {count} guests"
    return f"at most {rule.max_guests} of {count} guests per {rule.domain or 'node'}"


def _immovable_apart(
    snapshot: Snapshot,
    together: Mapping[GuestId, GuestSet],
    immovable: Collection[GuestId],
) -> Iterator[Contradiction]:
    for group in dict.fromkeys(together.values()):
        occupied = {
            snapshot.guests[guest].node
            for guest in group
            if guest in immovable
            or snapshot.guests[guest].effective_mobility is Mobility.NONE
        }
        if len(occupied) > 1:
            yield Contradiction(
                _strict_rules_of(snapshot, group, Affinity),
                group,
                f"affinity of {format_list(sorted(group), separator=' and ')}, but "
                "some of them cannot leave "
                f"{format_list(sorted(occupied), separator=' and ')}",
            )


def _strict_rules_of(
    snapshot: Snapshot, guests: GuestSet, kind: type[Affinity | NodeAffinity]
) -> tuple[Rule, ...]:
    return tuple(
        rule
        for rule in snapshot.rules
        if isinstance(rule, kind) and rule.strict and rule.guests & guests
    )
