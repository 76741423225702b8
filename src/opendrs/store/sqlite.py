"""Store in an SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, Engine, StaticPool, create_engine, event

from opendrs.config import display_path
from opendrs.errors import LeaseLostError, StoreError
from opendrs.escapes import escape_line
from opendrs.ports import LeaseHolder
from opendrs.store.cycle_records import DEFAULT_RETENTION, Retention
from opendrs.store.database import Access, DatabaseStore
from opendrs.store.lease import (
    Lease,
    create_database_file,
    lease_holder,
    require_readable,
)
from opendrs.store.upgrade import is_blank, is_current, upgrade_schema

LOCK_TIMEOUT = 30.0  # seconds: to record a cycle of a large cluster takes some
_ATTEMPTS = 10  # to acquire the lease of a file that exists
_ATTEMPT_INTERVAL = 0.05  # seconds
_IN_MEMORY = ":memory:"


class SqliteStore(DatabaseStore):
    """Store in a file; used in a `with` statement.

    With `Access.CONTROL`, entering acquires a lease, so that one process at a time
    starts steps. Others can read and operate meanwhile. Threads are serialized.

    Args:
        path: The file. It and its directory are created if absent, readable only by
            the user. Symbolic links are rejected. None for a database in memory.
        access: How the process uses the file. To read an existing one, neither a lease
            nor permission to write is required.
        retention: Extent of the record of cycles.
    """

    def __init__(
        self,
        path: Path | None,
        access: Access = Access.CONTROL,
        *,
        retention: Retention = DEFAULT_RETENTION,
    ) -> None:
        name = "store in memory" if path is None else display_path(path)
        super().__init__(name, retention)
        self._path = path
        self._access = access
        self._lock = threading.RLock()
        self._lease: Lease | None = None

    def __enter__(self) -> Self:
        """Acquire the lease and open the file.

        Raises:
            LeaseLostError: Another process uses the file.
            StoreError: The file cannot be opened, or is not a store.
        """
        try:
            with self._translate_errors():
                self._engine = self._open()
        except sqlite3.Error as error:
            self._close()
            raise StoreError(f"{self._name}: {escape_line(str(error))}") from error
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

    def lease_holder(self) -> LeaseHolder | None:
        """Return the process that holds the lease; None if none does.

        Raises:
            StoreError: The lock file cannot be read.
        """
        return None if self._path is None else lease_holder(_lock_path(self._path))

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._lock, super()._begin() as connection:
            yield connection

    def _open(self) -> Engine:
        if self._path is None:
            return empty_engine()
        if self._access is Access.READ:
            require_readable(self._path)
            return self._open_to_read(self._path)
        open_file = (
            self._open_to_operate
            if self._access is Access.OPERATE
            else self._open_to_control
        )
        return _opened_after_creation(self._path, open_file)

    def _open_to_control(self, path: Path) -> Engine:
        """Return an engine for writing *path*, with the lease."""
        self._lease = self._acquire_lease(path)
        return _upgraded(_open_to_write(path), self._name)

    def _open_to_operate(self, path: Path) -> Engine:
        """Return an engine for writing *path* beside a controller.

        A file that is new or of another version is upgraded. That needs the lease: a
        controller of that version may be using it.
        """
        if path.exists():
            create_database_file(path)  # checks the existing one
            with _connected(path) as connection:
                current = is_current(connection)
            if current:
                return _open_to_write(path)
        lease = self._acquire_lease(path)
        try:
            return _upgraded(_open_to_write(path), self._name)
        finally:
            lease.release()

    def _open_to_read(self, path: Path) -> Engine:
        """Return an engine for reading *path*.

        A file of another version is upgraded in memory: a process of that version may
        be using it. So is a blank one, which another process is creating.
        """
        database = _connect_to_read(path)
        engine = _engine(database, writes=False)
        with engine.begin() as connection:
            if is_current(connection):
                return engine
            blank = is_blank(connection)
        if blank:
            database.close()
            return empty_engine()
        copy = _connect(_IN_MEMORY)
        database.backup(copy)
        database.close()
        return _upgraded(_engine(copy), self._name)

    def _acquire_lease(self, path: Path) -> Lease:
        """Create the directory of *path* and return the lease on the store."""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            detail = error.strerror if isinstance(error, OSError) else error
            raise StoreError(
                f"cannot create {display_path(path.parent)}: {detail}"
            ) from error
        lease = Lease(_lock_path(path))
        lease.acquire()
        return lease

    def _close(self) -> None:
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None
        if self._lease is not None:
            self._lease.release()
            self._lease = None


def _opened_after_creation(path: Path, open_file: Callable[[Path], Engine]) -> Engine:
    """Return the result of *open_file*; wait while another process creates *path*.

    That process has the lease for a moment, even if it is no controller.

    Raises:
        LeaseLostError: Another process keeps the lease.
    """
    end, attempts = time.monotonic() + LOCK_TIMEOUT, _ATTEMPTS
    while True:
        try:
            return open_file(path)
        except LeaseLostError:
            # To wait for a writer may take long: attempts count, not time.
            attempts -= not _is_being_created(path)
            if attempts == 0 or time.monotonic() >= end:
                raise
        threading.Event().wait(_ATTEMPT_INTERVAL)


def _is_being_created(path: Path) -> bool:
    """Return True if the file *path* is absent or blank; wait for its writer."""
    if not path.exists():
        return True
    with _connected(path) as connection:
        return is_blank(connection)


@contextmanager
def _connected(path: Path) -> Iterator[Connection]:
    """Yield a connection to the file *path*, which no other writes meanwhile."""
    engine = _engine(_connect(f"{_address(path)}?mode=rw"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _lock_path(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def empty_engine() -> Engine:
    """Return an engine for an empty store in memory."""
    return _upgraded(_engine(_connect(_IN_MEMORY)), "store in memory")


def _upgraded(engine: Engine, name: str) -> Engine:
    with engine.begin() as connection:
        upgrade_schema(connection, name)
    return engine


def _open_to_write(path: Path) -> Engine:
    """Return an engine for writing *path*, which is created if absent."""
    # SQLite would make the file readable by the group, and follow links.
    create_database_file(path)
    database = _connect(f"{_address(path)}?mode=rw")
    # Readers do not block the writer, and each commit is on the disk.
    _use_write_ahead_log(database)
    database.execute("PRAGMA synchronous = FULL")
    return _engine(database)


def _use_write_ahead_log(database: sqlite3.Connection) -> None:
    """Let *database* use a write-ahead log, which the file of a new one does not.

    SQLite does not wait for other connections when it changes that.
    """
    end = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= end:
                database.close()
                raise
            threading.Event().wait(_ATTEMPT_INTERVAL)
        else:
            return


def _address(path: Path) -> str:
    return path.absolute().as_uri()


def _connect(address: str) -> sqlite3.Connection:
    """Return a connection without implicit transactions, for several threads."""
    return sqlite3.connect(
        address,
        timeout=LOCK_TIMEOUT,
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection to read *path*, also without permission to write.

    SQLite needs a file of its own beside the database to coordinate with a writer. A
    user who cannot create it reads the database as a file that does not change, which
    is true as long as no writer has created it.
    """
    # With permission to write, SQLite repairs what a killed process left.
    database = _connect(f"{_address(path)}?mode=rw")
    try:
        database.execute("SELECT * FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        database.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        database = _connect(f"{_address(path)}?mode=ro&immutable=1")
    return database


def _engine(database: sqlite3.Connection, *, writes: bool = True) -> Engine:
    """Return an engine that uses only the connection *database*."""
    engine = create_engine("sqlite://", creator=lambda: database, poolclass=StaticPool)
    # Without it, two transactions that read and then write could block each other.
    begin = "BEGIN IMMEDIATE" if writes else "BEGIN"
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine
