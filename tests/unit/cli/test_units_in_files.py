"""Wherever bytes or seconds are asked for, they may be told with a unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.controller.settings import read_settings
from opendrs.model import GIB, GuestId, NodeId, Resources, Usage
from opendrs.platforms.file import json_text, read_snapshot
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.platforms.power import CommandSettings
from opendrs.policies import Consolidate, PressureRelief, ThresholdRebalance
from opendrs.sim.consolidation.scenario.reading import read_scenario
from opendrs.sim.consolidation.scenario.scenario import Recorded
from opendrs.sim.consolidation.sweep.form import read_sweep
from opendrs.sim.drill.form.reading import read_drill
from terminal import Opendrs

SNAPSHOT = """
format = "opendrs-snapshot/1"
taken_at = 2026-11-21T00:00:00Z
[nodes.n1]
state = "online"
capacity = {cpu = 16, memory = "64 GiB"}
usage = {cpu = 1, memory = "1.5 GiB"}
ksm_shared = "512 MiB"
[nodes.n2]
state = "online"
capacity = {cpu = 16, memory = "64 GiB"}
usage = {cpu = 1, memory = "1.5 GiB"}
[guests."vm:1"]
node = "n1"
kind = "vm"
state = "running"
limit = {cpu = 2, memory = "2 GiB"}
usage = {cpu = 1, memory = "0.5 GiB"}
uptime = "2 d"
dirty_rate = "10 MiB/s"
"""
CONFIGURATION = """
[controller]
interval = "5 min"
[limits]
cooldown = "10 min"
quiet_time = "90 s"
patience = "0.5 h"
bandwidth = "1 Gbit/s"
networks = [{name = "line", nodes = ["n1"], bandwidth = "100 MiB/s"}]
[policy]
name = "consolidate"
[policy.consolidate]
interval = "5 min"
bandwidth = "0.5 Gbit/s"
[policy.pressure]
uptime = "5 min"
forget_after = "1 h"
[policy.threshold-rebalance]
cooldown = "6 h"
[requests]
certificate = "c"
key = "k"
tokens = "t"
silence = "15 min"
max_age = "5 min"
max_skew = "1 min"
gathering = "10 s"
[agent]
node = "n1"
controller = "https://drs:8443"
token_file = "t"
interval = "5 min"
timeout = "10 s"
[platform.lab]
kind = "libvirt"
nodes = {n1 = "test:///default"}
bandwidth = "100 MiB/s"
post_copy_after = "1 min"
sample = "500 ms"
timeout = "15 s"
[platform.lab.power]
driver = "command"
on = ["wake"]
off = ["sleep"]
patience = "5 min"
timeout = "30 s"
silence = "1 min"
"""
SCENARIO = """
format = "opendrs-scenario/1"
[workload]
kind = "csv"
path = "load.csv"
start = "1 h"
length = "1 d"
interval = "10 min"
carried = "15 min"
[[hosts]]
count = 2
memory = "64 GiB"
[guests]
kinds = [{mips = 1000, memory = "512 MiB"}]
[behaviour]
wake = "3 min"
shutdown = "30 s"
bandwidth = "0.5 Gbit/s"
[limits]
cooldown = "15 min"
[[policies]]
name = "consolidate"
settings = {interval = "5 min"}
"""
DRILL = """
format = "opendrs-drill/1"
snapshot = "cluster.toml"
until = "20 min"
[[events]]
at = "2 min"
usage = {guest = "vm:1", memory = "1 GiB"}
[[expect]]
guest = "vm:1"
at = "10 min"
down_at_most = "5 min"
"""


def test_snapshots_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text(SNAPSHOT)

    snapshot = read_snapshot(path)

    node, guest = snapshot.nodes[NodeId("n1")], snapshot.guests[GuestId("vm:1")]
    assert node.capacity == Resources(16, 64 * GIB)
    assert (node.usage, node.ksm_shared) == (Usage(1, 3 * GIB // 2), GIB // 2)
    assert guest.limit == Resources(2, 2 * GIB)
    assert (guest.uptime, guest.dirty_rate) == (172_800, 10 << 20)
    written = json.loads(json_text(snapshot))
    assert written["nodes"]["n1"]["capacity"]["memory"] == 64 * GIB
    assert written["guests"]["vm:1"]["uptime"] == 172_800


def test_configurations_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    path = tmp_path / "opendrs.toml"
    path.write_text(CONFIGURATION)

    found = read_settings(path)

    limits, requests, agent = found.limits, found.requests, found.agent
    assert requests is not None
    assert agent is not None
    assert found.controller.interval == 300
    assert (limits.cooldown, limits.quiet_time, limits.patience) == (600, 90, 1800)
    assert (limits.bandwidth, limits.networks[0].bandwidth) == (125e6, 100 << 20)
    assert (requests.silence, requests.max_age) == (900, 300)
    assert (requests.max_skew, requests.gathering) == (60, 10)
    assert (agent.interval, agent.timeout) == (300, 10)
    policy = found.chosen_policy()
    assert isinstance(policy, Consolidate)
    assert (policy.interval, policy.bandwidth) == (300, 62.5e6)
    pressure = found.chosen_policy("pressure")
    assert isinstance(pressure, PressureRelief)
    assert (pressure.uptime, pressure.forget_after) == (300, 3600)
    threshold = found.chosen_policy("threshold-rebalance")
    assert isinstance(threshold, ThresholdRebalance)
    assert threshold.cooldown == 21_600
    lab = found.connection("lab")
    settings, power = lab.settings, lab.power
    assert isinstance(settings, LibvirtSettings)
    assert (settings.bandwidth, settings.sample) == (100 << 20, 0.5)
    assert (settings.post_copy_after, settings.timeout) == (60, 15)
    assert power is not None
    command = power.nodes["n1"]
    assert isinstance(command, CommandSettings)
    assert (command.patience, command.timeout, command.silence) == (300, 30, 60)


def test_scenarios_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    path = tmp_path / "day.toml"
    path.write_text(SCENARIO)

    scenario = read_scenario(path)

    source, stage = scenario.stage.source, scenario.stage
    assert isinstance(source, Recorded)
    window = source.window
    assert (window.start, window.length) == (3600, 86_400)
    assert (window.interval, window.carried) == (600, 900)
    assert stage.pools[0].memory == 65_536
    assert stage.guests.kinds[0].memory == 512
    assert (stage.behaviour.wake, stage.behaviour.shutdown) == (180, 30)
    assert stage.behaviour.bandwidth == pytest.approx(62.5e6 / 2**20)
    policy = scenario.contenders[0].policy
    assert isinstance(policy, Consolidate)
    assert (policy.limits.cooldown, policy.interval) == (900, 300)


def test_lists_of_a_sweep_have_units_too(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'format = "opendrs-sweep/1"\nworkload = [{kind = "synthetic"}]\n'
        '[behaviour]\nwake = [120, "3 min"]\n'
    )

    grid = read_sweep(path)

    assert sorted({trial.stage.behaviour.wake for trial in grid.trials}) == [120, 180]


def test_drills_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(SNAPSHOT)
    path = tmp_path / "drill.toml"
    path.write_text(DRILL)

    drill = read_drill(path)

    assert (drill.until, [each.at for each in drill.timetable]) == (1200, [120])
    assert drill.expectations[0].get("down_at_most") == 300
    assert drill.timetable[0].step.text == "service vm:1 set-dynamic-stats mem 1024"


def test_set_takes_units(opendrs: Opendrs) -> None:
    options = ("--policy", "threshold-rebalance", "--set")

    fine = opendrs("plan", "demo", *options, "cooldown=6 h")
    wrong = opendrs("plan", "demo", *options, "cooldown=6 weeks")

    assert fine.status == 0
    assert wrong.status == 2
    assert wrong.err == (
        "opendrs: policy threshold-rebalance: cooldown: expected a number of seconds, "
        'or a text such as "10 min" (units: ms, s, min, h, d), found "6 weeks"\n'
    )


def test_a_secret_in_place_of_a_time_is_not_shown(opendrs: Opendrs) -> None:
    Path("opendrs.toml").write_text(
        CONFIGURATION.replace('patience = "5 min"', 'patience = "hunter2"')
    )

    answer = opendrs("plan", "demo", "--config", "opendrs.toml")

    assert answer.status == 2
    assert "hunter2" not in answer.err
    assert answer.err.endswith("found a text\n")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (("record", "demo", "-o", "-", "--every", "100 ms", "--count", "2"), 0, ""),
        (("record", "demo", "-o", "-", "--every", "-1 s"), 2, "got '-1 s'"),
        (("plan", "demo", "--policy", "optimize", "--time", "200 ms"), 0, ""),
        (("plan", "demo", "--policy", "optimize", "--time", "2 d"), 2, "172800"),
        (("plan", "demo", "--policy", "optimize", "--time", "nan"), 2, "nan is not"),
        (("simulate", "synthetic", "--memory", "64 GB"), 2, "got '64 GB'"),
        (("simulate", "csv", "none.csv", "--interval", "10 min"), 2, "none.csv: No"),
    ],
)
def test_options_take_units_too(
    opendrs: Opendrs, arguments: tuple[str, ...], status: int, told: str
) -> None:
    answer = opendrs(*arguments)

    assert answer.status == status
    assert told in answer.err
