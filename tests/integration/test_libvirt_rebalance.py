"""Rebalancing of real virtual machines: observe, plan and apply."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import tomli_w

from integration.libvirt_lab import MIB, LibvirtLab, eventually

pytestmark = [pytest.mark.shared, pytest.mark.lab]

OPENDRS = Path(sys.executable).with_name("opendrs")
GUEST_NAMES = [f"vm{number:02}" for number in range(1, 13)]
WITNESS = "elsewhere"
TOGETHER = ("vm03", "vm04")
APART = ("vm05", WITNESS)
THRESHOLD = 0.3
BY_LIMITS: dict[str, object] = {
    "name": "balance",
    # Limits do not change with the load of the machine, measured use does.
    "balance": {"threshold": THRESHOLD, "load_model": "static"},
}


@dataclass
class CommandLineOperator:
    """An operator at the command line, with a configuration file of the lab."""

    lab: LibvirtLab
    home: Path
    rules: list[dict[str, object]] = field(default_factory=list)
    platform: dict[str, object] = field(default_factory=dict)
    policy: dict[str, object] = field(default_factory=lambda: {**BY_LIMITS})
    limits: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.lab.settings()
        platform = {
            "kind": "libvirt",
            "nodes": dict(settings.nodes),
            "migration_uris": dict(settings.migration_uris),
            **self.platform,
        }
        document = {
            "platform": {"lab": platform},
            "policy": self.policy,
            "limits": self.limits,
            "rules": self.rules,
            "store": {"path": str(self.home / "record.sqlite")},
        }
        self.config.write_text(tomli_w.dumps(document))

    @property
    def config(self) -> Path:
        """Return the configuration file."""
        return self.home / "opendrs.toml"

    def command(self, *words: str) -> list[str]:
        """Return the command line for *words* with the configuration."""
        return [str(OPENDRS), *words, "--config", str(self.config)]

    def runs(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run opendrs and return what it printed and its exit status."""
        return subprocess.run(  # noqa: S603 - our own command
            self.command(*words),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": "100"},
        )

    def plans(self, *options: str) -> dict[str, Any]:
        """Return the plan that opendrs makes now."""
        done = self.runs("plan", "lab", "--format", "json", *options)
        assert done.returncode == 0, done.stderr
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan


@contextmanager
def watch_rules(lab: LibvirtLab) -> Iterator[list[str]]:
    """Yield a list that gathers each breach of a rule seen meanwhile."""
    breaches: list[str] = []
    looks: list[int] = []
    enough = Event()

    def watch() -> None:
        while not enough.is_set():
            together = [set(lab.locate(name)) for name in TOGETHER]
            # Looked for on its source first, a guest may arrive meanwhile.
            if all(together) and not set.intersection(*together):
                again = [set(lab.locate(name)) for name in TOGETHER]
                if not set.intersection(*again):
                    breaches.append(f"{TOGETHER} were on {again}")
            if set(lab.locate(APART[0])) & set(lab.locate(APART[1])):
                breaches.append(f"{APART} shared a host")
            looks.append(1)

    thread = Thread(target=watch)
    thread.start()
    try:
        yield breaches
    finally:
        enough.set()
        thread.join()
    assert looks


def test_twelve_guests_are_balanced_over_three_hosts(
    lab: LibvirtLab, tmp_path: Path
) -> None:
    for name in GUEST_NAMES:
        lab.vm(1, name, duty=8)
    lab.vm(2, WITNESS)
    operator = CommandLineOperator(
        lab,
        tmp_path,
        rules=[
            {"kind": "affinity", "guests": list(TOGETHER)},
            {"kind": "anti-affinity", "guests": list(APART)},
            {"kind": "pin", "guests": [GUEST_NAMES[0]]},
        ],
    )

    by_use: dict[str, Any] = {}

    def leaves_the_loaded_host() -> bool:
        # Measured use fluctuates while other tests use the machine.
        by_use.update(operator.plans("--set", "load_model=dynamic"))
        return {step["source"] for step in by_use["steps"]} == {"h1"}

    eventually(leaves_the_loaded_host, 120, "guests leave h1 by measured use")
    assert by_use["reason"] == "improves-balance"
    assert by_use["before"]["imbalance"] > by_use["after"]["imbalance"]

    plan = operator.plans()

    assert plan["reason"] == "improves-balance"
    assert plan["before"]["imbalance"] > THRESHOLD >= plan["after"]["imbalance"]
    assert {step["source"] for step in plan["steps"]} == {"h1"}
    assert all("imbalance" in step["detail"] for step in plan["steps"])

    with watch_rules(lab) as breaches:
        applied = operator.runs("apply", "lab", "--yes")

    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert breaches == []
    for name in (*GUEST_NAMES, WITNESS):
        lab.require_alive(name)
    assert lab.running(GUEST_NAMES[0]) == (1,)
    assert lab.running(TOGETHER[0]) == lab.running(TOGETHER[1])
    assert lab.running(APART[0]) != lab.running(APART[1])
    hosts = {lab.running(name) for name in GUEST_NAMES}
    assert len(hosts) == 3, applied.stdout + applied.stderr

    again = operator.plans()

    assert again["steps"] == []
    assert again["reason"] == "balanced"
    assert again["before"]["imbalance"] <= THRESHOLD


def test_killed_apply_recovers_its_migration(lab: LibvirtLab, tmp_path: Path) -> None:
    names = ("slow1", "slow2")
    for name in names:
        lab.slow_vm(1, name)
    operator = CommandLineOperator(lab, tmp_path, platform={"bandwidth": MIB})
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "lab", "--yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_migrating() -> list[str]:
        return [name for name in names if len(lab.locate(name)) == 2]

    eventually(lambda: bool(is_migrating()), 30, "a guest is under way")
    killed.kill()
    killed.wait()
    movers = is_migrating()
    for name in movers:
        lab.fill_memory_faster(1, name)
    taken_up = operator.runs("apply", "lab", "--yes")

    reported = taken_up.stdout + taken_up.stderr
    assert taken_up.returncode == 0, reported
    assert movers
    for name in names:
        lab.require_alive(name)
    for name in movers:
        assert name in reported
        assert lab.running(name) != (1,)
    assert operator.plans()["steps"] == []
