"""What the record remembers of nodes, for when they do not answer.

A node that sleeps cannot be asked what it is, and a plan to wake it needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opendrs.controller.stores.encoding import time_from_text
from opendrs.errors import StoreError
from opendrs.model import (
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
)
from opendrs.ports import Outcome, Store

KEY = "nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """A node as it was when it took part.

    Attributes:
        seen_at: When it was last seen.
        capacity: What it has in all.
        architecture: Its instruction set; None when unknown.
        cpu_model: Its processor model; None when unknown.
    """

    seen_at: datetime
    capacity: Resources
    architecture: str | None = None
    cpu_model: str | None = None


def keep_nodes(snapshot: Snapshot, store: Store) -> None:
    """Remember what can be seen of the nodes of *snapshot*, and no others.

    Raises:
        StoreError: The record cannot be read or kept.
    """
    known = known_nodes(store)
    now = {
        name: _as_known(node, node.capacity, snapshot.taken_at)
        for name, node in snapshot.nodes.items()
        if node.reachable and node.capacity is not None
    }
    kept = {name: known[name] for name in snapshot.nodes if name in known}
    keep_known_nodes({**kept, **now}, store)


def keep_known_nodes(nodes: Mapping[NodeId, KnownNode], store: Store) -> None:
    """Remember *nodes*, and no others.

    Raises:
        StoreError: They cannot be kept.
    """
    store.save(KEY, {name: _plain(node) for name, node in nodes.items()})


def with_known_nodes(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with what the record knows of nodes that do not answer.

    A node that was put to sleep, and was not seen since, is offline: whether it
    still is cannot be asked of every node. Of one that is offline, what it has is
    remembered.

    Raises:
        StoreError: The record cannot be read.
    """
    silent = {NodeState.UNKNOWN, NodeState.OFFLINE}
    if not any(node.state in silent for node in snapshot.nodes.values()):
        return snapshot
    known = known_nodes(store)
    asleep = _asleep(snapshot, known, store)
    nodes = dict(snapshot.nodes)
    for name, before in known.items():
        node = nodes.get(name)
        if node is None:
            continue
        if name in asleep:
            node = replace(node, state=NodeState.OFFLINE)
        if node.state is NodeState.OFFLINE and node.capacity is None:
            node = replace(
                node,
                capacity=before.capacity,
                architecture=before.architecture,
                cpu_model=before.cpu_model,
            )
        nodes[name] = node
    return replace(snapshot, nodes=nodes)


def known_nodes(store: Store) -> dict[NodeId, KnownNode]:
    """Return the nodes that the record remembers.

    Raises:
        StoreError: The record cannot be read, or not understood.
    """
    saved = store.load(KEY) or {}
    try:
        return {NodeId(name): _read(plain) for name, plain in saved.items()}
    except (KeyError, TypeError, ValueError, StoreError) as error:
        raise StoreError(f"the record of nodes is not readable: {error!r}") from error


def _asleep(
    snapshot: Snapshot, known: Mapping[NodeId, KnownNode], store: Store
) -> set[NodeId]:
    """Return the unknown nodes that were put to sleep since they were last seen."""
    unknown = {
        name: min(known[name].seen_at, snapshot.taken_at)
        for name, node in snapshot.nodes.items()
        if node.state is NodeState.UNKNOWN and name in known
    }
    if not unknown:
        return set()
    found: set[NodeId] = set()
    for record in store.recent(min(unknown.values())):
        action = record.action
        if not isinstance(action, PowerOn | PowerOff):
            continue
        if record.outcome is not Outcome.DONE or action.node not in unknown:
            continue
        if isinstance(action, PowerOn):
            found.discard(action.node)
        elif record.intended_at >= unknown[action.node]:
            found.add(action.node)
    return found


def _as_known(node: Node, capacity: Resources, now: datetime) -> KnownNode:
    return KnownNode(
        seen_at=now,
        capacity=capacity,
        architecture=node.architecture,
        cpu_model=node.cpu_model,
    )


def _plain(node: KnownNode) -> dict[str, object]:
    return {
        "seen_at": node.seen_at.isoformat(),
        "cpu": node.capacity.cpu,
        "memory": node.capacity.memory,
        "architecture": node.architecture,
        "cpu_model": node.cpu_model,
    }


def _read(plain: Any) -> KnownNode:  # noqa: ANN401 -- as it was saved
    return KnownNode(
        seen_at=time_from_text(plain["seen_at"]),
        capacity=Resources(plain["cpu"], plain["memory"]),
        architecture=_text(plain["architecture"]),
        cpu_model=_text(plain["cpu_model"]),
    )


def _text(plain: Any) -> str | None:  # noqa: ANN401 -- as above
    if plain is None or isinstance(plain, str):
        return plain
    raise TypeError(plain)
