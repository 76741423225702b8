"""Real hosts powered off and on by commands, as consolidation requires."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration.libvirt_lab import LibvirtLab, eventually
from integration.power_lab import PowerLab
from integration.test_libvirt_rebalance import CommandLineOperator
from opendrs.model import NodeId

pytestmark = [pytest.mark.shared, pytest.mark.lab]

NAMES = ("vm1", "vm2", "vm3", "vm4")
WORK = 25  # percent of a processor for each guest: together half of the host
SETTINGS = {
    "manage_power": "true",
    "detector": "threshold",
    "detector_parameter": "0.2",
    "relief_target": "0.9",
    "averaging_window": "1",
}
CONSOLIDATE = (
    "--policy",
    "consolidate",
    *(word for item in SETTINGS.items() for word in ("--set", "=".join(item))),
)


def nodes_of(operator: CommandLineOperator) -> dict[str, dict[str, Any]]:
    """Return the nodes as `opendrs show` prints them."""
    done = operator.runs("show", "lab", "--format", "json")
    assert done.returncode == 0, done.stderr
    nodes: dict[str, dict[str, Any]] = json.loads(done.stdout)["snapshot"]["nodes"]
    return nodes


def busy_cores(lab: LibvirtLab) -> float:
    """Return how many cores of h1 are busy."""
    return lab.platform().observe().nodes[NodeId("h1")].usage.cpu or 0.0


def consolidated(operator: CommandLineOperator) -> list[dict[str, Any]]:
    """Consolidate the lab and return what was done."""
    done = operator.runs("apply", "lab", "--yes", "--format", "json", *CONSOLIDATE)
    reported = done.stdout + done.stderr
    assert done.returncode == 0, reported
    answer = json.loads(done.stdout)
    records: list[dict[str, Any]] = answer["recovered"] + answer["records"]
    return records


def test_idle_hosts_are_powered_off(lab: LibvirtLab, tmp_path: Path) -> None:
    rack = PowerLab(lab)
    for name in NAMES:
        rack.vm(1, name)
    operator = CommandLineOperator(lab, tmp_path, platform={"power": rack.settings()})

    slept = consolidated(operator)

    assert {(step["kind"], step["target"]) for step in slept} == {
        ("power-off", "h2"),
        ("power-off", "h3"),
    }
    assert rack.on() == {1}
    nodes = nodes_of(operator)
    assert [nodes[host]["state"] for host in ("h1", "h2", "h3")] == [
        "online",
        "offline",
        "offline",
    ]
    assert nodes["h2"]["capacity"] == nodes["h1"]["capacity"]

    for name in NAMES:
        rack.work(name, WORK)
    eventually(lambda: busy_cores(lab) > 0.5, 60, "the guests work")
    power_on_steps = consolidated(operator)

    assert {step["kind"] for step in power_on_steps} == {"power-on", "live-migration"}
    assert len(rack.on()) > 1
    assert {lab.running(name) for name in NAMES} == {(host,) for host in rack.on()}
    for name in NAMES:
        lab.require_alive(name)


def test_killed_apply_recovers_its_power_off(lab: LibvirtLab, tmp_path: Path) -> None:
    rack = PowerLab(lab)
    rack.vm(1, "vm1")
    power = rack.settings(delay=12.0)
    operator = CommandLineOperator(lab, tmp_path, platform={"power": power})
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "lab", "--yes", *CONSOLIDATE),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    power_counts = {"off h2": 1, "off h3": 1}
    eventually(
        lambda: rack.power_actions() == power_counts,
        30,
        "both hosts are asked to sleep",
    )
    killed.kill()
    killed.wait()
    still_on = rack.on()

    taken_up = consolidated(operator)

    assert still_on == {1, 2, 3}
    assert {(step["kind"], step["target"], step["outcome"]) for step in taken_up} == {
        ("power-off", "h2", "done"),
        ("power-off", "h3", "done"),
    }
    assert rack.on() == {1}
    assert rack.power_actions() == power_counts
    lab.require_alive("vm1")
