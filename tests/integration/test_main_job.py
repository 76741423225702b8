"""The main job on real virtual machines: read a cluster, plan, and do it."""

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

from integration.lab import MIB, Lab, eventually

pytestmark = [pytest.mark.shared, pytest.mark.lab]

OPENDRS = Path(sys.executable).with_name("opendrs")
CROWD = [f"vm{number:02}" for number in range(1, 13)]
WITNESS = "elsewhere"
TOGETHER = ("vm03", "vm04")
APART = ("vm05", WITNESS)
THRESHOLD = 0.3


@dataclass
class Operator:
    """Somebody at the command line, with a configuration file of the lab."""

    lab: Lab
    home: Path
    rules: list[dict[str, object]] = field(default_factory=list)
    migration: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.lab.settings()
        platform = {
            "kind": "libvirt",
            "nodes": dict(settings.nodes),
            "migration_uris": dict(settings.migration_uris),
            **self.migration,
        }
        document = {
            "platform": {"lab": platform},
            "policy": {
                "name": "balance",
                # Limits do not change with the load of the machine, measured use does.
                "balance": {"threshold": THRESHOLD, "mode": "static"},
            },
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
def watched(lab: Lab) -> Iterator[list[str]]:
    """Yield a list that gathers each breach of a rule seen meanwhile."""
    breaches: list[str] = []
    looks: list[int] = []
    enough = Event()

    def watch() -> None:
        while not enough.is_set():
            together = [set(lab.where(name)) for name in TOGETHER]
            # Looked for on its source first, a guest may arrive meanwhile.
            if all(together) and not set.intersection(*together):
                again = [set(lab.where(name)) for name in TOGETHER]
                if not set.intersection(*again):
                    breaches.append(f"{TOGETHER} were on {again}")
            if set(lab.where(APART[0])) & set(lab.where(APART[1])):
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


def test_twelve_guests_on_one_of_three_hosts_are_spread_live(
    lab: Lab, tmp_path: Path
) -> None:
    for name in CROWD:
        lab.vm(1, name, duty=8)
    lab.vm(2, WITNESS)
    operator = Operator(
        lab,
        tmp_path,
        rules=[
            {"kind": "affinity", "guests": list(TOGETHER)},
            {"kind": "anti-affinity", "guests": list(APART)},
            {"kind": "pin", "guests": [CROWD[0]]},
        ],
    )

    by_use = operator.plans("--set", "mode=dynamic")

    assert by_use["reason"] == "improves-balance"
    assert by_use["before"]["imbalance"] > by_use["after"]["imbalance"]
    assert {step["source"] for step in by_use["steps"]} == {"h1"}

    plan = operator.plans()

    assert plan["reason"] == "improves-balance"
    assert plan["before"]["imbalance"] > THRESHOLD >= plan["after"]["imbalance"]
    assert {step["source"] for step in plan["steps"]} == {"h1"}
    assert all("imbalance" in step["why"] for step in plan["steps"])

    with watched(lab) as breaches:
        applied = operator.runs("apply", "lab", "--yes")

    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert breaches == []
    for name in (*CROWD, WITNESS):
        lab.require_alive(name)
    assert lab.running(CROWD[0]) == (1,)
    assert lab.running(TOGETHER[0]) == lab.running(TOGETHER[1])
    assert lab.running(APART[0]) != lab.running(APART[1])
    assert len({lab.running(name) for name in CROWD}) == 3

    again = operator.plans()

    assert again["steps"] == []
    assert again["reason"] == "balanced"
    assert again["before"]["imbalance"] <= THRESHOLD


def test_killed_in_the_middle_of_a_migration_it_takes_up_where_it_was(
    lab: Lab, tmp_path: Path
) -> None:
    names = ("slow1", "slow2")
    for name in names:
        lab.slow_vm(1, name)
    operator = Operator(lab, tmp_path, migration={"bandwidth": MIB})
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "lab", "--yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def under_way() -> list[str]:
        return [name for name in names if len(lab.where(name)) == 2]

    eventually(lambda: bool(under_way()), 30, "a guest is under way")
    killed.kill()
    killed.wait()
    movers = under_way()
    for name in movers:
        lab.hurry(1, name)
    taken_up = operator.runs("apply", "lab", "--yes")

    told = taken_up.stdout + taken_up.stderr
    assert taken_up.returncode == 0, told
    assert movers
    for name in names:
        lab.require_alive(name)
    for name in movers:
        assert name in told
        assert lab.running(name) != (1,)
    assert operator.plans()["steps"] == []
