"""Store in an SQLite file."""

from __future__ import annotations

import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from opendrs.config import display_path
from opendrs.errors import StoreError
from opendrs.escapes import escape_line
from opendrs.model import (
    DamagedRecordError,
    StepId,
    action_as_text,
    action_from_text,
    decoding,
    require_type,
    time_as_text,
    time_from_text,
    value_as_text,
    value_from_text,
)
from opendrs.ports import CycleRecord, Outcome, StepRecord, TaskId
from opendrs.store.lease import Lease, open_private, require_readable
from opendrs.store.memory import MAX_CYCLES
from opendrs.store.schema import is_blank, migrate_schema

_WRITE = """
INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, step) DO UPDATE SET
    action = excluded.action, intended_at = excluded.intended_at,
    task = excluded.task, ended_at = excluded.ended_at,
    outcome = excluded.outcome, detail = excluded.detail
"""
_SAVE = "INSERT OR REPLACE INTO saved VALUES (?, ?)"
_UNFINISHED = "SELECT * FROM records WHERE outcome IS NULL ORDER BY intended_at, rowid"
_RECENT = """
SELECT * FROM records WHERE intended_at >= ? OR ended_at >= ?
ORDER BY intended_at, rowid
"""

_RECORDS_OF = "SELECT * FROM records WHERE run = ? ORDER BY intended_at, rowid"
_RECORD_CYCLE = "INSERT OR REPLACE INTO cycles VALUES (?, ?, ?)"
_PRUNE_CYCLES = """
DELETE FROM cycles WHERE rowid NOT IN
    (SELECT rowid FROM cycles ORDER BY rowid DESC LIMIT ?)
"""
_CORRECT_TIMES = (
    """
    UPDATE records
    SET intended_at = min(intended_at, :now), ended_at = min(ended_at, :now)
    WHERE intended_at > :now OR ended_at > :now
    """,
    "UPDATE cycles SET decided_at = :now WHERE decided_at > :now",
    """
    UPDATE requests
    SET taken_at = min(taken_at, :before), received_at = min(received_at, :now)
    WHERE taken_at > :now OR received_at > :now
    """,
    "UPDATE histories SET taken_at = :before WHERE taken_at > :now",
)
_CYCLES = "SELECT * FROM cycles ORDER BY rowid"

_IN_MEMORY = ":memory:"
_INCOMPLETE_WRITE = (
    "incomplete write of a process that was killed; the next command with write "
    "permission, such as run or apply, repairs it"
)

_StepRow = tuple[str, str, str, str, str | None, str | None, str | None, str]


