"""What the rules of a snapshot mean for each guest, once all are taken together.

Connected keep-together groups become one, and what follows from the rules is
made explicit: who must be apart from one of a group must be apart from all of
it, and who may not go to a node keeps the whole group from it. Rules that
cannot hold together are named, and the guests they bind are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    GuestId,
    Mobility,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
)

Guests = frozenset[GuestId]
NOBODY: Guests = frozenset()


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
        names = "; ".join(f'"{rule}"' for rule in self.rules)
        return f"{self.why} ({names})"


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
    groups = _merged(_groups(snapshot, strict=True))
    together = {guest: group for group in groups for guest in group}
    apart = _shared(together, _pairs(_separated(snapshot, strict=True)))
    nodes = _shared_nodes(together, _allowed_nodes(snapshot))
    contradictions = (
        *_torn_groups(snapshot, together),
        *_homeless(snapshot, together, nodes),
        *_crowded(snapshot, together, nodes),
        *_fixed_apart(snapshot, groups),
    )
    return CompiledRules(
        together=together,
        apart=apart,
        nodes=nodes,
        rankings=_rankings(snapshot, together),
        soft_together=_pairs(_groups(snapshot, strict=False)),
        soft_apart=_pairs(_separated(snapshot, strict=False)),
        fixed=_fixed(snapshot, contradictions),
        contradictions=contradictions,
    )


def _known(guests: Guests, snapshot: Snapshot) -> Guests:
    return frozenset(guest for guest in guests if guest in snapshot.guests)


def _groups(snapshot: Snapshot, *, strict: bool) -> list[Guests]:
    return [
        known
        for rule in snapshot.rules
        if isinstance(rule, Affinity) and rule.strict is strict
        for known in [_known(rule.guests, snapshot)]
        if len(known) > 1
    ]


def _separated(snapshot: Snapshot, *, strict: bool) -> list[Guests]:
    return [
        known
        for rule in snapshot.rules
        if isinstance(rule, AntiAffinity) and rule.strict is strict
        for known in [_known(rule.guests, snapshot)]
        if len(known) > 1
    ]


def _node_affinities(snapshot: Snapshot) -> Iterator[tuple[NodeAffinity, Guests]]:
    for rule in snapshot.rules:
        if isinstance(rule, NodeAffinity):
            yield rule, _known(rule.guests, snapshot)


def _merged(groups: Sequence[Guests]) -> list[Guests]:
    """Return the connected components of *groups*."""
    component: dict[GuestId, set[GuestId]] = {}
    for group in groups:
        merged = set(group)
        for guest in group:
            merged |= component.get(guest, set())
        component.update(dict.fromkeys(merged, merged))
    return [frozenset(each) for each in {id(c): c for c in component.values()}.values()]


def _pairs(groups: Iterable[Guests]) -> dict[GuestId, Guests]:
    """Return for each guest all others that share one of *groups* with it."""
    others: dict[GuestId, Guests] = {}
    for group in groups:
        for guest in group:
            others[guest] = others.get(guest, NOBODY) | group - {guest}
    return others


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
    others = {other for guests in result.values() for other in guests} - set(result)
    for other in others:
        group = together.get(other, frozenset({other}))
        result[other] = frozenset(g for g in result if result[g] & group)
    return result


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


def _torn_groups(
    snapshot: Snapshot, together: Mapping[GuestId, Guests]
) -> Iterator[Contradiction]:
    for rule in snapshot.rules:
        if not (isinstance(rule, AntiAffinity) and rule.strict):
            continue
        for one, other in combinations(sorted(_known(rule.guests, snapshot)), 2):
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
        names = " and ".join(sorted(group))
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
        guests = _known(rule.guests, snapshot)
        choices = {g: nodes.get(g, everywhere) & everywhere for g in sorted(guests)}
        if not all(choices.values()):
            continue  # told as homeless
        placed = _most_apart(choices)
        if placed < len(guests):
            bound = NOBODY.union(*(together.get(g, frozenset({g})) for g in guests))
            yield Contradiction(
                (rule, *_rules_about(snapshot, bound, NodeAffinity)),
                guests,
                f"{len(guests)} guests must be apart and their nodes suffice for "
                f"{placed}",
            )


def _most_apart(choices: Mapping[GuestId, frozenset[NodeId]]) -> int:
    """Return how many guests can have a node of their own (Kuhn's matching)."""
    if len(choices) <= min(map(len, choices.values()), default=0):
        return len(choices)
    holder: dict[NodeId, GuestId] = {}
    return sum(_place(guest, choices, holder) for guest in choices)


def _place(
    guest: GuestId,
    choices: Mapping[GuestId, frozenset[NodeId]],
    holder: dict[NodeId, GuestId],
) -> bool:
    """Give *guest* a node of its own, moving others if need be; say whether."""
    reached: dict[NodeId, GuestId] = {}
    waiting = [guest]
    for asking in waiting:
        for node in sorted(choices[asking] - set(reached)):
            reached[node] = asking
            if node in holder:
                waiting.append(holder[node])
                continue
            _shift(node, guest, reached, holder)
            return True
    return False


def _shift(
    free: NodeId,
    guest: GuestId,
    reached: Mapping[NodeId, GuestId],
    holder: dict[NodeId, GuestId],
) -> None:
    """Move each guest on the way to *free* one node on, the last one *guest*."""
    mover = reached[free]
    while mover != guest:
        left = next(node for node, held in holder.items() if held == mover)
        holder[free] = mover
        free, mover = left, reached[left]
    holder[free] = guest


def _fixed_apart(
    snapshot: Snapshot, groups: Iterable[Guests]
) -> Iterator[Contradiction]:
    fixed = _fixed_by_rule(snapshot)
    for group in groups:
        held = {
            snapshot.guests[guest].node
            for guest in group
            if guest in fixed or snapshot.guests[guest].mobility is Mobility.NEVER
        }
        if len(held) > 1:
            yield Contradiction(
                _rules_about(snapshot, group, Affinity),
                group,
                f"{' and '.join(sorted(group))} must be together, and some of them "
                f"cannot leave {' and '.join(sorted(held))}",
            )


def _rules_about(
    snapshot: Snapshot, guests: Guests, kind: type[Affinity | NodeAffinity]
) -> tuple[Rule, ...]:
    return tuple(
        rule
        for rule in snapshot.rules
        if isinstance(rule, kind) and rule.strict and rule.guests & guests
    )


def _fixed_by_rule(snapshot: Snapshot) -> dict[GuestId, str]:
    fixed: dict[GuestId, str] = {}
    for rule in snapshot.rules:
        if isinstance(rule, Pin):
            fixed.update(dict.fromkeys(_known(rule.guests, snapshot), f"rule: {rule}"))
        elif isinstance(rule, Exclusion):
            for guest in snapshot.guests.values():
                if guest.tags & rule.tags:
                    fixed[guest.id] = f"rule: {rule}"
    return fixed


def _fixed(
    snapshot: Snapshot, contradictions: Iterable[Contradiction]
) -> dict[GuestId, str]:
    fixed = _fixed_by_rule(snapshot)
    for found in contradictions:
        for guest in found.guests:
            fixed.setdefault(guest, f"its rules contradict each other: {found.why}")
    return fixed
