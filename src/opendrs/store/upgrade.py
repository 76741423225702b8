"""Upgrade of the tables of a store to the current version."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from opendrs.errors import StoreError
from opendrs.escapes import repr_value
from opendrs.store import former_versions

REVISION = "0008"  # of the newest migration
_VERSION_TABLE = "alembic_version"
_NUMBER = re.compile(r"\d{4}")
_SELECT_REVISION = text(f"SELECT version_num FROM {_VERSION_TABLE}")  # noqa: S608 - a constant


def is_blank(connection: Connection) -> bool:
    """Return True if the database has no tables."""
    return not inspect(connection).get_table_names()


def is_current(connection: Connection) -> bool:
    """Return True if the tables have the current version."""
    return _revision(connection) == REVISION


def upgrade_schema(
    connection: Connection, name: str, require_unused: Callable[[], None] = lambda: None
) -> None:
    """Upgrade the tables to the current version, in the transaction of *connection*.

    Args:
        connection: A connection in a transaction.
        name: Name of the database for error messages.
        require_unused: Function that raises an error if a process uses the tables;
            called before those of an earlier version are changed.

    Raises:
        StoreError: A newer version wrote the database, or it is not a store.
    """
    revision = _revision(connection)
    if revision == REVISION:
        return
    if revision is not None and not _NUMBER.fullmatch(revision):
        raise StoreError(
            f"{name}: expected the number of a version, got {repr_value(revision)}"
        )
    if revision is not None and revision > REVISION:
        raise StoreError(
            f"{name}: written by a newer opendrs: expected at most version "
            f"{REVISION}, got version {revision}; update opendrs"
        )
    if revision is not None:
        require_unused()
    if revision is None and not is_blank(connection):
        former_versions.convert(connection, name, lambda: _migrate(connection, "0001"))
    _migrate(connection, REVISION)
    former_versions.set_version(connection)


def _revision(connection: Connection) -> str | None:
    """Return the version of the tables; None if it is not recorded."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    row = connection.execute(_SELECT_REVISION).first()
    return None if row is None else str(row[0])


def _migrate(connection: Connection, revision: str) -> None:
    # Imported here: it takes half a second, and most starts need no migration.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", "opendrs.store:migrations")
    command.upgrade(config, revision)
