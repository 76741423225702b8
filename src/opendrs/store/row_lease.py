"""Lease on a PostgreSQL store: a row with a fencing token."""

from __future__ import annotations

import os
import socket
import threading
from time import CLOCK_BOOTTIME, clock_gettime
from uuid import uuid4

from sqlalchemy import Connection, Engine, text

from opendrs.config.settings import MAX_LEASE_TIME
from opendrs.errors import LeaseLostError
from opendrs.ports import LeaseHolder

# The clock of the server decides. clock_timestamp() is the time of the statement; now()
# would be that of the start of the transaction. A lease that ends later than any may
# was acquired before that clock was set back.
_ACQUIRE = text("""
    INSERT INTO leases AS held (name, holder, token, expires_at)
    VALUES (:name, :holder, 1, clock_timestamp() + :ttl * interval '1 second')
    ON CONFLICT (name) DO UPDATE SET
        holder = excluded.holder,
        token = held.token + 1,
        expires_at = excluded.expires_at
    WHERE held.expires_at < clock_timestamp()
        OR held.expires_at > clock_timestamp() + :longest * interval '1 second'
    RETURNING token, set_config('idle_in_transaction_session_timeout', :limit, true)
""")
_HOLDER = text("SELECT holder FROM leases WHERE name = :name")
_VALID_HOLDER = text(
    "SELECT holder FROM leases WHERE name = :name AND expires_at > clock_timestamp()"
)
_RENEW = text("""
    UPDATE leases SET expires_at = clock_timestamp() + :ttl * interval '1 second'
    WHERE name = :name AND token = :token AND expires_at > clock_timestamp()
    RETURNING token, set_config('idle_in_transaction_session_timeout', :limit, true)
""")
_RELEASE = text("""
    UPDATE leases SET expires_at = clock_timestamp()
    WHERE name = :name AND token = :token AND expires_at > clock_timestamp()
""")
# A takeover waits for the transactions that have read the row. The server ends those of
# a suspended process.
_CHECK = text("""
    SELECT token, set_config('idle_in_transaction_session_timeout', :limit, true)
    FROM leases
    WHERE name = :name AND token = :token AND expires_at > clock_timestamp()
    FOR SHARE
""")
LEASE_TIME = 30.0  # seconds


def row_lease_holder(connection: Connection, name: str) -> LeaseHolder | None:
    """Return the process that holds the lease *name*; None if none does."""
    holder = connection.execute(_VALID_HOLDER, {"name": name}).scalar()
    if holder is None:
        return None
    host, pid, _ = str(holder).rsplit(":", 2)
    return LeaseHolder(host, int(pid))


class RowLease:
    """Exclusive right of this process to write to a store in PostgreSQL.

    The right expires if it is not renewed. It is renewed in a thread after a third of
    its time. After two thirds without a renewal this process must not start steps any
    more, because its clock and that of the server may differ slightly. Each
    acquisition has a higher token; transactions check it.

    Args:
        engine: Connections to the database.
        name: Name of the lease.
        lease_time: Seconds until the lease expires without a renewal.

    Source:
        Fencing tokens: Kleppmann, Designing Data-Intensive Applications, chapter 8.
        Ratios of renewal and expiry: leaderelection of the Kubernetes client-go.
    """

    def __init__(
        self, engine: Engine, name: str, lease_time: float = LEASE_TIME
    ) -> None:
        self._engine = engine
        self._name = name
        self._lease_time = lease_time
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._token = 0
        self._renewed_at = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> None:
        """Acquire the lease without waiting, and begin to renew it.

        Raises:
            LeaseLostError: Another process holds the lease; with its name.
        """
        started_at = clock_gettime(CLOCK_BOOTTIME)
        with self._engine.begin() as connection:
            token = connection.execute(
                _ACQUIRE,
                {
                    "name": self._name,
                    "holder": self._holder,
                    "ttl": self._lease_time,
                    "longest": MAX_LEASE_TIME,
                    "limit": self._idle_limit,
                },
            ).scalar()
            if token is None:
                holder = connection.execute(_HOLDER, {"name": self._name}).scalar()
                raise LeaseLostError(f"store: {self._name}: locked by {holder}")
        self._token, self._renewed_at = int(token), started_at
        self._stopped.clear()
        self._thread = threading.Thread(
            target=self._renew_until_stopped, name="lease", daemon=True
        )
        self._thread.start()

    def stop_renewing(self) -> None:
        """End the thread that renews the lease; the lease expires."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def release(self) -> None:
        """Release the lease if it is held, so that another process can acquire it."""
        self.stop_renewing()
        if self._token:
            with self._engine.begin() as connection:
                connection.execute(_RELEASE, self._key)
            self._token = 0

    def require(self, connection: Connection) -> None:
        """Check the lease, and keep it until the transaction of *connection* ends.

        Raises:
            LeaseLostError: Another process may hold the lease.
        """
        parameters = {**self._key, "limit": self._idle_limit}
        if connection.execute(_CHECK, parameters).scalar() is None:
            raise self._lost()

    def require_recent(self) -> None:
        """Check without the server that the lease cannot have expired.

        Raises:
            LeaseLostError: It was not renewed for two thirds of its time, for example
                because this process was suspended.
        """
        age = clock_gettime(CLOCK_BOOTTIME) - self._renewed_at
        if not self._token or age > self._lease_time * 2 / 3:
            raise self._lost()

    @property
    def _key(self) -> dict[str, object]:
        return {"name": self._name, "token": self._token}

    @property
    def _idle_limit(self) -> str:
        """Return for how long a transaction may wait for this process."""
        return f"{1000 * self._lease_time:.0f}ms"

    def _renew_until_stopped(self) -> None:
        """Renew the lease regularly; a failed renewal is repeated."""
        while not self._stopped.wait(self._lease_time / 3):
            try:
                self._renew()
            except LeaseLostError:
                return
            except Exception:  # noqa: BLE001, S112 - the server may answer again in time
                continue

    def _renew(self) -> None:
        started_at = clock_gettime(CLOCK_BOOTTIME)
        parameters = {
            **self._key,
            "ttl": self._lease_time,
            "limit": self._idle_limit,
        }
        with self._engine.begin() as connection:
            if connection.execute(_RENEW, parameters).scalar() is None:
                raise self._lost()
        self._renewed_at = started_at

    def _lost(self) -> LeaseLostError:
        return LeaseLostError(
            f"store: {self._name}: the lease of this process has expired; another "
            "controller may be active"
        )
