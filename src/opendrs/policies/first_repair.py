"""Decision of a cycle: the repair of violated strict rules comes before the policy.

A policy decides on a cluster in which every strict rule holds that can be repaired. Its
own `decide` stays as it is, so that a policy decides as its original. The setting
`repair_first = false` of a policy leaves rules as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from opendrs.metrics import LoadModel
from opendrs.model import Snapshot
from opendrs.policies.base import Decision, Policy
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.optimize.budget import UNLIMITED
from opendrs.policies.optimize.drain_blockers import drain_blockers, unmeasured_drains
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.storage_relief import with_disk_moves

MemoryT = TypeVar("MemoryT")


def decide(
    policy: Policy[MemoryT], snapshot: Snapshot, memory: MemoryT
) -> Decision[MemoryT]:
    """Return the repair of violated strict rules, or the decision of *policy*.

    The policy decides in a later cycle, on the cluster after the repair.

    Args:
        policy: The policy.
        snapshot: The cluster.
        memory: Memory of the policy.
    """
    repair = first_repair(policy, snapshot, memory)
    if repair is not None:
        return repair
    return completed(policy, snapshot, policy.decide(snapshot, memory))


def completed(
    policy: Policy[Any], snapshot: Snapshot, decision: Decision[MemoryT]
) -> Decision[MemoryT]:
    """Return *decision* of *policy* with what every policy adds to its own.

    These are notes of what remains on nodes in maintenance, and moves of disks away
    from full storages.
    """
    noted = with_drain_notes(policy, snapshot, decision)
    return with_disk_moves(policy, snapshot, noted)


def with_drain_notes(
    policy: Policy[Any], snapshot: Snapshot, decision: Decision[MemoryT]
) -> Decision[MemoryT]:
    """Return *decision* of *policy* with notes of what remains on nodes in maintenance.

    The repair that precedes the policy drains these nodes as far as possible. Policies
    that repair rules themselves have such notes already.
    """
    notes = unmeasured_drains(snapshot)
    if getattr(policy, "repair_first", True):
        repair = repair_for(policy)
        notes += drain_blockers(
            snapshot,
            repair.limits,
            repair.load_model,
            allow_cold_migration=repair.allow_cold_migration,
        )
    return replace(decision, notes=(*decision.notes, *notes)) if notes else decision


def first_repair(
    policy: Policy[Any], snapshot: Snapshot, memory: MemoryT
) -> Decision[MemoryT] | None:
    """Return the repair that precedes *policy*; None if it is to decide itself.

    That is so if no strict rule is violated, if none of the violated ones can be
    repaired, or if its setting `repair_first` is False. *memory* is unchanged, as if
    the policy had not been asked.
    """
    if not getattr(policy, "repair_first", True):
        return None
    repair = repair_for(policy).decide(snapshot, None)
    if not repair.plan.steps:
        return None
    detail = f"{repair.detail}; {policy.name} plans once these steps are done"
    return Decision(
        repair.reason,
        memory,
        repair.plan,
        detail,
        repair.before,
        repair.after,
        repair.notes,
        repair.skipped,
        repair_first=True,
        unmeasured=repair.unmeasured,
    )


def repair_for(policy: Policy[Any]) -> Repair:
    """Return the policy `repair` with the settings of *policy* that concern it.

    These are its limits, its load model, the permission of cold migrations and its
    maximum of migrations.
    """
    most = getattr(policy, "max_migrations", None)
    return Repair(
        load_model=getattr(policy, "load_model", LoadModel.DYNAMIC),
        allow_cold_migration=getattr(policy, "allow_cold_migration", False),
        budget=UNLIMITED if most is None else f"{most} migrations",
        limits=policy.limits,
    )


def repairs_rules(policy: Policy[Any]) -> bool:
    """Return True if *policy* repairs rules, or they are repaired before it."""
    if isinstance(policy, Optimize):
        return Goal.REPAIR in policy.priorities
    return isinstance(policy, Repair) or getattr(policy, "repair_first", True)
