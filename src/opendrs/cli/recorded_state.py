"""The cluster of a SOURCE with what its store has recorded about it.

A snapshot file has no store. The library of databases is loaded only for a store:
loading it takes longer than planning for a small cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opendrs.cli.configuration import has_store
from opendrs.cli.platforms import ClusterSource
from opendrs.config.settings import Settings
from opendrs.controller import enrich_snapshot
from opendrs.controller.drained_nodes import with_drained_nodes
from opendrs.controller.history import warn_future_records
from opendrs.controller.in_flight import add_open_migrations
from opendrs.controller.node_inventory import fill_known_nodes
from opendrs.controller.reservations import add_reservations
from opendrs.model import Snapshot
from opendrs.policies import Policy
from opendrs.ports import Store


def enrich_from_store(
    snapshot: Snapshot, policy: Policy[Any], source: ClusterSource, settings: Settings
) -> Snapshot:
    """Return *snapshot* with the data recorded in the store of *source*, if any.

    Raises:
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be read.
    """
    with _recorded(source, settings) as store:
        if store is None:
            return snapshot
        warn_future_records(store, source.clock.now())
        return enrich_snapshot(snapshot, policy, store, settings.protection)


def with_recorded_nodes(
    snapshot: Snapshot, source: ClusterSource, settings: Settings
) -> Snapshot:
    """Return *snapshot* with what the store knows about its nodes.

    Nodes that are powered off have their recorded capacity, and nodes that operators
    drain are in maintenance.

    Returns *snapshot* unchanged if there is no store, or if it belongs to another
    platform.

    Raises:
        StoreError: The store cannot be read.
    """
    with _recorded(source, settings, ignore_others=True) as store:
        if store is None:
            return snapshot
        return with_drained_nodes(fill_known_nodes(snapshot, store), store)


def with_occupied_resources(
    snapshot: Snapshot, source: ClusterSource, settings: Settings
) -> Snapshot:
    """Return *snapshot* with what the store knows to occupy resources.

    These are migrations that may be running without being visible, and reservations.
    Nodes that are powered off have their recorded capacity, and nodes that operators
    drain are in maintenance. Other than with `enrich_from_store`, nothing limits
    migrations that would be allowed later.

    Raises:
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be read.
    """
    with _recorded(source, settings) as store:
        if store is None:
            return snapshot
        counted = add_open_migrations(fill_known_nodes(snapshot, store), store)
        return add_reservations(with_drained_nodes(counted, store), store)


@contextmanager
def _recorded(
    source: ClusterSource, settings: Settings, *, ignore_others: bool = False
) -> Iterator[Store | None]:
    """Yield the store of *source*, open for reading; None if there is none.

    Args:
        source: The platform.
        settings: The configuration.
        ignore_others: True to yield None if the store belongs to another platform,
            which is an error otherwise.
    """
    name = source.platform.name
    if not source.is_persistent or not has_store(name, settings):
        yield None
        return
    from opendrs.cli.platform_store import (  # noqa: PLC0415
        OWNER_KEY,
        open_recorded,
        store_owner,
    )

    with open_recorded(name, settings) as store:
        if ignore_others and (store.load(OWNER_KEY) or {}).get("name") != name:
            yield None
            return
        store_owner(store, name)
        yield store
