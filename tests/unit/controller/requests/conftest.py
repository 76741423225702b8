"""One interface over TLS on loopback, in front of a simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import cluster
from hall import Hall
from opendrs.controller.requests.desk import Answer, Desk
from opendrs.controller.requests.server import Server
from opendrs.controller.requests.wire import Request
from opendrs.model import GuestId, NodeId
from vouching import Vouched

TWO = cluster({"h1": 0.5, "h2": 0.1}, {"vm1": ("h1", 0.3), "a/b": ("h1", 0.1)})


@pytest.fixture(scope="session")
def vouched(tmp_path_factory: pytest.TempPathFactory) -> Vouched:
    return Vouched(tmp_path_factory.mktemp("vouched"))


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    with Hall(tmp_path, TWO) as found:
        yield found


class Usher(Desk):
    """A desk that leads to that of the hall which is open now."""

    def __init__(self) -> None:
        self.desk: Desk

    def take(self, request: Request, node: NodeId) -> Answer:
        return self.desk.take(request, node)

    def look_up(self, name: str, node: NodeId) -> Answer:
        return self.desk.look_up(name, node)

    def samples(self, guest: GuestId) -> Answer:
        return self.desk.samples(guest)


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
