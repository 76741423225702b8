"""Anti-affinity among more guests than there are nodes or domains for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opendrs.model import AntiAffinity, GuestId, NodeId, Rule, Snapshot
from opendrs.rules.affinity_groups import NO_GUESTS, GuestSet, maximum_matching
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.domain_limits import most_in_domains

MAX_CANDIDATES = 100  # guests compared for each extension of the set


@dataclass(frozen=True, slots=True)
class InfeasibleAntiAffinity:
    """Guests with mutual anti-affinity, too many for their nodes.

    Attributes:
        guests: The guests.
        nodes: Online nodes that rules allow for any of them.
        max_separated: Number of guests that can be on different nodes, or within the
            limit of each domain.
        rules: Anti-affinity rules among them, in order.
    """

    guests: GuestSet
    nodes: frozenset[NodeId]
    max_separated: int
    rules: tuple[Rule, ...]


def find_infeasible_anti_affinity(
    rule: AntiAffinity, snapshot: Snapshot, rules: CompiledRules
) -> InfeasibleAntiAffinity | None:
    """Return an infeasible set that includes the guests of *rule*, or None.

    The set is extended greedily by guests with anti-affinity to all of its members,
    those with anti-affinity to most candidates first. The largest set is not always
    found.

    Args:
        rule: The anti-affinity rule to start from.
        snapshot: The cluster, with its rules.
        rules: The same rules, compiled.
    """
    active = frozenset(g.id for g in snapshot.guests.values() if g.is_active)
    online = frozenset(node.id for node in snapshot.nodes.values() if node.online)
    members = sorted(rule.guests & active)
    if not rule.is_pairwise:
        return _too_few_domains(rule, members, online, snapshot, rules)
    apart = [rules.apart.get(guest, NO_GUESTS) for guest in members]
    others = active.intersection(*apart) if apart else NO_GUESTS
    while others and len(members) <= len(online):
        candidates = sorted(others)[:MAX_CANDIDATES]
        new = min(candidates, key=lambda g: (-len(rules.apart[g] & others), g))
        members.append(new)
        others &= rules.apart[new]
    allowed = _possible_nodes(sorted(members), online, snapshot, rules)
    max_separated = maximum_matching(allowed)
    if max_separated >= len(members):
        return None
    guests = frozenset(members)
    return InfeasibleAntiAffinity(
        guests=guests,
        nodes=frozenset[NodeId]().union(*allowed.values()),
        max_separated=max_separated,
        rules=tuple(
            rule
            for rule in snapshot.rules
            if isinstance(rule, AntiAffinity)
            and rule.strict
            and rule.is_pairwise
            and len(rule.guests & guests) > 1
        ),
    )


def _too_few_domains(
    rule: AntiAffinity,
    members: Sequence[GuestId],
    online: frozenset[NodeId],
    snapshot: Snapshot,
    rules: CompiledRules,
) -> InfeasibleAntiAffinity | None:
    """Return the guests of *rule* if its domains do not suffice for them, or None."""
    allowed = _possible_nodes(members, online, snapshot, rules)
    placed = most_in_domains(rule, snapshot, allowed)
    if placed >= len(members):
        return None
    nodes = frozenset[NodeId]().union(*allowed.values())
    return InfeasibleAntiAffinity(frozenset(members), nodes, placed, (rule,))


def _possible_nodes(
    guests: Sequence[GuestId],
    online: frozenset[NodeId],
    snapshot: Snapshot,
    rules: CompiledRules,
) -> dict[GuestId, frozenset[NodeId]]:
    """Return the nodes on which each of *guests* may be after a plan.

    A guest may stay where it is, even if no guests can migrate there or a rule forbids
    it: that rule remains violated, which does not prevent the repair of others.
    """
    return {
        name: (rules.nodes.get(name, online) & online).union(
            snapshot.guests[name].occupied_nodes
        )
        for name in guests
    }
