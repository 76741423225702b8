"""Reasons why guests remain on nodes in maintenance."""

from __future__ import annotations

from opendrs.arrays import MobilityFilter
from opendrs.metrics import LoadModel
from opendrs.model import Limits, NodeState, Snapshot
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import movable_groups
from opendrs.policies.optimize.repairs import RepairBlockers
from opendrs.policies.preconditions import MeasuredPart, unmet_precondition
from opendrs.rules import compile_rules, drain_rules, violations, with_drain_rule


def drain_blockers(
    snapshot: Snapshot,
    limits: Limits,
    load_model: LoadModel,
    *,
    allow_cold_migration: bool = False,
) -> tuple[str, ...]:
    """Return why guests remain on nodes in maintenance; empty if none do.

    One text names the guests that cannot leave, another one those that another plan
    might migrate.

    Args:
        snapshot: Cluster.
        limits: Limits of the operator.
        load_model: Load that counts. No guest moves from or to nodes without it.
        allow_cold_migration: True if containers may be stopped, moved and started.
    """
    drains = drain_rules(snapshot)
    if not drains or unmet_precondition(snapshot, load_model) is not None:
        return ()
    ruled = with_drain_rule(MeasuredPart.of(snapshot, load_model).snapshot)
    rules = compile_rules(ruled)
    mobility = MobilityFilter(
        load_model=load_model, allow_cold_migration=allow_cold_migration
    )
    groups = movable_groups(ruled, rules, limits, mobility)
    cluster = EncodedCluster(ruled, rules, groups.groups, limits, load_model)
    blockers = RepairBlockers(cluster, groups)
    remaining = (each for each in violations(ruled) if each.rule in drains)
    return tuple(blockers.explain_all(remaining))


def unmeasured_drains(snapshot: Snapshot) -> tuple[str, ...]:
    """Return notes of occupied nodes in maintenance that are not measured.

    They are not drained: a node that is not measured is no source.
    """
    guests = snapshot.guests.values()
    occupied = {guest.node for guest in guests if guest.is_active}
    return tuple(
        f"not drained: {name}: capacity or usage of the node is unknown"
        for name, node in sorted(snapshot.nodes.items())
        if name in occupied
        and node.state is NodeState.MAINTENANCE
        and (node.capacity is None or node.usage.resources is None)
    )
