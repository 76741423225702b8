"""Nodes and guests of a recorded cycle, in columns.

Columns of 20,000 guests are a third of the size of one object for each guest, and are
encoded and parsed in half of the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from opendrs.controller.step_serialization import skipped_groups
from opendrs.errors import StoreError
from opendrs.model import GuestId, NodeId

CPU_DIGITS = 3  # of a number of cores
NEUTRAL, SOURCE, TARGET, BOTH = "neutral", "source", "target", "both"
_ROLES = {
    (False, False): NEUTRAL,
    (True, False): SOURCE,
    (False, True): TARGET,
    (True, True): BOTH,
}
Columns = dict[str, list[Any]]


@contextmanager
def reading_record(run: str) -> Iterator[None]:
    """Convert errors while reading the plain values of a cycle to one error.

    Args:
        run: Run of the cycle.

    Raises:
        StoreError: The record is damaged.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as err:
        raise StoreError(f"store: cycle {run}: cannot be read: {err!r}") from err


@dataclass(frozen=True, slots=True)
class ClusterColumns:
    """The cluster of a cycle.

    Attributes:
        observed_at: Time of the snapshot, as recorded; None without a cycle.
        nodes: Columns of the nodes, without roles and drains.
        guests: Columns of the guests.
        drain: Drains at the time of the cycle, as recorded; empty without any.
        storages: Storages of each node whose capacity and free space are known, as
            recorded, with their `node`.
    """

    observed_at: str | None
    nodes: Columns
    guests: Columns
    drain: Mapping[str, Any] = field(default_factory=dict)
    storages: Sequence[Mapping[str, Any]] = ()

    def with_moves(self, moved: Mapping[GuestId, NodeId]) -> ClusterColumns:
        """Return the cluster after migrations that ended since: node by guest."""
        if not moved:
            return self
        positions = {name: index for index, name in enumerate(self.nodes["id"])}
        changed = {
            str(guest): positions[node]
            for guest, node in moved.items()
            if node in positions
        }
        nodes = [
            changed.get(guest, node)
            for guest, node in zip(self.guests["id"], self.guests["node"], strict=True)
        ]
        return replace(self, guests={**self.guests, "node": nodes})

    def roles(self, steps: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return the role of each node in a plan with *steps* as plain values."""
        sources, targets = set(), set()
        for step in steps:
            if step["source"] != step["target"]:
                sources.add(step["source"])
                targets.add(step["target"])
        return [_ROLES[name in sources, name in targets] for name in self.nodes["id"]]


_PLACES = ("rack-", "zone-")  # prefixes of labels that name a failure domain
EMPTY_COLUMNS = ClusterColumns(
    None,
    {
        name: []
        for name in (
            *("id", "state", "group", "cpu_capacity", "memory_capacity"),
            *("cpu", "memory", "jobs"),
        )
    },
    {
        name: []
        for name in (
            *("id", "node", "cpu", "memory", "memory_limit", "state"),
            *("managed_by", "stays"),
        )
    },
)


def cluster_columns(document: Mapping[str, Any]) -> ClusterColumns:
    """Return the cluster in the *document* of a cycle record.

    Raises:
        StoreError: The record is damaged.
    """
    try:
        snapshot = document["snapshot"]
        nodes, guests = snapshot["nodes"], snapshot["guests"]
        skipped = skipped_groups(document) if "decision" in document else ()
        return ClusterColumns(
            str(snapshot["taken_at"]),
            _node_columns(nodes),
            _guest_columns(guests, list(nodes), _skip_codes(skipped)),
            document.get("drain", {}),
            [
                {**storage, "node": name}
                for name, node in nodes.items()
                for storage in node.get("storages") or ()
                if storage.get("capacity") and storage.get("free") is not None
            ],
        )
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise StoreError(f"store: a cycle cannot be shown: {error!r}") from error


def _node_columns(nodes: Mapping[str, Any]) -> Columns:
    parts = nodes.values()
    return {
        "id": list(nodes),
        "state": [part.get("state", "unknown") for part in parts],
        "group": [_group(part) for part in parts],
        "cpu_capacity": [_cpu(part.get("capacity")) for part in parts],
        "memory_capacity": [_memory(part.get("capacity")) for part in parts],
        "cpu": [_cpu(part.get("usage")) for part in parts],
        "memory": [_memory(part.get("usage")) for part in parts],
        "jobs": [list(part.get("jobs", ())) for part in parts],
    }


def _guest_columns(
    guests: Mapping[str, Any], nodes: Sequence[str], skipped: Mapping[str, str]
) -> Columns:
    positions = {name: index for index, name in enumerate(nodes)}
    parts = guests.values()
    return {
        "id": list(guests),
        "node": [positions[part["node"]] for part in parts],
        "cpu": [_cpu(part.get("usage")) for part in parts],
        "memory": [_memory(part.get("usage")) for part in parts],
        "memory_limit": [_memory(part.get("limit")) for part in parts],
        "state": [part.get("state", "unknown") for part in parts],
        "managed_by": [part.get("managed_by") for part in parts],
        "stays": [skipped.get(name) for name in guests],
    }


def _skip_codes(skipped: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {guest: part["reason"] for part in skipped for guest in part["guests"]}


def _group(node: Mapping[str, Any]) -> str | None:
    """Return the failure domain of *node*, its first group, or the label of its rack.

    Platforms without failure domains have labels such as rack-3, or zone-2.
    """
    labels = sorted(node.get("labels", ()))
    places = (each for prefix in _PLACES for each in labels if each.startswith(prefix))
    found = (node.get("failure_domain"), *sorted(node.get("groups", ())), *places)
    return next(filter(None, found), None)


def _cpu(resources: Mapping[str, Any] | None) -> float | None:
    value = (resources or {}).get("cpu")
    return None if value is None else round(value, CPU_DIGITS)


def _memory(resources: Mapping[str, Any] | None) -> int | None:
    value = (resources or {}).get("memory")
    return None if value is None else int(value)
