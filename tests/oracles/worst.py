"""Steps that might go wrong when nothing is relied on but what they wait for.

Stricter than the states a plan can pass through: all that does not wait for a step may
be under way with it, whatever it waits for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from opendrs.model import (
    AntiAffinity,
    GuestId,
    Limits,
    NodeId,
    Plan,
    Snapshot,
    Step,
    StepId,
)
from oracles.passage import move


def unsafe(snapshot: Snapshot, plan: Plan, limits: Limits) -> list[str]:
    """Return the steps that may overfill their target, or meet who must be apart.

    And those that may find their guest elsewhere.
    """
    sure = ancestors(plan)
    return [
        step.id
        for step in plan.steps
        if _crowded(snapshot, plan, step, sure, limits)
        or _clashes(snapshot, plan, step, sure)
        or _absent(snapshot, plan, step, sure)
    ]


def ancestors(plan: Plan) -> dict[str, set[str]]:
    """Return the steps that each step waits for, directly or not."""
    known: dict[str, set[str]] = {}
    for step in plan.steps:
        known[step.id] = set(step.after).union(*(known[e] for e in step.after))
    return known


def hasty(plan: Plan, step: Step, earlier: StepId) -> Plan:
    """Return *plan* in which *step* waits for what *earlier* does, but not for it."""
    (before,) = (each for each in plan.steps if each.id == earlier)
    fewer = tuple(each for each in step.after if each != earlier)
    less = replace(step, after=(*fewer, *before.after))
    return Plan(tuple(less if each is step else each for each in plan.steps))


def _crowded(
    snapshot: Snapshot,
    plan: Plan,
    step: Step,
    sure: dict[str, set[str]],
    limits: Limits,
) -> bool:
    target = snapshot.nodes[move(step).target]
    assert target.capacity is not None
    assert target.usage.memory is not None
    held = target.usage.memory
    for other in plan.steps:
        size = snapshot.guests[move(other).guest].usage.memory or 0
        if move(other).target == target.id and step.id not in sure[other.id]:
            held += size
        if move(other).source == target.id and other.id in sure[step.id]:
            held -= size
    return held > target.capacity.memory * (1 - limits.memory_headroom)


def _clashes(
    snapshot: Snapshot, plan: Plan, step: Step, sure: dict[str, set[str]]
) -> bool:
    here = move(step).target
    return any(
        here in _whereabouts(snapshot, plan, other, step, sure)
        and not snapshot.guests[other].node == snapshot.guests[guest].node == here
        for guest in [move(step).guest]
        for other in _strangers(snapshot, guest)
    )


def _absent(
    snapshot: Snapshot, plan: Plan, step: Step, sure: dict[str, set[str]]
) -> bool:
    """Return whether the guest may not have come yet to where it is to leave."""
    guest, source = move(step).guest, move(step).source
    came = {
        each.id
        for each in plan.steps
        if move(each).guest == guest and move(each).target == source
    }
    return snapshot.guests[guest].node != source and came.isdisjoint(sure[step.id])


def _strangers(snapshot: Snapshot, guest: GuestId) -> Iterable[GuestId]:
    for rule in snapshot.rules:
        if isinstance(rule, AntiAffinity) and rule.strict and guest in rule.guests:
            yield from sorted(rule.guests - {guest})


def _whereabouts(
    snapshot: Snapshot,
    plan: Plan,
    guest: GuestId,
    during: Step,
    sure: dict[str, set[str]],
) -> set[NodeId]:
    """Return where *guest* may be while the step *during* is under way."""
    places = {snapshot.guests[guest].node}
    for step in plan.steps:
        if move(step).guest == guest and during.id not in sure[step.id]:
            places.add(move(step).target)
            if step.id in sure[during.id]:
                places.discard(move(step).source)
    return places
