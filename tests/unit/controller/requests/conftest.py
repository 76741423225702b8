"""One interface over TLS on loopback, in front of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import cluster
from hall import Hall, Usher
from opendrs.controller.requests.server import Server
from vouching import Vouched

TWO = cluster({"h1": 0.5, "h2": 0.1}, {"vm1": ("h1", 0.3), "a/b": ("h1", 0.1)})


@pytest.fixture(scope="session")
def vouched(tmp_path_factory: pytest.TempPathFactory) -> Vouched:
    return Vouched(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    with Hall(tmp_path, TWO) as found:
        yield found


@pytest.fixture(scope="session")
def served(vouched: Vouched) -> Iterator[tuple[Usher, int]]:
    usher = Usher()
    with Server(vouched.settings, usher) as server:
        yield usher, server.address[1]


@pytest.fixture
def port(hall: Hall, served: tuple[Usher, int]) -> int:
    usher, port = served
    usher.desk = hall.desk
    return port
