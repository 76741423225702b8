"""How a cluster stands, in the measures that plans are made for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opendrs.model import GIB, Limits, NodeId, Snapshot
from opendrs.policies.optimising.calm import Calm
from opendrs.policies.optimising.worth import Goal
from opendrs.rules import violations
from opendrs.rules.room import room
from opendrs.scoring import ImbalanceForm, NodeLoad, UsageMode, imbalance, node_loads

NOISE = 1e-9  # differences below this are rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a cluster stands.

    Attributes:
        broken: Breaches of strict rules.
        overfull: Memory over what nodes may hold, in GiB.
        contention: What is waited for, where 1 is what is taken of a node on average.
        waiting: Cores that are waited for.
        short: Memory that is waited for, in GiB.
        unevenness: The quadratic mean of the coefficients of variation of cpu and of
            memory load.
        used: Nodes with guests on them.
        calm: Up to which loads nobody is taken to wait.
        figures: The same and more by name, for the operator.
    """

    broken: int
    overfull: float
    contention: float
    waiting: float
    short: float
    unevenness: float
    used: int
    calm: Calm
    figures: Mapping[str, float]

    def of(self, goal: Goal) -> tuple[float, ...]:
        """Return what is to become less for *goal*."""
        match goal:
            case Goal.REPAIR:
                return (float(self.broken), self.overfull)
            case Goal.CONTENTION:
                return (self.contention,)
            case Goal.EVENNESS:
                return (self.unevenness,)
            case Goal.PACKING:
                return (float(self.used),)


def standing(
    snapshot: Snapshot, mode: UsageMode, limits: Limits, calm: Calm
) -> Standing:
    """Return how *snapshot* stands.

    Args:
        snapshot: The cluster; every online node must be measured.
        mode: What counts as load.
        limits: What the operator allows.
        calm: Up to which loads nobody is taken to wait.
    """
    loads = node_loads(snapshot, mode)
    cpu = [load.cpu for load in loads.values()]
    memory = [load.memory for load in loads.values()]
    variations = [imbalance(each, ImbalanceForm.RAW) for each in (cpu, memory)]
    homes = {guest.node for guest in snapshot.guests.values() if guest.present}
    broken = sum(found.strict for found in violations(snapshot))
    overfull = _overfull(snapshot, limits, loads)
    waiting, short = calm.cores_over(loads), calm.bytes_over(loads) / GIB
    mean = [load.mean for load in loads.values()]
    return Standing(
        broken=broken,
        overfull=overfull,
        contention=calm.over(loads),
        waiting=waiting,
        short=short,
        unevenness=math.hypot(*variations) / math.sqrt(2),
        used=len(homes & set(loads)),
        calm=calm,
        figures={
            "imbalance": imbalance(mean, ImbalanceForm.RAW),
            "cpu_imbalance": variations[0],
            "memory_imbalance": variations[1],
            "highest_cpu": max(cpu, default=0.0),
            "highest_memory": max(memory, default=0.0),
            "broken_rules": float(broken),
            "overfull_gib": overfull,
            "waiting_cores": waiting,
            "waiting_gib": short,
            "used_nodes": float(len(homes & set(loads))),
        },
    )


def improved(
    before: Standing, after: Standing, priorities: Sequence[Goal], margin: float
) -> Goal | None:
    """Return the first goal for which *after* is better; None if it is not at all.

    What comes before that goal must not be worse. Evenness and contention must be
    better by *margin*, a part of what they were; what is broken, by anything.
    """
    for goal in priorities:
        least = margin if goal in (Goal.EVENNESS, Goal.CONTENTION) else 0.0
        for was, then in zip(before.of(goal), after.of(goal), strict=True):
            if was - then > max(least * was, NOISE):
                return goal
            if then - was > NOISE * max(1.0, was):
                return None
    return None


def _overfull(
    snapshot: Snapshot, limits: Limits, loads: Mapping[NodeId, NodeLoad]
) -> float:
    """Return the memory over what nodes may hold; of what is not known, none is."""
    left = room(snapshot, limits)
    over = ((-(left[n].used or 0.0), -(left[n].promised or 0.0)) for n in loads)
    return sum(max(0.0, *each) for each in over) / GIB


def change(before: Standing, after: Standing) -> str:
    """Return in words what becomes of *before*."""
    parts = [f"unevenness {before.unevenness:.3f} → {after.unevenness:.3f}"]
    if before.broken or after.broken:
        parts.insert(0, f"broken rules {before.broken} → {after.broken}")
    if before.overfull > 0 or after.overfull > 0:
        parts.append(
            f"memory over the limit {before.overfull:.1f} → {after.overfull:.1f} GiB"
        )
    if before.waiting > 0 or after.waiting > 0:
        parts.append(f"cores waited for {before.waiting:.1f} → {after.waiting:.1f}")
    if before.short > 0 or after.short > 0:
        parts.append(f"memory waited for {before.short:.1f} → {after.short:.1f} GiB")
    if before.used != after.used:
        parts.append(f"nodes in use {before.used} → {after.used}")
    return ", ".join(parts)
