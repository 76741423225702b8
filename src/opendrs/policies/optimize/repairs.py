"""Violations of strict rules that a plan can repair, and blockers of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opendrs.arrays import MobilityFilter, MoveGroup
from opendrs.metrics import LoadModel
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeAffinity,
    NodeId,
    Rule,
    Snapshot,
    format_list,
)
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    MovableGroups,
    movable_groups,
    units_of,
)
from opendrs.policies.optimize.small_cluster import SmallCluster
from opendrs.policies.preconditions import (
    MeasuredPart,
    group_by_detail,
    unmet_precondition,
)
from opendrs.rules import (
    AvailableMemory,
    CompiledRules,
    InfeasibleAntiAffinity,
    Violation,
    compile_rules,
    domains,
    find_infeasible_anti_affinity,
    required_memory,
    usable_memory,
    violations,
    with_drain_rule,
)

INFEASIBLE = "cannot be repaired"  # by any plan
NOT_EVALUATED = "not evaluated"  # metrics or other data are missing
UNRESOLVED = "not repaired"  # another budget or other moves might repair it


@dataclass(frozen=True, slots=True)
class UnresolvedViolation:
    """A violation of a strict rule that remains after a plan.

    Attributes:
        violation: The violation.
        detail: What prevents its repair or its evaluation; empty if nothing known does.
        is_evaluated: True if enough is known of the cluster to decide.
    """

    violation: Violation
    detail: str = ""
    is_evaluated: bool = True

    @property
    def repairable(self) -> bool | None:
        """True if nothing known prevents the repair; None if not evaluated."""
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

    Each violation is examined alone. Only the search finds out whether the memory
    suffices for all repairs and whether a safe order exists. A repair that is reported
    as impossible is impossible; one that is reported as possible may fail.

    Args:
        remaining: Violations.
        snapshot: Cluster before the plan.
        limits: Limits of the operator.
        load_model: Load that counts. No guest moves from or to nodes without it.
        allow_cold_migration: True if containers may be stopped, moved and started.
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
    snapshot = with_drain_rule(MeasuredPart.of(snapshot, load_model).snapshot)
    rules = compile_rules(snapshot)
    selection = MobilityFilter(
        load_model=load_model, allow_cold_migration=allow_cold_migration
    )
    groups = movable_groups(snapshot, rules, limits, selection)
    cluster = EncodedCluster(snapshot, rules, groups.groups, limits, load_model)
    repairs = RepairBlockers(cluster, groups)
    return tuple(
        UnresolvedViolation(
            violation,
            "" if repairs.is_repairable(violation) else repairs.detail(violation),
        )
        for violation in strict
    )


def has_repairable_violation(
    snapshot: Snapshot,
    limits: Limits,
    load_model: LoadModel,
    *,
    allow_cold_migration: bool = False,
) -> bool:
    """Return True if `optimize` may repair a violated strict rule of *snapshot*."""
    unresolved = unresolved_violations(
        violations(snapshot),
        snapshot,
        limits,
        load_model=load_model,
        allow_cold_migration=allow_cold_migration,
    )
    return any(each.repairable for each in unresolved)


class _RepairFeasibility:
    """Decision whether a plan could repair a violation of a strict rule.

    In a small cluster, all placements that safe moves reach are examined. In a larger
    one, a plan may first move other guests away: a node can receive a guest if the
    hardware and the rules of this guest allow it, the memory suffices after all movable
    guests have left, and no guest with anti-affinity stays there.

    Args:
        cluster: Cluster before a plan.
        groups: Groups that may migrate, and skipped guests.
    """

    def __init__(self, cluster: EncodedCluster, groups: MovableGroups) -> None:
        self._cluster = cluster
        self._groups = groups
        self._snapshot = cluster.snapshot
        self._targets = cluster.feasibility
        self._fixed = groups.fixed

    @cached_property
    def small(self) -> SmallCluster | None:
        """All placements; None if they are too many."""
        return SmallCluster.of(self._cluster, self._groups)

    @cached_property
    def _domains_by_key(self) -> dict[str, Mapping[NodeId, str]]:
        """Domain of each node, by the key of anti-affinity rules."""
        return {
            rule.domain: domains(self._snapshot, rule.domain)
            for rule in self._snapshot.rules
            if isinstance(rule, AntiAffinity)
        }

    @cached_property
    def _unit_of(self) -> dict[GuestId, MoveGroup]:
        units = units_of(self._snapshot)
        return {guest.id: unit for unit in units for guest in unit}

    def is_repairable(self, violation: Violation) -> bool:
        """Return True if a plan could repair *violation*."""
        if self.small is not None:
            return self.small.repairs(violation)
        if isinstance(violation.rule, Affinity):
            names = sorted(violation.guests)
            guests = [self._snapshot.guests[name] for name in names]
            return any(self._can_gather(guests, node) for node in self._snapshot.nodes)
        return any(
            self._can_leave(name, violation.rule) for name in sorted(violation.guests)
        )

    def _can_gather(self, guests: Sequence[Guest], node: NodeId) -> bool:
        displaced = [guest for guest in guests if guest.node != node]
        if any(guest.id in self._fixed for guest in displaced):
            return False
        movable = [guest for guest in guests if guest.id not in self._fixed]
        left = self._vacated[node].minus(required_memory(movable))
        known = (left.measured, left.committed, left.millicores)
        fits = min(each or 0.0 for each in known) >= 0
        return fits and all(self._can_receive(guest, node) for guest in displaced)

    def _can_leave(self, name: GuestId, rule: Rule) -> bool:
        unit = self._unit_of[name]
        nodes = rule.nodes if isinstance(rule, NodeAffinity) else self._snapshot.nodes
        others = [node for node in nodes if node in self._snapshot.nodes]
        if isinstance(rule, AntiAffinity):
            domain_of = self._domains_by_key[rule.domain]
            home = domain_of[unit[0].node]
            others = [node for node in others if domain_of[node] != home]
        return any(
            self._can_gather(unit, node) for node in others if node != unit[0].node
        )

    def _can_receive(self, guest: Guest, node: NodeId) -> bool:
        """Return True if *guest* could migrate to *node* after others have left it."""
        if not self._targets.is_suited(guest, self._snapshot.nodes[node]):
            return False
        for rule in self._snapshot.rules:
            if not getattr(rule, "strict", False):
                continue
            if isinstance(rule, NodeAffinity) and guest.id in rule.guests:
                if guest.node in rule.nodes and node not in rule.nodes:
                    return False
            elif (
                isinstance(rule, AntiAffinity)
                and guest.id in rule.guests
                and not self._has_place(rule, guest, node)
            ):
                return False
        return True

    def _has_place(self, rule: AntiAffinity, guest: Guest, node: NodeId) -> bool:
        """Return True if the guests that stay leave *guest* a place on *node*."""
        domain_of = self._domains_by_key[rule.domain]
        domain = domain_of[node]
        if rule.domain and domain_of[guest.node] == domain:
            return True
        others = (self._snapshot.guests.get(each) for each in rule.guests)
        staying = sum(
            other is not None
            and other.id != guest.id
            and other.id in self._fixed
            and domain in {domain_of[each] for each in other.occupied_nodes}
            for other in others
        )
        return staying < rule.max_guests

    @cached_property
    def _vacated(self) -> dict[NodeId, AvailableMemory]:
        """Memory of each node after all movable guests have left."""
        departing: defaultdict[NodeId, list[Guest]] = defaultdict(list)
        for guest in self._snapshot.guests.values():
            if guest.is_active and guest.id not in self._fixed:
                departing[guest.node].append(guest)
        return {
            name: left.plus(
                required_memory(departing[name]),
                usable_memory(self._snapshot.nodes[name], self._cluster.limits),
            )
            for name, left in self._targets.available_memory.items()
        }


class RepairBlockers:
    """Explanation of what prevents the repair of violations of strict rules.

    Args:
        cluster: Cluster before a plan.
        groups: Groups that may migrate, and skipped guests.
    """

    def __init__(self, cluster: EncodedCluster, groups: MovableGroups) -> None:
        self._snapshot = cluster.snapshot
        self._rules = cluster.rules
        self._targets = cluster.feasibility
        self._skipped = groups.skipped
        self._feasibility = _RepairFeasibility(cluster, groups)
        self._is_infeasible_rule: dict[AntiAffinity, bool] = {}

    @property
    def small(self) -> SmallCluster | None:
        """All placements of the cluster; None if they are too many."""
        return self._feasibility.small

    def is_repairable(self, violation: Violation) -> bool:
        """Return True if a plan might repair *violation*, and all of its rule."""
        return not self._is_infeasible(violation) and self.may_improve(violation)

    def may_improve(self, violation: Violation) -> bool:
        """Return True if a plan might repair *violation*, if not all of its rule."""
        return self._feasibility.is_repairable(violation)

    def _is_infeasible(self, violation: Violation) -> bool:
        """Return True if there are too few nodes for the guests of the rule."""
        rule = violation.rule
        if not isinstance(rule, AntiAffinity):
            return False
        if rule not in self._is_infeasible_rule:
            self._is_infeasible_rule[rule] = (
                find_infeasible_anti_affinity(rule, self._snapshot, self._rules)
                is not None
            )
        return self._is_infeasible_rule[rule]

    def detail(self, violation: Violation) -> str:
        """Return what prevents the repair of *violation*, with its rule."""
        return self._common_blocker(violation) or self._guest_blockers(violation)

    def explain(self, violation: Violation) -> str:
        """Return why *violation* remains, with its rule and its category."""
        category = UNRESOLVED if self.is_repairable(violation) else INFEASIBLE
        return f"{category}: {self.detail(violation)}"

    def blocker(self, name: GuestId) -> str:
        """Return what keeps the guest *name* on its node."""
        if name in self._skipped:
            return f"not migrated: {self._skipped[name].detail}"
        group = group_of(name, self._snapshot, self._rules)
        closed = self._targets.infeasible_nodes(group)
        open_ = [
            each
            for each in sorted(self._snapshot.nodes)
            if each not in closed and each != group[0].node
        ]
        if not open_:
            return f"no feasible node: {group_by_detail(closed)}"
        return (
            f"could migrate to {format_list(open_)}, but no plan within the budget "
            "and in a safe order does so without a loss"
        )

    def _common_blocker(self, violation: Violation) -> str | None:
        """Return what prevents the repair for all guests; None if nothing does."""
        if isinstance(violation.rule, AntiAffinity):
            infeasible = find_infeasible_anti_affinity(
                violation.rule, self._snapshot, self._rules
            )
            return None if infeasible is None else _infeasible_text(infeasible)
        if isinstance(violation.rule, Affinity):
            closed = self._nodes_closed_to_all(violation)
            if closed:
                names = format_list(sorted(violation.guests), separator=" and ")
                return (
                    f"{violation.rule}: {names} fit together on no node: "
                    f"{group_by_detail(closed)}"
                )
        return None

    def _guest_blockers(self, violation: Violation) -> str:
        """Return the blocker of each guest."""
        reasons: defaultdict[str, list[GuestId]] = defaultdict(list)
        for name in sorted(violation.guests):
            reasons[self.blocker(name)].append(name)
        reported = "; ".join(
            f"{format_list(names)}: {detail}" for detail, names in reasons.items()
        )
        return f"{violation.rule}: {reported}"

    def _nodes_closed_to_all(self, violation: Violation) -> Mapping[NodeId, str]:
        """Return why no node can hold all guests; empty if one can."""
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
    """Return the active guests of the move group of *name*, itself included."""
    together = rules.together.get(name, frozenset({name}))
    everybody = [snapshot.guests[each] for each in sorted(together)]
    return [each for each in everybody if each.is_active]


def _infeasible_text(infeasible: InfeasibleAntiAffinity) -> str:
    rules = format_list([f'"{rule}"' for rule in infeasible.rules])
    nodes = format_list(sorted(infeasible.nodes)) or "none"
    rule = infeasible.rules[0]
    where = "on different nodes"
    if isinstance(rule, AntiAffinity) and not rule.is_pairwise:
        where = f"with {rule.limit}"
    return (
        f"{rules}: {format_list(sorted(infeasible.guests))} must run {where}, and the "
        f"nodes allowed for them ({nodes}) suffice for "
        f"{infeasible.max_separated} of {len(infeasible.guests)}"
    )
