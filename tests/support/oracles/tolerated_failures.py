"""Plain check that failures are tolerated: all nodes are tried for all guests.

It shares nothing with the plans and the guard. The search is exponential, for small
clusters without migrations in progress.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from opendrs.model import GuestId, Limits, Mobility, NodeId, NodeState, Plan, Snapshot
from support.oracles.restarts import can_restart

OFF = {NodeState.OFFLINE, NodeState.UNKNOWN}


def intolerated_failures(snapshot: Snapshot, limits: Limits) -> set[frozenset[NodeId]]:
    """Return the sets of nodes after whose failure not all guests can restart."""
    return {
        failed
        for failed in possible_failures(snapshot, limits)
        if not can_restart(snapshot, _restarting(snapshot, failed), {*failed}, limits)
    }


def possible_failures(
    snapshot: Snapshot, limits: Limits
) -> Iterator[frozenset[NodeId]]:
    """Yield any so many nodes, and each domain; nodes without a label are alone."""
    nodes = sorted(n.id for n in snapshot.nodes.values() if n.state not in OFF)
    count = min(limits.tolerated_failures, len(nodes) - 1)
    if count > 0:
        yield from map(frozenset, combinations(nodes, count))
    if limits.tolerated_domain is not None:
        start = f"{limits.tolerated_domain}="
        for name in nodes:
            own = sorted(x for x in snapshot.nodes[name].labels if x.startswith(start))
            yield frozenset(
                other
                for other in nodes
                if other == name or (own and own[0] in snapshot.nodes[other].labels)
            )


def newly_intolerated(
    snapshot: Snapshot, plan: Plan, limits: Limits
) -> set[frozenset[NodeId]]:
    """Return the failures that are tolerated before *plan*, and not after a step.

    The steps are done in their order.
    """
    before = intolerated_failures(snapshot, limits)
    found: set[frozenset[NodeId]] = set()
    for step in plan.steps:
        snapshot = snapshot.apply(step.action)
        found |= intolerated_failures(snapshot, limits) - before
    return found


def _restarting(snapshot: Snapshot, failed: frozenset[NodeId]) -> Iterator[GuestId]:
    for guest in snapshot.guests.values():
        restarts = guest.is_active and guest.mobility is not Mobility.NONE
        if restarts and guest.node in failed:
            yield guest.id