class SqliteStore:
    """Implementation of `opendrs.ports.Store` in a file; used in a `with` statement.

    Entering acquires a lease, so that one process at a time uses the file. Threads
    are serialized. Each method returns after its changes are on the disk.

    Args:
        path: The file. It and its directory are created if absent, readable only by
            the user. Symbolic links are rejected. None for a database in memory.
        read_only: True to read an existing file that another process may be using.
            Neither a lease nor permission to write is required then.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._name = "store in memory" if path is None else display_path(path)
        self._lock = threading.RLock()
        self._lease: Lease | None = None
        self._connection: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        """Acquire the lease and open the file.

        Raises:
            LeaseLostError: Another process uses the file.
            StoreError: The file cannot be opened, or is not a store.
        """
        try:
            if self._path is None:
                self._connection = _connect(_IN_MEMORY)
            elif self._read_only:
                require_readable(self._path)
                self._connection = self._connect_to(self._path)
            else:
                self._lease = self._acquire_lease(self._path)
                # SQLite would make the file readable by the group, and follow links.
                os.close(open_private(self._path))
                self._connection = self._connect_to(self._path)
            self._prepare()
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
        """Return the value saved under *key*, or None."""
        with self.database() as database:
            query = "SELECT value FROM saved WHERE key = ?"
            row = database.execute(query, (key,)).fetchone()
            return None if row is None else value_from_text(row[0])

    def save(self, key: str, value: Mapping[str, object]) -> None:
        """Save *value* under *key*."""
        text = value_as_text(value)
        with self.database() as database:
            database.execute(_SAVE, (key, text))

    def write(self, record: StepRecord) -> None:
        """Add *record*, or replace the one of the same run and step."""
        with self.database() as database:
            database.execute(_WRITE, _to_row(record))

    def unfinished(self) -> tuple[StepRecord, ...]:
        """Return the records without an outcome, oldest first."""
        return self._records(_UNFINISHED)

    def recent(self, since: datetime) -> tuple[StepRecord, ...]:
        """Return the records intended or ended at or after *since*."""
        time = time_as_text(since)
        return self._records(_RECENT, time, time)

    def correct_times(self, now: datetime) -> int:
        """Set recorded times after *now* to *now*; return the number of changes."""
        times = {
            "now": time_as_text(now),
            "before": time_as_text(now - timedelta(microseconds=1)),
        }
        with self.transaction() as database:
            return sum(
                database.execute(query, times).rowcount for query in _CORRECT_TIMES
            )

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the records of *run*, oldest first."""
        return self._records(_RECORDS_OF, run)

    def record_cycle(self, cycle: CycleRecord) -> None:
        """Add the record of a cycle; keep the newest `MAX_CYCLES`."""
        text = zlib.compress(value_as_text(cycle.document).encode())
        row = (cycle.run, time_as_text(cycle.decided_at), text)
        with self.transaction() as database:
            database.execute(_RECORD_CYCLE, row)
            database.execute(_PRUNE_CYCLES, (MAX_CYCLES,))

    def cycles(self) -> tuple[CycleRecord, ...]:
        """Return the records of cycles, oldest first."""
        with self.database() as database:
            return tuple(map(_cycle_from_row, database.execute(_CYCLES).fetchall()))

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection, exclusively for this thread.

        Raises:
            StoreError: The store is not open, or a statement failed.
        """
        with self._lock, self._translate_errors():
            if self._connection is None:
                raise StoreError(f"{self._name}: not open")
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection in a transaction, rolled back after an error.

        Raises:
            StoreError: The store is not open, or a statement failed.
        """
        with self.database() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _records(self, query: str, *values: str) -> tuple[StepRecord, ...]:
        with self.database() as database:
            return tuple(map(_from_row, database.execute(query, values).fetchall()))

    def _acquire_lease(self, path: Path) -> Lease:
        """Create the directory of *path* and return the lease on the store."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else error
            raise StoreError(
                f"cannot create {display_path(path.parent)}: {detail}"
            ) from error
        lease = Lease(path.with_name(path.name + ".lock"))
        lease.acquire()
        return lease

    def _connect_to(self, path: Path) -> sqlite3.Connection:
        # "rw" for readers as well: with write permission, SQLite rolls back the
        # incomplete transaction of a killed process; without it, SQLite only reads.
        with self._translate_errors():
            return _connect(f"{path.absolute().as_uri()}?mode=rw")

    def _prepare(self) -> None:
        with self.database() as database:
            # A blank file is being created by another process.
            if self._read_only and is_blank(database):
                database.close()
                self._connection = _connect(_IN_MEMORY)
                migrate_schema(self._connection, self._name, read_only=False)
                return
            if not self._read_only:
                database.execute("PRAGMA journal_mode = DELETE")
                # FULL does not sync the directory after the journal is deleted. A
                # power failure could restore the journal and undo a commit.
                database.execute("PRAGMA synchronous = EXTRA")
            migrate_schema(database, self._name, read_only=self._read_only)

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)
            is_incomplete = code == sqlite3.SQLITE_READONLY_ROLLBACK
            detail = _INCOMPLETE_WRITE if is_incomplete else escape_line(str(error))
            raise StoreError(f"{self._name}: {detail}") from error
        except DamagedRecordError as error:
            raise StoreError(f"{self._name}: {error}") from error


def _connect(address: str) -> sqlite3.Connection:
    """Return a connection without implicit transactions, for several threads."""
    return sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False
    )


def _to_row(record: StepRecord) -> _StepRow:
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


_FORMER = {"refused": "rejected"}  # outcomes in files of version 1 and 2


def _from_row(row: _StepRow) -> StepRecord:
    run, step, action, intended_at, task, ended_at, outcome, detail = row
    with decoding("a step", [run, step]):
        require_type(str, (run, step, detail, "" if task is None else task))
        return StepRecord(
            run=run,
            step=StepId(step),
            action=action_from_text(action),
            intended_at=time_from_text(intended_at),
            task=None if task is None else TaskId(task),
            ended_at=None if ended_at is None else time_from_text(ended_at),
            outcome=None if outcome is None else Outcome(_FORMER.get(outcome, outcome)),
            detail=detail,
        )


def _cycle_from_row(row: tuple[str, str, bytes]) -> CycleRecord:
    run, decided_at, document = row
    with decoding("a cycle", run):
        require_type(str, [run])
        return CycleRecord(
            run=run,
            decided_at=time_from_text(decided_at),
            document=value_from_text(zlib.decompress(document).decode()),
        )
