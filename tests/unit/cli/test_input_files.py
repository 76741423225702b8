"""Whatever a path that an operator names leads to, a command ends, with one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.terminal import RunOpendrs

REQUESTS = """
[policy]
name = "consolidate"
[api]
certificate = "pipe"
key = "pipe"
tokens = "pipe"
"""
AGENT = """
[agent]
node = "a"
controller = "https://drs:8443"
token_file = "pipe"
[platform.here]
kind = "libvirt"
nodes = {a = "test:///default"}
"""


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "pipe"),
        ("show", "pipe"),
        ("check", "pipe"),
        ("compare", "pipe"),
        ("plan", "demo", "--config", "pipe"),
        ("run", "pipe"),
        ("agent", "pipe"),
        ("drill", "pipe"),
        ("drill", "pipe", "--fail", "a"),
        ("sweep", "pipe"),
        ("simulate", "pipe.toml"),
        ("simulate", "planetlab", "pipe"),
        ("simulate", "csv", "pipe"),
        ("simulate", "parquet", "pipe"),
        ("check", "requests.toml"),
        ("agent", "agent.toml"),
    ],
)
def test_named_pipe_is_rejected(opendrs: RunOpendrs, command: tuple[str, ...]) -> None:
    for name in ("pipe", "pipe.toml"):
        os.mkfifo(name)
    Path("requests.toml").write_text(REQUESTS)
    Path("agent.toml").write_text(AGENT)

    answer = opendrs(*command)

    assert (answer.status, answer.out) == (2, "")
    assert "expected a regular file, got a named pipe" in answer.err


@pytest.mark.parametrize("command", ["plan", "show", "check", "simulate planetlab"])
def test_unlimited_device_is_rejected(opendrs: RunOpendrs, command: str) -> None:
    answer = opendrs(*command.split(), "/dev/zero")

    assert (answer.status, answer.out) == (2, "")
    assert answer.err.endswith("/dev/zero: expected a regular file, got a device\n")


def test_million_errors_are_abridged(
    opendrs: RunOpendrs,
) -> None:
    guests = {f"g{number}": {"node": "nowhere", "x": []} for number in range(5000)}
    document = {
        "format": "opendrs-snapshot/1",
        "taken_at": "2026-01-01T00:00:00Z",
        "nodes": {f"n{number}": {} for number in range(900)},
        "guests": guests,
    }
    Path("bad.json").write_text(json.dumps(document))

    planned, checked = opendrs("plan", "bad.json"), opendrs("check", "bad.json")

    assert planned.status == checked.status == 2
    assert planned.err.count("\n") == 11
    assert planned.err.endswith("opendrs: bad.json: and at least 900 more\n")
    assert checked.err.count("\n") == 101
    assert checked.err.endswith("opendrs: bad.json: and at least 901 more\n")


def test_entry_with_million_fields_is_one_error(opendrs: RunOpendrs) -> None:
    document = {
        "format": "opendrs-snapshot/1",
        "taken_at": "2026-01-01T00:00:00Z",
        "nodes": {"n": {f"x{number}": 1 for number in range(100_000)}},
        "guests": {},
    }
    Path("bad.json").write_text(json.dumps(document))

    answer = opendrs("check", "bad.json")

    assert answer.status == 2
    assert answer.err.count("\n") == 1
    assert "nodes.n: expected at most 1,000 fields" in answer.err


def test_oversized_json_is_rejected(
    opendrs: RunOpendrs,
) -> None:
    Path("bad.json").write_text("[" + "[]," * (1 << 23) + "[]]")

    answer = opendrs("check", "bad.json")

    assert answer.status == 2
    assert answer.err == "opendrs: bad.json: more than 16,777,216 values\n"


def test_oversized_toml_is_rejected(opendrs: RunOpendrs) -> None:
    Path("bad.toml").write_text("# " + "x" * (33 << 20))

    answer = opendrs("check", "bad.toml")

    assert answer.status == 2
    assert answer.err == (
        "opendrs: bad.toml: larger than 32 MiB of TOML; write it as JSON\n"
    )
