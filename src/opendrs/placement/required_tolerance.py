"""Failures that the limits want tolerated, and those of them that are not."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import GuestId, Limits, NodeId, Snapshot
from opendrs.placement.reserves import FailureReserves
from opendrs.rules import checks_every_set


@dataclass(frozen=True, slots=True)
class RequiredFailure:
    """Failure that the limits want tolerated, and that is not.

    Attributes:
        name: Name of the nodes that fail, such as that of their domain.
        nodes: Nodes that fail at the same time.
        unplaced: Guests for which no node was found.
    """

    name: str
    nodes: tuple[NodeId, ...]
    unplaced: tuple[GuestId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredTolerance:
    """Failures that the limits want tolerated.

    Attributes:
        tolerated_failures: Number of nodes, any, that may fail at the same time.
        tolerated_domain: Key of the domains of which any one may fail; None if none.
        evaluated: Number of evaluated sets of nodes.
        is_complete: Whether every set of so many nodes was evaluated.
        intolerated: Those that are not tolerated, with most guests first.
    """

    tolerated_failures: int
    tolerated_domain: str | None
    evaluated: int
    is_complete: bool
    intolerated: tuple[RequiredFailure, ...]


def required_tolerance(snapshot: Snapshot, limits: Limits) -> RequiredTolerance | None:
    """Return whether *snapshot* tolerates what *limits* wants; None if that is nothing.

    Policies find the failures in the same way.
    """
    if not limits.tolerates_failures:
        return None
    reserves = FailureReserves(snapshot, limits)
    found = (
        RequiredFailure(each.name, each.nodes, guests)
        for each, guests in reserves.intolerated()
    )
    return RequiredTolerance(
        tolerated_failures=limits.tolerated_failures,
        tolerated_domain=limits.tolerated_domain,
        evaluated=len(reserves.sets),
        is_complete=checks_every_set(snapshot, limits),
        intolerated=tuple(sorted(found, key=lambda x: (-len(x.unplaced), x.nodes))),
    )
