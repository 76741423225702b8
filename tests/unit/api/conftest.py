"""One interface over TLS on loopback, in front of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opendrs.api import (
    body_limits,
    connection_limits,
    gateway,
    rate_limits,
    server,
    web_server,
)
from opendrs.api.server import ApiServer
from support.agent_cluster import AgentCluster, ServiceProxy
from support.builders import cluster
from support.certificates import CertificateFiles
from support.postgresql_server import PostgresqlServer

TWO = cluster({"h1": 0.5, "h2": 0.1}, {"vm1": ("h1", 0.3), "a/b": ("h1", 0.1)})


@pytest.fixture(autouse=True, scope="session")
def slow_machine() -> Iterator[None]:
    """Give clients more time than outside of tests; some tests give them less."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (connection_limits, "HANDSHAKE_TIMEOUT"),
            (server, "FIRST_REQUEST_TIMEOUT"),
            (server, "MAX_CONNECTION_TIME"),
            (web_server, "FIRST_REQUEST_TIMEOUT"),
            (body_limits, "BODY_TIMEOUT"),
            (gateway, "BODY_TIMEOUT"),
        ):
            patch.setattr(module, name, 10 * getattr(module, name))
        yield


@pytest.fixture(scope="session")
def vouched(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("vouched"))


@pytest.fixture(scope="session")
def store_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path | str]:
    """Return a function: the place of a new store in sqlite or postgresql."""

    def place(kind: str) -> Path | str:
        if kind == "sqlite":
            return tmp_path_factory.mktemp("api") / "store.db"
        server: PostgresqlServer = request.getfixturevalue("postgresql_server")
        return server.new_database()

    return place


@pytest.fixture
def agent_cluster(tmp_path: Path) -> Iterator[AgentCluster]:
    with AgentCluster(tmp_path, TWO) as found:
        yield found


@pytest.fixture(scope="session")
def served(vouched: CertificateFiles) -> Iterator[tuple[ServiceProxy, int]]:
    proxy = ServiceProxy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_limits, "RATE", 1e9)  # all tests are requests of few nodes
        with ApiServer(vouched.settings, proxy) as serving:
            yield proxy, serving.address[1]


@pytest.fixture
def port(agent_cluster: AgentCluster, served: tuple[ServiceProxy, int]) -> int:
    proxy, port = served
    proxy.service = agent_cluster.service
    return port
