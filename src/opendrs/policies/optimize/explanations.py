"""Explanations of steps, and of remaining violations and overfull nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from opendrs.model import (
    GIB,
    Guest,
    GuestId,
    NodeAffinity,
    NodeId,
    NodeState,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.optimizer import Floats, Indices, Problem, loads, node_costs
from opendrs.policies.load_metrics import describe_infeasible_nodes
from opendrs.policies.optimize.context import OptimizeContext
from opendrs.policies.optimize.encoding import CPU, EncodedCluster
from opendrs.policies.optimize.movable_groups import EncodedGroup
from opendrs.policies.optimize.repaired_rules import RepairedRules
from opendrs.rules import (
    MILLICORES,
    AvailableMemory,
    available_memory,
    drained_nodes,
    node_priority,
    required_memory,
    split_drains,
    usable_memory,
    violations,
)

MAX_NOTES = 5  # violations, and nodes, that are explained
MAX_GUESTS = 3  # largest guests of an overfull node that are explained
MAX_VIOLATIONS = 50  # violations that are examined; several may have one explanation
MIN_SHOWN_GIB = 0.05  # GiB; less is shown as 0.0


def unresolved_notes(context: OptimizeContext, after: Snapshot) -> Iterator[str]:
    """Yield explanations of violations and overfull nodes in *after*."""
    yield from violation_notes(context, after)
    yield from _memory_notes(context, after)


def violation_notes(context: OptimizeContext, after: Snapshot) -> Iterator[str]:
    """Yield explanations of the first violations of strict rules in *after*."""
    strict = (violation for violation in violations(after) if violation.strict)
    rules, drains = split_drains(strict)
    reported: set[str] = set()
    for detail in context.repairs.explain_all((*drains, *rules[:MAX_VIOLATIONS])):
        if detail in reported:
            continue
        reported.add(detail)
        yield detail
        if len(reported) == MAX_NOTES:
            return


def _memory_notes(context: OptimizeContext, after: Snapshot) -> Iterator[str]:
    """Yield explanations of nodes with more memory or CPU than they may hold."""
    left = available_memory(after, context.limits)
    nodes = context.cluster.node_ids
    gib = {name: _overfull_gib(left[name]) for name in nodes}
    cores = {name: _overfull_cores(left[name]) for name in nodes}
    full = [each for each in nodes if gib[each] > MIN_SHOWN_GIB or cores[each] > 0]
    if full:
        yield from _cluster_overfull_notes(context)
    for what, unit, over in (("memory", "GiB", gib), ("CPU", "cores", cores)):
        least = MIN_SHOWN_GIB if over is gib else 0.0
        names = [name for name in nodes if over[name] > least]
        for name in names[:MAX_NOTES]:
            detail = _overfull_reason(name, context, after)
            yield (
                f"still above the {what} limit: {name}, by {over[name]:.1f} {unit}: "
                f"{detail}"
            )
        if len(names) > MAX_NOTES:
            rest = format_count(len(names) - MAX_NOTES, "more node")
            yield f"still above the {what} limit: {rest}"


def _overfull_cores(left: AvailableMemory) -> float:
    return max(0.0, -(left.millicores or 0.0)) / MILLICORES


def _overfull_gib(left: AvailableMemory) -> float:
    return max(0.0, -(left.measured or 0.0), -(left.committed or 0.0)) / GIB


def _cluster_overfull_notes(context: OptimizeContext) -> Iterator[str]:
    """Yield by how much the limits of all nodes together are exceeded."""
    memory = [
        context.cluster.available_memory(name) for name in context.cluster.node_ids
    ]
    for what, size, free in (
        ("GiB more memory in use", GIB, [each.measured for each in memory]),
        ("GiB more memory committed", GIB, [each.committed for each in memory]),
        ("cores more committed", MILLICORES, [each.millicores for each in memory]),
    ):
        known = [each for each in free if each is not None]
        if len(known) == len(free) and sum(known) < 0:
            yield (
                f"no placement suffices: all nodes together have "
                f"{-sum(known) / size:.1f} {what} than the limits allow"
            )


def _overfull_reason(name: NodeId, context: OptimizeContext, after: Snapshot) -> str:
    there = [
        each for each in after.guests.values() if each.is_active and each.node == name
    ]
    empty = {
        usable_memory(context.snapshot.nodes[each], context.limits)
        for each in context.cluster.node_ids
    }
    large = [each.id for each in there if _fits_nowhere(each, empty)]
    if large:
        return f"{format_list(sorted(large))} would not fit on any node, even if empty"
    largest = sorted(there, key=lambda each: (-(each.usage.memory or 0), each.id))
    reasons: defaultdict[str, list[GuestId]] = defaultdict(list)
    for guest in largest[:MAX_GUESTS]:
        reasons[context.repairs.blocker(guest.id)].append(guest.id)
    if not reasons:
        return "used by the node itself, not by guests"
    return "; ".join(
        f"{format_list(names)}: {detail}" for detail, names in reasons.items()
    )


def _fits_nowhere(guest: Guest, empty: Iterable[AvailableMemory]) -> bool:
    required = required_memory([guest])
    left = [each.minus(required) for each in empty]
    return all(_overfull_gib(each) > 0 or _overfull_cores(each) > 0 for each in left)


MAX_COMPARED = 200  # groups for which infeasible better nodes are searched
MAX_NAMED = 2  # such nodes that are named


class MoveExplanations:
    """Explanations of the moves of one plan.

    Args:
        cluster: Cluster before the plan.
        problem: Problem that was solved.
        assignment: Node of each group after the plan.
        after: Cluster after the plan.
        waits: Description of the present stalls of each guest.
    """

    def __init__(
        self,
        cluster: EncodedCluster,
        problem: Problem,
        assignment: Indices,
        after: Snapshot,
        waits: Mapping[GuestId, str],
    ) -> None:
        self._cluster = cluster
        self._waits = waits
        self._problem = problem
        self._assignment = assignment
        self._drained = drained_nodes(cluster.snapshot)
        self._before = cluster.load_in(cluster.snapshot)
        self._load = loads(problem, assignment)
        self._repaired = [
            RepairedRules(cluster.snapshot, after, strict=strict)
            for strict in (True, False)
        ]

    def explain(self, group: int, *, compared: bool) -> str:
        """Return the explanation of the move of *group*.

        Args:
            group: Index of the move group.
            compared: True to name better nodes that are infeasible.
        """
        encoded = self._cluster.groups[group]
        target = int(self._assignment[group])
        there = self._cluster.node_ids[target]
        moving = [guest for guest in encoded.guests if guest.node != there]
        sentences = [
            self._move(moving, target),
            *self._reasons(encoded, moving, target),
        ]
        if compared:
            sentences += describe_infeasible_nodes(
                self._closed_better_nodes(group, encoded, target)
            )
        return "; ".join(sentences)

    def _move(self, moving: Sequence[Guest], target: int) -> str:
        """Return the demand of *moving* and the loads now and after this move alone."""
        demand = self._cluster.demand_of(moving)
        cores, memory = demand[CPU], demand[self._cluster.memory_resource] / GIB
        verb = "moves"
        if len(moving) > 1:
            verb = f"{_named(moving)} migrate together and move"
        index = self._cluster.arrays.index
        sources = sorted({index[guest.node] for guest in moving})
        changes = [
            self._load_change(
                node,
                -np.array(
                    self._cluster.demand_of(
                        [each for each in moving if index[each.node] == node]
                    )
                ),
            )
            for node in sources
        ]
        return (
            f"{verb} {cores:.2f} cores and {memory:.2f} GiB from "
            f"{format_list(changes, separator=' and ')} to "
            f"{self._load_change(target, np.array(demand))}, counting only this step"
        )

    def _load_change(self, node: int, change: Floats) -> str:
        capacity = self._cluster.total_capacity[node]
        before = self._before[node] / capacity
        after = (self._before[node] + change) / capacity
        texts = (
            # Guests and nodes are sampled at different times: a rest can be negative.
            f"{max(0.0, before[index]):.0%} → {max(0.0, after[index]):.0%} {name}"
            for index, name in (
                (CPU, "cpu"),
                (self._cluster.memory_resource, "memory"),
            )
        )
        return f"{self._cluster.node_ids[node]} ({', '.join(texts)})"

    def _reasons(
        self, encoded: EncodedGroup, moving: Sequence[Guest], target: int
    ) -> Iterator[str]:
        for guest in moving:
            if guest.id in self._waits:
                subject = "it" if len(moving) == 1 else guest.id
                yield f"{subject} is stalled {self._waits[guest.id]}"
        if len(encoded.guests) > 1:
            yield f"{_named(encoded.guests)} must be together"
        preference = self._preference(moving[0], target) if moving else None
        if preference is not None:
            yield f"it runs on a preferred node then: {preference}"
        for repaired in self._repaired:
            repair = repaired.repair_of(guest.id for guest in moving)
            if repair is not None and repair.violation.rule is not preference:
                yield str(repair)

    def _preference(self, guest: Guest, target: int) -> NodeAffinity | None:
        """Return the rule that prefers *target* to the node of *guest* most, or None.

        None as well if all rules together do not prefer it.
        """
        rankings = self._cluster.rules.rankings.get(guest.id, ())
        there = self._cluster.node_ids[target]

        def gain(rules: Iterable[NodeAffinity]) -> float:
            rules = tuple(rules)
            return node_priority(rules, there) - node_priority(rules, guest.node)

        best = max(rankings, key=lambda rule: gain((rule,)), default=None)
        return best if gain(rankings) > 0 else None

    def _closed_better_nodes(
        self, group: int, encoded: EncodedGroup, target: int
    ) -> Iterator[tuple[str, str]]:
        """Yield infeasible nodes that would be better, and the reason."""
        every = np.arange(self._problem.node_count)
        load = self._load.copy()
        load[target] -= self._problem.demand[group]
        more = node_costs(self._problem, load + self._problem.demand[group], every)
        more -= node_costs(self._problem, load, every)
        may = self._problem.allowed[self._problem.class_of[group]]
        # The target itself can be one that a soft rule excludes while others remain.
        margin = 1e-9 * abs(more[target])
        better = np.flatnonzero(~may & (more < more[target] - margin))
        order = better[np.argsort(more[better], kind="stable")].tolist()
        names = (self._cluster.node_ids[node] for node in order)
        details = ((name, self._rejection(encoded, name)) for name in names)
        closed = ((name, detail) for name, detail in details if detail is not None)
        yield from islice(closed, MAX_NAMED)

    def _rejection(self, encoded: EncodedGroup, name: NodeId) -> str | None:
        node = self._cluster.snapshot.nodes[name]
        is_drained = name in self._drained or node.state is NodeState.MAINTENANCE
        if is_drained or name == encoded.guests[0].node:
            return None
        return self._cluster.feasibility.incompatibility(encoded.guests, node)


def _named(guests: Sequence[Guest]) -> str:
    return format_list([guest.id for guest in guests], separator=" and ")
