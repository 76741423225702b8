"""opendrs drill: log, tables, JSON and exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opendrs.config import write_snapshot
from opendrs.model import AntiAffinity, NodeAffinity, NodeId, Snapshot
from support.builders import cluster, guest_ids
from support.terminal import RunOpendrs

DRILL = """
format = "opendrs-drill/1"
title = "power loss"
[snapshot.nodes]
node1 = {}
node2 = {}
node3 = {}
[snapshot.guests]
"vm:1" = { node = "node1", kind = "vm", state = "running" }
"vm:2" = { node = "node3", kind = "vm", state = "running" }
[[events]]
at = 100
power = { node = "node3", state = "off" }
"""
HARDWARE = {f"node{number}": {"power": "off", "network": "off"} for number in (1, 2, 3)}
BATCHES = [[f"power node{number} on" for number in (1, 2, 3)], ["network node3 off"]]


@pytest.fixture
def drill_file(tmp_path: Path) -> Path:
    path = tmp_path / "drill.toml"
    path.write_text(DRILL)
    return path


@pytest.fixture
def scenario_directory(tmp_path: Path) -> Path:
    path = tmp_path / "scenario"
    path.mkdir()
    (path / "cmdlist").write_text(json.dumps(BATCHES))
    (path / "hardware_status").write_text(json.dumps(HARDWARE))
    service = {"node": "node3", "state": "started"}
    (path / "service_config").write_text(json.dumps({"vm:1": service}))
    return path


def snapshot_file(snapshot: Snapshot, path: Path) -> str:
    write_snapshot(snapshot, path / "cluster.json")
    return "cluster.json"


SPACIOUS = cluster(
    nodes={"a": 0.4, "b": 0.2, "c": 0.2},
    guests={"vm:1": ("a", 0.2), "vm:2": ("a", 0.2), "vm:3": ("b", 0.2)},
)
FULL = cluster(
    nodes={"a": 0.9, "b": 0.9, "c": 0.9},
    guests={"vm:1": ("a", 0.9), "vm:2": ("b", 0.9), "vm:3": ("c", 0.9)},
)


def test_drill_file_prints_log_and_summary(
    opendrs: RunOpendrs, drill_file: Path
) -> None:
    answer = opendrs("drill", str(drill_file))

    assert (answer.status, answer.err) == (0, "")
    assert "info      0     hardware: starting simulation\n" in answer.out
    assert "emai    220    node1/crm: SUCCEED: fencing: acknowledged" in answer.out
    assert "\nvm:2\tnode3 → node2\t1\t2 min 0 s\t" in answer.out
    assert "2 guests, 1 of them down for up to 2 min 0 s. 1 move, 1 by" in answer.out
    assert "Fenced: node3 at 220 s.\nSettled after 220 s; simulated until" in answer.out
    assert "Note: HA management of the guests is unknown" in answer.out


def test_scenario_directory_prints_log_of_proxmox_ve(
    opendrs: RunOpendrs, scenario_directory: Path
) -> None:
    answer = opendrs("drill", str(scenario_directory))

    assert answer.status == 0
    assert "info    120      cmdlist: execute network node3 off\n" in answer.out
    assert "Fenced: node3 at 240 s." in answer.out


def test_json_has_one_event_per_line_and_the_summary_last(
    opendrs: RunOpendrs, drill_file: Path
) -> None:
    answer = opendrs("drill", str(drill_file), "--format", "json")

    *events, last = [json.loads(line) for line in answer.out.splitlines()]
    assert {"time", "source", "level", "event", "message"} <= events[0].keys()
    assert any(event["event"] == "service-recovered" for event in events)
    assert {event["level"] for event in events} == {"info", "email"}
    assert last["summary"]["fencings"] == [{"time": 220, "node": "node3"}]
    assert last["summary"]["guests"][0]["downtime"] == 120


def test_table_shows_significant_events(opendrs: RunOpendrs, drill_file: Path) -> None:
    answer = opendrs("drill", str(drill_file), "--format", "table")

    assert "\n100 s\tcmdlist\texecute power node3 off\n" in answer.out
    assert "got lock 'ha_manager_lock'" not in answer.out


def test_written_log_matches_itself(opendrs: RunOpendrs, drill_file: Path) -> None:
    opendrs("drill", str(drill_file), "--output", "log.expect")

    answer = opendrs("drill", str(drill_file), "--expect", "log.expect")

    assert answer.status == 0
    assert answer.out.startswith("The log matches log.expect.\n")


@pytest.mark.parametrize("form", ["drill.toml", "scenario"])
def test_other_expected_log_prints_the_diff(
    opendrs: RunOpendrs, drill_file: Path, scenario_directory: Path, form: str
) -> None:
    assert drill_file.exists()
    assert scenario_directory.exists()
    Path("log.expect").write_text("info      0     hardware: starting simulation\n")

    answer = opendrs("drill", form, "--expect", "log.expect")

    assert answer.status == 1
    assert answer.out.startswith("--- log.expect\n+++ this drill\n@@ -1 +1,")
    assert "The log differs from log.expect." in answer.out


def test_expected_log_of_drill_file_is_compared(
    opendrs: RunOpendrs, drill_file: Path
) -> None:
    Path("log.expect").write_text("\n")
    log = 'log = "log.expect"\n[snapshot.nodes]'
    drill_file.write_text(DRILL.replace("[snapshot.nodes]", log))

    answer = opendrs("drill", str(drill_file))

    assert answer.status == 1
    assert "The log differs from the expected log." in answer.out


def test_failed_expectations_are_named(opendrs: RunOpendrs, drill_file: Path) -> None:
    drill_file.write_text(f'{DRILL}[[expect]]\nguest = "vm:2"\nruns_on = "node3"\n')

    answer = opendrs("drill", "drill.toml")

    assert answer.status == 1
    assert (
        "Failed: drill.toml: expect[0]: vm:2: expected to run on node3, runs"
        in answer.out
    )


def test_aborted_drill_is_reported(
    opendrs: RunOpendrs, scenario_directory: Path
) -> None:
    batches = [*BATCHES, ["restart-lrm node1", "reboot node1"]]
    (scenario_directory / "cmdlist").write_text(json.dumps(batches))

    answer = opendrs("drill", str(scenario_directory))

    assert answer.status == 1
    assert "Drill aborted at " in answer.out


@pytest.mark.parametrize("name", ["drill.svg", "drill.png"])
def test_plot_is_written(opendrs: RunOpendrs, drill_file: Path, name: str) -> None:
    answer = opendrs("drill", str(drill_file), "--plot", name)

    assert answer.status == 0
    assert Path(name).read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_failure_shows_restarts_and_memory(opendrs: RunOpendrs, tmp_path: Path) -> None:
    answer = opendrs("drill", snapshot_file(SPACIOUS, tmp_path), "--fail", "b")

    assert answer.status == 0
    assert "\nvm:3\tb\tc\t2 min 0 s\t20.0 GiB\n" in answer.out
    assert "\nc\t75.0 GiB → 55.0 GiB\t100.0 GiB → 80.0 GiB\tsufficient\n" in answer.out
    assert "If b fails, all guests restart on another node." in answer.out


def test_target_with_too_little_memory_is_named(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    answer = opendrs("drill", snapshot_file(FULL, tmp_path), "--fail", "c")

    assert answer.status == 1
    assert (
        "The cluster does not survive the failure of c: a lacks 85.0 GiB of memory."
        in answer.out
    )


def test_limits_of_the_configuration_apply(opendrs: RunOpendrs, tmp_path: Path) -> None:
    Path("opendrs.toml").write_text("[limits]\nmemory_headroom = 0.5\n")

    answer = opendrs("drill", snapshot_file(SPACIOUS, tmp_path), "--fail", "a")

    assert answer.status == 0
    assert "\nb\t30.0 GiB → 10.0 GiB\t" in answer.out


def test_guest_without_feasible_node_is_counted(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    only = NodeAffinity(guests=guest_ids("vm:3"), nodes={NodeId("b"): 1})

    source = snapshot_file(replace(SPACIOUS, rules=(only,)), tmp_path)
    answer = opendrs("drill", source, "--fail", "b")

    assert answer.status == 1
    assert "\nvm:3\tb\tno feasible node\t" in answer.out
    assert "does not survive the failure of b: no node for 1 guest." in answer.out


def test_unmanaged_guests_stay_down(opendrs: RunOpendrs, tmp_path: Path) -> None:
    guests = {
        name: replace(guest, ha_managed=name == "vm:3")
        for name, guest in SPACIOUS.guests.items()
    }
    source = snapshot_file(replace(SPACIOUS, guests=guests), tmp_path)

    default = opendrs("drill", source, "--each-node")
    all_managed = opendrs("drill", source, "--each-node", "--assume-ha")

    assert "Note: 2 running guests are not HA-managed and stay down" in default.out
    assert "any one node fails, its HA-managed guests restart on other" in default.out
    assert (
        "If any one node fails, its guests restart on other nodes." in all_managed.out
    )


def test_cluster_without_managed_guests_does_not_survive(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    guests = {
        n: replace(guest, ha_managed=False) for n, guest in SPACIOUS.guests.items()
    }
    source = snapshot_file(replace(SPACIOUS, guests=guests), tmp_path)

    answer = opendrs("drill", source, "--fail", "a")

    assert answer.status == 1
    assert "does not survive the failure of a: no guest is HA-managed." in answer.out


def test_unknown_memory_does_not_fit(opendrs: RunOpendrs, tmp_path: Path) -> None:
    nodes = {n: replace(node, capacity=None) for n, node in SPACIOUS.nodes.items()}
    source = snapshot_file(replace(SPACIOUS, nodes=nodes), tmp_path)

    answer = opendrs("drill", source, "--fail", "b")

    assert answer.status == 1
    assert "the memory of c is unknown" in answer.out


def test_without_a_majority_nothing_is_recovered(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    source = snapshot_file(SPACIOUS, tmp_path)

    answer = opendrs("drill", source, "--fail", "a", "--fail", "b")

    assert answer.status == 1
    assert "Note: the remaining nodes are not a majority" in answer.out


def test_each_failure_is_listed_and_fatal_ones_are_named(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm:1", "vm:2", "vm:3"))
    spread = cluster(
        nodes={"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.0},
        guests={"vm:1": ("a", 0.1), "vm:2": ("b", 0.1), "vm:3": ("c", 0.1)},
        rules=[apart],
    )
    answer = opendrs("drill", snapshot_file(spread, tmp_path), "--each-node")
    crowded = replace(
        spread, nodes={n: node for n, node in spread.nodes.items() if n != "d"}
    )
    fatal = opendrs("drill", snapshot_file(crowded, tmp_path), "--each-node")

    assert (answer.status, fatal.status) == (0, 1)
    assert "If any one node fails, its guests restart on other nodes." in answer.out
    assert "does not survive the failure of a or b or c." in fatal.out


def test_many_fatal_failures_are_abridged(opendrs: RunOpendrs, tmp_path: Path) -> None:
    guests = {f"vm:{n}": (f"n{n}", 0.1) for n in range(1, 6)}
    crowded = cluster(
        nodes={f"n{n}": 0.1 for n in range(1, 6)},
        guests=guests,
        rules=[AntiAffinity(guests=guest_ids(*guests))],
    )

    fatal = opendrs("drill", snapshot_file(crowded, tmp_path), "--each-node")

    assert "does not survive the failure of n1, n2, n3 and 2 more." in fatal.out


def test_failures_as_json(opendrs: RunOpendrs, tmp_path: Path) -> None:
    source = snapshot_file(FULL, tmp_path)

    one = json.loads(opendrs("drill", source, "--fail", "c", "--format", "json").out)
    each = json.loads(opendrs("drill", source, "--each-node", "--format", "json").out)

    assert one["guests"] == [
        {
            "guest": "vm:3",
            "source": "c",
            "ha_managed": True,
            "target": "a",
            "downtime": 120,
            "restart_blocker": None,
        }
    ]
    assert (one["survived"], one["targets"][0]["fits"]) == (False, False)
    assert [failure["nodes"] for failure in each["failures"]] == [["a"], ["b"], ["c"]]
    assert each["survives_any_node"] is False


def test_demo_cluster_survives_each_failure(opendrs: RunOpendrs) -> None:
    answer = opendrs("drill", "demo", "--each-node", "--assume-ha")

    assert answer.status == 0
    assert answer.out.count("survived\n") == 8
    assert "archive-01, archive-02 cannot be restarted on another node" in answer.out
    text = " ".join(answer.out.split())
    assert "If any one node fails, its guests restart on other nodes." in text
    assert "Exception: 4 guests of the whole cluster cannot restart elsewhere" in text


def test_guest_migrated_before_the_failure_is_not_restarted(
    opendrs: RunOpendrs, tmp_path: Path
) -> None:
    away = NodeAffinity(guests=guest_ids("vm:1"), nodes={NodeId("b"): 1})
    source = snapshot_file(replace(SPACIOUS, rules=(away,)), tmp_path)

    answer = opendrs("drill", source, "--fail", "a")

    assert "0 ms" not in answer.out
    assert "the HA manager moved vm:1 before the failure" in answer.out


def test_failure_of_demo_node_counts_restart_blockers(
    opendrs: RunOpendrs,
) -> None:
    answer = opendrs(
        "drill", "demo", "--fail", "node2", "--assume-ha", "--format", "json"
    )
    failure = json.loads(answer.out)

    guests = {each["guest"]: each for each in failure["guests"]}
    assert failure["cannot_restart"] == ["render-02"]
    assert guests["render-02"]["target"] is None
    assert guests["render-02"]["restart_blocker"].startswith("a graphics card")
    assert len([one for one in guests.values() if one["target"]]) == len(guests) - 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--fail", "nod1"], 'unknown node "nod1"; did you mean node1?'),
        (["cluster.json"], "expected a drill file, got a snapshot; add --fail"),
        (["demo"], 'no drill file or directory "demo"; for a cluster add'),
        (["drill.toml", "--assume-ha"], "--assume-ha: requires --fail or --each-node"),
        (["demo", "--fail", "node1", "--expect", "x"], "--expect: not allowed"),
        (["demo", "--each-node", "--fail", "node1"], "--fail: not allowed"),
        (
            ["demo", "--each-node", "--plot", "x.png"],
            "--plot, --output: not allowed",
        ),
        (["drill.toml", "--plot", "x.jpg"], "x.jpg: expected a file name *.svg or *.p"),
        (["drill.toml", "--plot", "no/x.png"], "cannot write no/x.png: no such direct"),
        (["drill.toml", "--expect", "nowhere"], "cannot read nowhere: No such file"),
        (["\0"], "no drill file"),
        (["x" * 300], "no drill file"),
    ],
)
def test_invalid_arguments_name_valid_ones(
    opendrs: RunOpendrs,
    drill_file: Path,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    assert drill_file.exists()
    snapshot_file(SPACIOUS, tmp_path)

    answer = opendrs("drill", *arguments)

    assert answer.status == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "cmdlist",
            '[["pwr node1 on"]]',
            "cmdlist: batch 1, command 1: 'pwr node1 on'",
        ),
        ("cmdlist", '[["power node9 on"]]', "no such node 'node9'"),
        ("cmdlist", '[["power node1 on"]', "cmdlist: line 1, column 20: Expecting"),
        ("cmdlist", "{}", "cmdlist: expected a list, got {}"),
        ("hardware_status", "[]", "hardware_status: expected an object, got []"),
        ("service_config", '{"vm:1": {}}', "service without assigned node"),
        ("service_config", '{"vm:1": {"node": "x"}}', "vm:1: no such node 'x'"),
        ("service_config", '{"vm1": {"node": "node1"}}', "expected a service such as"),
        ("service_status_node1", "{", "service_status_node1: line 1, column 2"),
        ("datacenter.cfg", '{"crs": 3}', "datacenter.cfg: crs: expected an object"),
    ],
)
def test_error_in_scenario_directory_names_file_and_path(
    opendrs: RunOpendrs, scenario_directory: Path, name: str, text: str, message: str
) -> None:
    (scenario_directory / name).write_text(text)

    answer = opendrs("drill", "scenario")

    assert answer.status == 2
    assert message in answer.err
    assert name in answer.err


def test_directory_without_cmdlist_is_rejected(
    opendrs: RunOpendrs, scenario_directory: Path
) -> None:
    (scenario_directory / "cmdlist").unlink()

    answer = opendrs("drill", "scenario")

    assert (answer.status, answer.err) == (
        2,
        (
            "opendrs: scenario: expected a drill file, or a scenario directory of "
            "Proxmox VE with the file cmdlist\n"
        ),
    )


FILES = ["cmdlist", "hardware_status", "service_config", "manager_status"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["vm:1", "node1", "on"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["vm:1", "node1", "node", "state", "power", "maxcpu"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
WORDS = """power node1 node9 on off service vm:1 vm:9 add delete crm stop migrate x 3
set-static-stats maxcpu 1e999 nan -1 delay skip-round lrm manual-migrate"""
COMMANDS = st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=5)


@given(st.sampled_from(FILES), VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_drill_file_gives_an_exit_status(
    opendrs: RunOpendrs, scenario_directory: Path, name: str, value: object
) -> None:
    held = (
        (scenario_directory / name).read_text()
        if (scenario_directory / name).exists()
        else "{}"
    )
    (scenario_directory / name).write_text(json.dumps(value))

    answer = opendrs("drill", "scenario", "--format", "table")
    (scenario_directory / name).write_text(held)

    assert answer.status in (0, 1, 2)
    assert "bug" not in answer.err


@given(st.lists(COMMANDS.map(" ".join), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_commands_give_an_exit_status(
    opendrs: RunOpendrs, scenario_directory: Path, commands: list[str]
) -> None:
    (scenario_directory / "cmdlist").write_text(json.dumps([*BATCHES[:1], commands]))

    answer = opendrs("drill", "scenario", "--format", "table")

    assert answer.status in (0, 1, 2)
    assert "bug" not in answer.err
