"""Steps for balance while no node is above a gate, found without the policies."""

from __future__ import annotations

import math
from collections.abc import Iterator

from opendrs.model import Limits, NodeState, Plan, Snapshot, StepId
from support.oracles.interleavings import allowed_amounts
from support.oracles.placement import current_placement, violated_rules


def steps_below_gates(
    snapshot: Snapshot, plan: Plan, limits: Limits, *, static: bool = False
) -> list[StepId]:
    """Return the steps of *plan* that nothing but the balance can justify.

    There are none while a node is above a gate, or without gates.

    Args:
        snapshot: The cluster before the plan.
        plan: Plan of a policy that repairs and balances, and has no other goals.
        limits: Limits with the gates.
        static: True if the limits of the guests count instead of measured use.
    """
    gates = (limits.balance_above_cpu_load, limits.balance_above_memory_load)
    if gates == (None, None) or needs_repair(snapshot, limits):
        return []
    if any(load > gate for load, gate in gated_loads(snapshot, limits, static=static)):
        return []
    return [step.id for step in plan.steps]


def gated_loads(
    snapshot: Snapshot, limits: Limits, *, static: bool
) -> Iterator[tuple[float, float]]:
    """Yield the loads of each online node with a known load, with their gates."""
    for name, node in snapshot.nodes.items():
        cpu, memory = node.usage.cpu, node.usage.memory
        if static:
            there = [
                guest.limit
                for guest in snapshot.guests.values()
                if guest.limit is not None and name in guest.occupied_nodes
            ]
            cpu = sum(each.cpu for each in there)
            memory = sum(each.memory for each in there)
        if node.online and node.capacity and cpu is not None and memory is not None:
            yield cpu / node.capacity.cpu, _or_infinite(limits.balance_above_cpu_load)
            part = memory / node.capacity.memory
            yield part, _or_infinite(limits.balance_above_memory_load)


def needs_repair(snapshot: Snapshot, limits: Limits) -> bool:
    """Return True if a strict rule is violated, or a node must lose guests.

    A node in maintenance must, and one above the memory or cores that it may give.
    """
    if violated_rules(snapshot, current_placement(snapshot)):
        return True
    for name, node in snapshot.nodes.items():
        there = [
            guest for guest in snapshot.guests.values() if name in guest.occupied_nodes
        ]
        if there and node.state is NodeState.MAINTENANCE:
            return True
        if node.capacity is None:
            continue
        limited = [guest.limit for guest in there if guest.limit is not None]
        amounts = (
            node.usage.memory or 0,
            sum(limit.memory for limit in limited),
            sum(limit.cpu for limit in limited),
        )
        allowed = allowed_amounts(node, limits)
        if any(one > most for one, most in zip(amounts, allowed, strict=True)):
            return True
    return False


def _or_infinite(gate: float | None) -> float:
    return math.inf if gate is None else gate
