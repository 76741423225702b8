"""Differences between two states, small enough to send to every client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_GUESTS = 500  # with changed loads in one message; some 15 kB
MIN_CPU_CHANGE = 0.05  # cores; smaller changes are not shown
MIN_MEMORY_CHANGE = 0.01  # of the memory in use
_FIXED_NODES = ("id", "group", "cpu_capacity", "memory_capacity")
_FIXED_GUESTS = ("id",)


def delta_document(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the changed loads of *after*; None if it has other nodes or guests.

    Guests that migrated are always included. Of the others, those with the largest
    relative changes are. The rest follows when a client requests the whole state.
    """
    nodes, guests = after["nodes"], after["guests"]
    for part, names in (("nodes", _FIXED_NODES), ("guests", _FIXED_GUESTS)):
        if any(before[part][name] != after[part][name] for name in names):
            return None
    changed = _changed_guests(before["guests"], guests)
    return {
        "cpu": nodes["cpu"],
        "memory": nodes["memory"],
        "guests": changed,
        "guest_node": [guests["node"][index] for index in changed],
        "guest_cpu": [guests["cpu"][index] for index in changed],
        "guest_memory": [guests["memory"][index] for index in changed],
    }


def _changed_guests(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[int]:
    size = len(after["id"])
    weights = {}
    for index in range(size):
        moved = before["node"][index] != after["node"][index]
        cpu = _change(before["cpu"][index], after["cpu"][index], MIN_CPU_CHANGE)
        old = before["memory"][index]
        memory = _change(old, after["memory"][index], MIN_MEMORY_CHANGE * (old or 1))
        if moved or cpu >= 1 or memory >= 1:
            weights[index] = (moved, max(cpu, memory))
    chosen = sorted(weights, key=lambda index: weights[index], reverse=True)
    moved_count = sum(moved for moved, _ in weights.values())
    return sorted(chosen[: max(MAX_GUESTS, moved_count)])


def _change(before: float | None, after: float | None, unit: float) -> float:
    """Return a change as a multiple of *unit*; a value that became known counts."""
    if before is None or after is None:
        return 0.0 if before is after else 1.0
    return abs(after - before) / unit if unit else float(before != after)
