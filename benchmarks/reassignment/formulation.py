"""An instance of the challenge in the form the engine of the planner searches."""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.groups import Groups, Lists
from opendrs.policies.optimising.problem import Balance, Problem
from reassignment.instance import Instance, Integers


def problem_of(instance: Instance, origin: Integers) -> Problem:
    """Return *instance*, whose processes are at *origin*, as a problem."""
    by_process, by_service, by_machine = instance.weights
    machines = len(instance.capacity)
    weights = instance.load_weight.astype(np.float64)
    return Problem(
        capacity=instance.capacity.astype(np.float64),
        demand=instance.requirement.astype(np.float64),
        origin=origin,
        class_of=np.zeros(len(origin), dtype=np.int64),
        allowed=np.ones((1, machines), dtype=np.bool_),
        transient=instance.transient > 0,
        groups=_groups(instance),
        location=instance.location,
        neighbourhood=instance.neighbourhood,
        safety=instance.safety.astype(np.float64),
        excess_weight=np.tile(weights, (machines, 1)),
        balances=tuple(
            Balance(
                first=each.first,
                second=each.second,
                target=each.target,
                weight=each.weight,
            )
            for each in instance.balances
        ),
        move_cost=(by_process * instance.process_move).astype(np.float64),
        pair_cost=(by_machine * instance.machine_move).astype(np.float64),
        group_move_weight=by_service,
    )


def _groups(instance: Instance) -> Groups:
    count = len(instance.services)
    each = Lists.of([[service] for service in instance.service_of.tolist()])
    return Groups(
        members=each.inverse(count),
        strict=np.ones(count, dtype=np.bool_),
        apart_weight=np.zeros(count),
        spread=np.array([each.spread for each in instance.services], dtype=np.int64),
        needs=Lists.of([list(each.needs) for each in instance.services]),
    )
