"""Broken strict rules that a plan can repair, and what prevents the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opendrs.arrays import MobilityFilter, skip_reasons
from opendrs.metrics import LoadModel
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    format_list,
)
from opendrs.policies.optimize.movable_groups import OVER_BUDGET, movable_groups
from opendrs.policies.preconditions import group_by_detail, unmet_precondition
from opendrs.rules import (
    NO_GUESTS,
    AvailableMemory,
    CompiledRules,
    FeasibilityChecker,
    InfeasibleAntiAffinity,
    Violation,
    compile_rules,
    find_infeasible_anti_affinity,
    required_memory,
    usable_memory,
)

INFEASIBLE = "cannot be kept"
NOT_EVALUATED = "cannot be judged"  # before more is known of the cluster
UNRESOLVED = "not mended"  # though another budget, or another order, might do it
FEASIBLE = "might go to"


@dataclass(frozen=True, slots=True)
class UnresolvedViolation:
    """A violation of a strict rule that remains after a plan.

    Attributes:
        violation: The violation.
        detail: What prevents its repair, or that it is judged; empty when nothing
            is known to.
        is_evaluated: Whether enough is known of the cluster to tell.
    """

    violation: Violation
    detail: str = ""
    is_evaluated: bool = True

    @property
    def repairable(self) -> bool | None:
        """Return whether nothing is known to prevent its repair; None if not judged."""
        return not self.detail if self.is_evaluated else None


def unresolved_violations(
    remaining: Iterable[Violation],
    snapshot: Snapshot,
    limits: Limits,
    *,
    load_model: LoadModel = LoadModel.DYNAMIC,
    allow_cold_migration: bool = False,
) -> tuple[UnresolvedViolation, ...]:
    """Return for each violation of a strict rule whether `optimize` can repair it.

    Each violation is examined by itself. Whether the memory suffices for all repairs
    together, and in which order they are safe, only the search finds out: what is said
    to be impossible is so, what seems possible may not be.

    Args:
        remaining: The violations.
        snapshot: The cluster before the plan.
        limits: The operator's limits.
        load_model: What counts as load: it must be known of all nodes.
        allow_cold_migration: Whether containers may be stopped, moved and started.
    """
    strict = [violation for violation in remaining if violation.strict]
    if not strict:
        return ()
    unmet = unmet_precondition(snapshot, load_model)
    if unmet is not None:
        return tuple(
            UnresolvedViolation(
                violation, f"{violation.rule}: {unmet[1]}", is_evaluated=False
            )
            for violation in strict
        )
    rules = compile_rules(snapshot)
    targets = FeasibilityChecker(snapshot, rules, limits)
    selection = MobilityFilter(
        load_model=load_model, allow_cold_migration=allow_cold_migration
    )
    immovable = skip_reasons(snapshot, rules, limits, selection)
    feasibility = _RepairFeasibility(snapshot, rules, targets, immovable, limits)
    skipped = movable_groups(snapshot, rules, limits, selection).skipped
    repairs = RepairBlockers(snapshot, rules, targets, skipped)
    return tuple(
        UnresolvedViolation(
            violation,
            "" if feasibility.is_repairable(violation) else repairs.detail(violation),
        )
        for violation in strict
    )


class _RepairFeasibility:
    """Answer for violations of strict rules whether a plan might repair them.

    A plan may move others away first. So a node can receive a guest that it allows, for
    which it has the memory once all have left that may move, and from which no guest
    must be apart that stays there.

    Args:
        snapshot: The cluster before a plan.
        rules: Its rules.
        targets: The nodes where guests may go.
        immovable: The reason of each guest that may not be moved by itself.
        limits: The operator's limits.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        targets: FeasibilityChecker,
        immovable: Mapping[GuestId, str],
        limits: Limits,
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._targets = targets
        self._immovable = immovable
        self._limits = limits

    def is_repairable(self, violation: Violation) -> bool:
        """Return whether a plan might repair *violation*."""
        if isinstance(violation.rule, Affinity):
            names = sorted(violation.guests)
            guests = [self._snapshot.guests[name] for name in names]
            return any(self._can_gather(guests, node) for node in self._snapshot.nodes)
        if isinstance(violation.rule, AntiAffinity) and (
            find_infeasible_anti_affinity(violation.rule, self._snapshot, self._rules)
            is not None
        ):
            return False
        return any(self._can_leave(name) for name in sorted(violation.guests))

    def _can_gather(self, guests: Sequence[Guest], node: NodeId) -> bool:
        displaced = [guest for guest in guests if guest.node != node]
        movable = not any(guest.id in self._immovable for guest in displaced)
        return movable and self._can_receive(displaced, node)

    def _can_leave(self, name: GuestId) -> bool:
        group = group_of(name, self._snapshot, self._rules)
        here = self._snapshot.guests[name].node
        nodes = (node for node in self._snapshot.nodes if node != here)
        return any(self._can_gather(group, node) for node in nodes)

    def _can_receive(self, group: Sequence[Guest], node: NodeId) -> bool:
        left = self._vacated[node].minus(required_memory(group))
        if min(left.measured or 0.0, left.committed or 0.0) < 0:
            return False
        if not self._targets.is_allowed(group, self._snapshot.nodes[node]):
            return False
        apart = frozenset[GuestId]().union(
            *(self._rules.apart.get(guest.id, NO_GUESTS) for guest in group)
        )
        return not any(
            name in self._immovable
            and node in self._snapshot.guests[name].occupied_nodes
            for name in apart
        )

    @cached_property
    def _vacated(self) -> dict[NodeId, AvailableMemory]:
        """The memory of each node once all have left it that may move."""
        departing: defaultdict[NodeId, list[Guest]] = defaultdict(list)
        for guest in self._snapshot.guests.values():
            if guest.is_active and guest.id not in self._immovable:
                departing[guest.node].append(guest)
        return {
            name: left.plus(
                required_memory(departing[name]),
                usable_memory(self._snapshot.nodes[name], self._limits),
            )
            for name, left in self._targets.available_memory.items()
        }


