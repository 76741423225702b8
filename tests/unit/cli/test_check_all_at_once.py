"""All that is wrong with a configuration, and what it needs, is told in one go."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from builders import cluster
from opendrs.model import GIB
from opendrs.platforms.file import write_snapshot
from terminal import Opendrs

WRONG = """
[limits]
cooldown = -1
bandwidth = 1000
[limit]
[policy]
name = "consolidate"
[policy.balance]
threshold = 15
[policy.optimize]
busy = 85
[requests]
certificate = "c.pem"
key = "c.key"
tokens = "tokens.toml"
[agent]
node = "h9"
controller = "https://drs:8443"
token_file = "token"
ca = "ca.pem"
[platform.lab]
kind = "libvirt"
nodes = {h1 = "test:///default", h2 = "qemu+ssh://h2/system"}
[platform.lab.power]
driver = "redfish"
url = "https://bmc"
user = "drs"
password_file = "password"
[platform.saved]
kind = "file"
path = "saved.json"
[platform.there]
kind = "file"
path = "there.json"
[[rules]]
kind = "node-affinity"
guests = ["web"]
nodes = {h3 = 1}
"""
SCENARIO = 'format = "opendrs-scenario/1"\n[workload]\nkind = "synthetic"\n'
SWEEP = 'format = "opendrs-sweep/1"\nworkload = [{kind = "synthetic"}]\n'
DRILL = 'format = "opendrs-drill/1"\nsnapshot = "c.json"\n'
EXPECTED = """
limits: cooldown must be
limit: no such table
policy.balance: threshold must be
policy.optimize: busy must be
requests.tokens: cannot read tokens.toml
requests.certificate: cannot read c.pem
requests.key: cannot read c.key
agent.token_file: cannot read token
agent.ca: ca.pem
agent.node: there is no node "h9"
platform.lab.kind: the libvirt platform needs libvirt-python
platform.lab.power: power of h1: password_file
platform.saved.path: cannot read saved.json
rules[0].guests: there is no guest "web" on platform there
rules[0].nodes: there is no node "h3" on platform there
rules[0].nodes: there is no node "h3" on platform lab
"""


def test_mistakes_of_all_sections_and_all_that_is_missing_are_listed(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opendrs.platforms.libvirt import library  # noqa: PLC0415 - only its cache

    monkeypatch.setitem(sys.modules, "libvirt", None)  # as if not installed
    library.library.cache_clear()
    Path("opendrs.toml").write_text(WRONG)
    there = cluster(nodes={"h1": 0.1}, guests={"vm": ("h1", 0.1)})
    write_snapshot(there, Path("there.json"))

    answer = opendrs("check", "opendrs.toml")
    library.library.cache_clear()

    lines = [each.removeprefix("opendrs: ") for each in answer.err.splitlines()]
    assert (answer.status, answer.out) == (2, "")
    for expected in EXPECTED.strip().splitlines():
        assert any(each.startswith(f"opendrs.toml: {expected}") for each in lines), (
            expected,
            lines,
        )


TWO_LABS = """
[limits]
memory_headroom = 10
moves_at_once = 0
bandwidth = "1 Gbps"
[agent]
node = "h 1"
controller = "http://drs"
timeout = 0
[platform.lab]
kind = "libvirt"
nodes = {h1 = "test:///default"}
auto_converge = "yes"
sample = -1
[platform.lab.power]
driver = "command"
on = 5
off = []
[platform.broken]
kind = "libvirt"
nodes = 5
timeout = -1
labels = {h1 = ["ssd"]}
[[rules]]
kind = "node-affinity"
guests = ["web"]
nodes = {gamma = 1}
"""
ALL_OF_THEM = {
    ("limits.memory_headroom", "memory_headroom must be in [0, 1), not 10.0"),
    ("limits.moves_at_once", "moves_at_once must be at least 1, not 0"),
    ("limits.bandwidth", "expected a number of bytes a second"),
    ("agent.node", "node: expected the name of this node"),
    ("agent.controller", "controller: expected an address like https://HOST:PORT"),
    ("agent.timeout", "timeout: expected seconds above 0"),
    ("agent.token_file", "is missing"),
    ("platform.lab.auto_converge", 'expected true or false, found "yes"'),
    ("platform.lab.sample", "sample: must be more than 0 seconds, not -1.0"),
    ("platform.lab.power.nodes.h1.on", "expected a list, found a number"),
    ("platform.lab.power.nodes.h1.off", "off: name a program"),
    ("platform.lab.kind", "the libvirt platform needs libvirt-python"),
    ("platform.broken.nodes", "expected a table of named values, found 5"),
    ("platform.broken.timeout", "timeout: must be more than 0 seconds, not -1.0"),
    ("rules[0].nodes", 'there is no node "gamma" on platform lab'),
}


def test_a_wrong_value_hides_no_other_mistake_and_a_library_is_missing_once(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opendrs.platforms.libvirt import library  # noqa: PLC0415 - only its cache

    monkeypatch.setitem(sys.modules, "libvirt", None)  # as if not installed
    library.library.cache_clear()
    Path("opendrs.toml").write_text(TWO_LABS)

    answer = opendrs("check", "opendrs.toml", "--format", "json")
    library.library.cache_clear()

    errors = [
        (each["field"], each["message"])
        for each in json.loads(answer.out)["diagnostics"]
        if each["severity"] == "error"
    ]
    assert len(errors) == len(ALL_OF_THEM), errors
    for field, begin in ALL_OF_THEM:
        assert any(
            found == field and message.startswith(begin) for found, message in errors
        ), (field, errors)


def test_warnings_are_shown_and_leave_the_status_alone(opendrs: Opendrs) -> None:
    Path("opendrs.toml").write_text("[limits]\nbandwidth = 1000\n")

    text = opendrs("check", "opendrs.toml")
    found = opendrs("check", "opendrs.toml", "--format", "json")

    assert text.status == found.status == 0
    assert text.out.endswith("in order.\n")
    assert text.err.startswith("opendrs: warning: opendrs.toml: limits.bandwidth: ")
    (diagnostic,) = json.loads(found.out)["diagnostics"]
    assert diagnostic["severity"] == "warning"
    assert diagnostic["file"] == "opendrs.toml"
    assert diagnostic["field"] == "limits.bandwidth"
    assert '"1000 Mbit/s"' in diagnostic["message"]


def test_json_lists_errors_too(opendrs: Opendrs) -> None:
    Path("opendrs.toml").write_text(
        '[limits]\ncooldown = "soon"\n[[rules]]\n[policy.balance]\nthreshold = 15\n'
    )

    answer = opendrs("check", "opendrs.toml", "--format", "json")

    found = json.loads(answer.out)
    assert (answer.status, answer.err, found["in_order"]) == (2, "", False)
    told = {(each["severity"], each["field"]) for each in found["diagnostics"]}
    assert told == {
        ("error", "limits.cooldown"),
        ("error", "rules[0].kind"),
        ("error", "policy.balance.threshold"),
    }


def test_json_tells_that_a_file_cannot_be_read(opendrs: Opendrs) -> None:
    Path("c.json").write_text("{")

    answer = opendrs("check", "c.json", "--format", "json")

    (diagnostic,) = json.loads(answer.out)["diagnostics"]
    assert answer.status == 2
    assert (diagnostic["severity"], diagnostic["field"]) == ("error", None)
    assert "is not JSON" in diagnostic["message"]


def impossible_snapshot() -> dict[str, Any]:
    return {
        "format": "opendrs-snapshot/1",
        "taken_at": "2026-11-21T00:00:00Z",
        "nodes": {
            "n1": {"state": "online", "capacity": {"cpu": 16, "memory": 64}},
            "n2": {
                "state": "online",
                "capacity": {"cpu": 16, "memory": 64 * GIB},
                "usage": {"cpu": 59, "memory": GIB},
            },
        },
        "guests": {
            "g": {
                "node": "n2",
                "kind": "vm",
                "limit": {"cpu": 2, "memory": 16 * GIB},
                "usage": {"cpu": 1, "memory": 99 * 10**12},
            }
        },
    }


@pytest.mark.parametrize("command", ["check", "plan", "show"])
def test_no_command_takes_a_snapshot_that_cannot_be(
    opendrs: Opendrs, command: str
) -> None:
    Path("c.json").write_text(json.dumps(impossible_snapshot()))

    answer = opendrs(command, "c.json")

    assert answer.status == 2
    for field in (
        "nodes.n1.capacity.memory",
        "nodes.n2.usage.cpu",
        "guests.g.usage.memory",
    ):
        assert f": {field}: " in answer.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            SCENARIO + '[[policies]]\nname = "thr-mmt-8"\n',
            "policies[0].name: thr-mmt-8: the parameter must be above 0 and at most 1",
        ),
        (
            SCENARIO + '[[policies]]\nname = "neat-thr-80"\n',
            "policies[0].name: neat-thr-80: expected a number above 0 and at most 1",
        ),
        (
            SCENARIO + "[[hosts]]\ncount = 2\nmemory = 68719476736\n",
            "hosts[0]: memory must be at most 1e+09",
        ),
        (
            SWEEP + '[[policies]]\nname = ["thr-mmt-0.8", "thr-mmt-8"]\n',
            "policies[0].name[1]: thr-mmt-8",
        ),
        (
            DRILL + "[datacenter]\nthreshold = 15\n",
            "datacenter.threshold: expected at most 10",
        ),
    ],
)
def test_scenarios_sweeps_and_drills_are_checked_too(
    opendrs: Opendrs, text: str, told: str
) -> None:
    Path("it.toml").write_text(text)

    answer = opendrs("check", "it.toml")

    assert answer.status == 2
    assert f"it.toml: {told}" in answer.err


def test_a_scenario_in_order_is_said_to_be(opendrs: Opendrs) -> None:
    Path("it.toml").write_text(SCENARIO)

    answer = opendrs("check", "it.toml")

    assert (answer.status, answer.out) == (0, "it.toml: a scenario, in order.\n")


@pytest.mark.parametrize(
    ("policy", "setting", "told"),
    [
        ("balance", "threshold=15", "threshold must be a finite number in [0, 10]"),
        ("balance", "threshold=15", "15 % is 0.15"),
        ("auto-rebalance", "threshold=15", "in [0, 1], not 15"),
        ("optimize", "threshold=15", "in [0, 10], not 15"),
        ("optimize", "busy=85", "85 % is 0.85"),
        ("optimize", "cpu=1e300", "in [0, 1e+06]"),
        ("consolidate", "underload=75", "75 % is 0.75"),
        ("consolidate", "interval=1e300", "in [0, 1e+08]"),
        ("consolidate", "bandwidth=1e300", "in [0, 1e+15]"),
    ],
)
def test_settings_of_policies_are_in_range(
    opendrs: Opendrs, policy: str, setting: str, told: str
) -> None:
    answer = opendrs("plan", "demo", "--policy", policy, "--set", setting)

    assert answer.status == 2
    assert told in answer.err


@pytest.mark.parametrize("path", ["a\\u0000b", "", "."])
def test_a_path_that_no_file_can_have_is_answered(opendrs: Opendrs, path: str) -> None:
    platform = '[platform.lab]\nkind = "libvirt"\nnodes = {a = "test:///default"}\n'
    Path("opendrs.toml").write_text(f'[store]\npath = "{path}"\n{platform}')

    answer = opendrs("check", "opendrs.toml")

    assert answer.status in (0, 2)
    assert "bug in opendrs" not in answer.err
