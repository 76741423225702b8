"""opendrs record: a snapshot, or a history, into a file."""

import json
from pathlib import Path

import pytest

from opendrs.cli import record
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.sources import simulated_source
from opendrs.config import read_snapshot
from opendrs.errors import PlatformUnavailableError
from opendrs.model import Snapshot
from opendrs.simulation import SimulatedPlatform, demo_cluster
from support.terminal import RunOpendrs


@pytest.mark.parametrize("name", ["cluster.json", "cluster.toml"])
def test_record_writes_the_observed_snapshot(opendrs: RunOpendrs, name: str) -> None:
    answer = opendrs("record", "demo", "-o", name)

    assert (answer.status, answer.out) == (0, f"Wrote 1 snapshot to {name}.\n")
    assert read_snapshot(Path(name)) == simulated_source(seed=1).platform.observe()


def test_record_to_dash_writes_standard_output(opendrs: RunOpendrs) -> None:
    answer = opendrs("record", "demo", "-o", "-")

    assert json.loads(answer.out)["format"] == "opendrs-snapshot/1"


def test_a_history_has_one_snapshot_a_line(opendrs: RunOpendrs) -> None:
    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "3")

    lines = Path("h.jsonl").read_text().splitlines()
    times = [json.loads(line)["taken_at"] for line in lines]
    assert answer.out == "Wrote 3 snapshots to h.jsonl.\n"
    assert times == [f"2026-11-21T12:0{minute}:00Z" for minute in range(3)]


def test_a_history_is_added_to(opendrs: RunOpendrs) -> None:
    for _ in range(2):
        opendrs("record", "demo", "-o", "h.jsonl", "--every", "1", "--count", "2")

    assert len(Path("h.jsonl").read_text().splitlines()) == 4


def test_record_json_counts_snapshots(opendrs: RunOpendrs) -> None:
    answer = opendrs("record", "demo", "-o", "c.json", "--format", "json")

    assert json.loads(answer.out) == {"file": "c.json", "snapshots": 1}


class InterruptedPlatform(SimulatedPlatform):
    """A cluster at which the operator presses Ctrl-C at the third look."""

    looks = 0

    def observe(self) -> Snapshot:
        self.looks += 1
        if self.looks == 3:
            raise KeyboardInterrupt
        return super().observe()


class UnreachablePlatform(SimulatedPlatform):
    """A cluster that cannot be seen at the second look."""

    looks = 0

    def observe(self) -> Snapshot:
        self.looks += 1
        if self.looks == 2:
            raise PlatformUnavailableError("no answer")
        return super().observe()


def replace_demo(
    kind: type[SimulatedPlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = simulated_source(seed=1).clock
    source = ClusterSource(
        platform=kind(demo_cluster(1), clock), clock=clock, is_persistent=False
    )
    monkeypatch.setattr(record, "open_source", lambda *_, **__: source)


def test_interrupted_history_is_complete(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_demo(InterruptedPlatform, monkeypatch)

    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "1")

    assert (answer.status, answer.out) == (0, "Wrote 2 snapshots to h.jsonl.\n")


def test_history_continues_after_unreachable_platform(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_demo(UnreachablePlatform, monkeypatch)

    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "1", "--count", "2")

    assert answer.out == "Wrote 2 snapshots to h.jsonl.\n"
    assert answer.err == "opendrs: snapshot skipped: no answer\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "c.json", "--count", "2"], "--count needs --every"),
        (["-o", "none/c.json"], "cannot write none/c.json"),
        (["-o", "none/h.jsonl", "--every", "1"], "none/h.jsonl: cannot write"),
        (["-o", "c.json", "--every", "0"], "not in the range"),
        (["-o", "c.json", "--every", "1e300"], "not in the range"),
        (["-o", "c.json", "--every", "nan"], "expected a number of seconds, got nan"),
        (["-o", "c.json", "--every", "5 parsecs"], 'such as "10 min" (units: ms, s'),
        (["-o", "c.json", "--every", "often"], "got 'often'"),
        ([], "Missing option"),
    ],
)
def test_invalid_options_are_invalid_input(
    opendrs: RunOpendrs, options: list[str], message: str
) -> None:
    answer = opendrs("record", "demo", *options)

    assert answer.status == 2
    assert message in answer.err


