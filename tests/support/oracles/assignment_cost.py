"""Cost and feasibility of an assignment in plain loops over the definition."""

from __future__ import annotations

from itertools import combinations

from opendrs.optimizer import Problem

Assignment = list[int]


def load(problem: Problem, assignment: Assignment, node: int, resource: int) -> float:
    """Return the load of *resource* on *node*."""
    return float(problem.base_load[node, resource]) + sum(
        float(problem.demand[group, resource])
        for group, place in enumerate(assignment)
        if place == node
    )


def held(problem: Problem, assignment: Assignment, node: int, resource: int) -> float:
    """Return the amount of *resource* that *node* holds, with transient demand."""
    left = sum(
        float(problem.demand[group, resource])
        for group, place in enumerate(assignment)
        if problem.origin[group] == node != place
    )
    total = load(problem, assignment, node, resource)
    return total + left if problem.transient[resource] else total


def reference_cost(problem: Problem, assignment: Assignment) -> float:
    """Return the cost of *assignment*."""
    return (
        sum(_node_cost(problem, assignment, node) for node in range(problem.node_count))
        + sum(
            _placement_cost(problem, group, place)
            for group, place in enumerate(assignment)
        )
        + _set_cost(problem, assignment)
    )


def _node_cost(problem: Problem, assignment: Assignment, node: int) -> float:
    cost = float(problem.use_cost[node]) if node in assignment else 0.0
    loads = [load(problem, assignment, node, r) for r in range(problem.resource_count)]
    for r, amount in enumerate(loads):
        capacity = float(problem.capacity[node, r])
        over = amount - capacity
        excess = amount - float(problem.safety_capacity[node, r])
        away = amount / capacity - float(problem.target_load[r])
        cost += float(problem.overload_weight[r]) * max(0.0, over)
        cost += float(problem.excess_weight[node, r]) * max(0.0, excess)
        cost += float(problem.imbalance_weight[r]) * away**2
    for each in problem.ratio_terms:
        first = float(problem.capacity[node, each.first]) - loads[each.first]
        second = float(problem.capacity[node, each.second]) - loads[each.second]
        cost += each.weight * max(0.0, each.target * first - second)
    return cost


def _placement_cost(problem: Problem, group: int, node: int) -> float:
    cost, origin = 0.0, int(problem.origin[group])
    if problem.placement_cost is not None:
        cost += float(problem.placement_cost[problem.class_of[group], node])
    if node != origin:
        cost += float(problem.move_cost[group])
        if problem.pair_cost is not None:
            cost += float(problem.pair_cost[origin, node])
    return cost


def _set_cost(problem: Problem, assignment: Assignment) -> float:
    cost, most = 0.0, 0
    for k in range(len(problem.group_sets)):
        members = problem.group_sets.members[k].tolist()
        shared = _above_limit(problem, assignment, k)
        cost += float(problem.group_sets.anti_affinity_weight[k]) * shared
        most = max(most, sum(assignment[g] != problem.origin[g] for g in members))
    return cost + problem.set_move_weight * most


def _above_limit(problem: Problem, assignment: Assignment, group_set: int) -> int:
    """Return how many members come after the limit of their domain is reached."""
    sets = problem.group_sets
    row = problem.domains[sets.partition[group_set]].tolist()
    present = sets.fixed[group_set].tolist()
    above = 0
    for group in sets.members[group_set].tolist():
        place = row[assignment[group]]
        above += present.count(place) >= sets.most[group_set]
        present.append(place)
    return above


def is_feasible(problem: Problem, assignment: Assignment) -> bool:
    """Return True if *assignment* is feasible."""
    moved = [g for g, place in enumerate(assignment) if place != problem.origin[g]]
    return (
        all(problem.allowed[problem.class_of[g], assignment[g]] for g in moved)
        and _fits(problem, assignment, {assignment[g] for g in moved})
        and _sets_satisfied(problem, assignment)
        and all(
            sum(measure[g] for g in moved) <= budget * (1 + 1e-9)
            for measure, budget in zip(
                problem.budget_weights.tolist(), problem.budgets.tolist(), strict=True
            )
        )
    )


def _fits(problem: Problem, assignment: Assignment, receiving: set[int]) -> bool:
    return all(
        held(problem, assignment, node, r) <= problem.capacity[node, r] * (1 + 1e-9)
        for node in receiving
        for r in range(problem.resource_count)
    )


def _sets_satisfied(problem: Problem, assignment: Assignment) -> bool:
    group_sets = problem.group_sets
    for k in range(len(group_sets)):
        members = group_sets.members[k].tolist()
        if group_sets.strict[k]:
            for one, other in combinations(members, 2):
                at_home = (
                    assignment[one] == problem.origin[one] == problem.origin[other]
                )
                if assignment[one] == assignment[other] and not at_home:
                    return False
        if (
            len({int(problem.location[assignment[g]]) for g in members})
            < group_sets.spread[k]
        ):
            return False
        near = {int(problem.neighborhood[assignment[g]]) for g in members}
        for needed in group_sets.needs[k].tolist():
            others = group_sets.members[needed].tolist()
            if near - {int(problem.neighborhood[assignment[g]]) for g in others}:
                return False
    return True
