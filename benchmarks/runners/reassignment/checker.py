"""Independent checker: cost and violations of an assignment.

It follows the problem statement in plain loops over integers and shares no code with
the search.

Source:
    Google ROADEF/EURO challenge 2012, Machine reassignment: problem statement.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from instances.roadef import Instance

Usage = list[list[int]]


def usage(instance: Instance, machine_of: Sequence[int]) -> Usage:
    """Return the usage of each resource on each machine."""
    used = [[0] * len(instance.load_weight) for _ in instance.capacity]
    for process, machine in enumerate(machine_of):
        for resource, amount in enumerate(instance.requirement[process].tolist()):
            used[machine][resource] += amount
    return used


def violations(
    instance: Instance, origin: Sequence[int], machine_of: Sequence[int]
) -> list[str]:
    """Return each hard constraint that *machine_of* violates."""
    return [
        *_capacity(instance, origin, machine_of),
        *_conflicts(instance, machine_of),
        *_spread(instance, machine_of),
        *_dependencies(instance, machine_of),
    ]


def _capacity(
    instance: Instance, origin: Sequence[int], machine_of: Sequence[int]
) -> list[str]:
    held = usage(instance, machine_of)
    for process, (before, after) in enumerate(zip(origin, machine_of, strict=True)):
        if before != after:
            for resource, transient in enumerate(instance.transient.tolist()):
                if transient:
                    held[before][resource] += int(
                        instance.requirement[process, resource]
                    )
    return [
        f"machine {machine} holds {amount} of resource {resource}, "
        f"of which it has {capacity}"
        for machine, row in enumerate(held)
        for resource, (amount, capacity) in enumerate(
            zip(row, instance.capacity[machine].tolist(), strict=True)
        )
        if amount > capacity
    ]


def _conflicts(instance: Instance, machine_of: Sequence[int]) -> list[str]:
    pairs = Counter(zip(instance.service_of.tolist(), machine_of, strict=True))
    return [
        f"{count} processes of service {service} are on machine {machine}"
        for (service, machine), count in pairs.items()
        if count > 1
    ]


def _spread(instance: Instance, machine_of: Sequence[int]) -> list[str]:
    locations = defaultdict(set)
    for service, machine in zip(instance.service_of.tolist(), machine_of, strict=True):
        locations[service].add(int(instance.location[machine]))
    return [
        f"service {number} is in {len(locations[number])} locations, "
        f"not {service.spread}"
        for number, service in enumerate(instance.services)
        if len(locations[number]) < service.spread
    ]


def _dependencies(instance: Instance, machine_of: Sequence[int]) -> list[str]:
    near = defaultdict(set)
    for service, machine in zip(instance.service_of.tolist(), machine_of, strict=True):
        near[service].add(int(instance.neighborhood[machine]))
    return [
        f"service {number} needs service {needed} in neighborhood {missing}"
        for number, service in enumerate(instance.services)
        for needed in service.needs
        for missing in sorted(near[number] - near[needed])
    ]


def cost(instance: Instance, origin: Sequence[int], machine_of: Sequence[int]) -> int:
    """Return the cost of *machine_of*."""
    used = usage(instance, machine_of)
    return (
        _load_cost(instance, used)
        + _balance_cost(instance, used)
        + _move_cost(instance, origin, machine_of)
    )


def _load_cost(instance: Instance, used: Usage) -> int:
    return sum(
        weight * max(0, amount - safety)
        for row, limits in zip(used, instance.safety.tolist(), strict=True)
        for amount, safety, weight in zip(
            row, limits, instance.load_weight.tolist(), strict=True
        )
    )


def _balance_cost(instance: Instance, used: Usage) -> int:
    total = 0
    for balance in instance.balances:
        for row, capacity in zip(used, instance.capacity.tolist(), strict=True):
            first = capacity[balance.first] - row[balance.first]
            second = capacity[balance.second] - row[balance.second]
            total += balance.weight * max(0, balance.target * first - second)
    return total


def _move_cost(
    instance: Instance, origin: Sequence[int], machine_of: Sequence[int]
) -> int:
    moved = [
        process
        for process, (before, after) in enumerate(zip(origin, machine_of, strict=True))
        if before != after
    ]
    of_service = Counter(int(instance.service_of[process]) for process in moved)
    by_process, by_service, by_machine = instance.weights
    return (
        by_process * sum(int(instance.process_move[process]) for process in moved)
        + by_service * max(of_service.values(), default=0)
        + by_machine
        * sum(
            int(instance.machine_move[origin[process], machine_of[process]])
            for process in moved
        )
    )
