"""Migrations that may be running, visible or not.

A host that becomes unreachable does not stop its migrations. Each migration therefore
counts on both nodes with the last known values until its outcome is known. This
includes lost migrations and those started by others, over cycles and restarts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opendrs.errors import PlatformError, StoreError
from opendrs.model import (
    DiskMove,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    LiveMigration,
    Migration,
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Relocation,
    Resources,
    Snapshot,
    Transfer,
    Usage,
    action_as_text,
    action_from_text,
    disk_named,
)
from opendrs.ports import Outcome, Platform, StepRecord, Store, TaskState

STORE_KEY = "in flight"
MigrationKey = tuple[GuestId, NodeId, NodeId]


@dataclass(frozen=True, slots=True)
class OpenMigration:
    """A migration that may be running.

    Attributes:
        migration: The migration.
        guest: Last known state of the guest on the source, migrating to the target.
    """

    migration: Migration
    guest: Guest

    @property
    def endpoints(self) -> tuple[NodeId, NodeId]:
        """Return the source and the target."""
        return self.migration.source, self.migration.target

    @property
    def key(self) -> MigrationKey:
        """Return the identity of the migration: the guest and both nodes."""
        return _migration_key(self.migration)


class OpenMigrations:
    """The migrations in the store that may be running.

    A migration passed to `start` runs until `finish`. All others are lost or were
    started by others; their end is determined from snapshots.

    Args:
        store: Contains the migrations.

    Raises:
        StoreError: The migrations cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = {known.key: known for known in load_open_migrations(store)}
        self._running: set[MigrationKey] = set()
        self._unsaved: dict[MigrationKey, Relocation | DiskMove] = {}

    def start(self, actions: Sequence[Transfer], snapshot: Snapshot) -> None:
        """Record that *actions* are about to start.

        Stopped guests use no resources, so that relocations are not recorded. Neither
        are moves of disks, whose guest stays. They count as in progress until `finish`.

        Args:
            actions: Migrations and moves of disks.
            snapshot: The cluster, with their guests.

        Raises:
            StoreError: The store cannot be written.
        """
        migrations = self._count_unsaved(actions)
        for migration in migrations:
            guest = replace(
                snapshot.guests[migration.guest], migrating_to=migration.target
            )
            self._known[_migration_key(migration)] = OpenMigration(migration, guest)
            self._running.add(_migration_key(migration))
        if migrations:
            self._save()

    def adopt(self, actions: Iterable[Transfer]) -> None:
        """Record *actions* that a previous process has started.

        For a guest that it did not record, only the name is known.

        Raises:
            StoreError: The store cannot be written.
        """
        for migration in self._count_unsaved(actions):
            unobserved = OpenMigration(migration, _unobserved_guest(migration))
            self._known.setdefault(_migration_key(migration), unobserved)
            self._running.add(_migration_key(migration))
        self._save()

    def finish(self, record: StepRecord) -> None:
        """Record the outcome of a step; a lost migration may still be running.

        Raises:
            StoreError: The store cannot be written.
        """
        if isinstance(record.action, PowerOn | PowerOff):
            return
        self._running.discard(_migration_key(record.action))
        self._unsaved.pop(_migration_key(record.action), None)
        if record.outcome is not Outcome.LOST:
            self._known.pop(_migration_key(record.action), None)
        self._save()

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with each possibly running migration on both nodes.

        So is each moving disk on both storages.
        """
        self._update(snapshot)
        for action in self._unsaved.values():
            if _is_at_source(action, snapshot):
                snapshot = snapshot.with_in_flight(action)
        open_migrations = [
            m for m in self._known.values() if self._may_be_running(m, snapshot)
        ]
        return (
            _count_on_both_nodes(open_migrations, snapshot)
            if open_migrations
            else snapshot
        )

    def forget_ended(self, snapshot: Snapshot, platform: Platform) -> None:
        """Save the migrations visible in *snapshot*; remove those that ended.

        The platform is queried again about a guest that is on its source and not
        migrating while the target is unreachable.

        Raises:
            StoreError: The store cannot be written.
        """
        before = dict(self._known)
        self._update(snapshot)
        self._known = {
            key: known
            for key, known in self._known.items()
            if self._may_be_running(known, snapshot)
            and not _has_failed(known, snapshot, platform)
        }
        if self._known != before:
            self._save()

    def _count_unsaved(self, actions: Iterable[Transfer]) -> list[Migration]:
        """Count the actions that are not saved; return the others."""
        saved: list[Migration] = []
        for each in actions:
            if isinstance(each, Relocation | DiskMove):
                self._unsaved[_migration_key(each)] = each
            else:
                saved.append(each)
        return saved

    def _update(self, snapshot: Snapshot) -> None:
        """Update the guests of known migrations, and add new migrations."""
        for key, known in self._known.items():
            if (guest := _guest_on_source(known, snapshot)) is not None:
                self._known[key] = OpenMigration(known.migration, guest)
        for guest in snapshot.guests.values():
            if guest.migrating_to is not None and guest.is_active:
                migration = LiveMigration(guest.id, guest.node, guest.migrating_to)
                self._known.setdefault(
                    _migration_key(migration), OpenMigration(migration, guest)
                )

    def _may_be_running(self, known: OpenMigration, snapshot: Snapshot) -> bool:
        return known.key in self._running or not has_ended(known, snapshot)

    def _save(self) -> None:
        value = {
            "migrations": [_encode_migration(known) for known in self._known.values()]
        }
        self._store.save(STORE_KEY, value)


def load_open_migrations(store: Store) -> tuple[OpenMigration, ...]:
    """Return the migrations in the store that may be running.

    Raises:
        StoreError: The migrations cannot be read.
    """
    saved: Any = (store.load(STORE_KEY) or {}).get("migrations", [])
    try:
        return tuple(map(_decode_migration, saved))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f'store: entry "{STORE_KEY}" cannot be decoded: {error!r}'
        ) from error


def add_open_migrations(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the migrations in the store that have not ended.

    Raises:
        StoreError: The migrations cannot be read.
    """
    open_migrations = [
        known for known in load_open_migrations(store) if not has_ended(known, snapshot)
    ]
    return (
        _count_on_both_nodes(open_migrations, snapshot) if open_migrations else snapshot
    )


