"""Relocation of stopped guests to nodes on which they could start.

A stopped guest uses no memory of a node. It is placed by the memory that all guests on
a node may use, as if all of them ran.

It is chosen here, not by `opendrs.optimizer.solve`: a stopped guest changes no load and
thus no objective of a plan, so that each takes the best node that is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from opendrs.arrays import SkippedGuest, SkipReason, local_disk_reason, lock_of
from opendrs.metrics import LoadModel, has_known_load
from opendrs.model import (
    DEFAULT_LIMITS,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Mobility,
    NodeId,
    Pin,
    Plan,
    Relocation,
    Snapshot,
    TagExclusion,
)
from opendrs.planning import with_relocations
from opendrs.rules import (
    NO_GUESTS,
    CompiledRules,
    FeasibilityChecker,
    available_space,
    compile_rules,
    required_space,
    space_shortage,
    with_domain_rules,
)

_NO_NODE = "its rules and hardware allow no other node that is online and measured"

_NO_OPEN_NODE = (
    "strict affinity or anti-affinity with guests, or a limit of guests, forbids all "
    "nodes that it could use"
)


@dataclass(frozen=True, slots=True)
class RelocationPlan:
    """Plan that relocates stopped guests.

    Attributes:
        plan: Steps of the running guests, then one for each stopped guest.
        skipped: Why each of the other stopped guests stays.
    """

    plan: Plan
    skipped: Mapping[GuestId, SkippedGuest]


def plan_relocations(
    plan: Plan, snapshot: Snapshot, guests: Collection[GuestId], limits: Limits
) -> RelocationPlan:
    """Return *plan* with relocations of the stopped guests among *guests*.

    A guest with a strict affinity follows those that run: it could not start elsewhere,
    and a platform that moves all with one request would move them along.

    Args:
        plan: Migrations of running guests, which come first.
        snapshot: The cluster before them.
        guests: The guests that are to leave their nodes.
        limits: Limits of the operator; without those of memory, which a stopped guest
            does not use.
    """
    snapshot = snapshot.apply(*(step.action for step in plan.steps))
    every = with_domain_rules(snapshot.rules, snapshot)  # of the domains after the plan
    snapshot = replace(snapshot, rules=every)
    rules = compile_rules(snapshot)
    checker = FeasibilityChecker(snapshot, rules, DEFAULT_LIMITS)
    place = {name: guest.node for name, guest in snapshot.guests.items()}
    space = _FreeSpace(snapshot)
    relocations: list[tuple[Relocation, str]] = []
    skipped: dict[GuestId, SkippedGuest] = {}
    for name in sorted(guests):
        guest = snapshot.guests[name]
        if guest.state is not GuestState.STOPPED:
            continue
        blocker = _blocker(guest, snapshot, rules, limits)
        compatible = _compatible_nodes(guest, snapshot, checker)
        targets = _open_nodes(guest, compatible, place, rules)
        targets = _nodes_beside(guest, targets, snapshot, rules)
        if blocker is None and not targets:
            detail = _NO_OPEN_NODE if compatible else _NO_NODE
            blocker = SkippedGuest(SkipReason.NO_FEASIBLE_NODE, detail)
        blocker, targets = space.with_space(guest, targets, blocker)
        if blocker is not None:
            skipped[name] = blocker
            continue
        target = _best_target(guest, targets, place, snapshot, rules)
        place[name] = target
        space.reserve(guest, target)
        detail = f"stopped; {target} has the least committed memory"
        relocations.append((Relocation(name, guest.node, target), detail))
    return RelocationPlan(with_relocations(plan, relocations, rules), skipped)


class _FreeSpace:
    """Space of storages that relocations have not used yet."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = snapshot.nodes
        self._free = {
            name: dict(free) for name, free in available_space(snapshot).items()
        }

    def with_space(
        self, guest: Guest, targets: list[NodeId], blocker: SkippedGuest | None
    ) -> tuple[SkippedGuest | None, list[NodeId]]:
        """Return those of *targets* with space for *guest*, and why there is none."""
        required = required_space((guest,), self._nodes)
        targets = [n for n in targets if not space_shortage(required, self._free[n])]
        if blocker is None and not targets:
            detail = "no node that it could use has the space for its local disks"
            blocker = SkippedGuest(SkipReason.NO_FEASIBLE_NODE, detail)
        return blocker, targets

    def reserve(self, guest: Guest, target: NodeId) -> None:
        """Reserve the space of *guest* on *target*."""
        for storage, size in required_space((guest,), self._nodes).items():
            free = self._free[target]
            free[storage] = free.get(storage, 0.0) - size


