"""Real libvirt hosts on this machine, with real guests that migrate live.

Other tests take the fixture `lab` from here: three hosts, no guests, all links
up, whatever the test before did.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest

from integration.heartbeats import heartbeat_error
from opendrs.model import Rule
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings

PROJECT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED") or PROJECT.parent / "shared")
SCRIPT = SHARED / "labs" / "libvirt" / "libvirt-lab.sh"
GUEST = Path(os.environ.get("GUEST") or "/var/cache/libvirt-lab/spin.elf")
CGROUPS = Path("/sys/fs/cgroup")
TOOLS = ("ip", "libvirtd", "nsenter", "qemu-system-x86_64", "unshare", "virsh")
HOSTS = (1, 2, 3)
MIB = 1 << 20
BUSY = 5  # a machine with other work takes at most so many times as long


def eventually(holds: Callable[[], bool], within: float, what: str) -> None:
    """Wait until *holds*, and fail if it does not for too long.

    Args:
        holds: The condition.
        within: Seconds that an idle machine takes at most.
        what: The condition in words.
    """
    pause, end = Event(), monotonic() + BUSY * within
    while monotonic() < end:
        if holds():
            return
        pause.wait(0.1)
    pytest.fail(f"not within {BUSY * within:g} s: {what}")


class LibvirtLab:
    """Three libvirt hosts, called h1, h2 and h3, and their guests.

    Hosts are given by number, guests by name.

    Args:
        directory: Where all its files are.
        prefix: What the names of its control groups begin with.
        subnet: The first three numbers of its addresses.
    """

    def __init__(self, directory: Path, prefix: str, subnet: str) -> None:
        self.directory = directory
        self.prefix = prefix
        self.subnet = subnet

    def up(self) -> None:
        """Start the hosts."""
        self.script("up", len(HOSTS), 0, 2048)

    def down(self) -> None:
        """End the hosts, their guests, and everything else of the lab."""
        self.script("down")

    def restart(self) -> None:
        """Bring the lab back to new hosts without guests.

        New hosts are there in a second; to end a guest takes libvirt two.
        """
        self.down()
        self.up()

    def vm(
        self, host: int, name: str, duty: int = 0, dirty: int = 0, memory: int = 16
    ) -> None:
        """Start a guest.

        Args:
            host: Where.
            name: What it is called; unique in the lab.
            duty: Percent of one processor that it keeps busy.
            dirty: Pages of 4 KiB it writes each second, in half of its memory.
            memory: Its memory in MiB.
        """
        self.script("vm", host, name, duty, dirty, memory)

    def slow_vm(self, host: int, name: str) -> None:
        """Start a guest that takes minutes to migrate at 1 MiB/s.

        `hurry` then ends it at once.
        """
        self.vm(host, name, dirty=4000, memory=32)
        self.fill(name)

    def fill(self, name: str) -> None:
        """Wait until the guest has written its memory, which is then sent."""
        eventually(lambda: len(self.heartbeats(name)) > 1, 30, "its memory is written")

    def fill_memory_faster(self, host: int, name: str) -> None:
        """Lift the bandwidth limit of the migration under way from *host*."""

        def copying() -> bool:
            output = self.virsh(host, "domjobinfo", name, check=False)
            return "Memory processed" in output

        eventually(copying, 15, f"the memory of {name} is copied")
        self.virsh(host, "migrate-setspeed", name, "1000")

    def uri(self, host: int) -> str:
        """Return the URI by which this machine reaches *host*."""
        return f"qemu:///system?socket={self.directory}/h{host}/run/libvirt-sock"

    def peer_uri(self, host: int) -> str:
        """Return the URI by which the other hosts reach *host*."""
        return f"qemu+tcp://{self.subnet}.{host}/system"

    def settings(self, **changes: Any) -> LibvirtSettings:  # noqa: ANN401
        """Return the settings of a platform of the lab."""
        plain: dict[str, Any] = {
            "nodes": {f"h{host}": self.uri(host) for host in HOSTS},
            "migration_uris": {f"h{host}": self.peer_uri(host) for host in HOSTS},
        }
        return LibvirtSettings(**{**plain, **changes})

    def platform(
        self,
        rules: Iterable[Rule] = (),
        **changes: Any,  # noqa: ANN401
    ) -> LibvirtPlatform:
        """Return the lab as a platform that has started nothing yet."""
        return LibvirtPlatform("lab", self.settings(**changes), rules)

    def locate(self, name: str) -> tuple[int, ...]:
        """Return the hosts on which the guest has a process."""
        return tuple(host for host in HOSTS if name in self.names(host))

    def running(self, name: str) -> tuple[int, ...]:
        """Return the hosts on which the guest executes."""
        states = ("--state-running",)
        return tuple(host for host in HOSTS if name in self.names(host, *states))

    def heartbeats(self, name: str) -> list[int]:
        """Return what the guest has counted so far, about one a second.

        A guest that goes on after a migration goes on counting; one that was
        restarted begins at 1 again.
        """
        console = self.directory / f"serial-{name}.log"
        if not console.exists():
            return []
        text = console.read_text(errors="replace")
        return [int(beat) for beat in re.findall(r"hb (\d+)\n", text)]

    def require_alive(self, name: str) -> None:
        """Fail unless the guest runs on one host, and has run all the time."""
        hosts = self.running(name)
        assert len(hosts) == 1, f"{name} runs on {hosts}"
        before = len(self.heartbeats(name))
        eventually(lambda: len(self.heartbeats(name)) > before, 10, f"{name} beats")
        beats = self.heartbeats(name)
        reason = heartbeat_error(beats, self.arrivals(name))
        assert reason is None, f"{name}: {reason}: {beats}"

    def arrivals(self, name: str) -> int:
        """Return how often a host has made ready to receive the guest."""
        logs = self.directory.glob(f"h*/log/qemu/{name}.log")
        return sum(log.read_text(errors="replace").count("-incoming") for log in logs)

    def cpu_seconds(self, host: int, name: str) -> float:
        """Return the processor time the guest has used, as libvirt's tool says."""
        output = self.virsh(host, "domstats", "--cpu-total", name)
        found = re.search(r"cpu\.time=(\d+)", output)
        assert found, output
        return int(found[1]) / 1e9

    def kill_host(self, host: int) -> None:
        """End a host as a power failure would: libvirtd and all guests at once."""
        group = CGROUPS / "unified" / f"{self.prefix}-h{host}" / "cgroup.procs"
        for pid in group.read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        eventually(lambda: not group.read_text().split(), 10, f"h{host} is dead")

    def cut_link(self, host: int) -> None:
        """Cut the network of a host; its own socket still answers."""
        self._link(host, "down")

    def restore_link(self, host: int) -> None:
        """Restore the network of a host."""
        self._link(host, "up")

    def virsh(self, host: int, *words: str, check: bool = True) -> str:
        """Ask one host with libvirt's own tool."""
        return self.script("sh", host, *words, check=check)

    def define(self, host: int, text: str, verb: str = "define") -> None:
        """Give a host the description of a guest: define it, or create it."""
        described = self.directory / "given.xml"
        described.write_text(text)
        self.virsh(host, verb, str(described))

    def set_metadata(self, host: int, name: str, element: str) -> None:
        """Set the metadata of a running guest, as the how-to does."""
        words = ("--uri", "urn:opendrs", "--key", "opendrs", "--set", element)
        self.virsh(host, "metadata", name, *words, "--live")

    def description(self, name: str) -> str:
        """Return the description from which `vm` made a guest."""
        return (self.directory / f"{name}.xml").read_text()

    def names(self, host: int, *words: str) -> list[str]:
        """Return the guests on *host*; *words* are further ones of `virsh list`."""
        output = self.virsh(host, "list", "--name", *words, check=False)
        return [name for name in output.split() if name]

    def _link(self, host: int, state: str) -> None:
        space = f"{self.prefix}-h{host}"
        command = ["ip", "-n", space, "link", "set", "eth0", state]
        subprocess.run(command, check=True)  # noqa: S603 -- the words are the tests' own

    def script(self, *words: object, check: bool = True) -> str:
        """Run the lab's script; its processes stay, so no pipe may be theirs."""
        environment = {
            **os.environ,
            "LAB": str(self.directory),
            "PFX": self.prefix,
            "SUB": self.subnet,
        }
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(  # noqa: S603 -- the words are the tests' own
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


def missing_requirements() -> Iterator[str]:
    """Give all reasons why no lab can run here."""
    if not SCRIPT.exists():
        yield f"there is no {SCRIPT}; set OPENDRS_SHARED"
    if os.geteuid() != 0:
        yield "hosts need root"
    if lacking := [tool for tool in TOOLS if shutil.which(tool) is None]:
        yield f"not installed: {', '.join(lacking)}"
    if not GUEST.exists():
        yield f"the guest is not built: {SCRIPT} deps"
    if importlib.util.find_spec("libvirt") is None:
        yield "libvirt-python is not installed: make libvirt"
    groups = ("cpu", "cpuacct", "unified")
    if lacking := [name for name in groups if not (CGROUPS / name).is_dir()]:
        yield f"no cgroup hierarchy for {', '.join(lacking)}"


@cache
def _the_lab() -> LibvirtLab:
    process = os.getpid()
    directory = Path(tempfile.mkdtemp(prefix="opendrs-lab-"))
    subnet = f"10.{100 + process % 100}.{process // 100 % 250}"
    return LibvirtLab(directory, f"odrs{process}", subnet)


@pytest.fixture(scope="session")
def lab_hosts() -> Iterator[LibvirtLab]:
    """Return the hosts, which all tests of a session share."""
    if reason := "; ".join(missing_requirements()):
        if os.environ.get("OPENDRS_LAB") == "required":
            pytest.fail(f"no lab: {reason}")
        pytest.skip(f"no lab: {reason}")
    hosts = _the_lab()
    try:
        yield hosts
    finally:
        hosts.down()


@pytest.fixture
def lab(lab_hosts: LibvirtLab) -> LibvirtLab:
    """Return hosts without guests."""
    lab_hosts.restart()
    return lab_hosts
