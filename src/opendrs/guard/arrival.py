"""Whether the targets can receive the guests at all."""

from __future__ import annotations

from opendrs.guard.case import Case
from opendrs.model import Guest, Node


def target_offline(case: Case) -> str | None:
    """Return which target does not take part in the cluster now."""
    for target in case.targets:
        if not case.fresh.nodes[target].online:
            return f"{target} is not online but {case.fresh.nodes[target].state}"
    return None


def other_processor(case: Case) -> str | None:
    """Return which guest could not run on its target's processor.

    Architectures are compared where both are known. A guest that depends on a
    processor model needs a target that is known to have it.
    """
    for guest, move in zip(case.guests, case.moves, strict=True):
        source, target = case.fresh.nodes[move.source], case.fresh.nodes[move.target]
        complaint = _other_architecture(source, target) or _other_model(guest, target)
        if complaint:
            return complaint
    return None


def _other_architecture(source: Node, target: Node) -> str | None:
    if None in (source.architecture, target.architecture):
        return None
    if source.architecture == target.architecture:
        return None
    return (
        f"{target.id} is {target.architecture}, and {source.id} is "
        f"{source.architecture}"
    )


def _other_model(guest: Guest, target: Node) -> str | None:
    if guest.cpu_model in (None, target.cpu_model):
        return None
    found = target.cpu_model or "of unknown model"
    return (
        f"{guest.id} needs processor {guest.cpu_model}; that of {target.id} is {found}"
    )
