"""Placement rules from the tags of guests.

Tags of Proxmox VE consist of small letters, digits and `_ - + .`:

- `opendrs.affinity.web` places all guests with this tag on one node,
  `opendrs.anti-affinity.web` on different nodes;
- `opendrs.soft-affinity.web` and `opendrs.soft-anti-affinity.web` are preferences;
- `opendrs.node.pve1` places a guest on this node; several tags allow several nodes;
- `opendrs.pin` keeps a guest on its node;
- `opendrs.priority.high` is its priority: low, normal, high or a number.

With the setting `proxlb_tags`, the tags of ProxLB are rules as well:

- `plb_affinity_web` and `plb_anti_affinity_web` are as above. Anti-affinity of more
  guests than there are nodes is a preference;
- `plb_pin_pve1` places a guest on this node; several tags allow several nodes;
- `plb_ignore_web`, and any other tag that begins with `plb_ignore`, keeps a guest on
  its node.

Source:
    Documentation of ProxLB 2.3: README, section Affinity & Anti-Affinity Rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    NodeAffinity,
    NodeId,
    Rule,
)
from opendrs.rules import GROUP_RULES, keyed_priorities, pin_rules

PREFIX = "opendrs."
_PIN, _NODE = f"{PREFIX}pin", f"{PREFIX}node."
_PRIORITY = f"{PREFIX}priority."
_GROUPS = {f"{PREFIX}{kind}.": rule for kind, rule in GROUP_RULES.items()}
_PROXLB_NODE, _PROXLB_IGNORE = "plb_pin_", "plb_ignore"
_PROXLB_GROUPS: Mapping[str, Callable[..., Rule]] = {
    "plb_affinity_": Affinity,
    "plb_anti_affinity_": AntiAffinity,
}


def tag_rules(guests: Iterable[Guest], nodes: Iterable[NodeId]) -> tuple[Rule, ...]:
    """Return the rules that the tags of *guests* define, each with its origin.

    Args:
        guests: The guests.
        nodes: The nodes of the cluster; tags with others have no effect.
    """
    members = _guests_by_tag(guests)
    return (
        *_groups(members, _GROUPS),
        *_node_rules(members, _NODE, nodes),
        *pin_rules(members.get(_PIN, ()), f"tag {_PIN}"),
        *keyed_priorities(
            (
                (guest, tag.removeprefix(_PRIORITY))
                for tag, names in members.items()
                if tag.startswith(_PRIORITY)
                for guest in names
            ),
            f"tags {_PRIORITY}*",
        ),
    )


def proxlb_tag_rules(
    guests: Iterable[Guest], nodes: Iterable[NodeId]
) -> tuple[Rule, ...]:
    """Return the rules that tags of ProxLB define, each with its origin.

    Args:
        guests: The guests.
        nodes: The nodes of the cluster; tags with others have no effect.
    """
    names = tuple(nodes)
    members = _guests_by_tag(guests)
    ignored = (tag for tag in sorted(members) if tag.startswith(_PROXLB_IGNORE))
    return (
        *(
            replace(rule, strict=False)
            if isinstance(rule, AntiAffinity) and len(rule.guests) > len(names)
            else rule
            for rule in _groups(members, _PROXLB_GROUPS)
        ),
        *_node_rules(members, _PROXLB_NODE, names),
        *(rule for tag in ignored for rule in pin_rules(members[tag], f"tag {tag}")),
    )


def _guests_by_tag(guests: Iterable[Guest]) -> dict[str, set[GuestId]]:
    members: dict[str, set[GuestId]] = {}
    for guest in guests:
        for tag in guest.tags:
            members.setdefault(tag, set()).add(guest.id)
    return members


def _groups(
    members: Mapping[str, set[GuestId]], kinds: Mapping[str, Callable[..., Rule]]
) -> Iterator[Rule]:
    for tag, names in sorted(members.items()):
        for prefix, rule in kinds.items():
            if tag.startswith(prefix) and len(names) > 1:
                yield rule(guests=frozenset(names), name=tag, origin=f"tag {tag}")


def _node_rules(
    members: Mapping[str, set[GuestId]], prefix: str, nodes: Iterable[NodeId]
) -> Iterator[Rule]:
    """Yield the rule of each guest with tags of *prefix* and a node.

    Proxmox VE may write tags in small letters, also where the name of the node is not.
    """
    allowed: dict[GuestId, set[NodeId]] = {}
    for node in nodes:
        for tag in (f"{prefix}{node}", f"{prefix}{node.lower()}"):
            for guest in members.get(tag, ()):
                allowed.setdefault(guest, set()).add(node)
    for guest, names in sorted(allowed.items()):
        yield NodeAffinity(
            guests=frozenset({guest}),
            nodes=dict.fromkeys(sorted(names), 0),
            name=f"nodes of {guest}",
            origin=f"tags {prefix}*",
        )
