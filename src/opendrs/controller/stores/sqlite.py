"""The record in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from opendrs.controller.stores.encoding import (
    action_as_text,
    action_from_text,
    time_as_text,
    value_as_text,
    value_from_text,
)
from opendrs.controller.stores.lease import Lease
from opendrs.errors import StoreError
from opendrs.model import StepId
from opendrs.ports import Outcome, StepRecord, TaskId

VERSION = 1
_SCHEMA = f"""
BEGIN;
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
PRAGMA user_version = {VERSION};
COMMIT;
"""
_WRITE = """
INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step) DO UPDATE SET
    action = excluded.action, intended_at = excluded.intended_at,
    task = excluded.task, ended_at = excluded.ended_at,
    outcome = excluded.outcome, detail = excluded.detail
"""
_SAVE = "INSERT OR REPLACE INTO saved VALUES (?, ?)"
_UNFINISHED = "SELECT * FROM records WHERE outcome IS NULL ORDER BY intended_at, rowid"
_RECENT = "SELECT * FROM records WHERE intended_at >= ? ORDER BY intended_at, rowid"

_Row = tuple[str, str, str, str, str | None, str | None, str | None, str]


class SqliteStore:
    """What a controller remembers, in a file; used in a `with` statement.

    Only one process works with a file at once: entering takes a lease. What is
    saved is on the disk before the method returns.

    Args:
        path: The file; it and its directory are made when they are not there,
            for nobody but the user to read.
        reading: Whether only to read a file that is there, while another
            process may be at work on it. No lease is taken then.
    """

    def __init__(self, path: Path, *, reading: bool = False) -> None:
        self._path = path
        self._reading = reading
        self._lease = Lease(path.with_name(path.name + ".lock"))
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        """Take the lease and open the file.

        Raises:
            LeaseLostError: Another process works with the file.
            StoreError: It is not such a file, or cannot be opened.
        """
        if not self._reading:
            self._make_directory()
            self._lease.take()
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def load(self, key: str) -> Mapping[str, object] | None:
        """Return what was saved under *key*, or None."""
        with self._database() as database:
            query = "SELECT value FROM saved WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
        return None if row is None else value_from_text(row[0])

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value* under *key*."""
        text = value_as_text(value)
        with self._database() as database:
            database.execute(_SAVE, (key, text))

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""
        with self._database() as database:
            database.execute(_WRITE, _as_row(record))

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, the oldest first."""
        return self._records(_UNFINISHED)

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended at or after *since*, the oldest first."""
        return self._records(_RECENT, time_as_text(since))

    def _records(self, query: str, *values: str) -> tuple[StepRecord, ...]:
        with self._database() as database:
            return tuple(map(_from_row, database.execute(query, values).fetchall()))

    def _make_directory(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make {self._path.parent}: {error.strerror}"
            ) from error

    def _open(self) -> None:
        create = 0 if self._reading else os.O_CREAT
        try:
            # SQLite itself would let the whole group read it.
            os.close(os.open(self._path, os.O_RDWR | create, 0o600))
        except OSError as error:
            raise StoreError(f"cannot open {self._path}: {error.strerror}") from error
        with self._translated():
            self._connection = sqlite3.connect(self._path, isolation_level=None)
        with self._database() as database:
            database.execute("PRAGMA journal_mode = DELETE")
            database.execute("PRAGMA synchronous = FULL")
            self._check_version(database)

    def _check_version(self, database: sqlite3.Connection) -> None:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > VERSION:
            raise StoreError(
                f"{self._path} was written by a newer opendrs: version {version}, "
                f"and this one knows version {VERSION}"
            )
        if version == VERSION:
            return
        if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{self._path} is a database, but not one of opendrs")
        database.executescript(_SCHEMA)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._lease.give_back()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            raise StoreError(f"{self._path} is not open")
        with self._translated():
            yield self._connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            raise StoreError(f"{self._path}: {error}") from error


def _as_row(record: StepRecord) -> _Row:
    return (
        record.run,
        record.step,
        action_as_text(record.action),
        time_as_text(record.intended_at),
        record.task,
        None if record.ended_at is None else time_as_text(record.ended_at),
        record.outcome,
        record.detail,
    )


def _from_row(row: _Row) -> StepRecord:
    run, step, action, intended_at, task, ended_at, outcome, detail = row
    try:
        return StepRecord(
            run=run,
            step=StepId(step),
            action=action_from_text(action),
            intended_at=datetime.fromisoformat(intended_at),
            task=None if task is None else TaskId(task),
            ended_at=None if ended_at is None else datetime.fromisoformat(ended_at),
            outcome=None if outcome is None else Outcome(outcome),
            detail=detail,
        )
    except ValueError as error:
        raise StoreError(f"the record holds a step it should not: {error}") from error
