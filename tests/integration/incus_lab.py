"""Real Incus cluster of three members on this machine, with real virtual machines.

Other tests take the fixture `incus_lab`: the members n1, n2 and n3 with little load, no
instances, all online, whatever the test before did. INCUS_SUITE=sid takes Incus 7.0.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opendrs.model import Rule
from opendrs.platforms.incus import IncusPlatform, IncusSettings
from opendrs.platforms.incus.settings import RebalancerState

PROJECT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED") or PROJECT.parent / "shared")
SCRIPT = SHARED / "labs" / "incus" / "incus-cluster.sh"
SUITE = os.environ.get("INCUS_SUITE", "bookworm")
BASE = Path(os.environ.get("INCUS_LAB") or f"/srv/opendrs-incus-{SUITE}")
ROOT = BASE / f"root-{SUITE}"  # of all members
SOCKET = ROOT / "srv" / "n1" / "unix.socket"
NETWORK = os.environ.get("INCUS_NET", "127.0.88.")
MEMBERS = ("n1", "n2", "n3")
VARIABLES = {"IC_BASE": str(BASE), "IC_SUITE": SUITE, "IC_NET": NETWORK}
INCUS = f"env {' '.join(map('='.join, VARIABLES.items()))} {SCRIPT} incus n1"
LARGE_DISK = ("-d", "root,size=1GiB")  # its copy takes some ten seconds


@dataclass(frozen=True)
class IncusLab:
    """Cluster of the members n1, n2 and n3."""

    def script(self, *words: object, check: bool = True) -> str:
        """Run the script of the lab; its processes stay, so no pipe may be theirs."""
        environment = {**os.environ, **VARIABLES}
        environment |= {f"IC_CPUS_{name}": "16" for name in MEMBERS}
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(  # noqa: S603 - words of the tests
                [str(SCRIPT), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=environment,
                check=False,
            )
            said.seek(0)
            text = said.read()
        if check and done.returncode:
            raise RuntimeError(f"{words}: exit {done.returncode}: {text}")
        return text

    def incus(self, *words: object, check: bool = True) -> str:
        """Run the command incus against n1."""
        return self.script("incus", "n1", *words, check=check)

    def shell(
        self, command: str, directory: Path, answers: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run *command* in *directory*, where `incus` is that of n1.

        Args:
            command: The command of a shell.
            directory: Its current directory.
            answers: Its standard input.
        """
        programs = BASE / "bin"
        programs.mkdir(exist_ok=True)
        incus = programs / "incus"
        incus.write_text(f'#!/bin/sh\nexec {INCUS} "$@"\n')
        incus.chmod(0o755)
        path = (str(programs), str(Path(sys.executable).parent), os.environ["PATH"])
        return subprocess.run(  # noqa: S603 - words of the tests
            ["/bin/sh", "-e", "-c", command],
            cwd=directory,
            input=answers,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": os.pathsep.join(path), "COLUMNS": "100"},
        )

    def copy_to_members(self, file: Path, path: str) -> None:
        """Copy *file* to *path*, which may be relative to where `incus` runs."""
        target = ROOT / path.removeprefix("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)

    def api(self, path: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401
        """Return the answer of the API, as incus query gives it."""
        data = [] if body is None else ["-d", json.dumps(body)]
        text = self.incus("query", "-X", method, "--wait", *data, path)
        return json.loads(text) if text.strip() else None

    def vm(self, name: str, member: str, *options: object) -> None:
        """Start a virtual machine of 64 MiB on *member*."""
        self.script("vm", name, member, *options)

    def load(self, member: str, memory: int, load: float) -> None:
        """Set the memory in use in percent and the load average of *member*."""
        self.script("load", member, memory, load)

    def location(self, name: str) -> str:
        """Return the member of an instance."""
        found: str = self.api(f"/1.0/instances/{name}")["location"]
        return found

    def locations(self) -> dict[str, str]:
        """Return the member of each instance."""
        instances = self.api("/1.0/instances?recursion=1")
        return {each["name"]: each["location"] for each in instances}

    def status(self, member: str) -> str:
        """Return the status of *member*."""
        found: str = self.api(f"/1.0/cluster/members/{member}")["status"]
        return found

    def is_alive(self, member: str) -> bool:
        """Return True if the processes of *member* run."""
        pid = int((BASE / "state" / member / "pid").read_text())
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return children.exists() and bool(children.read_text().split())

    def kill_member(self, member: str) -> None:
        """End a member as a power failure would: its daemon and its machines."""
        pid = int((BASE / "state" / member / "pid").read_text())
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)

    def start_members(self) -> None:
        """Start the members that do not run, and wait until all are online."""
        self.script("start")

    def reset(self) -> None:
        """Bring the lab back to little load, all members online and no instances."""
        for member in MEMBERS:
            if self.status(member) == "Evacuated":
                self.incus("cluster", "restore", member, "--force")
        if not all(self.is_alive(member) for member in MEMBERS):
            self.start_members()
        for member in MEMBERS:
            self.load(member, 20, 0.2)
        for instance in self.api("/1.0/instances?recursion=1"):
            self.incus("delete", "--force", instance["name"])

    @contextmanager
    def project(self, name: str, *, blocked: bool = False) -> Iterator[tuple[str, str]]:
        """Have a project, and yield certificate and key that are restricted to it.

        Args:
            name: Its name.
            blocked: The project is restricted, and Incus rejects moves to a member.
        """
        config = {"features.images": "false", "features.profiles": "false"}
        if blocked:
            config = {"restricted": "true"}
        self.api("/1.0/projects", "POST", {"name": name, "config": config})
        for kind in ("crt", "key"):  # of a project that had this name before
            (BASE / f"adapter-{name}.{kind}").unlink(missing_ok=True)
        words = (line.split(" ", 1) for line in self.script("trust", name).splitlines())
        files = {each[0]: each[-1] for each in words}
        try:
            yield files["cert"], files["key"]
        finally:
            for instance in self.api(f"/1.0/instances?recursion=1&project={name}"):
                self.incus("delete", "--force", instance["name"], "--project", name)
            self.incus("project", "delete", name)

    def settings(self, **changes: Any) -> IncusSettings:  # noqa: ANN401
        """Return settings with a certificate that is restricted to a project."""
        self.script("trust", "default")
        plain: dict[str, Any] = {
            "urls": tuple(f"https://{NETWORK}{number}:8443" for number in (1, 2, 3)),
            "certificate": BASE / "adapter-default.crt",
            "key": BASE / "adapter-default.key",
            "server_certificate": BASE / "cluster.crt",
            "projects": ("default",),
            "rebalancer": RebalancerState.OFF,
        }
        return IncusSettings(**{**plain, **changes})

    def platform(
        self,
        rules: Iterable[Rule] = (),
        **changes: Any,  # noqa: ANN401
    ) -> IncusPlatform:
        """Return the lab as a platform that has started nothing yet."""
        return IncusPlatform("lab", self.settings(**changes), rules)


def missing_requirements() -> Iterator[str]:
    """Give all reasons why no lab can run here."""
    if "OPENDRS_INCUS_LAB" not in os.environ:
        yield "run make test-clusters"
    if not SCRIPT.exists():
        yield f"there is no {SCRIPT}; set OPENDRS_SHARED"
    if os.geteuid() != 0:
        yield "members need root"
    if shutil.which("unshare") is None or shutil.which("openssl") is None:
        yield "unshare and openssl are needed"
    if not (ROOT / ".done").exists():
        yield f"not built: IC_BASE={BASE} IC_SUITE={SUITE} {SCRIPT} build"


@pytest.fixture(scope="session")
def incus_members() -> Iterator[IncusLab]:
    """Return the cluster, which all tests of a session share."""
    if reason := "; ".join(missing_requirements()):
        if os.environ.get("OPENDRS_INCUS_LAB") == "required":
            pytest.fail(f"no Incus lab: {reason}")
        pytest.skip(f"no Incus lab: {reason}")
    lab = IncusLab()
    lab.script("down")
    lab.script("up", len(MEMBERS))
    try:
        yield lab
    finally:
        lab.script("down")


@pytest.fixture
def incus_lab(incus_members: IncusLab) -> IncusLab:
    """Return members without instances."""
    incus_members.reset()
    return incus_members
