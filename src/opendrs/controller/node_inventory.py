"""Inventory of nodes in the store, for nodes that are powered off.

A node that is powered off cannot report its capacity, and a plan that powers it on
requires the capacity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opendrs.errors import StoreError
from opendrs.model import (
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    time_from_text,
)
from opendrs.ports import Outcome, Store

STORE_KEY = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """Last known properties of a node.

    Attributes:
        seen_at: Time of the last snapshot in which the node was reachable.
        capacity: Capacity of the node.
        architecture: Instruction set; None if unknown.
        cpu_model: Processor model; None if unknown.
    """

    seen_at: datetime
    capacity: Resources
    architecture: str | None = None
    cpu_model: str | None = None


def record_nodes(snapshot: Snapshot, store: Store) -> None:
    """Save the properties of the reachable nodes; remove nodes not in *snapshot*.

    Raises:
        StoreError: The store cannot be read or written.
    """
    known = load_known_nodes(store)
    current = {
        name: _known_node(node, node.capacity, snapshot.taken_at)
        for name, node in snapshot.nodes.items()
        if node.reachable and node.capacity is not None
    }
    former = {name: known[name] for name in snapshot.nodes if name in known}
    save_known_nodes({**former, **current}, store)


def save_known_nodes(nodes: Mapping[NodeId, KnownNode], store: Store) -> None:
    """Replace the inventory by *nodes*.

    Raises:
        StoreError: The store cannot be written.
    """
    store.save(STORE_KEY, {name: _encode_node(node) for name, node in nodes.items()})


def fill_known_nodes(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the inventory of nodes that are unreachable.

    A node that was powered off and not seen since is treated as offline, because not
    every node can report its power state. The capacity of an offline node is taken
    from the inventory.

    Raises:
        StoreError: The store cannot be read.
    """
    unobserved = {NodeState.UNKNOWN, NodeState.OFFLINE}
    if not any(node.state in unobserved for node in snapshot.nodes.values()):
        return snapshot
    known = load_known_nodes(store)
    powered_off = _powered_off_nodes(snapshot, known, store)
    nodes = dict(snapshot.nodes)
    for name, last_known in known.items():
        node = nodes.get(name)
        if node is None:
            continue
        if name in powered_off:
            node = replace(node, state=NodeState.OFFLINE)
        if node.state is NodeState.OFFLINE and node.capacity is None:
            node = replace(
                node,
                capacity=last_known.capacity,
                architecture=last_known.architecture,
                cpu_model=last_known.cpu_model,
            )
        nodes[name] = node
    return replace(snapshot, nodes=nodes)


def load_known_nodes(store: Store) -> dict[NodeId, KnownNode]:
    """Return the inventory.

    Raises:
        StoreError: The inventory cannot be read or decoded.
    """
    saved = store.load(STORE_KEY) or {}
    try:
        return {NodeId(name): _decode_node(plain) for name, plain in saved.items()}
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise StoreError(
            f'store: entry "{STORE_KEY}" cannot be decoded: {error!r}'
        ) from error


def _powered_off_nodes(
    snapshot: Snapshot, known: Mapping[NodeId, KnownNode], store: Store
) -> set[NodeId]:
    """Return the unknown nodes that were powered off since they were last seen."""
    unknown = {
        name: min(known[name].seen_at, snapshot.taken_at)
        for name, node in snapshot.nodes.items()
        if node.state is NodeState.UNKNOWN and name in known
    }
    if not unknown:
        return set()
    powered_off: set[NodeId] = set()
    for record in store.recent(min(unknown.values())):
        action = record.action
        if not isinstance(action, PowerOn | PowerOff):
            continue
        if record.outcome is not Outcome.DONE or action.node not in unknown:
            continue
        if isinstance(action, PowerOn):
            powered_off.discard(action.node)
        elif record.intended_at >= unknown[action.node]:
            powered_off.add(action.node)
    return powered_off


def _known_node(node: Node, capacity: Resources, now: datetime) -> KnownNode:
    return KnownNode(
        seen_at=now,
        capacity=capacity,
        architecture=node.architecture,
        cpu_model=node.cpu_model,
    )


def _encode_node(node: KnownNode) -> dict[str, object]:
    return {
        "seen_at": node.seen_at.isoformat(),
        "cpu": node.capacity.cpu,
        "memory": node.capacity.memory,
        "architecture": node.architecture,
        "cpu_model": node.cpu_model,
    }


def _decode_node(plain: Any) -> KnownNode:  # noqa: ANN401 -- parsed JSON
    return KnownNode(
        seen_at=time_from_text(plain["seen_at"]),
        capacity=Resources(plain["cpu"], plain["memory"]),
        architecture=_optional_text(plain["architecture"]),
        cpu_model=_optional_text(plain["cpu_model"]),
    )


def _optional_text(plain: Any) -> str | None:  # noqa: ANN401 -- parsed JSON
    if plain is None or isinstance(plain, str):
        return plain
    raise TypeError(plain)
