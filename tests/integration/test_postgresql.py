"""Several processes with one store in a real PostgreSQL server."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import CLOCK_BOOTTIME, clock_gettime, monotonic

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, NullPool, create_engine, make_url, text

from integration.libvirt_lab import eventually
from opendrs.config.settings import MAX_LEASE_TIME
from opendrs.controller import SystemClock
from opendrs.errors import LeaseLostError, StoreError
from opendrs.ports import LeaseHolder
from opendrs.store import Access, PostgresqlStore, row_lease
from opendrs.store.tables import METADATA
from support.postgresql_server import PostgresqlServer

KEPT = 60.0  # seconds of a lease that does not expire in a test, however slow
LOST = 2.0  # of one that expires
TIMEOUT = 60.0  # seconds until a lease that expires is free
CLOCK = SystemClock()
_HOLDER = """
import sys
from opendrs.store import PostgresqlStore
url, seconds = sys.argv[1], float(sys.argv[2])
with PostgresqlStore(url, "lab", lease_time=seconds) as store:
    print("held", flush=True)
    for line in sys.stdin:
        if line == "begin\\n":
            with store.transaction():
                print("begun", flush=True)
                sys.stdin.readline()
        try:
            store.require_lease()
            store.save("key", {"by": "holder"})
            print("saved", flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
"""


class Holder:
    """A process that holds the lease and writes when asked."""

    def __init__(self, url: str, lease_time: float) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
            [
                sys.executable,
                "-c",
                _HOLDER,
                url,
                str(lease_time),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "held"

    def save(self) -> str:
        """Let it write; return `saved` or the class of the error."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._line()

    def begin(self) -> str:
        """Let it begin a transaction, and wait in it."""
        assert self.process.stdin is not None
        self.process.stdin.write("begin\n")
        self.process.stdin.flush()
        return self._line()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@contextmanager
def held(url: str, lease_time: float) -> Iterator[Holder]:
    """Start a holder, and kill it at the end."""
    started = Holder(url, lease_time)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


@pytest.fixture
def holder(postgresql_url: str) -> Iterator[Holder]:
    with held(postgresql_url, KEPT) as started:
        yield started


def engine_of(url: str) -> Engine:
    """Return connections of this test alone, which are closed after use."""
    return create_engine(url.replace("://", "+psycopg://", 1), poolclass=NullPool)


def store(url: str, platform: str = "lab", lease_time: float = KEPT) -> PostgresqlStore:
    return PostgresqlStore(url, platform, lease_time=lease_time)


@contextmanager
def acquired(url: str) -> Iterator[PostgresqlStore]:
    """Retry until the lease is free; fail after the timeout."""
    end = monotonic() + TIMEOUT
    with ExitStack() as stack:
        while True:
            try:
                opened = stack.enter_context(store(url))
            except LeaseLostError:
                assert monotonic() < end, "the lease did not become free in time"
                CLOCK.sleep(0.1)
            else:
                break
        yield opened


def test_second_process_gets_lease_error_with_holder(
    postgresql_url: str, holder: Holder
) -> None:
    with pytest.raises(LeaseLostError, match=f":{holder.process.pid}:"):
        store(postgresql_url).__enter__()
    assert holder.save() == "saved"


def test_lease_of_other_platform_is_independent(
    postgresql_url: str, holder: Holder
) -> None:
    with store(postgresql_url, "other") as other:
        other.save("key", {})
    assert holder.save() == "saved"


def test_lease_is_renewed(postgresql_url: str) -> None:
    with held(postgresql_url, 15.0) as holder:
        renewed(postgresql_url)

        with pytest.raises(LeaseLostError):
            store(postgresql_url).__enter__()
        assert holder.save() == "saved"


def renewed(url: str) -> None:
    """Wait until the lease has another end than now."""
    engine = engine_of(url)

    def expires_at() -> object:
        with engine.connect() as connection:
            return connection.execute(text("SELECT expires_at FROM leases")).scalar()

    before = expires_at()
    eventually(lambda: expires_at() != before, TIMEOUT, "the lease is renewed")


def test_ended_process_releases_lease_at_once(
    postgresql_url: str, holder: Holder
) -> None:
    holder.process.communicate(timeout=TIMEOUT)

    with store(postgresql_url) as successor:
        successor.save("key", {})


def test_lease_of_a_killed_process_expires(postgresql_url: str) -> None:
    with held(postgresql_url, LOST) as holder:
        holder.process.kill()

        with acquired(postgresql_url) as successor:
            successor.save("key", {})


def test_suspended_process_cannot_write_after_takeover(postgresql_url: str) -> None:
    with held(postgresql_url, LOST) as holder:
        holder.process.send_signal(signal.SIGSTOP)

        with acquired(postgresql_url) as successor:
            holder.process.send_signal(signal.SIGCONT)

            assert holder.save() == "LeaseLostError"
            successor.save("key", {"by": "successor"})
            assert successor.load("key") == {"by": "successor"}


def test_process_suspended_in_a_transaction_does_not_prevent_takeover(
    postgresql_url: str,
) -> None:
    with held(postgresql_url, 10.0) as holder:
        assert holder.begin() == "begun"
        holder.process.send_signal(signal.SIGSTOP)

        with acquired(postgresql_url) as successor:
            successor.save("key", {})


def test_stale_token_is_rejected_by_the_server(postgresql_url: str) -> None:
    """The check in the transaction alone suffices, whatever the clock here says."""
    with store(postgresql_url, lease_time=LOST) as stale:
        assert stale.lease is not None
        stale.lease.stop_renewing()
        with acquired(postgresql_url), pytest.raises(LeaseLostError):
            stale.save("key", {})


def test_lease_not_renewed_for_two_thirds_forbids_starts(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store(postgresql_url) as opened:
        opened.require_lease()
        assert opened.lease is not None
        opened.lease.stop_renewing()
        later = clock_gettime(CLOCK_BOOTTIME) + 0.7 * KEPT
        monkeypatch.setattr(row_lease, "clock_gettime", lambda _: later)

        with pytest.raises(LeaseLostError):
            opened.require_lease()


def test_frozen_server_forbids_starts_and_recovers(
    postgresql_url: str, postgresql_server: PostgresqlServer
) -> None:
    with (
        store(postgresql_url, lease_time=LOST) as opened,
        postgresql_server.frozen(),
    ):
        CLOCK.sleep(LOST)
        with pytest.raises(LeaseLostError):
            opened.require_lease()
    with acquired(postgresql_url) as again:
        again.require_lease()
        again.save("key", {})


def test_ended_connections_are_replaced(postgresql_url: str) -> None:
    with store(postgresql_url) as opened:
        opened.save("key", {"value": 1})
        with engine_of(postgresql_url).begin() as other:
            others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            others += "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            other.execute(text(others))

        assert opened.load("key") == {"value": 1}


def test_read_only_store_needs_no_lease(postgresql_url: str, holder: Holder) -> None:
    assert holder.save() == "saved"
    with PostgresqlStore(postgresql_url, "lab", access=Access.READ) as reading:
        assert reading.load("key") == {"by": "holder"}
        with pytest.raises(StoreError, match="read-only"):
            reading.save("key", {})


def test_empty_database_reads_as_empty(postgresql_url: str) -> None:
    with PostgresqlStore(postgresql_url, "lab", access=Access.READ) as empty:
        assert empty.load("key") is None
        assert list(empty.cycles()) == []


def test_newer_version_is_rejected(postgresql_url: str) -> None:
    with store(postgresql_url) as opened, opened.transaction() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(StoreError, match="newer opendrs"):
        store(postgresql_url).__enter__()


def test_tables_equal_declared_ones(postgresql_url: str) -> None:
    with store(postgresql_url) as opened, opened.transaction() as connection:
        found = compare_metadata(MigrationContext.configure(connection), METADATA)

    assert found == []


def test_password_is_in_no_error(postgresql_url: str) -> None:
    wrong = PostgresqlStore(f"{postgresql_url}&port=1", "lab", password="hunter2")  # noqa: S106

    with pytest.raises(StoreError) as raised:
        wrong.__enter__()

    error: BaseException | None = raised.value
    while error is not None:
        assert "hunter2" not in str(error)
        error = error.__cause__


def test_holder_of_the_lease_is_visible_to_readers(
    postgresql_url: str, holder: Holder
) -> None:
    with PostgresqlStore(postgresql_url, "lab", access=Access.READ) as store:
        found = store.lease_holder()
        holder.process.communicate()  # it releases the lease and ends

        assert found == LeaseHolder(socket.gethostname(), holder.process.pid)
        assert store.lease_holder() is None


@pytest.fixture
def shift(postgresql_url: str) -> Callable[[float], None]:
    """Put a clock before that of the server; return a function that sets it."""
    engine = engine_of(postgresql_url)
    name = make_url(postgresql_url).database
    statements = (
        "CREATE SCHEMA shift",
        "CREATE TABLE shift.ahead AS SELECT 0.0::float AS seconds",
        "CREATE SCHEMA shifted",
        """CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.clock_timestamp() + seconds * interval ''1 second''
            FROM shift.ahead'""",
        f"ALTER DATABASE {name} SET search_path = shifted, pg_catalog, public",
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))

    def set_ahead(seconds: float) -> None:
        with engine.begin() as connection:
            connection.execute(
                text("UPDATE shift.ahead SET seconds = :s"), {"s": seconds}
            )

    return set_ahead


def test_server_clock_set_forward_lets_one_process_write(
    postgresql_url: str, shift: Callable[[float], None]
) -> None:
    with store(postgresql_url, lease_time=10.0) as former:
        former.save("key", {"by": "former"})
        shift(3600.0)
        with acquired(postgresql_url) as successor:
            with pytest.raises(LeaseLostError):
                former.save("key", {"by": "former"})
            CLOCK.sleep(10.0)
            with pytest.raises(LeaseLostError):
                former.require_lease()
            successor.save("key", {"by": "successor"})
            assert successor.load("key") == {"by": "successor"}


def test_server_clock_set_back_does_not_end_the_lease(
    postgresql_url: str, shift: Callable[[float], None]
) -> None:
    with store(postgresql_url, lease_time=15.0) as opened:
        shift(-3600.0)
        renewed(postgresql_url)

        opened.require_lease()
        opened.save("key", {})
        with pytest.raises(LeaseLostError):
            store(postgresql_url).__enter__()


def test_lease_of_killed_process_ends_after_server_clock_was_set_back(
    postgresql_url: str, shift: Callable[[float], None]
) -> None:
    with held(postgresql_url, LOST) as killed:
        killed.process.kill()
        killed.process.wait()
        shift(-3 * MAX_LEASE_TIME)

        with acquired(postgresql_url) as successor:
            successor.save("key", {})
