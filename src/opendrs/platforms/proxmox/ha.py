"""High availability: managed guests, their rules, and the owner of each guest.

Rules of Proxmox VE 9 and groups of Proxmox VE 8 become placement rules. A guest that
the HA manager or automatic rebalancing acts on has an owner, and is not migrated.

Source:
    Recorded from Proxmox VE 9.2; `auto-rebalance` of a resource is of later releases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    NodeAffinity,
    NodeId,
    Rule,
)
from opendrs.platforms.proxmox.responses import (
    HaGroupRow,
    HaResourceRow,
    HaRuleRow,
    parse_object,
)
from opendrs.transport.http_json import get_mapping

IGNORE = "ignore"  # mode of a disarmed HA stack in which it acts on no guest
SETTLED_STATES = frozenset({"started", "stopped", "ignored"})
MOVING_STATES = frozenset({"migrate", "relocate"})
_UNMANAGED_STATES = frozenset({"ignored"})
# States in which the HA manager acts on a guest even while it is being disarmed.
_DEFERRING_STATES = MOVING_STATES | {"fence", "recovery"}
_LOST_NODE_STATES = frozenset({"fence", "unknown", "gone"})


@dataclass(frozen=True, slots=True)
class HaService:
    """State of a service in the HA manager.

    Attributes:
        state: The state, such as started or migrate.
        node: Its node; None if not reported.
        target: Target of its migration; None without one.
    """

    state: str
    node: str | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaStatus:
    """Status of the HA manager.

    Attributes:
        services: The services by id (`vm:100`, `ct:110`).
        maintenance: Nodes in maintenance, or for which it is requested.
        lost_nodes: Nodes that the HA manager has lost or is fencing.
        disarm_mode: `freeze` or `ignore` while the HA stack is disarmed.
        reported_at: Latest time that a part of the HA stack reported, in seconds since
            1970 on the clocks of the cluster; None if no part has run.
    """

    services: Mapping[str, HaService] = field(default_factory=dict)
    maintenance: frozenset[str] = frozenset()
    lost_nodes: frozenset[str] = frozenset()
    disarm_mode: str | None = None
    reported_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaView:
    """Configuration and status of the HA stack.

    Attributes:
        resources: The HA resources by id.
        status: The status of the HA manager.
        rules: The rules of Proxmox VE 9.
        groups: The groups of Proxmox VE 8.
        rebalanced: The resources that the cluster rebalances by itself.
    """

    resources: Mapping[str, HaResourceRow] = field(default_factory=dict)
    status: HaStatus = HaStatus()
    rules: tuple[HaRuleRow, ...] = ()
    groups: tuple[HaGroupRow, ...] = ()
    rebalanced: frozenset[str] = frozenset()

    def is_managed(self, sid: str) -> bool:
        """Return True if the HA manager migrates and restarts the guest *sid*."""
        resource = self.resources.get(sid)
        if resource is None or resource.state in _UNMANAGED_STATES:
            return False
        return self.status.disarm_mode != IGNORE


def parse_ha_status(data: object, request: str) -> HaStatus:
    """Return the status in the response of `GET /cluster/ha/status/manager_status`.

    Raises:
        UnexpectedResponseError: *data* is not an object.
    """
    document = parse_object(data, request)
    manager = get_mapping(document, "manager_status")
    lrm = get_mapping(document, "lrm_status")
    requests = get_mapping(manager, "node_request")
    states = {
        node: _text(each) for node, each in get_mapping(manager, "node_status").items()
    }
    times = [get_mapping(each).get("timestamp") for each in (manager, *lrm.values())]
    requested = {node for node, each in requests.items() if get_mapping(each)}
    return HaStatus(
        services={
            sid: HaService(
                str(get_mapping(each).get("state") or "unknown"),
                _text(get_mapping(each).get("node")),
                _text(get_mapping(each).get("target")),
            )
            for sid, each in get_mapping(manager, "service_status").items()
        },
        maintenance=frozenset(
            requested | {node for node, each in states.items() if each == "maintenance"}
        ),
        lost_nodes=frozenset(
            node for node, each in states.items() if each in _LOST_NODE_STATES
        ),
        disarm_mode=_text(get_mapping(manager, "disarm").get("mode")),
        reported_at=max((t for t in times if isinstance(t, int | float)), default=None),
    )


def parse_auto_rebalance(data: object, request: str) -> bool:
    """Return whether `GET /cluster/options` switches automatic rebalancing on.

    Raises:
        UnexpectedResponseError: *data* is not an object.
    """
    scheduling = get_mapping(parse_object(data, request).get("crs"))
    return str(scheduling.get("ha-auto-rebalance")) == "1"


def ha_owner(view: HaView, sid: str, state: str | None) -> str | None:
    """Return what decides on the placement of the guest *sid*; None if nothing does.

    Args:
        view: The HA stack.
        sid: The guest.
        state: State of the guest as the list of resources shows it; None without one.
    """
    service = view.status.services.get(sid)
    if view.is_managed(sid) and service is not None:
        state = service.state
    if not is_settled(view.status, state):
        if state == "error":
            return "the HA manager: state error, disable the resource and fix it first"
        return f"the HA manager: state {state}"
    if not view.is_managed(sid):
        return None
    if view.status.disarm_mode is not None:
        return "the HA manager: disarmed"
    if service is not None and service.node in view.status.maintenance:
        return "the HA manager: node in maintenance"
    is_rebalanced = sid in view.rebalanced
    return "automatic rebalancing of the cluster (CRS)" if is_rebalanced else None


def is_settled(status: HaStatus, state: str | None) -> bool:
    """Return False if the HA manager acts on a guest whose service is in *state*.

    An HA stack that is disarmed in the mode ignore only ends what it has begun.
    """
    if status.disarm_mode == IGNORE:
        return state not in _DEFERRING_STATES
    return state is None or state in SETTLED_STATES


def rebalanced_resources(
    resources: Iterable[HaResourceRow], rules: Iterable[HaRuleRow]
) -> frozenset[str]:
    """Return the resources that automatic rebalancing moves where it is on.

    Switching it off for one resource excludes those with positive affinity, too.
    """
    rows = tuple(resources)
    excluded = {row.sid for row in rows if row.auto_rebalance is False}
    together = [set(_words(rule.resources)) for rule in rules if _is_positive(rule)]
    for _ in together:
        for members in together:
            if members & excluded:
                excluded |= members
    return frozenset(row.sid for row in rows) - excluded


def ha_rules(
    view: HaView, guests: Mapping[str, GuestId], nodes: Iterable[NodeId]
) -> tuple[Rule, ...]:
    """Return the placement rules of the HA stack.

    Args:
        view: The HA stack.
        guests: The guest of each id; rules about others are left out.
        nodes: The nodes of the cluster; others are left out of rules.
    """
    known = frozenset(nodes)
    return (
        *(rule for row in view.rules for rule in _rule(row, guests, known)),
        *(rule for group in view.groups for rule in _group(view, group, guests, known)),
    )


def _rule(
    row: HaRuleRow, guests: Mapping[str, GuestId], nodes: frozenset[NodeId]
) -> Iterator[Rule]:
    members = frozenset(guests[s] for s in _words(row.resources) if s in guests)
    name, origin = row.rule, "HA rule of Proxmox VE"
    if row.disable or not members:
        return
    if row.type == "node-affinity":
        strict = bool(row.strict)
        rule = _node_affinity(members, row.nodes, nodes, strict=strict)
        yield from (replace(each, name=name, origin=origin) for each in rule)
    elif row.type == "resource-affinity" and len(members) > 1:
        kind = Affinity if _is_positive(row) else AntiAffinity
        yield kind(guests=members, name=name, origin=origin)


def _group(
    view: HaView,
    group: HaGroupRow,
    guests: Mapping[str, GuestId],
    nodes: frozenset[NodeId],
) -> Iterator[Rule]:
    members = frozenset(
        guests[sid]
        for sid, row in view.resources.items()
        if row.group == group.group and sid in guests
    )
    if members:
        name, origin = group.group, "HA group of Proxmox VE"
        rule = _node_affinity(
            members, group.nodes, nodes, strict=bool(group.restricted)
        )
        yield from (replace(each, name=name, origin=origin) for each in rule)


def _node_affinity(
    guests: frozenset[GuestId],
    text: str | None,
    nodes: frozenset[NodeId],
    *,
    strict: bool,
) -> Iterator[NodeAffinity]:
    priorities: dict[NodeId, int] = {}
    for word in _words(text):
        node, _, priority = word.partition(":")
        if node in nodes:
            priorities[NodeId(node)] = int(priority) if priority.isdigit() else 0
    if priorities:
        yield NodeAffinity(guests=guests, nodes=priorities, strict=strict)


def _is_positive(rule: HaRuleRow) -> bool:
    return (
        rule.type == "resource-affinity"
        and rule.affinity == "positive"
        and not rule.disable
    )


def _words(text: str | None) -> list[str]:
    return (text or "").replace(",", " ").split()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
