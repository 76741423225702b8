"""Nodes that operators drain, as the store keeps them over restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from opendrs.errors import StoreError
from opendrs.model import (
    Limits,
    NodeId,
    NodeState,
    Snapshot,
    require_type,
    time_as_text,
    time_from_text,
)
from opendrs.policies import DRAIN, RETURN
from opendrs.ports import Store

DRAIN_PREFIX = "operator/drain/"
RETURN_PREFIX = "operator/return/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedNode:
    """A node that an operator drains, and that stays empty until the end of the drain.

    Attributes:
        node: The node.
        since: Time of the command.
        user: User that ran it.
        because: Reason that the user gave; empty if none.
    """

    node: NodeId
    since: datetime
    user: str
    because: str = ""

    @property
    def key(self) -> str:
        """Return the key of the entry in the store."""
        return f"{DRAIN_PREFIX}{self.node}"

    @property
    def entry(self) -> dict[str, object]:
        """Return the entry in the store."""
        return {
            "since": time_as_text(self.since),
            "user": self.user,
            "because": self.because,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestReturn:
    """Request to return the guests that a drain has moved.

    Attributes:
        node: The node that was drained.
        since: Time at which the drain began.
        requested_at: Time of the request.
        finished: True if nothing more is to be returned.
    """

    node: NodeId
    since: datetime
    requested_at: datetime
    finished: bool = False

    @property
    def key(self) -> str:
        """Return the key of the entry in the store."""
        return f"{RETURN_PREFIX}{self.node}"

    @property
    def entry(self) -> dict[str, object]:
        """Return the entry in the store."""
        return {
            "since": time_as_text(self.since),
            "requested_at": time_as_text(self.requested_at),
            "finished": self.finished,
        }


def drained_nodes(store: Store) -> tuple[DrainedNode, ...]:
    """Return the nodes that operators drain, in order of name.

    Raises:
        StoreError: The store cannot be read.
    """
    entries = store.load_all(DRAIN_PREFIX)
    return tuple(_drained_node(key, entries[key]) for key in sorted(entries))


def guest_returns(store: Store) -> tuple[GuestReturn, ...]:
    """Return the requests to return guests, finished ones included.

    Raises:
        StoreError: The store cannot be read.
    """
    entries = store.load_all(RETURN_PREFIX)
    return tuple(_guest_return(key, entries[key]) for key in sorted(entries))


def with_drained_nodes(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the online nodes that operators drain in maintenance.

    Raises:
        StoreError: The store cannot be read.
    """
    return in_maintenance(snapshot, *(each.node for each in drained_nodes(store)))


def in_maintenance(snapshot: Snapshot, *nodes: NodeId) -> Snapshot:
    """Return *snapshot* with those of *nodes* that are online in maintenance."""
    changed = {
        name: replace(snapshot.nodes[name], state=NodeState.MAINTENANCE)
        for name in nodes
        if name in snapshot.nodes and snapshot.nodes[name].online
    }
    if not changed:
        return snapshot
    return replace(snapshot, nodes={**snapshot.nodes, **changed})


def _drained_node(key: str, entry: Mapping[str, Any]) -> DrainedNode:
    try:
        require_type(str, [entry["since"], entry["user"], entry["because"]])
        return DrainedNode(
            node=NodeId(key.removeprefix(DRAIN_PREFIX)),
            since=time_from_text(entry["since"]),
            user=entry["user"],
            because=entry["because"],
        )
    except (LookupError, TypeError, StoreError) as error:
        raise _damaged(key, error) from error


def _guest_return(key: str, entry: Mapping[str, Any]) -> GuestReturn:
    try:
        require_type(str, [entry["since"], entry["requested_at"]])
        return GuestReturn(
            node=NodeId(key.removeprefix(RETURN_PREFIX)),
            since=time_from_text(entry["since"]),
            requested_at=time_from_text(entry["requested_at"]),
            finished=entry["finished"] is True,
        )
    except (LookupError, TypeError, StoreError) as error:
        raise _damaged(key, error) from error


def _damaged(key: str, error: Exception) -> StoreError:
    return StoreError(f'store: entry "{key}" cannot be decoded: {error!r}')


def maintenance_limits(limits: Limits) -> Limits:
    """Return *limits* as they apply to drains, which an operator has requested.

    Cooldown and minimum uptime prevent oscillation, and do not delay a drain.
    """
    return replace(limits, cooldown=0.0, min_uptime=0.0)


def limits_of(policy: str, limits: Limits) -> Limits:
    """Return *limits* as they apply to a plan of the policy with the name *policy*."""
    if policy in (DRAIN, RETURN):
        return maintenance_limits(limits)
    return limits
