"""opendrs drill: what the HA manager would do, told to people and programs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import cluster, guest_ids
from opendrs.model import AntiAffinity, NodeAffinity, NodeId, Snapshot
from opendrs.platforms.file import write_snapshot
from terminal import Opendrs

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
def file(tmp_path: Path) -> Path:
    path = tmp_path / "drill.toml"
    path.write_text(DRILL)
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "scenario"
    path.mkdir()
    (path / "cmdlist").write_text(json.dumps(BATCHES))
    (path / "hardware_status").write_text(json.dumps(HARDWARE))
    service = {"node": "node3", "state": "started"}
    (path / "service_config").write_text(json.dumps({"vm:1": service}))
    return path


def saved(snapshot: Snapshot, path: Path) -> str:
    write_snapshot(snapshot, path / "cluster.json")
    return "cluster.json"


ROOMY = cluster(
    nodes={"a": 0.4, "b": 0.2, "c": 0.2},
    guests={"vm:1": ("a", 0.2), "vm:2": ("a", 0.2), "vm:3": ("b", 0.2)},
)
FULL = cluster(
    nodes={"a": 0.9, "b": 0.9, "c": 0.9},
    guests={"vm:1": ("a", 0.9), "vm:2": ("b", 0.9), "vm:3": ("c", 0.9)},
)


def test_a_drill_file_gives_its_log_and_a_summary(opendrs: Opendrs, file: Path) -> None:
    answer = opendrs("drill", str(file))

    assert (answer.status, answer.err) == (0, "")
    assert "info      0     hardware: starting simulation\n" in answer.out
    assert "emai    220    node1/crm: SUCCEED: fencing: acknowledged" in answer.out
    assert "\nvm:2\tnode3 → node2\t1\t2 min 0 s\t" in answer.out
    assert "2 guests, 1 of them down for up to 2 min 0 s. 1 move, 1 to" in answer.out
    assert "Fenced: node3 at 220 s.\nSettled after 220 s; simulated until" in answer.out
    assert "Note: no guest says whether it is HA-managed" in answer.out


def test_a_directory_is_held_as_proxmox_ve_holds_it(
    opendrs: Opendrs, directory: Path
) -> None:
    answer = opendrs("drill", str(directory))

    assert answer.status == 0
    assert "info    120      cmdlist: execute network node3 off\n" in answer.out
    assert "Fenced: node3 at 240 s." in answer.out


def test_json_is_one_event_a_line_and_the_summary_last(
    opendrs: Opendrs, file: Path
) -> None:
    answer = opendrs("drill", str(file), "--format", "json")

    *events, last = [json.loads(line) for line in answer.out.splitlines()]
    assert {"time", "source", "level", "event", "message"} <= events[0].keys()
    assert any(event["event"] == "recovered" for event in events)
    assert {event["level"] for event in events} == {"info", "email"}
    assert last["summary"]["fencings"] == [{"time": 220, "node": "node3"}]
    assert last["summary"]["guests"][0]["downtime"] == 120


def test_a_table_tells_what_matters(opendrs: Opendrs, file: Path) -> None:
    answer = opendrs("drill", str(file), "--format", "table")

    assert "\n100 s\tcmdlist\texecute power node3 off\n" in answer.out
    assert "got lock 'ha_manager_lock'" not in answer.out


def test_the_log_that_was_written_is_the_log_that_is_expected(
    opendrs: Opendrs, file: Path
) -> None:
    opendrs("drill", str(file), "--output", "log.expect")

    answer = opendrs("drill", str(file), "--expect", "log.expect")

    assert answer.status == 0
    assert answer.out.startswith("The log is as in log.expect.\n")


@pytest.mark.parametrize("form", ["drill.toml", "scenario"])
def test_another_log_is_answered_with_the_difference(
    opendrs: Opendrs, file: Path, directory: Path, form: str
) -> None:
    assert file.exists()
    assert directory.exists()
    Path("log.expect").write_text("info      0     hardware: starting simulation\n")

    answer = opendrs("drill", form, "--expect", "log.expect")

    assert answer.status == 1
    assert answer.out.startswith("--- log.expect\n+++ this drill\n@@ -1 +1,")
    assert "The log differs from log.expect." in answer.out


def test_a_log_may_be_expected_in_the_file(opendrs: Opendrs, file: Path) -> None:
    Path("log.expect").write_text("\n")
    log = 'log = "log.expect"\n[snapshot.nodes]'
    file.write_text(DRILL.replace("[snapshot.nodes]", log))

    answer = opendrs("drill", str(file))

    assert answer.status == 1
    assert "The log differs from the expected log." in answer.out


def test_what_is_not_as_expected_is_named(opendrs: Opendrs, file: Path) -> None:
    file.write_text(f'{DRILL}[[expect]]\nguest = "vm:2"\nruns_on = "node3"\n')

    answer = opendrs("drill", "drill.toml")

    assert answer.status == 1
    assert (
        "Not as expected: drill.toml: expect[0]: vm:2: expected to run on node3, runs"
        in answer.out
    )


def test_a_drill_that_cannot_go_on_says_so(opendrs: Opendrs, directory: Path) -> None:
    batches = [*BATCHES, ["restart-lrm node1", "reboot node1"]]
    (directory / "cmdlist").write_text(json.dumps(batches))

    answer = opendrs("drill", str(directory))

    assert answer.status == 1
    assert "The drill could not go on at " in answer.out


@pytest.mark.parametrize("name", ["drill.svg", "drill.png"])
def test_a_picture_is_drawn(opendrs: Opendrs, file: Path, name: str) -> None:
    answer = opendrs("drill", str(file), "--plot", name)

    assert answer.status == 0
    assert Path(name).read_bytes()[:5] in (b"<?xml", b"\x89PNG\r")


def test_a_loss_tells_who_restarts_where_and_whether_it_fits(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    answer = opendrs("drill", saved(ROOMY, tmp_path), "--fail", "b")

    assert answer.status == 0
    assert "\nvm:3\tb\tc\t2 min 0 s\t20.0 GiB\n" in answer.out
    assert "\nc\t75.0 GiB → 55.0 GiB\t100.0 GiB → 80.0 GiB\tfits\n" in answer.out
    assert "The cluster survives the loss of b." in answer.out


def test_a_target_that_is_too_small_is_named(opendrs: Opendrs, tmp_path: Path) -> None:
    answer = opendrs("drill", saved(FULL, tmp_path), "--fail", "c")

    assert answer.status == 1
    assert (
        "The cluster does not survive the loss of c: a lacks 85.0 GiB of memory."
        in answer.out
    )


def test_the_limits_are_those_of_the_configuration(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    Path("opendrs.toml").write_text("[limits]\nmemory_headroom = 0.5\n")

    answer = opendrs("drill", saved(ROOMY, tmp_path), "--fail", "a")

    assert answer.status == 0
    assert "\nb\t30.0 GiB → 10.0 GiB\t" in answer.out


def test_a_guest_without_a_node_left_is_named(opendrs: Opendrs, tmp_path: Path) -> None:
    only = NodeAffinity(guests=guest_ids("vm:3"), nodes={NodeId("b"): 1})

    source = saved(replace(ROOMY, rules=(only,)), tmp_path)
    answer = opendrs("drill", source, "--fail", "b")

    assert answer.status == 1
    assert "\nvm:3\tb\tno node\t" in answer.out
    assert "does not survive the loss of b: no node for 1 guest." in answer.out


def test_what_is_not_managed_stays_down_and_is_told(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    guests = {
        name: replace(guest, ha_managed=name == "vm:3")
        for name, guest in ROOMY.guests.items()
    }
    source = saved(replace(ROOMY, guests=guests), tmp_path)

    some = opendrs("drill", source, "--fail-each")
    everyone = opendrs("drill", source, "--fail-each", "--all")

    assert "Note: 2 running guests are not HA-managed and stay down" in some.out
    assert "All HA-managed guests survive the loss of any one node." in some.out
    assert "The cluster survives the loss of any one node." in everyone.out


def test_nothing_is_survived_where_nothing_is_managed(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    guests = {n: replace(guest, ha_managed=False) for n, guest in ROOMY.guests.items()}
    source = saved(replace(ROOMY, guests=guests), tmp_path)

    answer = opendrs("drill", source, "--fail", "a")

    assert answer.status == 1
    assert "does not survive the loss of a: no guest is HA-managed." in answer.out


def test_memory_that_is_not_known_is_no_room(opendrs: Opendrs, tmp_path: Path) -> None:
    nodes = {n: replace(node, capacity=None) for n, node in ROOMY.nodes.items()}
    source = saved(replace(ROOMY, nodes=nodes), tmp_path)

    answer = opendrs("drill", source, "--fail", "b")

    assert answer.status == 1
    assert "the memory of c is not known" in answer.out


def test_without_a_majority_nothing_is_recovered(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    source = saved(ROOMY, tmp_path)

    answer = opendrs("drill", source, "--fail", "a", "--fail", "b")

    assert answer.status == 1
    assert "Note: the nodes that are left are no majority" in answer.out


def test_each_loss_is_told_and_the_fatal_ones_are_named(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm:1", "vm:2", "vm:3"))
    spread = cluster(
        nodes={"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.0},
        guests={"vm:1": ("a", 0.1), "vm:2": ("b", 0.1), "vm:3": ("c", 0.1)},
        rules=[apart],
    )
    answer = opendrs("drill", saved(spread, tmp_path), "--fail-each")
    crowded = replace(
        spread, nodes={n: node for n, node in spread.nodes.items() if n != "d"}
    )
    fatal = opendrs("drill", saved(crowded, tmp_path), "--fail-each")

    assert (answer.status, fatal.status) == (0, 1)
    assert "The cluster survives the loss of any one node." in answer.out
    assert "does not survive the loss of a, b, c." in fatal.out


def test_of_many_fatal_losses_the_first_are_named(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    guests = {f"vm:{n}": (f"n{n}", 0.1) for n in range(1, 6)}
    crowded = cluster(
        nodes={f"n{n}": 0.1 for n in range(1, 6)},
        guests=guests,
        rules=[AntiAffinity(guests=guest_ids(*guests))],
    )

    fatal = opendrs("drill", saved(crowded, tmp_path), "--fail-each")

    assert "does not survive the loss of n1, n2, n3 and 2 more." in fatal.out


def test_losses_as_json(opendrs: Opendrs, tmp_path: Path) -> None:
    source = saved(FULL, tmp_path)

    one = json.loads(opendrs("drill", source, "--fail", "c", "--format", "json").out)
    each = json.loads(opendrs("drill", source, "--fail-each", "--format", "json").out)

    assert one["guests"] == [
        {
            "guest": "vm:3",
            "source": "c",
            "ha_managed": True,
            "target": "a",
            "down": 120,
            "restart_blocker": None,
        }
    ]
    assert (one["survived"], one["targets"][0]["fits"]) == (False, False)
    assert [loss["nodes"] for loss in each["losses"]] == [["a"], ["b"], ["c"]]
    assert each["survives_any"] is False


def test_the_demo_cluster_can_be_drilled(opendrs: Opendrs) -> None:
    answer = opendrs("drill", "demo", "--fail-each", "--all")

    assert answer.status == 0
    assert answer.out.count("survived\n") == 8
    assert "archive-01, archive-02 cannot be restarted on another node" in answer.out
    text = " ".join(answer.out.split())
    assert "All guests that can be restarted on another node survive the loss" in text


def test_a_guest_that_was_moved_before_the_loss_restarts_nowhere(
    opendrs: Opendrs, tmp_path: Path
) -> None:
    away = NodeAffinity(guests=guest_ids("vm:1"), nodes={NodeId("b"): 1})
    source = saved(replace(ROOMY, rules=(away,)), tmp_path)

    answer = opendrs("drill", source, "--fail", "a")

    assert "0 ms" not in answer.out
    assert "the HA manager had moved vm:1 before the loss" in answer.out


def test_losses_of_the_demo_cluster_count_what_cannot_be_restarted(
    opendrs: Opendrs,
) -> None:
    answer = opendrs("drill", "demo", "--fail", "node2", "--all", "--format", "json")
    loss = json.loads(answer.out)

    guests = {each["guest"]: each for each in loss["guests"]}
    assert loss["cannot_restart"] == ["render-02"]
    assert guests["render-02"]["target"] is None
    assert guests["render-02"]["restart_blocker"].startswith("a graphics card")
    assert len([one for one in guests.values() if one["target"]]) == len(guests) - 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["demo", "--fail", "nod1"], 'there is no node "nod1"; did you mean node1?'),
        (["cluster.json"], "cluster.json is a snapshot: say --fail NODE or --fail-eac"),
        (["demo"], 'there is no drill "demo"; of a cluster say --fail NODE'),
        (["drill.toml", "--all"], "--all is for --fail or --fail-each"),
        (["demo", "--fail", "node1", "--expect", "x"], "--expect is for a drill"),
        (["demo", "--fail-each", "--fail", "node1"], "--fail is for one host or some"),
        (
            ["demo", "--fail-each", "--plot", "x.png"],
            "--plot or --output is for --fail",
        ),
        (["drill.toml", "--plot", "x.jpg"], "x.jpg: a picture is called *.svg or *.p"),
        (["drill.toml", "--plot", "no/x.png"], "cannot write no/x.png: no such direct"),
        (["drill.toml", "--expect", "nowhere"], "cannot read nowhere: No such file"),
        (["\0"], "there is no drill"),
        (["x" * 300], "there is no drill"),
    ],
)
def test_a_command_that_makes_no_sense_is_answered_with_what_does(
    opendrs: Opendrs, file: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    assert file.exists()
    saved(ROOMY, tmp_path)

    answer = opendrs("drill", *arguments)

    assert answer.status == 2
    assert complaint in answer.err


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "cmdlist",
            '[["pwr node1 on"]]',
            "cmdlist: batch 1, command 1: 'pwr node1 on'",
        ),
        ("cmdlist", '[["power node9 on"]]', "no such node 'node9'"),
        ("cmdlist", '[["power node1 on"]', "cmdlist: line 1, column 20: Expecting"),
        ("cmdlist", "{}", "cmdlist: must be a list, not {}"),
        ("hardware_status", "[]", "hardware_status: must be an object, not []"),
        ("service_config", '{"vm:1": {}}', "service without assigned node"),
        ("service_config", '{"vm:1": {"node": "x"}}', "vm:1: no such node 'x'"),
        ("service_config", '{"vm1": {"node": "node1"}}', "a service is called vm:100"),
        ("service_status_node1", "{", "service_status_node1: line 1, column 2"),
        ("datacenter.cfg", '{"crs": 3}', "datacenter.cfg: crs: must be an object"),
    ],
)
def test_a_mistake_in_a_directory_is_told_with_its_file_and_place(
    opendrs: Opendrs, directory: Path, name: str, text: str, complaint: str
) -> None:
    (directory / name).write_text(text)

    answer = opendrs("drill", "scenario")

    assert answer.status == 2
    assert complaint in answer.err
    assert name in answer.err


def test_a_directory_without_commands_is_no_scenario(
    opendrs: Opendrs, directory: Path
) -> None:
    (directory / "cmdlist").unlink()

    answer = opendrs("drill", "scenario")

    assert (answer.status, answer.err) == (
        2,
        "opendrs: scenario/cmdlist: no such file\n",
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
def test_whatever_a_file_holds_there_is_an_answer(
    opendrs: Opendrs, directory: Path, name: str, value: object
) -> None:
    held = (directory / name).read_text() if (directory / name).exists() else "{}"
    (directory / name).write_text(json.dumps(value))

    answer = opendrs("drill", "scenario", "--format", "table")
    (directory / name).write_text(held)

    assert answer.status in (0, 1, 2)
    assert "bug" not in answer.err


@given(st.lists(COMMANDS.map(" ".join), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_commanded_there_is_an_answer(
    opendrs: Opendrs, directory: Path, commands: list[str]
) -> None:
    (directory / "cmdlist").write_text(json.dumps([*BATCHES[:1], commands]))

    answer = opendrs("drill", "scenario", "--format", "table")

    assert answer.status in (0, 1, 2)
    assert "bug" not in answer.err
