"""All errors of a configuration, and its requirements, in one report."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendrs.cli.configuration import load_settings
from opendrs.cli.online_check import check_online
from opendrs.config import DiagnosticCode, write_snapshot
from opendrs.model import GIB, Storage
from support.builders import cluster
from support.terminal import RunOpendrs

INVALID_CONFIGURATION = """
[limits]
cooldown = -1
bandwidth = 1000
[limit]
[policy]
name = "consolidate"
[policy.balance]
threshold = 15
[policy.optimize]
contention_threshold = 85
[api]
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
limits.cooldown: expected
limit: unknown table
policy.balance.threshold: expected
policy.optimize.contention_threshold: expected
api.tokens: cannot read tokens.toml
api.certificate: cannot read c.pem
api.key: cannot read c.key
agent.token_file: token: No such file
agent.ca: ca.pem: No such file
agent.node: unknown node "h9"
platform.lab.kind: libvirt: libvirt-python is not installed
platform.lab.power: power of h1: password_file
platform.saved.path: cannot read saved.json
rules[0].guests: unknown guest "web" on platform there
rules[0].nodes: unknown node "h3" on platform there
rules[0].nodes: unknown node "h3" on platform lab
"""


def test_errors_of_all_sections_are_listed(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opendrs.platforms.libvirt import client  # noqa: PLC0415 - only its cache

    monkeypatch.setitem(sys.modules, "libvirt", None)  # as if not installed
    client.load_library.cache_clear()
    Path("opendrs.toml").write_text(INVALID_CONFIGURATION)
    there = cluster(nodes={"h1": 0.1}, guests={"vm": ("h1", 0.1)})
    write_snapshot(there, Path("there.json"))

    answer = opendrs("check", "opendrs.toml")
    client.load_library.cache_clear()

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
max_parallel_migrations = 0
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
on_command = 5
off_command = []
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
TWO_LABS_ERRORS = {
    (
        "limits.memory_headroom",
        "expected a fraction in [0, 1), got 10.0",
    ),
    (
        "limits.max_parallel_migrations",
        "expected at least 1, got 0",
    ),
    ("limits.bandwidth", "expected a number of bytes per second"),
    ("agent.node", "expected the name of this node"),
    ("agent.controller", "expected an address like https://HOST:PORT"),
    ("agent.timeout", "expected seconds above 0"),
    ("agent.token_file", "is missing"),
    ("platform.lab.auto_converge", 'expected true or false, got "yes"'),
    ("platform.lab.sample", "expected more than 0 s, got -1.0"),
    ("platform.lab.power.nodes.h1.on_command", "expected a list, got a number"),
    (
        "platform.lab.power.nodes.h1.off_command",
        "expected a list of a program",
    ),
    ("platform.lab.kind", "libvirt: libvirt-python is not installed"),
    ("platform.broken.nodes", "expected a table of named values, got 5"),
    ("platform.broken.timeout", "expected more than 0 s, got -1.0"),
    ("rules[0].nodes", 'unknown node "gamma" on platform lab'),
}


def test_one_error_hides_no_other(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opendrs.platforms.libvirt import client  # noqa: PLC0415 - only its cache

    monkeypatch.setitem(sys.modules, "libvirt", None)  # as if not installed
    client.load_library.cache_clear()
    Path("opendrs.toml").write_text(TWO_LABS)

    answer = opendrs("check", "opendrs.toml", "--format", "json")
    client.load_library.cache_clear()

    errors = [
        (each["field"], each["message"])
        for each in json.loads(answer.out)["diagnostics"]
        if each["severity"] == "error"
    ]
    assert len(errors) == len(TWO_LABS_ERRORS), errors
    for field, begin in TWO_LABS_ERRORS:
        assert any(
            found == field and message.startswith(begin) for found, message in errors
        ), (field, errors)


def test_warnings_do_not_change_the_exit_status(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text("[limits]\nbandwidth = 1000\n")

    text = opendrs("check", "opendrs.toml")
    found = opendrs("check", "opendrs.toml", "--format", "json")

    assert text.status == found.status == 0
    assert text.out.endswith("no errors\n")
    assert text.err.startswith("opendrs: warning: opendrs.toml: limits.bandwidth: ")
    (diagnostic,) = json.loads(found.out)["diagnostics"]
    assert diagnostic["severity"] == "warning"
    assert diagnostic["file"] == "opendrs.toml"
    assert diagnostic["field"] == "limits.bandwidth"
    assert '"1000 Mbit/s"' in diagnostic["message"]


def test_json_lists_errors_too(opendrs: RunOpendrs) -> None:
    Path("opendrs.toml").write_text(
        '[limits]\ncooldown = "soon"\n[[rules]]\n[policy.balance]\nthreshold = 15\n'
    )

    answer = opendrs("check", "opendrs.toml", "--format", "json")

    found = json.loads(answer.out)
    assert (answer.status, answer.err, found["valid"]) == (2, "", False)
    output = {(each["severity"], each["field"]) for each in found["diagnostics"]}
    assert output == {
        ("error", "limits.cooldown"),
        ("error", "rules[0].kind"),
        ("error", "policy.balance.threshold"),
    }


def test_json_reports_an_unreadable_file(opendrs: RunOpendrs) -> None:
    Path("c.json").write_text("{")

    answer = opendrs("check", "c.json", "--format", "json")

    (diagnostic,) = json.loads(answer.out)["diagnostics"]
    assert answer.status == 2
    assert (diagnostic["severity"], diagnostic["field"]) == ("error", None)
    assert "not JSON" in diagnostic["message"]


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
def test_every_command_rejects_an_impossible_snapshot(
    opendrs: RunOpendrs, command: str
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
    ("text", "code", "field"),
    [
        (
            SCENARIO + '[[policies]]\nname = "thr-mmt-8"\n',
            DiagnosticCode.INVALID_VALUE,
            "policies[0].name",
        ),
        (
            SCENARIO + '[[policies]]\nname = "neat-thr-80"\n',
            DiagnosticCode.INVALID_VALUE,
            "policies[0].name",
        ),
        (
            SCENARIO + "[[hosts]]\ncount = 2\nmemory = 68719476736\n",
            DiagnosticCode.OUT_OF_RANGE,
            "hosts[0].memory",
        ),
        (
            SWEEP + '[[policies]]\nname = ["thr-mmt-0.8", "thr-mmt-8"]\n',
            DiagnosticCode.INVALID_VALUE,
            "policies[0].name[1]",
        ),
        (
            DRILL + "[datacenter]\nthreshold = 15\n",
            DiagnosticCode.OUT_OF_RANGE,
            "datacenter.threshold",
        ),
    ],
)
def test_check_of_scenario_sweep_or_drill_reports_code_and_field(
    opendrs: RunOpendrs, text: str, code: DiagnosticCode, field: str
) -> None:
    Path("it.toml").write_text(text)

    answer = opendrs("check", "it.toml", "--format", "json")

    assert answer.status == 2
    found = json.loads(answer.out)["diagnostics"]
    assert (code, field) in [(each["code"], each["field"]) for each in found]


def test_valid_scenario_succeeds(opendrs: RunOpendrs) -> None:
    Path("it.toml").write_text(SCENARIO)

    answer = opendrs("check", "it.toml")

    assert (answer.status, answer.out) == (0, "it.toml: a scenario: no errors\n")


@pytest.mark.parametrize(
    ("policy", "setting", "output"),
    [
        ("balance", "threshold=15", "threshold: expected a finite number in [0, 10]"),
        ("balance", "threshold=15", "15 % is 0.15"),
        ("auto-rebalance", "threshold=15", "in [0, 1], got 15"),
        ("optimize", "threshold=15", "in [0, 10], got 15"),
        ("optimize", "contention_threshold=85", "85 % is 0.85"),
        ("optimize", "cpu_weight=1e300", "in [0, 1e+06]"),
        ("consolidate", "underload_threshold=75", "75 % is 0.75"),
        ("consolidate", "interval=1e300", "in [0, 1e+08]"),
        ("consolidate", "bandwidth=1e300", "in [0, 1e+15]"),
    ],
)
def test_settings_of_policies_are_in_range(
    opendrs: RunOpendrs, policy: str, setting: str, output: str
) -> None:
    answer = opendrs("plan", "demo", "--policy", policy, "--set", setting)

    assert answer.status == 2
    assert output in answer.err


@pytest.mark.parametrize("path", ["a\\u0000b", "", "."])
def test_impossible_path_is_reported(opendrs: RunOpendrs, path: str) -> None:
    platform = '[platform.lab]\nkind = "libvirt"\nnodes = {a = "test:///default"}\n'
    Path("opendrs.toml").write_text(f'[store]\npath = "{path}"\n{platform}')

    answer = opendrs("check", "opendrs.toml")

    assert answer.status in (0, 2)
    assert "bug in opendrs" not in answer.err


NAMES_IN_LIMITS = """
[platform.saved]
kind = "file"
path = "c.json"
[limits]
tolerated_domain = "rakc"
[[limits.overrides]]
nodes = ["n1", "n9"]
memory_overcommit = 2
[[limits.storage_groups]]
name = "fast"
storages = ["one", "tow"]
"""
UNKNOWN_IN_LIMITS = {
    "limits.tolerated_domain": '"rakc": no node has a label rakc=NAME',
    "limits.overrides[0].nodes": '"n9" on platform saved',
    "limits.storage_groups[0].storages": '"tow"',
}


def write_cluster(name: str, *, storages: tuple[Storage, ...] | None) -> None:
    """Write a cluster whose node n1 has *storages*, and n2 none."""
    snapshot = cluster({"n1": 0.1, "n2": 0.1}, {"vm": ("n1", 0.1)})
    found = {"n1": storages, "n2": None if storages is None else ()}
    nodes = {
        each: replace(node, storages=found[each], labels=frozenset({"rack=r1"}))
        for each, node in snapshot.nodes.items()
    }
    write_snapshot(replace(snapshot, nodes=nodes), Path(name))


def errors_of(opendrs: RunOpendrs, configuration: str) -> dict[str, str]:
    Path("opendrs.toml").write_text(configuration)
    found = json.loads(opendrs("check", "opendrs.toml", "--format", "json").out)
    assert {each["code"] for each in found["diagnostics"]} <= {"unknown-name"}
    return {each["field"]: each["message"] for each in found["diagnostics"]}


def test_check_reports_unknown_names_in_limits(opendrs: RunOpendrs) -> None:
    write_cluster("c.json", storages=(Storage(id="one"),))

    errors = errors_of(opendrs, NAMES_IN_LIMITS)

    assert errors.keys() == UNKNOWN_IN_LIMITS.keys()
    for field, end in UNKNOWN_IN_LIMITS.items():
        assert errors[field].endswith(end), errors


def test_storages_are_not_checked_while_those_of_a_node_are_unknown(
    opendrs: RunOpendrs,
) -> None:
    write_cluster("c.json", storages=None)

    errors = errors_of(opendrs, NAMES_IN_LIMITS)

    assert errors.keys() == {"limits.tolerated_domain", "limits.overrides[0].nodes"}


def test_storages_and_domains_may_be_those_of_another_platform(
    opendrs: RunOpendrs,
) -> None:
    write_cluster("c.json", storages=(Storage(id="one"),))
    write_cluster("other.json", storages=(Storage(id="tow"),))
    other = '[platform.other]\nkind = "file"\npath = "other.json"\n'
    configuration = NAMES_IN_LIMITS.replace("rakc", "rack").replace(', "n9"', "")

    assert errors_of(opendrs, other + configuration) == {}


@pytest.mark.usefixtures("opendrs")
def test_online_check_reports_unknown_names_in_limits() -> None:
    write_cluster("c.json", storages=(Storage(id="one"),))
    Path("opendrs.toml").write_text(NAMES_IN_LIMITS)
    settings = load_settings(Path("opendrs.toml"))

    found = check_online(settings.platforms, settings.rules, settings.limits)

    failed = [each.check.detail for each in found if not each.check.ok]
    for field, end in UNKNOWN_IN_LIMITS.items():
        (detail,) = [each for each in failed if field in each]
        assert end.removesuffix(" on platform saved") in detail
