"""Snapshot of a cycle, completed with what the store knows of the cluster."""

from __future__ import annotations

from typing import TypeVar

from opendrs.controller.drained_nodes import with_drained_nodes
from opendrs.controller.failed_migrations import hold_failed_guests
from opendrs.controller.history import add_recent_actions, recent_actions
from opendrs.controller.in_flight import OpenMigrations, add_open_migrations
from opendrs.controller.migration_rates import add_migration_rates
from opendrs.controller.node_inventory import fill_known_nodes
from opendrs.controller.power_failures import exclude_failed_power_nodes
from opendrs.controller.protection import protect
from opendrs.controller.reservations import add_reservations
from opendrs.controller.usage_history import add_forecasts
from opendrs.model import DEFAULT_PROTECTION, Protection, Snapshot
from opendrs.policies import Policy, forecast_horizon_of
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.repairs import has_repairable_violation
from opendrs.ports import Platform, Store
from opendrs.rules import without_undo_rules

MemoryT = TypeVar("MemoryT")


def enrich_snapshot(
    snapshot: Snapshot,
    policy: Policy[MemoryT],
    store: Store,
    protection: Protection = DEFAULT_PROTECTION,
) -> Snapshot:
    """Return *snapshot* completed with information from the store.

    Added are the times of recent migrations and power-ons, the bandwidth and the dirty
    rates of recent migrations, the capacity of nodes that are powered off, migrations
    that may be running without being visible, the guests of reservations, and the
    forecasts that the policy plans for.
    Nodes that recently failed to power on or off are excluded, those that an operator
    drains are in maintenance, the cluster is protected as
    `opendrs.controller.protection.protect` does, and guests whose migrations failed are
    held back.

    Raises:
        StoreError: The store cannot be read.
    """
    recent = recent_actions(store, policy.limits, snapshot.taken_at)
    counted = add_open_migrations(fill_known_nodes(snapshot, store), store)
    # Drained nodes first: nothing is reserved on them.
    drained = add_reservations(with_drained_nodes(counted, store), store)
    reliable = exclude_failed_power_nodes(drained, store)
    rated = add_migration_rates(reliable, store)
    complete = add_recent_actions(rated, recent)
    horizon = forecast_horizon_of(policy)
    if horizon:
        complete = add_forecasts(complete, store, horizon)
    held = hold_failed_guests(complete, store, protection, policy.limits)
    repairs = isinstance(policy, Optimize) and has_repairable_violation(
        without_undo_rules(held),
        policy.limits,
        policy.load_model,
        allow_cold_migration=policy.allow_cold_migration,
    )
    return protect(held, store, protection, repairs=repairs)


def forget_ended_migrations(
    snapshot: Snapshot, store: Store, platform: Platform
) -> None:
    """Remove lost migrations from the store if *snapshot* shows that they ended.

    Raises:
        StoreError: The store cannot be read or written.
    """
    OpenMigrations(store).forget_ended(fill_known_nodes(snapshot, store), platform)