class RepairBlockers:
    """Answer for violations of strict rules what prevents their repair.

    Args:
        snapshot: The cluster before a plan.
        rules: Its rules.
        targets: The nodes where guests may go.
        skipped: The reason of each guest that may not be moved.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        targets: FeasibilityChecker,
        skipped: Mapping[GuestId, str],
    ) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._targets = targets
        self._skipped = skipped

    def detail(self, violation: Violation) -> str:
        """Return what prevents the repair of *violation*, with its rule."""
        return self._common_blocker(violation) or self._guest_blockers(violation)[0]

    def explain(self, violation: Violation) -> str:
        """Return why *violation* remains, with its rule, and whether it has to."""
        prevented = self._common_blocker(violation)
        if prevented is not None:
            return f"{INFEASIBLE}: {prevented}"
        reported, repairable = self._guest_blockers(violation)
        return f"{UNRESOLVED if repairable else INFEASIBLE}: {reported}"

    def blocker(self, name: GuestId) -> str:
        """Return what keeps the guest *name* where it is."""
        if name in self._skipped:
            return f"left alone: {self._skipped[name]}"
        group = group_of(name, self._snapshot, self._rules)
        closed = self._targets.infeasible_nodes(group)
        open_ = [
            each
            for each in sorted(self._snapshot.nodes)
            if each not in closed and each != group[0].node
        ]
        if not open_:
            return f"nowhere to go: {group_by_detail(closed)}"
        return (
            f"{FEASIBLE} {format_list(open_)}, and no plan within the budget and in a "
            "safe order does it without worse"
        )

    def _common_blocker(self, violation: Violation) -> str | None:
        """Return what makes *violation* impossible to repair for all its guests."""
        if isinstance(violation.rule, AntiAffinity):
            infeasible = find_infeasible_anti_affinity(
                violation.rule, self._snapshot, self._rules
            )
            return None if infeasible is None else _infeasible_text(infeasible)
        if isinstance(violation.rule, Affinity):
            closed = self._nodes_closed_to_all(violation)
            if closed:
                names = format_list(sorted(violation.guests), separator=" and ")
                return f"{violation.rule}: {names} fit together nowhere: {group_by_detail(closed)}"
        return None

    def _guest_blockers(self, violation: Violation) -> tuple[str, bool]:
        """Return what keeps each guest of *violation*, and whether one might move."""
        reasons: defaultdict[str, list[GuestId]] = defaultdict(list)
        for name in sorted(violation.guests):
            reasons[self.blocker(name)].append(name)
        reported = "; ".join(
            f"{format_list(names)}: {detail}" for detail, names in reasons.items()
        )
        repairable = any(
            FEASIBLE in detail or OVER_BUDGET in detail for detail in reasons
        )
        return f"{violation.rule}: {reported}", repairable

    def _nodes_closed_to_all(self, violation: Violation) -> Mapping[NodeId, str]:
        """Return why each node is closed to all of them; nothing if one is not."""
        if any(name in self._skipped for name in violation.guests):
            return {}
        guests = [self._snapshot.guests[name] for name in sorted(violation.guests)]
        closed = {}
        for name in sorted(self._snapshot.nodes):
            displaced = [guest for guest in guests if guest.node != name]
            detail = self._targets.rejection(displaced, name)
            if detail is None:
                return {}
            closed[name] = detail
        return closed


def group_of(
    name: GuestId, snapshot: Snapshot, rules: CompiledRules
) -> Sequence[Guest]:
    """Return the active guests that must be together with *name*, and itself."""
    together = rules.together.get(name, frozenset({name}))
    everybody = [snapshot.guests[each] for each in sorted(together)]
    return [each for each in everybody if each.is_active]


def _infeasible_text(infeasible: InfeasibleAntiAffinity) -> str:
    rules = format_list([f'"{rule}"' for rule in infeasible.rules])
    nodes = format_list(sorted(infeasible.nodes)) or "none"
    return (
        f"{rules}: {format_list(sorted(infeasible.guests))} must all be apart, and the nodes "
        f"open to them ({nodes}) suffice for {infeasible.max_separated} of {len(infeasible.guests)}"
    )
