"""How-to of Incus on a real cluster: each command on the page is run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w

from integration.incus_lab import NETWORK, IncusLab
from integration.libvirt_lab import eventually
from opendrs.model import AntiAffinity, NodeAffinity, Pin
from support.howto_pages import HowToPage
from support.pseudo_terminal import run_in_terminal

pytestmark = [pytest.mark.shared, pytest.mark.lab]

PAGE = HowToPage("incus.md")
OPENDRS = Path(sys.executable).with_name("opendrs")
URL = f"https://{NETWORK}1:8443"
ANSWERS = (URL, "", "opendrs.crt", "opendrs.key", "default", "off", "y")


class Reader:
    """Reader of the page who runs its commands in a directory.

    Args:
        lab: The cluster.
        directory: The directory.
    """

    def __init__(self, lab: IncusLab, directory: Path) -> None:
        self._lab = lab
        self._directory = directory

    def run(self, command: str, answers: str = "") -> None:
        """Run a command of the shell."""
        done = self._lab.shell(command, self._directory, answers)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    def trust(self, command: str) -> None:
        """Run a command on a member, with the certificate."""
        self._lab.copy_to_members(self._directory / "opendrs.crt", "opendrs.crt")
        self.run(command)

    def connect(self, command: str) -> None:
        """Answer the questions, and then write the configuration of the page."""
        self.run(command, "".join(f"{answer}\n" for answer in ANSWERS))
        file = self._directory / "opendrs.toml"
        connected = tomllib.loads(file.read_text())["platform"]["lab"]
        text, _ = PAGE.blocks("toml")
        document = tomllib.loads(text)
        assert document["platform"]["lab"].keys() == connected.keys()
        document["platform"]["lab"] = connected
        document["limits"]["min_uptime"] = 0  # the machines have just started
        document["store"] = {"path": "record.sqlite"}
        file.write_text(tomli_w.dumps(document))

    def apply(self, command: str) -> None:
        """Confirm the plan."""
        done = run_in_terminal(
            ["env", f"--chdir={self._directory}", str(OPENDRS), *command.split()[1:]],
            environment=os.environ,
            size=(160, 50),
            reply=("Execute this plan?", "y\n"),
        )
        assert done.status == 0, done.lines

    def run_until_stopped(self, command: str) -> None:
        """Stop the controller after its first decision."""
        log = self._directory / "log"
        with log.open("w") as output:
            controller = subprocess.Popen(  # noqa: S603 - our own command
                [str(OPENDRS), *command.split()[1:]],
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        eventually(lambda: "threshold-rebalance: " in log.read_text(), 30, "a decision")
        controller.send_signal(signal.SIGTERM)
        assert controller.wait(120) == 0, log.read_text()


def test_each_command_of_the_howto_runs(incus_lab: IncusLab, tmp_path: Path) -> None:
    for name, member in {"web1": "n3", "web2": "n1", "db1": "n1", "old1": "n2"}.items():
        incus_lab.vm(name, member)
    incus_lab.load("n3", 80, 8.0)
    incus_lab.incus("cluster", "group", "create", "fast", check=False)
    reader = Reader(incus_lab, tmp_path)

    PAGE.run(
        {
            "openssl": reader.run,
            "chmod": reader.run,
            "incus": reader.run,
            "incus config trust": reader.trust,
            "opendrs": reader.run,
            "opendrs connect": reader.connect,
            "opendrs apply": reader.apply,
            "opendrs run": reader.run_until_stopped,
        }
    )

    seen = incus_lab.platform().observe()
    assert incus_lab.location("web1") != "n3"
    assert {type(rule) for rule in seen.rules} == {AntiAffinity, NodeAffinity, Pin}
