"""The store of the platform of a SOURCE: what commands read from it and write to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from getpass import getuser

from opendrs.cli.configuration import has_store
from opendrs.cli.platforms import ClusterSource
from opendrs.config import DiagnosticCode
from opendrs.config.secret_sources import given_sources
from opendrs.config.settings import Settings
from opendrs.controller.operator_commands import Actor
from opendrs.errors import ConfigurationError, StoreError
from opendrs.escapes import repr_value
from opendrs.ports import Clock, OperatorAction, Store
from opendrs.store import (
    Access,
    DatabasePlanStore,
    OperatorStore,
    PostgresqlStore,
    Retention,
    SqliteStore,
)
from opendrs.transport.secrets import read_located_secret

OWNER_KEY = "platform"  # the key in the store for the name of its platform


@contextmanager
def open_to_read(
    name: str, settings: Settings
) -> Iterator[SqliteStore | PostgresqlStore]:
    """Yield the store of the platform *name*, which a controller may be using.

    It is empty if there is none yet.

    Raises:
        UnknownPlatformError: The platform is not configured.
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be read.
    """
    settings.connection(name)
    if not has_store(name, settings):
        with SqliteStore(None) as empty:
            yield empty
        return
    with open_recorded(name, settings) as store:
        store_owner(store, name)
        yield store


def load_entry(name: str, settings: Settings, key: str) -> Mapping[str, object] | None:
    """Return the entry *key* in the store of the platform *name*; None if absent.

    Raises:
        UnknownPlatformError: The platform is not configured.
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be read.
    """
    with open_to_read(name, settings) as store:
        return store.load(key)


def open_recorded(name: str, settings: Settings) -> SqliteStore | PostgresqlStore:
    """Return the store of the platform *name*, which may belong to another one.

    A `with` statement opens it for reading.

    Raises:
        ConfigurationError: The password of the database cannot be read.
    """
    return _database(settings, name, Access.READ)


def _database(
    settings: Settings, name: str, access: Access
) -> SqliteStore | PostgresqlStore:
    """Return the store of the platform *name*, to be opened by a `with` statement.

    Raises:
        ConfigurationError: The password of the database cannot be read.
    """
    store = settings.store
    retention = (
        Retention()
        if store is None
        else Retention(seconds=store.retention, input_cycles=store.input_cycles)
    )
    if store is None or store.url is None:
        path = settings.store_path(name)
        return SqliteStore(path, access, retention=retention)
    password = None
    if given_sources(store, "password"):
        password = read_located_secret("[store] ", "password", store)
    return PostgresqlStore(
        store.url,
        name,
        password=password,
        access=access,
        lease_time=store.lease_time,
        retention=retention,
    )


@contextmanager
def open_store(
    source: ClusterSource, settings: Settings
) -> Iterator[SqliteStore | PostgresqlStore]:
    """Yield the writable store of *source*; in memory if it is not persistent.

    Raises:
        ConfigurationError: The store belongs to another platform, or a store is
            configured for a platform that is not persistent.
        StoreError: The store cannot be opened.
    """
    if not source.is_persistent:
        if settings.store is not None:
            raise ConfigurationError(
                f"[store]: {source.platform.name} is not persistent and has no "
                "store; remove [store], or use another configuration",
                code=DiagnosticCode.INCONSISTENT,
            )
        with SqliteStore(None) as store:
            yield store
        return
    with _writable_store(source.platform.name, settings, Access.CONTROL) as store:
        yield store


@contextmanager
def open_to_operate(
    name: str, settings: Settings
) -> Iterator[SqliteStore | PostgresqlStore]:
    """Yield the store of the platform *name* for what operators may write.

    A controller may be running.

    Raises:
        UnknownPlatformError: The platform is not configured.
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be opened, or its tables are of another version
            that a controller uses.
    """
    settings.connection(name)
    with _writable_store(name, settings, Access.OPERATE) as store:
        yield store


@contextmanager
def open_operator_store(name: str, settings: Settings) -> Iterator[OperatorStore]:
    """Yield what operators set for the platform *name*; see `open_to_operate`.

    Raises:
        OpenDRSError: As `open_to_operate`.
    """
    with open_to_operate(name, settings) as store:
        yield OperatorStore(store)


@contextmanager
def open_plan_store(name: str, settings: Settings) -> Iterator[DatabasePlanStore]:
    """Yield the plans of the platform *name*; see `open_to_operate`.

    Raises:
        OpenDRSError: As `open_to_operate`.
    """
    with open_to_operate(name, settings) as store:
        yield DatabasePlanStore(store)


@contextmanager
def _writable_store(
    name: str, settings: Settings, access: Access
) -> Iterator[SqliteStore | PostgresqlStore]:
    """Yield the store of the platform *name*; a new one becomes its own.

    Raises:
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be opened.
    """
    with _database(settings, name, access) as store:
        if store_owner(store, name) is None:
            store.save(OWNER_KEY, {"name": name})
        yield store


def cli_actor() -> Actor:
    """Return the user that runs the command."""
    return Actor(user=os.environ.get("SUDO_USER") or getuser())


def operator_action(
    clock: Clock, command: str, arguments: Mapping[str, object]
) -> OperatorAction:
    """Return the record of *command*, with the time and the user that runs it."""
    return cli_actor().action(clock, command, arguments)


def store_owner(store: Store, name: str) -> str | None:
    """Return *name* if *store* belongs to that platform; None if it is new.

    The tasks of one platform would be reported as lost by another.

    Raises:
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be read, or does not name its platform.
    """
    document = store.load(OWNER_KEY)
    if document is None:
        return None
    if not isinstance(document.get("name"), str):
        raise StoreError("store: the name of the platform is missing")
    if document["name"] != name:
        raise ConfigurationError(
            f"[store] path: belongs to platform {repr_value(document['name'])}; "
            f"configure another store for {name}",
            code=DiagnosticCode.INCONSISTENT,
        )
    return name
