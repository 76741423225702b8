"""Real hosts sleep and wake, by commands, as consolidation needs them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from integration.lab import Lab, eventually
from integration.power import Rack
from integration.test_main_job import Operator
from opendrs.model import NodeId

pytestmark = [pytest.mark.shared, pytest.mark.lab]

NAMES = ("vm1", "vm2", "vm3", "vm4")
WORK = 25  # percent of a processor for each guest: together half of the host
SETTINGS = {
    "power": "true",
    "detector": "threshold",
    "parameter": "0.2",
    "relief": "0.9",
    "last_n": "1",
}
CONSOLIDATE = (
    "--policy",
    "consolidate",
    *(word for item in SETTINGS.items() for word in ("--set", "=".join(item))),
)


def nodes_of(operator: Operator) -> dict[str, dict[str, Any]]:
    """Return the nodes as `opendrs show` tells them."""
    done = operator.runs("show", "lab", "--format", "json")
    assert done.returncode == 0, done.stderr
    nodes: dict[str, dict[str, Any]] = json.loads(done.stdout)["snapshot"]["nodes"]
    return nodes


def busy_cores(lab: Lab) -> float:
    """Return how many cores of h1 are busy."""
    return lab.platform().observe().nodes[NodeId("h1")].usage.cpu or 0.0


def consolidated(operator: Operator) -> list[dict[str, Any]]:
    """Consolidate the lab and return what was done."""
    done = operator.runs("apply", "lab", "--yes", "--format", "json", *CONSOLIDATE)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    answer = json.loads(done.stdout)
    records: list[dict[str, Any]] = answer["resumed"] + answer["records"]
    return records


def test_hosts_sleep_while_they_are_not_needed(lab: Lab, tmp_path: Path) -> None:
    rack = Rack(lab)
    for name in NAMES:
        rack.vm(1, name)
    operator = Operator(lab, tmp_path, migration={"power": rack.settings()})

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
    woken = consolidated(operator)

    assert {step["kind"] for step in woken} == {"power-on", "migrate"}
    assert len(rack.on()) > 1
    assert {lab.running(name) for name in NAMES} == {(host,) for host in rack.on()}
    for name in NAMES:
        lab.require_alive(name)


def test_killed_while_a_host_goes_to_sleep_it_takes_up_where_it_was(
    lab: Lab, tmp_path: Path
) -> None:
    rack = Rack(lab)
    rack.vm(1, "vm1")
    power = rack.settings(delay=4.0)
    operator = Operator(lab, tmp_path, migration={"power": power})
    killed = subprocess.Popen(  # noqa: S603 - our own command
        operator.command("apply", "lab", "--yes", *CONSOLIDATE),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    asked = {"off h2": 1, "off h3": 1}
    eventually(lambda: rack.switches() == asked, 30, "both hosts are asked to sleep")
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
    assert rack.switches() == asked
    lab.require_alive("vm1")
