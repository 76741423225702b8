"""The steps of a plan that matter most."""

from __future__ import annotations

from opendrs.model import GuestId, Plan, PowerOff, PowerOn, Resources, Snapshot, Step
from opendrs.rules import violation_change

WHOLE_NODE = 1.0  # the value of a step that powers a node on or off


def most_valuable(plan: Plan, snapshot: Snapshot, most: int) -> tuple[Step, ...]:
    """Return the *most* steps with the highest value, in the order of the plan.

    Steps that repair a broken strict rule come first, those that repair more rules
    before others. Then comes the part of the capacity of its source node that a step
    frees, the mean of processors and memory; power actions count as a whole node. Of
    equal steps the earlier comes first.

    Args:
        plan: The plan.
        snapshot: The cluster before it.
        most: How many steps.
    """
    repairs = repaired_rules(plan, snapshot)
    ranked = sorted(
        range(len(plan.steps)),
        key=lambda place: (
            -repairs.get(plan.steps[place].id, 0),
            -_freed(plan.steps[place], snapshot),
            place,
        ),
    )
    return tuple(plan.steps[place] for place in sorted(ranked[:most]))


def repaired_rules(plan: Plan, snapshot: Snapshot) -> dict[str, int]:
    """Return how many broken strict rules the guest of each step breaks no more.

    Steps without any are not in it, nor are detours.
    """
    after = snapshot.after(*(step.action for step in plan.steps))
    count: dict[GuestId, int] = {}
    for violation in violation_change(snapshot, after).repaired:
        for guest in violation.guests:
            count[guest] = count.get(guest, 0) + 1
    return {
        step.id: count[step.action.guest]
        for step in plan.steps
        if not isinstance(step.action, PowerOn | PowerOff)
        and step.action.guest in count
        and after.guests[step.action.guest].node == step.action.target
    }


def _freed(step: Step, snapshot: Snapshot) -> float:
    """Return the part of its source node that *step* frees; 0 when it is not known."""
    if isinstance(step.action, PowerOn | PowerOff):
        return WHOLE_NODE
    capacity = snapshot.nodes[step.action.source].capacity
    used = snapshot.guests[step.action.guest].usage.known
    return 0.0 if capacity is None or used is None else _mean_part(used, capacity)


def _mean_part(used: Resources, capacity: Resources) -> float:
    return (used.cpu / capacity.cpu + used.memory / capacity.memory) / 2
