"""SQLite files of the versions 1 to 3, from before the tables had migrations."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text

from opendrs.errors import StoreError

# Programs of the versions 1 to 3 reject a file with a higher number.
_CURRENT_NUMBER = 4
_REQUEST_TABLES = (
    """
    CREATE TABLE requests (id, node, sequence, taken_at, received_at, interval,
        digest, verdict, leaving, own, state, detail, run, steps)
    """,
    "CREATE TABLE histories (guest, node, taken_at, interval, samples, counts)",
    "CREATE TABLE cycles (run, decided_at, document)",
)
_PRESENT_NAMES = (
    "ALTER TABLE requests RENAME COLUMN verdict TO load_state",
    "ALTER TABLE requests RENAME COLUMN leaving TO evict",
    "ALTER TABLE requests RENAME COLUMN own TO host_overhead",
    "ALTER TABLE histories RENAME COLUMN counts TO is_current",
    "UPDATE requests SET load_state = 'normal' WHERE load_state = 'calm'",
    "UPDATE requests SET state = 'evaluating' WHERE state = 'deciding'",
    "UPDATE requests SET state = 'rejected' WHERE state = 'refused'",
    "UPDATE records SET outcome = 'rejected' WHERE outcome = 'refused'",
)
# Entry n changes a file of version n + 1 to version n + 2.
_CHANGES = (_REQUEST_TABLES, _PRESENT_NAMES)
_COLUMNS = {
    "entries": ("saved", "key, value"),
    "steps": (
        "records",
        "run, step, action, intended_at, task, ended_at, outcome, detail",
    ),
    "cycles": ("former_cycles", "run, decided_at, document"),
    "requests": (
        "former_requests",
        """
        id, node, sequence, taken_at, received_at, interval, digest, load_state,
        evict, host_overhead, state, detail, run, steps
        """,
    ),
    "usage_histories": (
        "histories",
        "guest, node, taken_at, interval, samples, is_current",
    ),
}


def convert(
    connection: Connection, name: str, create_tables: Callable[[], None]
) -> None:
    """Convert the tables of a former version.

    Args:
        connection: A connection in a transaction.
        name: Name of the database for error messages.
        create_tables: Function that creates the first tables that Alembic manages.

    Raises:
        StoreError: A newer version wrote the database, or it is not a store.
    """
    version = _version(connection)
    if not 1 <= version < _CURRENT_NUMBER:
        raise StoreError(f"{name}: a database, but not a store of opendrs")
    for statements in _CHANGES[version - 1 :]:
        _execute(connection, *statements)
    _execute(
        connection,
        "ALTER TABLE cycles RENAME TO former_cycles",
        "ALTER TABLE requests RENAME TO former_requests",
        "DROP INDEX IF EXISTS records_by_end",
    )
    create_tables()
    for table, (former, columns) in _COLUMNS.items():
        _execute(
            connection,
            f"INSERT INTO {table} ({columns}) "  # noqa: S608 - constants
            f"SELECT {columns} FROM {former} ORDER BY rowid",
            f"DROP TABLE {former}",
        )


def set_version(connection: Connection) -> None:
    """Let programs of former versions reject an SQLite file."""
    if connection.dialect.name == "sqlite":
        _execute(connection, f"PRAGMA user_version = {_CURRENT_NUMBER}")


def _version(connection: Connection) -> int:
    """Return the version of an SQLite file; 0 if it is not a store."""
    if connection.dialect.name != "sqlite":
        return 0
    version: int = connection.execute(text("PRAGMA user_version")).scalar_one()
    return version


def _execute(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(text(statement))
