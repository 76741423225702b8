"""Violations of strict rules that a plan can repair, and blockers of the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opendrs.arrays import MobilityFilter, MoveGroup, SkipReason
from opendrs.metrics import LoadModel
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import (
    MovableGroups,
    movable_groups,
    units_of,
)
from opendrs.policies.optimize.repair_feasibility import RepairFeasibility
from opendrs.policies.optimize.small_cluster import SmallCluster
from opendrs.policies.preconditions import (
    MeasuredPart,
    group_by_detail,
    unmet_precondition,
)
from opendrs.rules import (
    CompiledRules,
    InfeasibleAntiAffinity,
    Violation,
    compile_rules,
    find_infeasible_anti_affinity,
    is_drain,
    split_drains,
    violations,
    with_drain_rule,
    without_choices,
)

INFEASIBLE = "cannot be repaired"  # by any plan
NOT_EVALUATED = "not evaluated"  # metrics or other data are missing
UNRESOLVED = "not repaired"  # another budget or other moves might repair it
_CANNOT_LEAVE = "cannot leave"  # guests of a drain, in any plan
_UNREACHABLE = "no placement that safe migrations reach repairs the rule"
MAX_EXAMINED = 10  # guests of drains that a plan might migrate


@dataclass(frozen=True, slots=True)
class UnresolvedViolation:
    """A violation of a strict rule that remains after a plan.

    Attributes:
        violation: The violation.
        detail: What prevents its repair or its evaluation; empty if nothing known does.
        is_evaluated: True if enough is known of the cluster to decide.
        blocker: For a drain, what keeps the guest on its node; empty if that was not
            examined, and for other rules.
    """

    violation: Violation
    detail: str = ""
    is_evaluated: bool = True
    blocker: str = ""

    @property
    def is_drain(self) -> bool:
        """True for a guest on a node in maintenance, if it was evaluated."""
        return self.is_evaluated and is_drain(self.violation.rule)

    @property
    def text(self) -> str:
        """Return why the violation remains, with its rule and its category."""
        if not self.detail:
            return f"remains violated: {self.violation}"
        return f"{INFEASIBLE if self.is_evaluated else NOT_EVALUATED}: {self.detail}"

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
    return tuple(repairs.unresolved(strict))


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


def drain_lines(unresolved: Iterable[UnresolvedViolation]) -> list[str]:
    """Return how many guests cannot leave, or remain on, nodes in maintenance.

    The drains among *unresolved* give one line per drain and outcome, which names what
    keeps the guests there.
    """
    lines: defaultdict[tuple[str, bool], dict[GuestId, str]] = defaultdict(dict)
    for each in unresolved:
        if each.is_drain:
            blockers = dict.fromkeys(sorted(each.violation.guests), each.blocker)
            lines[str(each.violation.rule), bool(each.repairable)].update(blockers)
    return [
        _drain_line(rule, blockers, repairable=repairable)
        for (rule, repairable), blockers in lines.items()
    ]


class RepairBlockers:
    """Explanation of what prevents the repair of violations of strict rules.

    Args:
        cluster: Cluster before a plan.
        groups: Groups that may migrate, and skipped guests.
    """

    def __init__(self, cluster: EncodedCluster, groups: MovableGroups) -> None:
        self._snapshot = cluster.snapshot
        self._rules = cluster.rules
        free = without_choices(cluster.snapshot)
        self._proof_rules = (
            cluster.rules if free is cluster.snapshot else compile_rules(free)
        )
        self._targets = cluster.feasibility
        self._skipped = groups.skipped
        self._feasibility = RepairFeasibility(cluster, groups)
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
                find_infeasible_anti_affinity(rule, self._snapshot, self._proof_rules)
                is not None
            )
        return self._is_infeasible_rule[rule]

    def detail(self, violation: Violation) -> str:
        """Return what prevents the repair of *violation*, with its rule."""
        return self._common_blocker(violation) or self._guest_blockers(violation)

    def unresolved(
        self, remaining: Iterable[Violation]
    ) -> Iterator[UnresolvedViolation]:
        """Yield each violation with what prevents its repair.

        Of the guests of drains that a plan might migrate, `MAX_EXAMINED` are examined.
        """
        examined = 0
        for each in remaining:
            repairable = self.is_repairable(each)
            if not is_drain(each.rule):
                yield UnresolvedViolation(each, "" if repairable else self.detail(each))
                continue
            (name,) = each.guests
            examined += repairable
            is_examined = not repairable or examined <= MAX_EXAMINED
            blocker = ""
            if is_examined:
                blocker = self.blocker(name, repairable=repairable)
            detail = "" if repairable else f"{each.rule}: {name}: {blocker}"
            yield UnresolvedViolation(each, detail, blocker=blocker)

    def explain_all(self, remaining: Iterable[Violation]) -> Iterator[str]:
        """Yield why violations remain; drains first, the guests of each together."""
        rules, drains = split_drains(remaining)
        yield from drain_lines(self.unresolved(drains))
        yield from map(self._explain, rules)

    def _explain(self, violation: Violation) -> str:
        """Return why *violation* remains, with its rule and its category."""
        category = UNRESOLVED if self.is_repairable(violation) else INFEASIBLE
        return f"{category}: {self.detail(violation)}"

    def blocker(
        self, name: GuestId, *, repairable: bool | None = None, gathers: bool = False
    ) -> str:
        """Return what keeps the guest *name* on its node.

        Args:
            name: The guest.
            repairable: True if a plan might repair the rule that the guest violates:
                then contradictory rules do not keep it. False if no plan can: then it
                is not said to be able to migrate. None without such a rule.
            gathers: True if it is to gather with its move group. Otherwise it migrates
                with the guests that it shares a node with by a strict affinity.
        """
        skipped = self._skipped.get(name)
        if skipped is not None and not (
            repairable and skipped.reason is SkipReason.CONTRADICTORY_RULES
        ):
            return f"not migrated: {skipped.detail}"
        group: Sequence[Guest] = self._unit_of[name]
        if gathers:
            group = group_of(name, self._snapshot, self._rules)
        closed = self._closed_nodes(name, group)
        home = self._snapshot.guests[name].node
        open_ = [
            each
            for each in sorted(self._snapshot.nodes)
            if each not in closed and each != home
        ]
        if not open_:
            return f"no feasible node: {group_by_detail(closed)}"
        if repairable is False:
            return _UNREACHABLE
        return (
            f"could migrate to {format_list(open_)}, but no plan within the budget "
            "and in a safe order does so without a loss"
        )

    @cached_property
    def _unit_of(self) -> Mapping[GuestId, MoveGroup]:
        units = units_of(self._snapshot)
        return {guest.id: unit for unit in units for guest in unit}

    def _closed_nodes(self, name: GuestId, group: Sequence[Guest]) -> dict[NodeId, str]:
        """Return why *name* cannot migrate to each other node with its *group*.

        A group on several nodes gathers where those of its guests are that stay.
        """
        home = self._snapshot.guests[name].node
        closed = self._targets.infeasible_nodes(group)
        for guest in group:
            skipped = self._skipped.get(guest.id)
            stays = skipped and skipped.reason is not SkipReason.CONTRADICTORY_RULES
            if stays and guest.node != home:
                others = self._snapshot.nodes.keys() - {guest.node, *closed}
                closed |= dict.fromkeys(others, f"{guest.id} stays on {guest.node}")
        closed.pop(home, None)
        return closed

    def _common_blocker(self, violation: Violation) -> str | None:
        """Return what prevents the repair for all guests; None if nothing does."""
        if isinstance(violation.rule, AntiAffinity):
            infeasible = find_infeasible_anti_affinity(
                violation.rule, self._snapshot, self._proof_rules
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
        """Return the blocker of each guest.

        If no plan can repair *violation*, guests are omitted that could migrate, unless
        all of them could.
        """
        repairable = self.is_repairable(violation)
        gathers = isinstance(violation.rule, Affinity)
        every = {
            name: self.blocker(name, repairable=repairable, gathers=gathers)
            for name in sorted(violation.guests)
        }
        known = {name: each for name, each in every.items() if each != _UNREACHABLE}
        return f"{violation.rule}: {'; '.join(_listed(known or every))}"

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


def _drain_line(rule: str, blockers: Mapping[GuestId, str], *, repairable: bool) -> str:
    examined = {name: blocker for name, blocker in blockers.items() if blocker}
    outcome = _CANNOT_LEAVE
    if repairable:
        outcome = "remains" if len(blockers) == 1 else "remain"
    parts = [*_listed(examined)]
    if others := len(blockers) - len(examined):
        parts.append(format_count(others, "further guest"))
    return (
        f"{rule}: {format_count(len(blockers), 'guest')} {outcome}: {'; '.join(parts)}"
    )


def _listed(blockers: Mapping[GuestId, str]) -> Iterator[str]:
    """Yield each blocker once, after its guests."""
    names_of: defaultdict[str, list[GuestId]] = defaultdict(list)
    for name, blocker in blockers.items():
        names_of[blocker].append(name)
    for blocker, names in names_of.items():
        yield f"{format_list(names)}: {blocker}"


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
