"""Limits of parallel migrations: rejected now, allowed later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opendrs.guard.rejection import Rejection, RejectionReason
from opendrs.model import (
    Action,
    Limits,
    Network,
    NodeId,
    PowerOff,
    PowerOn,
    Snapshot,
    Transfer,
    format_count,
)


def check_concurrency(
    actions: Sequence[Action], snapshot: Snapshot, limits: Limits
) -> Rejection | None:
    """Return why *actions* have to wait, or None if they may start.

    A move group that is larger than a limit may start if no other migration is in
    progress on its nodes, over the network, or in the cluster. The move of a disk
    counts as a migration of its node. Power actions do not count.
    """
    migrations = [
        action for action in actions if not isinstance(action, PowerOn | PowerOff)
    ]
    starting = _count_per_node(
        {migration.source, migration.target} for migration in migrations
    )
    busy = [  # stopped guests, too
        guest
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None or guest.moving_disk is not None
    ]
    running = _count_per_node(
        {guest.node, guest.migrating_to or guest.node} for guest in busy
    )
    for node in sorted(starting):
        if (
            running[node]
            and running[node] + starting[node] > limits.max_migrations_per_node
        ):
            return Rejection(
                RejectionReason.NODE_MIGRATION_LIMIT,
                _node_limit_detail(node, running[node], limits),
            )
    for network in limits.networks:
        if (
            network_detail := _network_limit_detail(network, migrations, snapshot)
        ) is not None:
            return Rejection(RejectionReason.NETWORK_MIGRATION_LIMIT, network_detail)
    in_flight = len(busy)
    if (
        migrations
        and in_flight
        and in_flight + len(migrations) > limits.max_parallel_migrations
    ):
        detail = (
            f"{format_count(in_flight, 'migration')} in progress, limit is "
            f"{limits.max_parallel_migrations}"
        )
        return Rejection(RejectionReason.CLUSTER_MIGRATION_LIMIT, detail)
    return None


def _count_per_node(endpoints: Iterable[set[NodeId]]) -> Counter[NodeId]:
    return Counter(node for nodes in endpoints for node in nodes)


def _network_limit_detail(
    network: Network, migrations: Sequence[Transfer], snapshot: Snapshot
) -> str | None:
    """Return why *migrations* have to wait for others over *network*, or None."""
    starting = sum(
        network.carries(migration.source, migration.target) for migration in migrations
    )
    running = sum(
        network.carries(guest.node, guest.migrating_to)
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
    )
    if network.max_parallel_migrations is None or not (starting and running):
        return None
    if starting + running <= network.max_parallel_migrations:
        return None
    return (
        f"{network.name}: {format_count(running, 'migration')} in progress, limit is "
        f"{network.max_parallel_migrations}"
    )


def _node_limit_detail(node: NodeId, running: int, limits: Limits) -> str:
    return (
        f"{node}: {format_count(running, 'migration')} in progress, limit is "
        f"{limits.max_migrations_per_node}"
    )
