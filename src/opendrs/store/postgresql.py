"""Store in a PostgreSQL database, for several controllers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import TracebackType
from typing import Self

from sqlalchemy import URL, Connection, Engine, create_engine, make_url, text

from opendrs.errors import LeaseLostError, StoreError
from opendrs.ports import LeaseHolder
from opendrs.store.cycle_records import DEFAULT_RETENTION, Retention
from opendrs.store.database import Access, DatabaseStore
from opendrs.store.row_lease import LEASE_TIME, RowLease, row_lease_holder
from opendrs.store.sqlite import empty_engine
from opendrs.store.upgrade import is_blank, is_current, upgrade_schema

CONNECT_TIMEOUT = 10  # seconds
STATEMENT_TIMEOUT = 15  # seconds
_UPGRADE_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('opendrs upgrade'))")


class PostgresqlStore(DatabaseStore):
    """Store in a PostgreSQL database; used in a `with` statement.

    With `Access.CONTROL`, entering acquires the lease of the platform, so that one
    controller at a time writes its records. Every transaction that writes them checks
    the fencing token of the lease.

    Args:
        url: Address of the database, `postgresql://USER@HOST/DATABASE`.
        platform: Name of the platform, which is the name of the lease.
        password: Password of the user; None if none is needed.
        access: How the process uses the store; only `Access.CONTROL` needs the lease.
        lease_time: Seconds until the lease of a stopped process expires.
        retention: Extent of the record of cycles.

    Attributes:
        lease: The lease; None if the store is not open, or needs none.
    """

    def __init__(  # noqa: PLR0913 - the address, the lease, and the retention
        self,
        url: str,
        platform: str,
        *,
        password: str | None = None,
        access: Access = Access.CONTROL,
        lease_time: float = LEASE_TIME,
        retention: Retention = DEFAULT_RETENTION,
    ) -> None:
        address = make_url(url)
        super().__init__(address.render_as_string(hide_password=True), retention)
        self._url = address if password is None else address.set(password=password)
        self._platform = platform
        self._access = access
        self._lease_time = lease_time
        self.lease: RowLease | None = None

    def __enter__(self) -> Self:
        """Connect, upgrade the tables, and acquire the lease.

        Raises:
            LeaseLostError: Another process holds the lease.
            StoreError: The database cannot be used, or is not a store.
        """
        try:
            with self._translate_errors():
                self._engine = _create_engine(self._url, self._access)
                if self._access is Access.READ:
                    self._engine = self._readable(self._engine)
                else:
                    self._upgrade(self._engine)
                if self._access is Access.CONTROL:
                    lease = RowLease(self._engine, self._platform, self._lease_time)
                    lease.acquire()
                    self.lease = lease
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

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection in a transaction of the process that holds the lease.

        Raises:
            LeaseLostError: Another process may hold the lease.
            StoreError: The store is not open, or a statement failed.
        """
        with super().transaction() as connection:
            if self.lease is not None:
                self.lease.require(connection)
            yield connection

    def lease_holder(self) -> LeaseHolder | None:
        """Return the process that holds the lease; None if none does.

        Raises:
            StoreError: The database cannot be read.
        """
        with self.reading() as connection:
            if connection.dialect.name == "sqlite":  # in place of a blank database
                return None
            return row_lease_holder(connection, self._platform)

    def require_lease(self) -> None:
        """Check that no other process can have acquired the right to start steps.

        Raises:
            LeaseLostError: The lease may have expired.
        """
        if self.lease is not None:
            self.lease.require_recent()

    def _upgrade(self, engine: Engine) -> None:
        with engine.begin() as connection:
            connection.execute(_UPGRADE_LOCK)
            upgrade_schema(
                connection, self._name, lambda: self._require_no_holder(connection)
            )

    def _require_no_holder(self, connection: Connection) -> None:
        """Check that no controller, which is of an earlier version, uses the tables."""
        holder = row_lease_holder(connection, self._platform)
        if holder is not None:
            raise LeaseLostError(
                f"{self._name}: process {holder.pid} on {holder.host} uses the tables "
                "of an earlier version; they are upgraded when it has ended"
            )

    def _readable(self, engine: Engine) -> Engine:
        """Return *engine*; an empty store if the database has no tables yet."""
        with engine.begin() as connection:
            if is_current(connection):
                return engine
            if not is_blank(connection):
                raise StoreError(
                    f"{self._name}: the tables are of another version; a command that "
                    "writes, such as run or apply, upgrades them"
                )
        engine.dispose()
        return empty_engine()

    def _close(self) -> None:
        try:
            if self.lease is not None:
                with self._translate_errors():
                    self.lease.release()
        except StoreError:
            pass  # it expires
        finally:
            self.lease = None
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None


def _create_engine(url: URL, access: Access) -> Engine:
    """Return an engine; raise an error if the driver is not installed."""
    if find_spec("psycopg") is None:
        raise StoreError("store: PostgreSQL needs psycopg; install opendrs[postgresql]")
    options = f"-c statement_timeout={STATEMENT_TIMEOUT}s"
    if access is Access.READ:
        options += " -c default_transaction_read_only=on"
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_pre_ping=True,
        connect_args={"connect_timeout": CONNECT_TIMEOUT, "options": options},
    )