def has_ended(known: OpenMigration, snapshot: Snapshot) -> bool:
    """Return True if *snapshot* shows that a lost migration has ended.

    It has ended if the guest is not migrating and on a reachable node, or is absent.
    Unless the guest runs on another node than the source, the state of both nodes
    must be known. Otherwise the platform may hide the guest or its migration. A node
    that is offline, or not part of the cluster any more, runs no migration.
    """
    endpoints = [
        snapshot.nodes[name] for name in known.endpoints if name in snapshot.nodes
    ]
    observed = all(endpoint.state is not NodeState.UNKNOWN for endpoint in endpoints)
    guest = snapshot.guests.get(known.migration.guest)
    if guest is None:
        return observed
    if guest.migrating_to is not None or not snapshot.nodes[guest.node].reachable:
        return False
    runs_elsewhere = (
        guest.node != known.migration.source and guest.state is GuestState.RUNNING
    )
    return observed or runs_elsewhere


def _has_failed(known: OpenMigration, snapshot: Snapshot, platform: Platform) -> bool:
    """Return True if the platform reports that a lost migration has failed.

    The platform is queried only if the source is reachable and has the guest without
    a migration. Then the response is about this guest and immediate.
    """
    guest = snapshot.guests.get(known.migration.guest)
    if _guest_on_source(known, snapshot) is None or guest is None or guest.migrating_to:
        return False
    try:
        status = platform.status(platform.find(known.migration))
    except PlatformError:
        return False
    return status.state is TaskState.FAILED


