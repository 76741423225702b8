"""Placement rules that guests name in tags or metadata: a kind of rule and a word.

All guests with the same kind and word form one rule, so that the owner of a guest can
state it where the guest is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
)

GROUP_RULES: Mapping[str, Callable[..., Rule]] = {
    "affinity": partial(Affinity, strict=True),
    "anti-affinity": partial(AntiAffinity, strict=True),
    "soft-affinity": partial(Affinity, strict=False),
    "soft-anti-affinity": partial(AntiAffinity, strict=False),
}
"""Rule of the guests with a common word, by its kind."""


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of *text*, which commas or spaces separate."""
    return tuple(text.replace(",", " ").split())


def keyed_group_rules(
    guests: Iterable[tuple[GuestId, str, Mapping[str, str]]],
    prefix: str,
    origin: str = "",
) -> Iterator[Rule]:
    """Yield the rules of the keys `PREFIX` + a kind of `GROUP_RULES`.

    Args:
        guests: Id, project and keys of each guest. The words in the values belong to
            the project; it is empty on platforms without projects.
        prefix: Start of the keys.
        origin: Text before the key in the origin of a rule.
    """
    members: dict[tuple[str, str, str], set[GuestId]] = {}
    for guest, project, keys in guests:
        for kind in GROUP_RULES:
            for word in words_of(keys.get(prefix + kind, "")):
                members.setdefault((kind, project, word), set()).add(guest)
    for (kind, project, word), group in sorted(members.items()):
        if len(group) > 1:
            within = f" in the project {project}" if project else ""
            yield GROUP_RULES[kind](
                guests=frozenset(group),
                name=f"{kind} {word}",
                origin=f"{origin}{prefix}{kind}{within}",
            )


def keyed_node_rules(
    guests: Iterable[tuple[GuestId, tuple[str, ...]]],
    nodes: Iterable[tuple[NodeId, Collection[str]]],
    origin: str,
) -> Iterator[Rule]:
    """Yield the nodes that each guest must be on, one rule for guests with equal words.

    Guests whose words name no node are pinned.

    Args:
        guests: Id and words of each guest: nodes, and groups of nodes as `@GROUP`. A
            guest without words has no rule.
        nodes: Id and groups of each node.
        origin: Where the words are set.
    """
    listed = tuple(nodes)
    members: dict[tuple[str, ...], set[GuestId]] = {}
    for guest, words in guests:
        if words:
            members.setdefault(tuple(sorted(words)), set()).add(guest)
    for words, group in sorted(members.items()):
        chosen, name = frozenset(group), f"nodes {','.join(words)}"
        allowed = {
            node: 0
            for node, groups in listed
            if node in words or any(f"@{each}" in words for each in groups)
        }
        if allowed:
            yield NodeAffinity(guests=chosen, nodes=allowed, name=name, origin=origin)
        else:
            yield Pin(guests=chosen, name=name, origin=origin)


def pin_rules(guests: Iterable[GuestId], origin: str) -> Iterator[Rule]:
    """Yield one rule that pins *guests*; none without guests.

    Args:
        guests: Guests with the key.
        origin: Where the key is set.
    """
    pinned = frozenset(guests)
    if pinned:
        yield Pin(guests=pinned, name="pinned", origin=origin)