@pytest.mark.parametrize("name", ["c.json", "c.toml"])
def test_existing_file_is_not_overwritten(opendrs: RunOpendrs, name: str) -> None:
    Path(name).write_text("precious")

    rejected = opendrs("record", "demo", "-o", name)

    assert rejected.status == 2
    assert rejected.err == (
        f"opendrs: {name}: the file exists; use --force to replace it\n"
    )
    assert Path(name).read_text() == "precious"
    assert opendrs("record", "demo", "-o", name, "--force").status == 0
    assert read_snapshot(Path(name)) == simulated_source(seed=1).platform.observe()


def test_a_history_is_not_added_to_a_file_of_another_kind(opendrs: RunOpendrs) -> None:
    opendrs("record", "demo", "-o", "c.json")
    before = Path("c.json").read_text()
    every = ("--every", "1", "--count", "2")

    rejected = opendrs("record", "demo", "-o", "c.json", *every)

    assert rejected.status == 2
    assert "not a history; use --force to replace it" in rejected.err
    assert Path("c.json").read_text() == before
    assert opendrs("record", "demo", "-o", "c.json", *every, "--force").status == 0
    assert len(Path("c.json").read_text().splitlines()) == 2


def test_record_writes_to_a_device(opendrs: RunOpendrs) -> None:
    assert opendrs("record", "demo", "-o", "/dev/null").status == 0
    every = ("--every", "1", "--count", "2")
    assert opendrs("record", "demo", "-o", "/dev/null", *every).status == 0


READERS = [("show",), ("plan",), ("check",), ("compare", "--policy", "balance")]


@pytest.mark.parametrize("reader", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["h.jsonl", "h.json"])
def test_a_history_is_read(
    opendrs: RunOpendrs, reader: tuple[str, ...], name: str
) -> None:
    opendrs("record", "demo", "-o", name, "--every", "60", "--count", "3")
    with Path(name).open("a") as file:
        file.write('{"format": "opendrs-snap')

    newest = opendrs(reader[0], name, *reader[1:])
    second = opendrs(reader[0], name, *reader[1:], "--at", "2026-11-21T12:01:30")
    early = opendrs(reader[0], name, *reader[1:], "--at", "2026-11-21T12:30+01:00")

    assert (newest.status, second.status) == (0, 0)
    assert f"{name}: last line damaged" in newest.err
    assert "the first was taken at 2026-11-21T12:00:00Z" in early.err
    assert early.status == 2
    if reader[0] in ("show", "check"):
        assert "2026-11-21 12:02:00 UTC" in newest.out
        assert "2026-11-21 12:01:00 UTC" in second.out


def test_a_history_of_the_configuration_is_read(opendrs: RunOpendrs) -> None:
    opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "3")
    Path("c.toml").write_text('[platform.old]\nkind = "file"\npath = "h.jsonl"\n')

    answer = opendrs("show", "old", "--config", "c.toml", "--at", "2026-11-21T12:00")

    assert "2026-11-21 12:00:00 UTC" in answer.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "demo", "--at", "2026-11-21"), "demo is not a history"),
        (
            ("show", "h.jsonl", "--at", "noon"),
            "expected a time such as 2026-11-22T09:30:00Z, got 'noon'",
        ),
        (
            ("check", "h.jsonl", "--at", ""),
            "expected a time such as 2026-11-22T09:30:00Z, got ''",
        ),
    ],
)
def test_invalid_time_is_invalid_input(
    opendrs: RunOpendrs, words: tuple[str, ...], message: str
) -> None:
    answer = opendrs(*words)

    assert answer.status == 2
    assert message in answer.err
