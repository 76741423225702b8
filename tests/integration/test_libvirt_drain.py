"""Drains of real hosts: rules, stopped guests, guests that cannot leave, kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration.libvirt_lab import MIB, LibvirtLab, eventually
from integration.test_libvirt_rebalance import CommandLineOperator

pytestmark = [pytest.mark.shared, pytest.mark.lab]

RULES: list[dict[str, object]] = [
    {"kind": "anti-affinity", "guests": ["db1", "db2"]},
    {"kind": "pin", "guests": ["pinned"]},
]


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def defined_on(lab: LibvirtLab, name: str) -> list[int]:
    return [host for host in (1, 2, 3) if name in lab.names(host, "--all")]


def test_host_is_drained_by_the_rules_and_refilled(
    lab: LibvirtLab, tmp_path: Path
) -> None:
    for name in ("db1", "web", "pinned"):
        lab.vm(1, name)
    lab.vm(2, "db2")
    lab.define(1, lab.description("web").replace("web", "off"))
    operator = CommandLineOperator(lab, tmp_path, RULES)

    drained = document(operator.runs("drain", "lab", "h1", "--yes", "--format", "json"))

    assert [each["guest"] for each in drained["remaining"]] == ["pinned"]
    assert drained["remaining"][0]["reason"] == "pinned"
    assert lab.running("db1") == (3,)  # db2 is on h2
    assert lab.running("web") != (1,)
    assert defined_on(lab, "off") not in ([], [1])
    assert len(defined_on(lab, "off")) == 1

    returned = operator.runs("undrain", "lab", "h1", "--bring-back")
    assert returned.returncode == 0, returned.stdout + returned.stderr
    for name in ("db1", "web", "pinned"):
        assert lab.running(name) == (1,)
        lab.require_alive(name)
    assert defined_on(lab, "off") == [1]


def test_killed_drain_is_continued(lab: LibvirtLab, tmp_path: Path) -> None:
    names = ("slow1", "slow2")
    for name in names:
        lab.slow_vm(1, name)
    operator = CommandLineOperator(lab, tmp_path, platform={"bandwidth": MIB})
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("drain", "lab", "h1", "--yes"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually(
        lambda: any(len(lab.locate(name)) == 2 for name in names), 60, "a migration"
    )
    killed.kill()
    killed.wait()
    for name in names:
        if len(lab.locate(name)) == 2:
            lab.fill_memory_faster(1, name)
    fast = CommandLineOperator(lab, tmp_path)

    done = document(fast.runs("drain", "lab", "h1", "--yes", "--format", "json"))

    assert (done["empty"], done["remaining"]) == (True, [])
    for name in names:
        assert lab.running(name) != (1,)
        lab.require_alive(name)


def test_rolling_maintenance_visits_each_host_and_continues_after_a_kill(
    lab: LibvirtLab, tmp_path: Path
) -> None:
    """The hook finds its host empty; the second one stands for a crash of opendrs."""
    homes = {"db1": 1, "db2": 2, "web": 3}
    for name, host in homes.items():
        lab.vm(host, name)
    operator = CommandLineOperator(lab, tmp_path, RULES[:1])
    log = tmp_path / "visits"
    uris = "".join(f'h{host}) uri="{lab.uri(host)}";; ' for host in (1, 2, 3))
    hook = tmp_path / "hook.sh"
    hook.write_text(
        f'case "$1" in {uris}esac\n'
        'guests=$(virsh -c "$uri" list --name) || exit 1\n'
        f'echo "$1 [$guests]" >> {log}\n'
        f"if [ $(wc -l < {log}) = 2 ]; then kill -9 $PPID; fi\n"
    )
    words = ("drain", "lab", "--for", "updates", "--yes", "--hook", f"sh {hook}")

    killed = operator.runs(*words, "--format", "json")
    assert killed.returncode == -signal.SIGKILL
    assert log.read_text().splitlines() == ["h1 []", "h2 []"]
    lab.require_alive("db2")

    done = document(operator.runs(*words, "--format", "json"))

    assert done["done"] == ["h1", "h2", "h3"]
    # The hook of h2 was interrupted: it runs again, as the help says.
    assert log.read_text().splitlines() == ["h1 []", "h2 []", "h2 []", "h3 []"]
    for name, host in homes.items():
        assert lab.running(name) == (host,)
        lab.require_alive(name)
