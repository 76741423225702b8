"""Hosts of the lab that can be switched, and guests with adjustable load."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path

from integration.libvirt_lab import CGROUPS, GUEST, HOSTS, LibvirtLab, eventually

SCRIPT = Path(__file__).with_name("host-power.sh")
SHARES = 20_000  # of the processor for each host, where others have 1024


class PowerLab:
    """The power of the hosts of a lab, and the work of its guests.

    Args:
        lab: The lab; its hosts are on.
    """

    def __init__(self, lab: LibvirtLab) -> None:
        self._lab = lab
        for host in HOSTS:
            self._power("keep", f"h{host}")
            # However busy the machine is, guests must make progress.
            shares = CGROUPS / "cpu" / f"{lab.prefix}-h{host}" / "cpu.shares"
            shares.write_text(str(SHARES))

    def settings(self, *, delay: float = 0.0) -> dict[str, object]:
        """Return the table `power` of the platform.

        Args:
            delay: Seconds that a host takes to switch itself off.
        """

        def words(word: str) -> list[str]:
            lab = self._lab
            return [str(SCRIPT), word, str(lab.directory), lab.prefix, "{node}"]

        slow = ["env", f"DELAY={delay}"]
        return {
            "driver": "command",
            "on_command": words("on"),
            "off_command": [*slow, *words("off")],
            "state_command": words("state"),
        }

    def on(self) -> set[int]:
        """Return the hosts that are on."""
        return {host for host in HOSTS if self._power("state", f"h{host}") == 0}

    def power_actions(self) -> Counter[str]:
        """Return how often each host was switched, as in `off h2`."""
        path = self._lab.directory / "power.log"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    def at_boot(self, host: int, *words: object) -> None:
        """Let a host run a program whenever it is switched on, and now.

        Its process id is in the file `boot.pid` of the host, and what it says in
        `boot.log`.
        """
        place = self._lab.directory / f"h{host}"
        line = shlex.join(map(str, words))
        program = f"echo $$ > {place}/boot.pid\nexec {line} >> {place}/boot.log 2>&1\n"
        (place / "boot").write_text(f"#!/bin/sh\n{program}")
        (place / "boot").chmod(0o755)
        self.boot(host)

    def boot(self, host: int) -> None:
        """Run the startup program of a host now."""
        self._power("boot", f"h{host}")

    def crash(self, host: int) -> None:
        """Kill the startup program of a host."""
        pid = self._lab.directory / f"h{host}" / "boot.pid"
        os.kill(int(pid.read_text()), signal.SIGKILL)

    def vm(self, host: int, name: str, memory: int = 16) -> None:
        """Start an idle guest with adjustable load."""
        words = (name, memory, GUEST, "", "duty=0 dirty=0 ws=8")
        text = self._lab.script("xml", *words)
        log = self._lab.directory / f"serial-{name}.log"
        serial = (
            f"<serial type='unix'><source mode='bind' path='{_socket(name)}'/>"
            f"<log file='{log}' append='on'/></serial>"
        )
        text = re.sub(r"<serial type='file'>.*?</serial>", serial, text)
        self._lab.define(host, text, verb="create")

    def work(self, name: str, duty: int) -> None:
        """Make a guest keep *duty* percent of a processor busy."""

        def is_sent() -> bool:
            try:
                self._send_command(name, f"d {duty}\n")
            except OSError:  # it is on its way to another host
                return False
            return True

        eventually(is_sent, 20, f"{name} is told to work")

    def _send_command(self, name: str, words: str) -> None:
        (host,) = self._lab.running(name) or (0,)
        path = self._lab.directory / f"h{host}" / "run" / Path(_socket(name)).name
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(5)
            line.connect(str(path))
            line.sendall(words.encode())
            # Hung up on at once, nothing is read; this way it hangs up, having read.
            line.shutdown(socket.SHUT_WR)
            while line.recv(4096):
                pass

    def _power(self, word: str, host: str) -> int:
        command = [SCRIPT, word, self._lab.directory, self._lab.prefix, host]
        return subprocess.run(  # noqa: S603 -- the words are the tests' own
            list(map(str, command)), check=False, stdout=subprocess.DEVNULL
        ).returncode


def _socket(name: str) -> str:
    """Return the path of the socket of a guest, on its host."""
    return f"/run/libvirt/{name}.sock"
