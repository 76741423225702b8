"""Whether the targets have the memory."""

from __future__ import annotations

from opendrs.guard.case import Case
from opendrs.guard.refusal import in_gib
from opendrs.model import Guest, Node, NodeId


def not_measured(case: Case) -> str | None:
    """Return which figure is missing to tell whether there is room."""
    for target in case.targets:
        complaint = _blind(case.fresh.nodes[target]) or _unweighed(case, target)
        if complaint:
            return complaint
    return None


def target_full(case: Case) -> str | None:
    """Return which target would use more memory than is left of its headroom.

    A guest on its way counts in full, whatever of it has arrived.
    """
    for target in case.targets:
        bound = [guest.usage.memory or 0 for guest in case.bound_for(target)]
        used, capacity = _measured(case.fresh.nodes[target])
        allowed = capacity * (1 - case.limits.memory_headroom)
        if used + sum(bound) > allowed:
            return (
                f"{target} uses {in_gib(used)}, and {in_gib(sum(bound))} would arrive: "
                f"more than {in_gib(allowed)} of its {in_gib(capacity)}"
            )
    return None


def overbooked(case: Case) -> str | None:
    """Return which target would have promised more memory than it may."""
    for target in case.targets:
        promised = sum(promise(guest) or 0 for guest in _guests_on(case, target))
        _, capacity = _measured(case.fresh.nodes[target])
        allowed = capacity * case.limits.memory_overbooking
        if promised > allowed:
            return (
                f"the guests of {target} might use {in_gib(promised)} in all: more "
                f"than {in_gib(allowed)}, {case.limits.memory_overbooking:g} times "
                "its memory"
            )
    return None


def promise(guest: Guest) -> int | None:
    """Return the memory a guest may come to use, in bytes.

    It is what the guest uses where no limit is known, and None where that is
    not known either.
    """
    if guest.limit is not None and guest.limit.memory > 0:
        return guest.limit.memory
    return guest.usage.memory


def _blind(target: Node) -> str | None:
    if target.capacity is None:
        return f"the memory of {target.id} is not known"
    if target.usage.memory is None:
        return f"the memory in use on {target.id} was not measured"
    return None


def _unweighed(case: Case, target: NodeId) -> str | None:
    for guest in case.bound_for(target):
        if guest.usage.memory is None:
            return f"the memory {guest.id} uses was not measured"
    for guest in _guests_on(case, target):
        if promise(guest) is None:
            return f"neither limit nor use of the memory of {guest.id} is known"
    return None


def _measured(node: Node) -> tuple[int, int]:
    """Return memory in use and in all; both were found to be known before."""
    return node.usage.memory or 0, node.capacity.memory if node.capacity else 0


def _guests_on(case: Case, target: NodeId) -> tuple[Guest, ...]:
    """Return those that are on *target*, or will be."""
    there = [g for g in case.fresh.guests.values() if g.present and g.node == target]
    return (*there, *case.bound_for(target))
