"""Placement rules from the tags of guests.

Tags of Proxmox VE consist of small letters, digits and `_ - + .`:

- `opendrs.affinity.web` places all guests with this tag on one node,
  `opendrs.anti-affinity.web` on different nodes;
- `opendrs.soft-affinity.web` and `opendrs.soft-anti-affinity.web` are preferences;
- `opendrs.node.pve1` places a guest on this node; several tags allow several nodes;
- `opendrs.pin` keeps a guest on its node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opendrs.model import (
    Guest,
    GuestId,
    NodeAffinity,
    NodeId,
    Rule,
)
from opendrs.rules import GROUP_RULES, pin_rules

PREFIX = "opendrs."
_PIN, _NODE = f"{PREFIX}pin", f"{PREFIX}node."
_GROUPS = {f"{PREFIX}{kind}.": rule for kind, rule in GROUP_RULES.items()}


def tag_rules(guests: Iterable[Guest], nodes: Iterable[NodeId]) -> tuple[Rule, ...]:
    """Return the rules that the tags of *guests* define, each with its origin.

    Args:
        guests: The guests.
        nodes: The nodes of the cluster; tags with others have no effect.
    """
    rows = tuple(guests)
    pinned = (guest.id for guest in rows if _PIN in guest.tags)
    return (
        *_groups(rows),
        *_node_rules(rows, frozenset(nodes)),
        *pin_rules(pinned, f"tag {_PIN}"),
    )


def _groups(guests: Iterable[Guest]) -> Iterator[Rule]:
    members: dict[str, set[GuestId]] = {}
    for guest in guests:
        for tag in guest.tags:
            members.setdefault(tag, set()).add(guest.id)
    for tag, names in sorted(members.items()):
        for prefix, rule in _GROUPS.items():
            if tag.startswith(prefix) and len(names) > 1:
                yield rule(guests=frozenset(names), name=tag, origin=f"tag {tag}")


def _node_rules(guests: Iterable[Guest], nodes: frozenset[NodeId]) -> Iterator[Rule]:
    for guest in guests:
        named = {
            NodeId(t.removeprefix(_NODE)) for t in guest.tags if t.startswith(_NODE)
        }
        if allowed := named & nodes:
            yield NodeAffinity(
                guests=frozenset({guest.id}),
                nodes=dict.fromkeys(sorted(allowed), 0),
                name=f"nodes of {guest.id}",
                origin=f"tags {_NODE}*",
            )
