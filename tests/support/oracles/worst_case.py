"""Steps that may be unsafe if only their own dependencies are relied on.

This is stricter than the states that a plan can pass through. All steps that do not
depend on a step may run with it, whatever they depend on themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from opendrs.model import (
    AntiAffinity,
    GuestId,
    Limits,
    MutualAntiAffinity,
    NodeId,
    Plan,
    Snapshot,
    Step,
    StepId,
)
from support.oracles.interleavings import migration_of


def unsafe_steps(snapshot: Snapshot, plan: Plan, limits: Limits) -> list[str]:
    """Return the steps that may overfill their target or violate an anti-affinity.

    Steps whose guest may be on another node are included.
    """
    ancestors_of = ancestors(plan)
    return [
        step.id
        for step in plan.steps
        if _may_overfill(snapshot, plan, step, ancestors_of, limits)
        or _may_violate_anti_affinity(snapshot, plan, step, ancestors_of)
        or _may_exceed_a_domain(snapshot, plan, step, ancestors_of)
        or _may_be_elsewhere(snapshot, plan, step, ancestors_of)
    ]


def ancestors(plan: Plan) -> dict[str, set[str]]:
    """Return the direct and indirect dependencies of each step."""
    known: dict[str, set[str]] = {}
    for step in plan.steps:
        known[step.id] = set(step.depends_on).union(
            *(known[e] for e in step.depends_on)
        )
    return known


def without_dependency(plan: Plan, step: Step, earlier: StepId) -> Plan:
    """Return *plan* in which *step* has the dependencies of *earlier* instead."""
    (before,) = (each for each in plan.steps if each.id == earlier)
    fewer = tuple(each for each in step.depends_on if each != earlier)
    less = replace(step, depends_on=(*fewer, *before.depends_on))
    return Plan(tuple(less if each is step else each for each in plan.steps))


def _may_overfill(
    snapshot: Snapshot,
    plan: Plan,
    step: Step,
    sure: dict[str, set[str]],
    limits: Limits,
) -> bool:
    target = snapshot.nodes[migration_of(step).target]
    assert target.capacity is not None
    assert target.usage.memory is not None
    held = target.usage.memory
    for other in plan.steps:
        size = snapshot.guests[migration_of(other).guest].usage.memory or 0
        if migration_of(other).target == target.id and step.id not in sure[other.id]:
            held += size
        if migration_of(other).source == target.id and other.id in sure[step.id]:
            held -= size
    return held > target.capacity.memory * (1 - limits.memory_headroom)


def _may_violate_anti_affinity(
    snapshot: Snapshot, plan: Plan, step: Step, sure: dict[str, set[str]]
) -> bool:
    here = migration_of(step).target
    return any(
        here in _possible_nodes(snapshot, plan, other, step, sure)
        and not snapshot.guests[other].node == snapshot.guests[guest].node == here
        for guest in [migration_of(step).guest]
        for other in _anti_affine(snapshot, guest)
    )


def _may_exceed_a_domain(
    snapshot: Snapshot, plan: Plan, step: Step, sure: dict[str, set[str]]
) -> bool:
    """Return True if a limited rule may have too many guests in a domain."""
    guest, target = migration_of(step).guest, migration_of(step).target
    for rule in snapshot.rules:
        if not (isinstance(rule, AntiAffinity) and guest in rule.guests):
            continue
        if rule.is_pairwise or not rule.strict:
            continue
        labels = snapshot.nodes[target].labels  # all of them name racks
        rack = {
            name
            for name, node in snapshot.nodes.items()
            if (node.labels == labels if rule.domain else name == target)
        }
        inside = sum(
            not rack.isdisjoint(_possible_nodes(snapshot, plan, other, step, sure))
            for other in rule.guests - {guest}
        )
        was_inside = snapshot.guests[guest].node in rack
        if not was_inside and inside >= rule.max_guests:
            return True
    return False


def _may_be_elsewhere(
    snapshot: Snapshot, plan: Plan, step: Step, sure: dict[str, set[str]]
) -> bool:
    """Return True if the guest may not yet be on the source of *step*."""
    guest, source = migration_of(step).guest, migration_of(step).source
    came = {
        each.id
        for each in plan.steps
        if migration_of(each).guest == guest and migration_of(each).target == source
    }
    return snapshot.guests[guest].node != source and came.isdisjoint(sure[step.id])


def _anti_affine(snapshot: Snapshot, guest: GuestId) -> Iterable[GuestId]:
    for rule in snapshot.rules:
        if isinstance(rule, MutualAntiAffinity) and rule.strict:
            if guest in rule.guests:
                yield from sorted(rule.other_guests)
            if guest in rule.other_guests:
                yield from sorted(rule.guests)
        if not (isinstance(rule, AntiAffinity) and rule.is_pairwise):
            continue
        if rule.strict and guest in rule.guests:
            yield from sorted(rule.guests - {guest})


def _possible_nodes(
    snapshot: Snapshot,
    plan: Plan,
    guest: GuestId,
    during: Step,
    sure: dict[str, set[str]],
) -> set[NodeId]:
    """Return the nodes on which *guest* may be while the step *during* runs."""
    nodes = {snapshot.guests[guest].node}
    for step in plan.steps:
        if migration_of(step).guest == guest and during.id not in sure[step.id]:
            nodes.add(migration_of(step).target)
            if step.id in sure[during.id]:
                nodes.discard(migration_of(step).source)
    return nodes
