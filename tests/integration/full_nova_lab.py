"""Real OpenStack: Keystone, Placement and all services of Nova, a process each.

Tests take the fixture `full_nova`: three enabled hosts, no servers. Migrations take
5 s, and they can be aborted or forced to complete.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.libvirt_lab import eventually
from integration.nova_lab import (
    CLOUD,
    HOSTS,
    PROGRAM,
    SLOW_DRIVER,
    VENV,
    NovaLab,
    missing_requirements,
    require_none,
)

SCRIPT = PROGRAM.with_name("full.sh")
PLACEMENT_PORT = 8778
PORTS = (4369, 5000, 5672, 8774, PLACEMENT_PORT, 9696, 15432, 25672)
KEYSTONE = "http://127.0.0.1:5000/v3"
USER, PASSWORD = "drs", "secret"  # of a project of the same name
ROLE = "opendrs"  # of the how-to


class FullNovaLab(NovaLab):
    """All services of a cloud.

    Attributes:
        state: Directory with the configuration of the services.

    Args:
        directory: Directory for its files.
    """

    def __init__(self, directory: Path) -> None:
        self._placement: subprocess.Popen[bytes] | None = None
        self._users: list[str] = []
        self._log = directory / "log"
        self.state = Path("/var/lib") / f"opendrs-openstack-{os.getpid()}"
        self.clouds_file = directory / "clouds.yaml"
        self.clouds_file.write_text(
            f"clouds:\n{_entry(CLOUD, 'admin', 'lab')}{_entry(USER, USER, PASSWORD)}"
        )
        self.clouds_file.chmod(0o600)

    def up(self) -> None:
        """Start the services."""
        self._script("up", str(len(HOSTS))).check_returncode()
        self.log_in()

    def reset(self) -> None:
        """Also delete the users and projects of tests, their role and its policy."""
        super().reset()
        identity: Any = self.cloud.identity
        for name in self._users:
            identity.delete_user(identity.find_user(name))
            identity.delete_project(identity.find_project(name))
        self._users.clear()
        if role := identity.find_role(ROLE):
            identity.delete_role(role)
        self.set_policy("")

    def add_user(self, name: str) -> None:
        """Create a user with the password `PASSWORD`, and a project of that name."""
        identity: Any = self.cloud.identity
        domain = {"name": name, "domain_id": "default"}
        project = identity.create_project(**domain)
        identity.create_user(password=PASSWORD, default_project_id=project.id, **domain)
        self._users.append(name)

    def down(self) -> None:
        """End the services."""
        self._script("down")
        if self._placement is not None:
            self._placement.wait()

    def set_policy(self, rules: str) -> None:
        """Let *rules* be the file policy.yaml of Nova and of Placement.

        Placement reads a new file only when it starts.
        """
        path = self.state / "policy.yaml"
        if rules == (path.read_text() if path.exists() else ""):
            return
        path.write_text(rules)
        pid_file = self.state / "placement.pid"
        os.killpg(int(pid_file.read_text()), signal.SIGTERM)
        if self._placement is not None:
            self._placement.wait()
        eventually(lambda: not is_open(PLACEMENT_PORT), 20, "Placement has ended")
        server = [str(SCRIPT.with_name("serve.py")), "placement.wsgi.api"]
        with (self.state / "log" / "placement-again.log").open("ab") as log:
            self._placement = subprocess.Popen(  # noqa: S603 - as the lab's script does
                [str(VENV / "bin" / "python"), *server, str(PLACEMENT_PORT)],
                env=_environment() | {"OS_PLACEMENT_CONFIG_DIR": str(self.state)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid_file.write_text(str(self._placement.pid))
        eventually(lambda: is_open(PLACEMENT_PORT), 30, "Placement responds")

    def _script(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        environment = _environment()
        environment |= {"D": str(self.state), "V": str(VENV), "DRIVER": SLOW_DRIVER}
        with self._log.open("a") as log:
            return subprocess.run(  # noqa: S603 - the lab's script
                [str(SCRIPT), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
            )


def _environment() -> dict[str, str]:
    return {key: each for key, each in os.environ.items() if key != "PYTHONPATH"}


def is_open(port: int) -> bool:
    """Return whether a server listens at *port* of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _entry(cloud: str, user: str, password: str) -> str:
    login = (
        f"auth_url: '{KEYSTONE}', username: {user}, password: {password}, "
        f"project_name: {user}, user_domain_id: default, project_domain_id: default"
    )
    return f"""\
  {cloud}:
    auth: {{{login}}}
    region_name: RegionOne
    compute_default_microversion: '2.96'
"""


def _missing_requirements() -> Iterator[str]:
    """Yield all reasons why the services cannot run here."""
    yield from missing_requirements()
    if not Path("/usr/lib/rabbitmq/bin/rabbitmq-server").exists():
        yield f"RabbitMQ is not installed: {SCRIPT} deps"
    if not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        yield f"PostgreSQL is not installed: {SCRIPT} deps"
    if os.geteuid() != 0 or shutil.which("setsid") is None:
        yield "the services need root"
    yield from (f"port {port} is in use" for port in PORTS if is_open(port))


@pytest.fixture(scope="session")
def full_nova_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FullNovaLab]:
    require_none(_missing_requirements())
    lab = FullNovaLab(tmp_path_factory.mktemp("full"))
    try:
        lab.up()
        yield lab
    finally:
        lab.down()


@pytest.fixture
def full_nova(full_nova_hosts: FullNovaLab) -> FullNovaLab:
    """Return hosts without servers, whose migrations take 5 s."""
    full_nova_hosts.reset()
    return full_nova_hosts


@pytest.fixture(params=["slow_nova", "full_nova"], ids=["one-process", "all-services"])
def each_nova(request: pytest.FixtureRequest) -> NovaLab:
    """Return hosts in one process, then with Keystone and a process per service."""
    lab: NovaLab = request.getfixturevalue(request.param)
    return lab
