"""The distributed form in the lab: an agent on each host, and a controller.

An agent runs in the namespaces and control groups of its host, so it dies with it,
and is started again when the host is. The controller runs beside the switch.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w
import trustme

from integration.libvirt_lab import HOSTS, LibvirtLab, eventually
from integration.power_lab import PowerLab
from opendrs.api.tokens import hash_token, new_token
from opendrs.config import snapshot_from
from opendrs.model import NodeState
from opendrs.policies.consolidation.agent_requests import exclude_unresponsive
from opendrs.ports import RequestRecord, StepRecord
from opendrs.store import Access, DatabaseRequestStore, SqliteStore

OPENDRS = Path(sys.executable).with_name("opendrs")
PORT = 8443
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


class AgentDeployment:
    """A controller and three agents of one lab.

    Args:
        lab: The lab.
        rack: The power of its hosts.
        home: Where all files are.
        consolidate: The settings of the policy, the same for all.
        interval: Seconds from one sample, and one cycle, to the next.
    """

    def __init__(
        self,
        lab: LibvirtLab,
        rack: PowerLab,
        home: Path,
        consolidate: Mapping[str, object],
        interval: float,
    ) -> None:
        self._lab, self._rack, self._home = lab, rack, home
        self._policy = {"name": "consolidate", "consolidate": dict(consolidate)}
        self._interval = interval
        self._address = f"{lab.subnet}.254"
        self._controller: subprocess.Popen[bytes] | None = None
        switch = ["ip", "-n", f"{lab.prefix}-sw"]
        address = ["addr", "add", f"{self._address}/24", "dev", "br0"]
        subprocess.run([*switch, *address], check=True)  # noqa: S603 -- our own words
        self._make_certificates()
        tokens = {f"h{host}": new_token() for host in HOSTS}
        self._configure_controller(tokens)
        for host in HOSTS:
            self._configure_agent(host, tokens[f"h{host}"])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all, and end the controller afterwards; the agents end with the lab.

        What goes wrong meanwhile comes with what all have said.
        """
        self.start_controller()
        log = self._home / "controller.log"
        try:
            eventually(lambda: "listening" in log.read_text(), 60, "it can be asked")
            for host in HOSTS:
                agent = (OPENDRS, "agent", self._home / f"agent-h{host}.toml")
                self._rack.at_boot(host, *agent, "--format", "json")
            yield
        except BaseException as error:
            error.add_note(self._log_text())
            raise
        finally:
            self.crash_controller()

    def start_controller(self) -> None:
        """Start the controller, beside the switch."""
        space = f"--net=/run/netns/{self._lab.prefix}-sw"
        words = ["nsenter", space, "nice", "-n", "-15", OPENDRS, "run", "--no-serve"]
        words += [self._home / "controller.toml", "--format", "json"]
        with (self._home / "controller.log").open("ab") as log:
            self._controller = subprocess.Popen(  # noqa: S603 -- our own command
                list(map(str, words)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def crash_controller(self) -> None:
        """Kill the controller."""
        if self._controller is not None:
            self._controller.kill()
            self._controller.wait()
            self._controller = None

    def stop_controller(self) -> None:
        """Stop the controller by SIGTERM and wait until it has exited."""
        assert self._controller is not None
        self._controller.terminate()
        assert self._controller.wait(120) == 0

    def steps(self) -> tuple[StepRecord, ...]:
        """Return the steps in the record of the controller."""
        with self._store_path() as store:
            return store.recent(LONG_AGO)

    def unfinished_steps(self) -> tuple[StepRecord, ...]:
        """Return the steps that were begun and have not ended, by the record."""
        return tuple(
            step for step in self.steps() if step.task and step.outcome is None
        )

    def is_stopped_during_a_step(self) -> bool:
        """Stop the controller by SIGSTOP if a step is unfinished; return if it was."""
        if not self.unfinished_steps() or self._controller is None:
            return False
        self._controller.send_signal(signal.SIGSTOP)
        if self.unfinished_steps():
            return True
        self._controller.send_signal(signal.SIGCONT)  # the step ended meanwhile
        return False

    def requests(self) -> tuple[RequestRecord, ...]:
        """Return the newest request of each node."""
        with self._store_path() as store:
            return DatabaseRequestStore(store).latest_per_node()

    def states(self) -> dict[str, NodeState]:
        """Return the state of each node in the newest cycle."""
        with self._store_path() as store:
            newest: Any = list(store.cycles())[-1].document
        seen = snapshot_from(newest["snapshot"], "the newest cycle")
        decided_about = exclude_unresponsive(seen, newest["memory"]["requests"])
        return {name: node.state for name, node in decided_about.nodes.items()}

    def _store_path(self) -> SqliteStore:
        return SqliteStore(self._home / "controller.sqlite", Access.READ)

    def _log_text(self) -> str:
        logs = [self._home / "controller.log"]
        logs += [self._lab.directory / f"h{host}" / "boot.log" for host in HOSTS]
        return "\n".join(
            f"--- {path}\n{path.read_text()}" for path in logs if path.exists()
        )

    def _make_certificates(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(self._home / "ca.pem")
        server = authority.issue_cert(self._address)
        server.cert_chain_pems[0].write_to_path(self._home / "server.pem")
        server.private_key_pem.write_to_path(self._home / "server.key")
        (self._home / "server.key").chmod(0o600)

    def _configure_controller(self, tokens: Mapping[str, str]) -> None:
        hashes = {node: hash_token(token) for node, token in tokens.items()}
        (self._home / "tokens.toml").write_text(tomli_w.dumps(hashes))
        settings = self._lab.settings()
        document = {
            "controller": {"interval": self._interval, "mode": "automatic"},
            "api": {
                "listen": f"{self._address}:{PORT}",
                "certificate": "server.pem",
                "key": "server.key",
                "tokens": "tokens.toml",
                "agent_timeout": 4 * self._interval,
                "max_sample_age": 3 * self._interval,
                "batch_window": 1.0,
            },
            "platform": {
                "lab": {
                    "kind": "libvirt",
                    "nodes": dict(settings.nodes),
                    "migration_uris": dict(settings.migration_uris),
                    "power": self._rack.settings(),
                }
            },
            "policy": self._policy,
            "limits": {"cooldown": 3 * self._interval},
            "store": {"path": "controller.sqlite"},
        }
        (self._home / "controller.toml").write_text(tomli_w.dumps(document))

    def _configure_agent(self, host: int, token: str) -> None:
        node = f"h{host}"
        (self._home / f"{node}.token").write_text(f"{token}\n")
        (self._home / f"{node}.token").chmod(0o600)
        document = {
            "agent": {
                "node": node,
                "controller": f"https://{self._address}:{PORT}",
                "token_file": f"{node}.token",
                "ca": "ca.pem",
                "interval": self._interval,
                "timeout": 3.0,
            },
            "platform": {
                "here": {
                    "kind": "libvirt",
                    "nodes": {node: "qemu:///system?socket=/run/libvirt/libvirt-sock"},
                    "sample": 0.8 * self._interval,
                }
            },
            "policy": self._policy,
            "store": {"path": f"agent-{node}.sqlite"},
        }
        (self._home / f"agent-{node}.toml").write_text(tomli_w.dumps(document))
