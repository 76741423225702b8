"""Migrations that may be running, whether they are seen or not.

A host that stops answering does not stop its migrations. So each counts on both of
its nodes, as it was last seen, until its outcome is known: also one that was lost or
that others have started, in the cycles after, and after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opendrs.errors import PlatformError, StoreError
from opendrs.model import (
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
    Resources,
    Snapshot,
    Usage,
    action_as_text,
    action_from_text,
)
from opendrs.ports import Outcome, Platform, StepRecord, Store, TaskState

STORE_KEY = "in flight"
MigrationKey = tuple[GuestId, NodeId, NodeId]


@dataclass(frozen=True, slots=True)
class OpenMigration:
    """A migration that may be running.

    Attributes:
        migration: The migration.
        guest: The guest as it was last seen on the source, migrating to the target.
    """

    migration: Migration
    guest: Guest

    @property
    def endpoints(self) -> tuple[NodeId, NodeId]:
        """Return the source and the target."""
        return self.migration.source, self.migration.target

    @property
    def key(self) -> MigrationKey:
        """Return the guest and both nodes, which identify it."""
        return _migration_key(self.migration)


class OpenMigrations:
    """The migrations that may be running, as the store keeps them.

    Those that `start` was called for run until `finish`. The others were lost, or others
    have started them: how they ended is judged by what is seen.

    Args:
        store: Where they are kept.

    Raises:
        StoreError: They cannot be read.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = {known.key: known for known in load_open_migrations(store)}
        self._running: set[MigrationKey] = set()

    def start(self, migrations: Sequence[Migration], snapshot: Snapshot) -> None:
        """Record that *migrations* are about to start; written before they are.

        Args:
            migrations: The migrations.
            snapshot: The cluster, with their guests.

        Raises:
            StoreError: It cannot be kept.
        """
        for migration in migrations:
            guest = replace(
                snapshot.guests[migration.guest], migrating_to=migration.target
            )
            self._known[_migration_key(migration)] = OpenMigration(migration, guest)
            self._running.add(_migration_key(migration))
        if migrations:
            self._save()

    def adopt(self, migrations: Iterable[Migration]) -> None:
        """Record that an earlier process has started *migrations*.

        Of a guest that it did not record, only the name is known.

        Raises:
            StoreError: It cannot be kept.
        """
        for migration in migrations:
            unobserved = OpenMigration(migration, _unobserved_guest(migration))
            self._known.setdefault(_migration_key(migration), unobserved)
            self._running.add(_migration_key(migration))
        self._save()

    def finish(self, record: StepRecord) -> None:
        """Record the outcome of a step: one that was lost may still be running.

        Raises:
            StoreError: It cannot be kept.
        """
        if isinstance(record.action, PowerOn | PowerOff):
            return
        self._running.discard(_migration_key(record.action))
        if record.outcome is not Outcome.LOST:
            self._known.pop(_migration_key(record.action), None)
        self._save()

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with every migration that may be running on both its nodes."""
        self._update(snapshot)
        open_migrations = [
            m for m in self._known.values() if self._may_be_running(m, snapshot)
        ]
        return (
            _count_on_both_nodes(open_migrations, snapshot)
            if open_migrations
            else snapshot
        )

    def forget_ended(self, snapshot: Snapshot, platform: Platform) -> None:
        """Keep the migrations that are seen, and forget those that are over.

        The platform is asked again about a guest that is seen on its source and not
        migrating, while the target does not answer.

        Raises:
            StoreError: It cannot be kept.
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

    def _update(self, snapshot: Snapshot) -> None:
        """Remember the guests of migrations as they are seen, and new migrations."""
        for key, known in self._known.items():
            if (guest := _guest_on_source(known, snapshot)) is not None:
                self._known[key] = OpenMigration(known.migration, guest)
        for guest in snapshot.guests.values():
            if guest.migrating_to is not None:
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
    """Return the migrations that may be running, as the store has them.

    Raises:
        StoreError: They cannot be read.
    """
    saved: Any = (store.load(STORE_KEY) or {}).get("migrations", [])
    try:
        return tuple(map(_decode_migration, saved))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(
            f"record of migrations in flight: not readable: {error!r}"
        ) from error


def add_open_migrations(snapshot: Snapshot, store: Store) -> Snapshot:
    """Return *snapshot* with the migrations that the store knows and that are not over.

    Raises:
        StoreError: They cannot be read.
    """
    open_migrations = [
        known for known in load_open_migrations(store) if not has_ended(known, snapshot)
    ]
    return (
        _count_on_both_nodes(open_migrations, snapshot) if open_migrations else snapshot
    )


def has_ended(known: OpenMigration, snapshot: Snapshot) -> bool:
    """Return whether *snapshot* shows that a migration of unknown outcome has ended.

    It has when its guest is seen on a node that answers, and is not migrating, or is
    not seen at all. Unless the guest runs elsewhere than on the source, the state of
    both nodes must be known: without one of them, a platform may not show that the
    guest migrates, or not the guest. A node that is off, or that the platform does
    not have any more, runs none.
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
    """Return whether the platform reports that a lost migration has failed.

    It is asked where the source answers and shows the guest, and not that it migrates:
    then the answer is about this guest, and comes at once.
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
    """Return the guest as it is seen on the source, migrating; None if it is not."""
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
    """Return *snapshot* with *migrations*, each on both its nodes."""
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
    """Let a guest that is not seen on its source burden both nodes.

    The target must be able to run it; the source, if it answers, to run it on. The
    memory on the target is counted for every guest that migrates there.
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


def _migration_key(migration: Migration) -> MigrationKey:
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
    if isinstance(migration, PowerOn | PowerOff):
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
