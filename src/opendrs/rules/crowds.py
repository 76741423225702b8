"""Guests that must all be apart, and are more than the nodes that are open to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opendrs.model import AntiAffinity, GuestId, NodeId, Rule, Snapshot
from opendrs.rules.compilation import CompiledRules
from opendrs.rules.groups import NOBODY, Guests
from opendrs.rules.matching import most_apart


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
    guests: Iterable[GuestId], snapshot: Snapshot, rules: CompiledRules
) -> Crowd | None:
    """Return a crowd that *guests* belong to; None if none is found.

    Others are taken in who must be apart from all of them, first those that must be
    apart from most of the rest. The largest crowd is not always found so.

    Args:
        guests: Of whom each must be apart from each other one.
        snapshot: The cluster, with its rules.
        rules: The same rules, compiled.
    """
    members = sorted(set(guests))
    others = frozenset.intersection(*(rules.apart.get(g, NOBODY) for g in members))
    while others:
        new = min(others, key=lambda g: (-len(rules.apart[g] & others), g))
        members.append(new)
        others &= rules.apart[new]
    online = frozenset(node.id for node in snapshot.nodes.values() if node.online)
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