def _compatible_nodes(
    guest: Guest, snapshot: Snapshot, checker: FeasibilityChecker
) -> list[NodeId]:
    """Return the measured nodes that rules and hardware allow for *guest*."""
    return [
        node.id
        for node in snapshot.nodes.values()
        if node.id != guest.node
        and has_known_load(node, LoadModel.DYNAMIC)
        and checker.is_compatible([guest], node)
    ]


def _open_nodes(
    guest: Guest,
    nodes: list[NodeId],
    place: Mapping[GuestId, NodeId],
    rules: CompiledRules,
) -> list[NodeId]:
    """Return those of *nodes* that strict rules about neighbors allow for *guest*."""
    apart = rules.apart.get(guest.id, NO_GUESTS) - {guest.id}
    occupied = {place[other] for other in apart}
    return [
        node
        for node in nodes
        if node not in occupied and _has_places(guest, node, place, rules)
    ]


def _nodes_beside(
    guest: Guest, nodes: list[NodeId], snapshot: Snapshot, rules: CompiledRules
) -> list[NodeId]:
    """Return those of *nodes* with running guests of its affinity; all if none run."""
    others = (snapshot.guests[x] for x in rules.together.get(guest.id, NO_GUESTS))
    beside = {node for other in others for node in other.occupied_nodes}
    return [node for node in nodes if node in beside] if beside else nodes


def _has_places(
    guest: Guest, node: NodeId, place: Mapping[GuestId, NodeId], rules: CompiledRules
) -> bool:
    """Return whether the domains of *node* would keep their limits with *guest*."""
    for index in rules.limits_of.get(guest.id, ()):
        limit = rules.domain_limits[index]
        domain = limit.domain_of[node]
        others = limit.guests - {guest.id}
        count = sum(limit.domain_of[place[other]] == domain for other in others)
        if limit.rule.strict and count >= limit.rule.max_guests:
            return False
    return True


def _best_target(
    guest: Guest,
    targets: list[NodeId],
    place: Mapping[GuestId, NodeId],
    snapshot: Snapshot,
    rules: CompiledRules,
) -> NodeId:
    """Return the target by affinity, then with the least committed memory."""
    committed: Counter[NodeId] = Counter()
    for name, node in place.items():
        limit = snapshot.guests[name].limit
        committed[node] += 0 if limit is None else limit.memory

    def rank(node: NodeId) -> tuple[int, int, float, NodeId]:
        def count(names: Collection[GuestId]) -> int:
            return sum(place[name] == node for name in names if name != guest.id)

        soft_apart = rules.soft_apart.get(guest.id, NO_GUESTS)
        together = rules.together.get(guest.id, NO_GUESTS)
        soft_together = rules.soft_together.get(guest.id, NO_GUESTS)
        capacity = snapshot.nodes[node].capacity
        memory = float("inf") if capacity is None else committed[node] / capacity.memory
        return (
            -count(together),
            count(soft_apart) - count(soft_together),
            memory,
            node,
        )

    return min(targets, key=rank)


def _blocker(
    guest: Guest, snapshot: Snapshot, rules: CompiledRules, limits: Limits
) -> SkippedGuest | None:
    """Return why the stopped *guest* stays; None if it may be relocated."""
    if guest.migrating_to is not None:
        return SkippedGuest(SkipReason.MIGRATION_IN_PROGRESS, "migration in progress")
    if guest.managed_by is not None:
        detail = f"placement managed by {guest.managed_by}"
        return SkippedGuest(SkipReason.MANAGED_ELSEWHERE, detail)
    if (lock := lock_of(guest)) is not None:
        return SkippedGuest(SkipReason.GUEST_LOCKED, lock)
    excluded = _excluded(guest, snapshot, rules)
    if excluded is None and guest.effective_mobility is Mobility.NONE:
        suffix = f": {guest.mobility_detail}" if guest.mobility_detail else ""
        return SkippedGuest(SkipReason.MOBILITY_NONE, f"not migratable{suffix}")
    return excluded or local_disk_reason(guest, snapshot, limits)


def _excluded(
    guest: Guest, snapshot: Snapshot, rules: CompiledRules
) -> SkippedGuest | None:
    """Return the rule that forbids migrations of *guest*; None if there is none."""
    for rule in snapshot.rules:
        if isinstance(rule, Pin) and guest.id in rule.guests:
            return SkippedGuest(SkipReason.PINNED, rules.immovable[guest.id])
        if isinstance(rule, TagExclusion) and rule.applies_to(guest):
            return SkippedGuest(SkipReason.TAG_EXCLUDED, rules.immovable[guest.id])
    return None
