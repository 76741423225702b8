"""What an assignment costs and breaks, the plain way: loops over the definition."""

from __future__ import annotations

from itertools import combinations

from opendrs.policies.optimising.problem import Problem

Assignment = list[int]


def load(problem: Problem, places: Assignment, node: int, resource: int) -> float:
    """Return what *node* bears of *resource*."""
    return float(problem.base[node, resource]) + sum(
        float(problem.demand[unit, resource])
        for unit, place in enumerate(places)
        if place == node
    )


def held(problem: Problem, places: Assignment, node: int, resource: int) -> float:
    """Return what *node* holds of *resource*, also for units that have left it."""
    left = sum(
        float(problem.demand[unit, resource])
        for unit, place in enumerate(places)
        if problem.origin[unit] == node != place
    )
    total = load(problem, places, node, resource)
    return total + left if problem.transient[resource] else total


def plain_cost(problem: Problem, places: Assignment) -> float:
    """Return what *places* costs."""
    return (
        sum(_node_cost(problem, places, node) for node in range(problem.nodes))
        + sum(_unit_cost(problem, unit, place) for unit, place in enumerate(places))
        + _group_cost(problem, places)
    )


def _node_cost(problem: Problem, places: Assignment, node: int) -> float:
    cost = float(problem.use_cost[node]) if node in places else 0.0
    loads = [load(problem, places, node, r) for r in range(problem.resources)]
    for r, amount in enumerate(loads):
        capacity = float(problem.capacity[node, r])
        over = amount - capacity
        excess = amount - float(problem.safety[node, r])
        away = amount / capacity - float(problem.even_target[r])
        cost += float(problem.overload_weight[r]) * max(0.0, over)
        cost += float(problem.excess_weight[node, r]) * max(0.0, excess)
        cost += float(problem.even_weight[r]) * away**2
    for each in problem.balances:
        first = float(problem.capacity[node, each.first]) - loads[each.first]
        second = float(problem.capacity[node, each.second]) - loads[each.second]
        cost += each.weight * max(0.0, each.target * first - second)
    return cost


def _unit_cost(problem: Problem, unit: int, place: int) -> float:
    cost, origin = 0.0, int(problem.origin[unit])
    if problem.place_cost is not None:
        cost += float(problem.place_cost[problem.class_of[unit], place])
    if place != origin:
        cost += float(problem.move_cost[unit])
        if problem.pair_cost is not None:
            cost += float(problem.pair_cost[origin, place])
    return cost


def _group_cost(problem: Problem, places: Assignment) -> float:
    cost, most = 0.0, 0
    for k in range(len(problem.groups)):
        members = problem.groups.members[k].tolist()
        shared = len(members) - len({places[unit] for unit in members})
        cost += float(problem.groups.apart_weight[k]) * shared
        most = max(most, sum(places[g] != problem.origin[g] for g in members))
    return cost + problem.group_move_weight * most


def is_feasible(problem: Problem, places: Assignment) -> bool:
    """Return whether *places* may be."""
    moved = [g for g, place in enumerate(places) if place != problem.origin[g]]
    return (
        all(problem.allowed[problem.class_of[g], places[g]] for g in moved)
        and _fits(problem, places, {places[g] for g in moved})
        and _groups_stand_well(problem, places)
        and all(
            sum(measure[g] for g in moved) <= budget * (1 + 1e-9)
            for measure, budget in zip(
                problem.measures.tolist(), problem.budgets.tolist(), strict=True
            )
        )
    )


def _fits(problem: Problem, places: Assignment, receiving: set[int]) -> bool:
    return all(
        held(problem, places, node, r) <= problem.capacity[node, r] * (1 + 1e-9)
        for node in receiving
        for r in range(problem.resources)
    )


def _groups_stand_well(problem: Problem, places: Assignment) -> bool:
    groups = problem.groups
    for k in range(len(groups)):
        members = groups.members[k].tolist()
        if groups.strict[k]:
            for one, other in combinations(members, 2):
                at_home = places[one] == problem.origin[one] == problem.origin[other]
                if places[one] == places[other] and not at_home:
                    return False
        if len({int(problem.location[places[g]]) for g in members}) < groups.spread[k]:
            return False
        near = {int(problem.neighbourhood[places[g]]) for g in members}
        for needed in groups.needs[k].tolist():
            others = groups.members[needed].tolist()
            if near - {int(problem.neighbourhood[places[g]]) for g in others}:
                return False
    return True
