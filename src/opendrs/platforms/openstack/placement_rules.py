"""Placement rules that Nova has, or that users have set as metadata of servers.

Users set metadata of their servers; it applies to servers of the same project:

- `opendrs.affinity = web` places all servers with this word on the same node,
  `opendrs.anti-affinity = web` on different nodes; several words are separated by
  commas. `opendrs.soft-affinity` and `opendrs.soft-anti-affinity` are preferences.
- `opendrs.pin = true` keeps a server on its node.

A flavor, which only administrators define, has the priority of its servers as extra
spec `opendrs:priority`: low, normal, high or a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Node,
    NodeAffinity,
    NodeId,
    Rule,
)
from opendrs.platforms.openstack.reading import CloudState
from opendrs.platforms.openstack.responses import Server, ServerGroup
from opendrs.rules import keyed_group_rules, keyed_priorities, pin_rules

PREFIX = "opendrs."
_PIN = f"{PREFIX}pin"
_PRIORITY = "opendrs:priority"
_TRAIT = "trait:"


def platform_rules(
    state: CloudState,
    guests: Mapping[str, Guest],
    nodes: Mapping[NodeId, Node],
) -> tuple[Rule, ...]:
    """Return all rules, each with its origin.

    Args:
        state: The responses.
        guests: The guests, by the UUID of the server.
        nodes: The nodes.
    """
    servers = [each for each in state.servers if each.id in guests]
    ids = {uuid: guest.id for uuid, guest in guests.items()}
    pinned = (
        ids[each.id]
        for each in servers
        if each.metadata.get(_PIN, "").lower() == "true"
    )
    return (
        *(rule for group in state.groups for rule in _group_rules(group, guests)),
        *_zone_rules(servers, ids, nodes),
        *_trait_rules(state, servers, guests, nodes),
        *keyed_group_rules(
            ((ids[each.id], each.project, each.metadata) for each in servers),
            PREFIX,
            "metadata ",
        ),
        *pin_rules(pinned, f"metadata {_PIN}"),
        *keyed_priorities(
            (
                (ids[each.id], each.flavor.extra_specs.get(_PRIORITY, ""))
                for each in servers
                if each.flavor is not None
            ),
            f"flavors with {_PRIORITY}",
        ),
    )


def _group_rules(group: ServerGroup, guests: Mapping[str, Guest]) -> Iterator[Rule]:
    members = [guests[each] for each in group.members if each in guests]
    if len(members) < 2:
        return
    ids = frozenset(each.id for each in members)
    origin = f"server group {group.name} ({group.id})"
    strict = not group.policy.startswith("soft-")
    match group.policy.removeprefix("soft-"):
        case "affinity":
            yield Affinity(guests=ids, strict=strict, name=group.name, origin=origin)
        case "anti-affinity":
            yield AntiAffinity(
                guests=ids,
                strict=strict,
                name=group.name,
                origin=origin,
                max_guests=group.rules.max_server_per_host or 1,
            )


def _zone_rules(
    servers: Iterable[Server],
    ids: Mapping[str, GuestId],
    nodes: Mapping[NodeId, Node],
) -> Iterator[Rule]:
    """Yield the zones that servers were created in by request.

    Nova before 2024.1 does not report the request: then each server stays in its zone.
    """
    if len({node.failure_domain for node in nodes.values()}) < 2:
        return
    pinned: dict[tuple[str, str], set[GuestId]] = {}
    for server in servers:
        if server.has_known_pin:
            zone, origin = server.pinned_availability_zone, "requested at creation"
        else:
            zone, origin = server.zone, "current zone; Nova does not report a request"
        if zone:
            pinned.setdefault((zone, origin), set()).add(ids[server.id])
    for (zone, origin), guests in sorted(pinned.items()):
        allowed = {n for n, node in nodes.items() if node.failure_domain == zone}
        if allowed:
            yield NodeAffinity(
                guests=frozenset(guests),
                nodes=dict.fromkeys(sorted(allowed), 0),
                name=f"availability zone {zone}",
                origin=f"availability zone of the servers, {origin}",
            )


def _trait_rules(
    state: CloudState,
    servers: Iterable[Server],
    guests: Mapping[str, Guest],
    nodes: Mapping[NodeId, Node],
) -> Iterator[Rule]:
    """Yield the traits that flavors require or forbid.

    A server whose own node does not conform is left out: its trait is that of a nested
    provider, or the operator has changed the traits, which moves no server.
    """
    traits = {
        NodeId(each.service.host): frozenset(state.providers[each.id].traits)
        for each in state.hypervisors
        if each.id in state.providers
    }
    restricted: dict[tuple[str, str], set[GuestId]] = {}
    allowed: dict[tuple[str, str], set[NodeId]] = {}
    for server in servers:
        specs = {} if server.flavor is None else server.flavor.extra_specs
        for key, value in specs.items():
            trait = key.removeprefix(_TRAIT)
            if trait == key or value not in ("required", "forbidden"):
                continue
            if (trait, value) not in allowed:
                allowed[trait, value] = {
                    node
                    for node, found in traits.items()
                    if node in nodes and (trait in found) is (value == "required")
                }
            guest = guests[server.id]
            if guest.node in allowed[trait, value]:
                restricted.setdefault((trait, value), set()).add(guest.id)
    for (trait, value), chosen in sorted(restricted.items()):
        yield NodeAffinity(
            guests=frozenset(chosen),
            nodes=dict.fromkeys(sorted(allowed[trait, value]), 0),
            name=f"trait {trait} {value}",
            origin=f"flavors with {_TRAIT}{trait}={value}",
        )
