"""Guests that must all be apart, and are more than the nodes that are open to them."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import AntiAffinity, NodeId, Rule, Snapshot
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.groups import NOBODY, Guests
from opendrs.rules.matching import most_apart

MOST_WEIGHED = 100  # guests of whom the one is sought that fits best to the rest


@dataclass(frozen=True, slots=True)
class Crowd:
    """Guests that must all be apart, and are too many for their nodes.

    Attributes:
        guests: Who they are.
        nodes: The online nodes that rules leave open to any of them.
        most: How many of them can be apart there.
        rules: The rules that keep them apart, in order.
    """

    guests: Guests
    nodes: frozenset[NodeId]
    most: int
    rules: tuple[Rule, ...]


def crowd_around(
    rule: AntiAffinity, snapshot: Snapshot, rules: CompiledRules
) -> Crowd | None:
    """Return a crowd that the guests of *rule* belong to; None if none is found.

    Others are taken in who must be apart from all of them. Whoever must be apart from
    most of the rest comes first, so that the largest crowd is not always found.

    Args:
        rule: Which guests must be apart.
        snapshot: The cluster, with its rules.
        rules: The same rules, compiled.
    """
    present = frozenset(g.id for g in snapshot.guests.values() if g.present)
    online = frozenset(node.id for node in snapshot.nodes.values() if node.online)
    members = sorted(rule.guests & present)
    apart = [rules.apart.get(guest, NOBODY) for guest in members]
    others = present.intersection(*apart) if apart else NOBODY
    while others and len(members) <= len(online):
        some = sorted(others)[:MOST_WEIGHED]
        new = min(some, key=lambda g: (-len(rules.apart[g] & others), g))
        members.append(new)
        others &= rules.apart[new]
    choices = {g: rules.nodes.get(g, online) & online for g in sorted(members)}
    most = most_apart(choices)
    if most >= len(members):
        return None
    bound = frozenset(members)
    return Crowd(
        guests=bound,
        nodes=frozenset[NodeId]().union(*choices.values()),
        most=most,
        rules=tuple(
            rule
            for rule in snapshot.rules
            if isinstance(rule, AntiAffinity)
            and rule.strict
            and len(rule.guests & bound) > 1
        ),
    )
