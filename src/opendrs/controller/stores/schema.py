"""The tables of the record in an SQLite file, and how older ones are brought up."""

from __future__ import annotations

import sqlite3

from opendrs.errors import StoreError

_RECORDS = """
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
_REQUESTS = """
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
# Needs no new version: older programs use the tables as before.
_INDEX = "CREATE INDEX IF NOT EXISTS records_by_end ON records (ended_at)"
_STEPS = (_RECORDS, _REQUESTS)  # from each version to the next, from 0 on
VERSION = len(_STEPS)


def is_blank(database: sqlite3.Connection) -> bool:
    """Return whether *database* has just been made, and nothing is in it."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    return version == 0 and not _tables(database)


def prepare(database: sqlite3.Connection, name: str, *, reading: bool) -> None:
    """Bring the tables of *database* up to date, all or nothing.

    Args:
        database: An open file.
        name: What the file is called.
        reading: Whether only to read it: what an older version wrote is then
            left as it is, because that version may be at work on it.

    Raises:
        StoreError: It was written by a newer version, or is not a record.
    """
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(
            f"{name} was written by a newer opendrs: version {version}, "
            f"and this one knows version {VERSION}"
        )
    if reading and version > 0:
        return
    if version == 0 and _tables(database):
        raise StoreError(f"{name} is a database, but not one of opendrs")
    if version < VERSION:
        changes = "".join(_STEPS[version:])
        database.executescript(
            f"BEGIN IMMEDIATE; {changes} PRAGMA user_version = {VERSION}; COMMIT;"
        )
    database.execute(_INDEX)


def _tables(database: sqlite3.Connection) -> int:
    """Return how many tables and indexes there are."""
    found = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    count: int = found[0]
    return count
