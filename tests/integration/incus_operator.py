"""An operator of the Incus lab, who uses opendrs at the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from integration.incus_lab import SOCKET, IncusLab

OPENDRS = Path(sys.executable).with_name("opendrs")


@dataclass
class IncusOperator:
    """An operator at the command line, with a configuration file of the lab.

    Attributes:
        lab: The cluster.
        home: Directory of the configuration file and of the store.
        limits: Limits in the configuration file.
    """

    lab: IncusLab
    home: Path
    limits: dict[str, object] = field(
        default_factory=lambda: {"min_uptime": 0, "migrate_local_disks": True}
    )

    def __post_init__(self) -> None:
        self.configure()

    def configure(self, **changes: object) -> None:
        """Write the configuration file.

        Args:
            changes: Settings of the platform; those with the value None are left out.
        """
        settings = self.lab.settings()
        table = {
            "kind": "incus",
            "urls": list(settings.urls),
            "certificate": str(settings.certificate),
            "key": str(settings.key),
            "server_certificate": str(settings.server_certificate),
            "projects": ["default"],
            "rebalancer": "off",
            **changes,
        }
        known = {key: value for key, value in table.items() if value is not None}
        document = {
            "platform": {"lab": known},
            "policy": {"name": "threshold-rebalance"},
            "limits": self.limits,
            "store": {"path": str(self.home / "record.sqlite")},
            "controller": {"interval": 10, "mode": "automatic"},
        }
        self.config.write_text(tomli_w.dumps(document))

    def use_socket(self, **changes: object) -> None:
        """Write a configuration with the unix socket of n1."""
        tls = dict.fromkeys(("urls", "certificate", "key", "server_certificate"))
        self.configure(socket=str(SOCKET), **tls, **changes)

    @property
    def config(self) -> Path:
        """Return the configuration file."""
        return self.home / "opendrs.toml"

    def command(self, *words: str) -> list[str]:
        """Return the command line for *words* with the configuration."""
        return [str(OPENDRS), *words, "--config", str(self.config)]

    def runs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run opendrs and return what it printed and its exit status."""
        return self._run(self.command(*words))

    def checks_online(self) -> list[dict[str, Any]]:
        """Return the results of check --online."""
        command = [str(OPENDRS), "check", str(self.config), "--online"]
        done = self._run([*command, "--format", "json"])
        document: dict[str, Any] = json.loads(done.stdout)
        checks: list[dict[str, Any]] = document["online"]
        return checks

    def failed_checks(self) -> dict[str, str]:
        """Return the remedies of the checks that fail, by subject."""
        checks = self.checks_online()
        return {each["subject"]: each["remedy"] for each in checks if not each["ok"]}

    def plans(self) -> dict[str, Any]:
        """Return the plan that opendrs makes now."""
        done = self.runs("plan", "lab", "--format", "json")
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - our own command
            command,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "100"},
        )

    @contextmanager
    def controller(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run `opendrs run` in automatic mode until it is stopped at the end."""
        with (self.home / "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [str(OPENDRS), "run", str(self.config), "--no-serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)

    def logged(self) -> str:
        """Return what the controllers have logged."""
        return (self.home / "log").read_text()


@pytest.fixture
def operator(incus_lab: IncusLab, tmp_path: Path) -> IncusOperator:
    """Return an operator of the lab."""
    return IncusOperator(incus_lab, tmp_path)
