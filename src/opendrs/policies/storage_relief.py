"""Disks leave full storages where the policy of a cycle plans nothing.

This is an objective of every policy, after its own. It is off without groups of
storages in the limits. The policy `repair` repairs rules and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from opendrs.model import (
    GIB,
    Limits,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.planning import (
    StorageRelief,
    StorageUse,
    excess_of,
    full_storages,
    relieve_storages,
)
from opendrs.policies.base import (
    UNDECIDED,
    Decision,
    DecisionReason,
    MemoryT,
    Policy,
)
from opendrs.policies.optimize import Repair
from opendrs.policies.preconditions import migration_in_progress

MAX_CAUSES = 3  # causes in one note, for which disks stay
METRIC = "overfull_storage_gib"


def with_disk_moves(
    policy: Policy[Any], snapshot: Snapshot, decision: Decision[MemoryT]
) -> Decision[MemoryT]:
    """Return *decision*, with moves of disks if it plans nothing.

    Without a full storage, or without groups of storages, it is the same. Notes name
    the storages that stay full, and why.

    Args:
        policy: The policy that decided.
        snapshot: The cluster.
        decision: Its decision.
    """
    limits = policy.limits
    if not limits.storage_groups or isinstance(policy, Repair):
        return decision
    relief = relieve_storages(snapshot, limits)
    waits = _wait_detail(snapshot, decision)
    if waits is not None:
        later = [f"{_state(use)}; {waits}" for use in full_storages(relief.before)]
        return replace(decision, notes=(*decision.notes, *later))
    notes = (*decision.notes, *_notes(relief, snapshot, limits))
    if not relief.moves:
        return replace(decision, notes=notes)
    return _relieving(replace(decision, notes=notes), relief)


def _relieving(decision: Decision[MemoryT], relief: StorageRelief) -> Decision[MemoryT]:
    """Return *decision* with the moves of *relief*."""
    full = [use.label for use in full_storages(relief.before)]
    disks = format_count(len(relief.moves), "disk")
    before, after = (excess_of(uses) / GIB for uses in (relief.before, relief.after))
    return replace(
        decision,
        reason=DecisionReason.RELIEVES_STORAGE,
        plan=relief.plan,
        detail=f"{disks} to another storage; above the threshold: {format_list(full)}: "
        f"{before:.1f} GiB, then {after:.1f} GiB",
        before={**decision.before, METRIC: before},
        after={**decision.before, **decision.after, METRIC: after},
    )


def _wait_detail(snapshot: Snapshot, decision: Decision[Any]) -> str | None:
    """Return why no disk is moved in this cycle, or None."""
    if decision.plan.steps:
        return "disks are moved once nothing else is planned"
    waiting = migration_in_progress(snapshot)
    if waiting is not None:
        return waiting[1]
    if decision.reason in UNDECIDED:
        return f"disks are moved once the policy has decided ({decision.reason})"
    moving = [each.id for each in snapshot.guests.values() if each.moving_disk]
    return f"disks are being moved: {format_list(sorted(moving))}" if moving else None


def _notes(relief: StorageRelief, snapshot: Snapshot, limits: Limits) -> Iterator[str]:
    """Yield the storages that stay full with the causes, and those that are absent."""
    for use in full_storages(relief.after):
        causes = _causes(relief.staying.get(use.key, {}))
        yield f"{_state(use)}; {causes}"
    present = {
        each.id for node in snapshot.nodes.values() for each in node.storages or ()
    }
    for group in limits.storage_groups:
        absent = [name for name in group.storages if name not in present]
        if absent:
            yield f"storage group {group.name}: no node has {format_list(absent)}"


def _state(use: StorageUse) -> str:
    return (
        f"storage {use.label}: {use.fill:.0%} in use, above {use.group.threshold:.0%}"
    )


def _causes(staying: Mapping[str, Any]) -> str:
    """Return why disks stay, with their guests."""
    causes = [
        f"{format_list(guests)}: {cause}"
        for cause, guests in [*staying.items()][:MAX_CAUSES]
    ]
    return "; ".join(causes) or "no further disk fits on another storage of its group"
