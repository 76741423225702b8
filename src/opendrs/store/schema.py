"""Tables of the SQLite store, and migration from older versions."""

from __future__ import annotations

import sqlite3

from opendrs.errors import StoreError

_STEP_TABLES = """
CREATE TABLE saved (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE records (
    run TEXT NOT NULL,
    step TEXT NOT NULL,
    action TEXT NOT NULL,
    intended_at TEXT NOT NULL,
    task TEXT,
    ended_at TEXT,
    outcome TEXT,
    detail TEXT NOT NULL,
    PRIMARY KEY (run, step)
);
CREATE INDEX records_by_time ON records (intended_at);
"""
_REQUEST_TABLES = """
CREATE TABLE requests (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    taken_at TEXT NOT NULL,
    received_at TEXT NOT NULL,
    interval REAL NOT NULL,
    digest TEXT NOT NULL,
    verdict TEXT NOT NULL,
    leaving TEXT NOT NULL,
    own TEXT NOT NULL,
    state TEXT NOT NULL,
    detail TEXT NOT NULL,
    run TEXT,
    steps TEXT NOT NULL,
    UNIQUE (node, sequence)
);
CREATE TABLE histories (
    guest TEXT NOT NULL,
    node TEXT NOT NULL,
    taken_at TEXT NOT NULL,
    interval REAL NOT NULL,
    samples TEXT NOT NULL,
    counts INTEGER NOT NULL,
    PRIMARY KEY (guest, node)
);
CREATE INDEX histories_by_time ON histories (taken_at);
CREATE INDEX histories_by_node ON histories (node);
CREATE TABLE cycles (
    run TEXT PRIMARY KEY,
    decided_at TEXT NOT NULL,
    document BLOB NOT NULL
);
"""
_PRESENT_NAMES = """
ALTER TABLE requests RENAME COLUMN verdict TO load_state;
ALTER TABLE requests RENAME COLUMN leaving TO evict;
ALTER TABLE requests RENAME COLUMN own TO host_overhead;
ALTER TABLE histories RENAME COLUMN counts TO is_current;
UPDATE requests SET load_state = 'normal' WHERE load_state = 'calm';
UPDATE requests SET state = 'evaluating' WHERE state = 'deciding';
UPDATE requests SET state = 'rejected' WHERE state = 'refused';
UPDATE records SET outcome = 'rejected' WHERE outcome = 'refused';
"""
# Needs no new version: older programs use the tables as before.
_INDEX = "CREATE INDEX IF NOT EXISTS records_by_end ON records (ended_at)"
# Entry n migrates from version n to version n + 1.
MIGRATIONS = (_STEP_TABLES, _REQUEST_TABLES, _PRESENT_NAMES)
SCHEMA_VERSION = len(MIGRATIONS)


def is_blank(database: sqlite3.Connection) -> bool:
    """Return True if *database* is new and has no tables."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    return version == 0 and not _table_count(database)


def migrate_schema(database: sqlite3.Connection, name: str, *, read_only: bool) -> None:
    """Migrate the tables of *database* to the current version in one transaction.

    Args:
        database: The open database.
        name: Name of the database for error messages.
        read_only: True to leave an older version unchanged, because a process of
            that version may be using it.

    Raises:
        StoreError: A newer version wrote the database, or it is not a store.
    """
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{name}: written by a newer opendrs: expected at most version "
            f"{SCHEMA_VERSION}, got version {version}; update opendrs"
        )
    if read_only and version > 0:
        return
    if version == 0 and _table_count(database):
        raise StoreError(f"{name}: a database, but not a store of opendrs")
    if version < SCHEMA_VERSION:
        changes = "".join(MIGRATIONS[version:])
        version_change = f"PRAGMA user_version = {SCHEMA_VERSION};"
        database.executescript(f"BEGIN IMMEDIATE; {changes} {version_change} COMMIT;")
    database.execute(_INDEX)


def _table_count(database: sqlite3.Connection) -> int:
    """Return the number of tables and indexes."""
    row = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    count: int = row[0]
    return count
