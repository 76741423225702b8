"""What the rules of a snapshot mean for each guest, once all are taken together.

Connected keep-together groups become one, and what follows from the rules is
made explicit: who must be apart from one of a group must be apart from all of
it, and who may not go to a node keeps the whole group from it. Rules that
cannot hold together are named, and the guests they bind are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    GuestId,
    NodeAffinity,
    NodeId,
    Pin,
    Snapshot,
)
from opendrs.rules.contradictions import Contradiction, contradictions
from opendrs.rules.groups import NOBODY, Guests, known, merged, named_by, pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRules:
    """The rules of one snapshot, by guest. A guest that no rule binds is absent.

    Attributes:
        together: The guests of each strict keep-together group, for each of
            them; the guest itself is among them.
        apart: The guests that may not share a node with it.
        nodes: The nodes it may be on.
        rankings: The rules that prefer some of the nodes it may be on; what
            they say of a node adds up, and a node they do not list has -1.
        soft_together: The guests it would better share a node with.
        soft_apart: The guests it would better not share a node with.
        fixed: Why it is not to be moved at all.
        contradictions: What cannot be kept.
    """

    together: Mapping[GuestId, Guests]
    apart: Mapping[GuestId, Guests]
    nodes: Mapping[GuestId, frozenset[NodeId]]
    rankings: Mapping[GuestId, tuple[NodeAffinity, ...]]
    soft_together: Mapping[GuestId, Guests]
    soft_apart: Mapping[GuestId, Guests]
    fixed: Mapping[GuestId, str]
    contradictions: tuple[Contradiction, ...]


def compile_rules(snapshot: Snapshot) -> CompiledRules:
    """Return what the rules of *snapshot* mean for each of its guests.

    Guests that the snapshot does not have are passed over; an anti-affinity
    rule among fewer than two guests then binds nobody.
    """
    groups = merged(named_by(snapshot, Affinity, strict=True))
    together = {guest: group for group in groups for guest in group}
    apart = pairs(named_by(snapshot, AntiAffinity, strict=True))
    nodes = _shared_nodes(together, _allowed_nodes(snapshot))
    fixed = _fixed(snapshot)
    found = contradictions(snapshot, together, nodes, fixed)
    return CompiledRules(
        together=together,
        apart=_shared(together, apart),
        nodes=nodes,
        rankings=_rankings(snapshot, together),
        soft_together=pairs(named_by(snapshot, Affinity, strict=False)),
        soft_apart=pairs(named_by(snapshot, AntiAffinity, strict=False)),
        fixed={**_entangled(found), **fixed},
        contradictions=found,
    )


def _shared(
    together: Mapping[GuestId, Guests], apart: Mapping[GuestId, Guests]
) -> dict[GuestId, Guests]:
    """Return *apart* with what follows for guests that stay together.

    Whole groups are apart from whole groups, except that nobody is apart from
    its own group: that is a contradiction, and told as one.
    """
    result: dict[GuestId, Guests] = {}
    for guest in set(apart) | set(together):
        group = together.get(guest, frozenset({guest}))
        direct = NOBODY.union(*(apart.get(member, NOBODY) for member in group))
        implied = direct.union(*(together.get(other, NOBODY) for other in direct))
        if implied - group:
            result[guest] = implied - group
    return result


def _node_affinities(snapshot: Snapshot) -> Iterator[tuple[NodeAffinity, Guests]]:
    for rule in snapshot.rules:
        if isinstance(rule, NodeAffinity):
            yield rule, known(rule.guests, snapshot)


def _allowed_nodes(snapshot: Snapshot) -> dict[GuestId, frozenset[NodeId]]:
    allowed: dict[GuestId, frozenset[NodeId]] = {}
    for rule, guests in _node_affinities(snapshot):
        if rule.strict:
            nodes = frozenset(rule.nodes)
            for guest in guests:
                allowed[guest] = allowed.get(guest, nodes) & nodes
    return allowed


def _shared_nodes(
    together: Mapping[GuestId, Guests], nodes: Mapping[GuestId, frozenset[NodeId]]
) -> dict[GuestId, frozenset[NodeId]]:
    result = dict(nodes)
    for guest, group in together.items():
        sets = [nodes[member] for member in group if member in nodes]
        if sets:
            result[guest] = frozenset.intersection(*sets)
    return result


def _rankings(
    snapshot: Snapshot, together: Mapping[GuestId, Guests]
) -> dict[GuestId, tuple[NodeAffinity, ...]]:
    result: dict[GuestId, tuple[NodeAffinity, ...]] = {}
    for rule, guests in _node_affinities(snapshot):
        if rule.strict and len(set(rule.nodes.values())) == 1:
            continue  # it forbids the other nodes and prefers none of its own
        bound = NOBODY.union(*(together.get(g, frozenset({g})) for g in guests))
        for guest in bound:
            result[guest] = (*result.get(guest, ()), rule)
    return result


def _fixed(snapshot: Snapshot) -> dict[GuestId, str]:
    fixed: dict[GuestId, str] = {}
    for rule in snapshot.rules:
        if isinstance(rule, Pin):
            fixed.update(dict.fromkeys(known(rule.guests, snapshot), f"rule: {rule}"))
        elif isinstance(rule, Exclusion):
            for guest in snapshot.guests.values():
                if guest.tags & rule.tags:
                    fixed[guest.id] = f"rule: {rule}"
    return fixed


def _entangled(found: Iterable[Contradiction]) -> dict[GuestId, str]:
    entangled: dict[GuestId, str] = {}
    for each in found:
        for guest in each.guests:
            why = f"its rules contradict each other: {each.why}"
            entangled.setdefault(guest, why)
    return entangled
