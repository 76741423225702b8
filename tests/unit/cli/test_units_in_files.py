"""Units of bytes and seconds in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opendrs.cli.configuration import load_settings
from opendrs.cli.platforms import power_settings
from opendrs.config import json_text, read_snapshot
from opendrs.model import GIB, GuestId, NodeId, Resources, Usage
from opendrs.platforms.libvirt import LibvirtSettings
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance
from opendrs.power import PowerCommandSettings
from opendrs.pve_ha.simulator.file_format import read_drill
from opendrs.simulation.scenario.definition import RecordedWorkload
from opendrs.simulation.scenario.parsing import read_scenario
from opendrs.simulation.sweep.parsing import read_sweep
from support.terminal import RunOpendrs

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
min_uptime = "90 s"
migration_timeout = "0.5 h"
bandwidth = "1 Gbit/s"
networks = [{name = "line", nodes = ["n1"], bandwidth = "100 MiB/s"}]
[policy]
name = "consolidate"
[policy.consolidate]
interval = "5 min"
bandwidth = "0.5 Gbit/s"
[policy.pressure]
min_uptime = "5 min"
remigration_delay = "1 h"
[policy.threshold-rebalance]
cooldown = "6 h"
[api]
certificate = "c"
key = "k"
tokens = "t"
agent_timeout = "15 min"
max_sample_age = "5 min"
max_clock_skew = "1 min"
batch_window = "10 s"
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
on_command = ["wake"]
off_command = ["sleep"]
transition_timeout = "5 min"
timeout = "30 s"
off_confirm_time = "1 min"
"""
SCENARIO = """
format = "opendrs-scenario/1"
[workload]
kind = "csv"
path = "load.csv"
start = "1 h"
length = "1 d"
interval = "10 min"
max_gap = "15 min"
[[hosts]]
count = 2
memory = "64 GiB"
[guests]
kinds = [{mips = 1000, memory = "512 MiB"}]
[behavior]
power_on_time = "3 min"
power_off_time = "30 s"
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

    found = load_settings(path)

    limits, requests, agent = found.limits, found.api, found.agent
    assert requests is not None
    assert agent is not None
    assert found.controller.interval == 300
    assert (limits.cooldown, limits.min_uptime, limits.migration_timeout) == (
        600,
        90,
        1800,
    )
    assert (limits.bandwidth, limits.networks[0].bandwidth) == (125e6, 100 << 20)
    assert (requests.agent_timeout, requests.max_sample_age) == (900, 300)
    assert (requests.max_clock_skew, requests.batch_window) == (60, 10)
    assert (agent.interval, agent.timeout) == (300, 10)
    policy = found.load_policy()
    assert isinstance(policy, Consolidate)
    assert (policy.interval, policy.bandwidth) == (300, 62.5e6)
    pressure = found.load_policy("pressure")
    assert isinstance(pressure, PressureRelief)
    assert (pressure.min_uptime, pressure.remigration_delay) == (300, 3600)
    threshold = found.load_policy("threshold-rebalance")
    assert isinstance(threshold, ThresholdRebalance)
    assert threshold.cooldown == 21_600
    lab = found.connection("lab")
    settings, power = lab.settings, power_settings(lab)
    assert isinstance(settings, LibvirtSettings)
    assert (settings.bandwidth, settings.sample) == (100 << 20, 0.5)
    assert (settings.post_copy_after, settings.timeout) == (60, 15)
    assert power is not None
    command = power.nodes["n1"]
    assert isinstance(command, PowerCommandSettings)
    assert (command.transition_timeout, command.timeout, command.off_confirm_time) == (
        300,
        30,
        60,
    )


def test_scenarios_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    path = tmp_path / "day.toml"
    path.write_text(SCENARIO)

    scenario = read_scenario(path)

    source, stage = scenario.environment.source, scenario.environment
    assert isinstance(source, RecordedWorkload)
    window = source.window
    assert (window.start, window.length) == (3600, 86_400)
    assert (window.interval, window.max_gap) == (600, 900)
    assert stage.pools[0].memory == 65_536
    assert stage.guests.kinds[0].memory == 512
    assert (stage.behavior.power_on_time, stage.behavior.power_off_time) == (180, 30)
    assert stage.behavior.bandwidth == pytest.approx(62.5e6 / 2**20)
    policy = scenario.policy_runs[0].policy
    assert isinstance(policy, Consolidate)
    assert (policy.limits.cooldown, policy.interval) == (900, 300)


def test_lists_of_a_sweep_have_units_too(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        'format = "opendrs-sweep/1"\nworkload = [{kind = "synthetic"}]\n'
        '[behavior]\npower_on_time = [120, "3 min"]\n'
    )

    grid = read_sweep(path)

    assert sorted(
        {trial.environment.behavior.power_on_time for trial in grid.trials}
    ) == [120, 180]


def test_drills_have_bytes_and_seconds_with_units(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(SNAPSHOT)
    path = tmp_path / "drill.toml"
    path.write_text(DRILL)

    drill = read_drill(path)

    assert (drill.until, [each.at for each in drill.schedule]) == (1200, [120])
    assert drill.expectations[0].get("down_at_most") == 300
    assert drill.schedule[0].step.text == "service vm:1 set-dynamic-stats mem 1024"


def test_set_takes_units(opendrs: RunOpendrs) -> None:
    options = ("--policy", "threshold-rebalance", "--set")

    fine = opendrs("plan", "demo", *options, "cooldown=6 h")
    wrong = opendrs("plan", "demo", *options, "cooldown=6 weeks")

    assert fine.status == 0
    assert wrong.status == 2
    assert wrong.err == (
        "opendrs: policy threshold-rebalance: cooldown: expected a number of seconds, "
        'or a text such as "10 min" (units: ms, s, min, h, d), got "6 weeks"\n'
    )


def test_secret_as_duration_is_not_shown(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text(
        CONFIGURATION.replace(
            'transition_timeout = "5 min"', 'transition_timeout = "hunter2"'
        )
    )

    answer = opendrs("plan", "demo", "--config", "opendrs.toml")

    assert answer.status == 2
    assert "hunter2" not in answer.err
    assert answer.err.endswith("got a text\n")


@pytest.mark.parametrize(
    ("arguments", "status", "output"),
    [
        (("record", "demo", "-o", "-", "--every", "100 ms", "--count", "2"), 0, ""),
        (("record", "demo", "-o", "-", "--every", "-1 s"), 2, "got '-1 s'"),
        (("plan", "demo", "--policy", "optimize", "--time-limit", "200 ms"), 0, ""),
        (("plan", "demo", "--policy", "optimize", "--time-limit", "2 d"), 2, "172800"),
        (
            ("plan", "demo", "--policy", "optimize", "--time-limit", "nan"),
            2,
            "got nan",
        ),
        (("simulate", "synthetic", "--memory", "64 GB"), 2, "got '64 GB'"),
        (("simulate", "csv", "none.csv", "--interval", "10 min"), 2, "none.csv: No"),
    ],
)
def test_options_take_units_too(
    opendrs: RunOpendrs, arguments: tuple[str, ...], status: int, output: str
) -> None:
    answer = opendrs(*arguments)

    assert answer.status == status
    assert output in answer.err
