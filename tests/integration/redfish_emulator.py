"""A management controller that speaks Redfish: the emulator of sushy-tools.

Other tests take the fixture `bmc` from here: a process with TLS and a password,
and two systems that take a second to change their power.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme

from integration.libvirt_lab import eventually
from opendrs.power import RedfishSettings
from support.network import free_port

USER, PASSWORD = "opendrs", "a secret: ä"
ALPHA = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
BETA = "27946b59-9e44-4fa7-8e91-f3527a1ef095"
# Its hardware takes 1 to 11 s; here always 1.
EMULATOR = """
import random
random.randint = lambda least, most: least
from sushy_tools.emulator.main import main
main()
"""


@dataclass(frozen=True, kw_only=True)
class ManagementController:
    """One emulator, with its address and credentials.

    Attributes:
        url: Where it is.
        ca: Who signed its certificate.
        password_file: Its password.
    """

    url: str
    ca: Path
    password_file: Path

    def settings(self, **changes: Any) -> RedfishSettings:  # noqa: ANN401
        """Return the settings of a driver of its system ALPHA."""
        plain: dict[str, Any] = {
            "url": self.url,
            "user": USER,
            "password_file": self.password_file,
            "ca": self.ca,
            "system": ALPHA,
            "timeout": 60.0,  # a busy machine answers late
        }
        return RedfishSettings(**{**plain, **changes})


def system(uuid: str, name: str) -> dict[str, object]:
    """Return a system that is on."""
    return {
        "uuid": uuid,
        "name": name,
        "power_state": "On",
        "external_notifier": False,
        "nics": [],
    }


def running(directory: Path, systems: list[dict[str, object]]) -> Iterator[str]:
    """Run an emulator with *systems* and yield its URL."""
    authority, port = trustme.CA(), free_port()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    server = authority.issue_cert("localhost")
    server.private_key_and_cert_chain_pem.write_to_path(directory / "server.pem")
    digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    (directory / "users").write_text(f"{USER}:{digest}\n")
    (directory / "password").write_text(f"{PASSWORD}\n")
    configuration = {
        "SUSHY_EMULATOR_AUTH_FILE": str(directory / "users"),
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": systems,
        "SUSHY_EMULATOR_STATE_DIR": str(directory),
        "SUSHY_EMULATOR_LISTEN_IP": "127.0.0.1",
        "SUSHY_EMULATOR_LISTEN_PORT": port,
        "SUSHY_EMULATOR_SSL_CERT": str(directory / "server.pem"),
        "SUSHY_EMULATOR_SSL_KEY": str(directory / "server.pem"),
    }
    lines = [f"{name} = {value!r}\n" for name, value in configuration.items()]
    (directory / "emulator.py").write_text("".join(lines))
    settings = str(directory / "emulator.py")
    command = [sys.executable, "-c", EMULATOR, "--config", settings]
    with (
        (directory / "emulator.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,  # noqa: S603 -- our own
    ):
        try:
            eventually(lambda: answers(port), 20, "the emulator answers")
            yield f"https://localhost:{port}"
        finally:
            process.kill()


def answers(port: int) -> bool:
    """Return whether a process listens on *port*."""
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def bmc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagementController]:
    """Return a management controller with two systems."""
    directory = tmp_path_factory.mktemp("bmc")
    for url in running(directory, [system(ALPHA, "alpha"), system(BETA, "beta")]):
        yield ManagementController(
            url=url, ca=directory / "ca.pem", password_file=directory / "password"
        )