def _guest_on_source(known: OpenMigration, snapshot: Snapshot) -> Guest | None:
    """Return the guest on the source as migrating; None if it is not visible there."""
    guest = snapshot.guests.get(known.migration.guest)
    if guest is None or guest.node != known.migration.source or not guest.is_active:
        return None
    if not snapshot.nodes[guest.node].reachable:
        return None
    if guest.usage.memory is None:
        guest = replace(guest, usage=known.guest.usage)
    return replace(guest, migrating_to=guest.migrating_to or known.migration.target)


def _count_on_both_nodes(
    migrations: Iterable[OpenMigration], snapshot: Snapshot
) -> Snapshot:
    """Return *snapshot* with *migrations*, each on both nodes."""
    nodes, guests = dict(snapshot.nodes), dict(snapshot.guests)
    for known in migrations:
        for name in known.endpoints:
            nodes.setdefault(name, Node(id=name))
        guest = _guest_on_source(known, snapshot)
        if guest is None:
            guest = known.guest
            _add_guest_usage(known, snapshot, nodes)
            observed = snapshot.guests.get(guest.id)
            if observed is not None and observed.node not in known.endpoints:
                guest = replace(guest, id=GuestId(f"{guest.id}@{guest.node}"))
        guests[guest.id] = guest
    return replace(snapshot, nodes=nodes, guests=guests)


def _add_guest_usage(
    known: OpenMigration, snapshot: Snapshot, nodes: dict[NodeId, Node]
) -> None:
    """Add the usage of a guest that is not visible on its source to both nodes.

    The target must have the resources to run the guest, and so must a reachable
    source. Memory on the target is counted for every migrating guest elsewhere.
    """
    source, target = known.endpoints
    cpu, memory = known.guest.usage.cpu, known.guest.usage.memory
    observed = snapshot.guests.get(known.migration.guest)
    nodes[target] = _add_usage(nodes[target], Usage(cpu, 0))
    if observed is None or observed.node != source:
        nodes[source] = _add_usage(nodes[source], Usage(cpu, memory))


def _add_usage(node: Node, added: Usage) -> Node:
    usage = node.usage
    cpu = None if usage.cpu is None or added.cpu is None else usage.cpu + added.cpu
    memory = (
        None
        if usage.memory is None or added.memory is None
        else usage.memory + added.memory
    )
    return replace(node, usage=Usage(cpu, memory))


def _is_at_source(action: Relocation | DiskMove, snapshot: Snapshot) -> bool:
    """Return True if *snapshot* shows that *action* has not ended yet."""
    guest = snapshot.guests.get(action.guest)
    if guest is None or guest.node != action.source:
        return False
    if isinstance(action, DiskMove):
        disk = disk_named(guest, action.disk)
        return disk is not None and disk.storage == action.source_storage
    return action.target in snapshot.nodes


def _migration_key(migration: Transfer) -> MigrationKey:
    return migration.guest, migration.source, migration.target


def _unobserved_guest(migration: Migration) -> Guest:
    """Return a guest of which only the name is known."""
    return Guest(
        id=migration.guest,
        node=migration.source,
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        migrating_to=migration.target,
    )


def _encode_migration(known: OpenMigration) -> dict[str, object]:
    limit, usage = known.guest.limit, known.guest.usage
    return {
        "action": json.loads(action_as_text(known.migration)),
        "kind": known.guest.kind.value,
        "limit": None if limit is None else [limit.cpu, limit.memory],
        "usage": [usage.cpu, usage.memory],
        "tags": sorted(known.guest.tags),
    }


def _decode_migration(plain: Mapping[str, Any]) -> OpenMigration:
    migration = action_from_text(json.dumps(plain["action"]))
    if not isinstance(migration, Migration):
        raise TypeError(migration)
    limit = plain["limit"]
    guest = replace(
        _unobserved_guest(migration),
        kind=GuestKind(plain["kind"]),
        limit=None if limit is None else Resources(*limit),
        usage=Usage(*plain["usage"]),
        tags=frozenset(plain["tags"]),
    )
    return OpenMigration(migration, guest)
