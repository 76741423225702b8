"""opendrs record: a snapshot, or a history, into a file."""

import json
from pathlib import Path

import pytest

from opendrs.cli import record
from opendrs.cli.sources import Source, simulation
from opendrs.errors import PlatformUnavailableError
from opendrs.model import Snapshot
from opendrs.platforms.file import read_snapshot
from opendrs.sim import SimulatedPlatform, draw_cluster
from terminal import Opendrs


@pytest.mark.parametrize("name", ["cluster.json", "cluster.toml"])
def test_records_what_is_seen(opendrs: Opendrs, name: str) -> None:
    answer = opendrs("record", "demo", "-o", name)

    assert (answer.status, answer.out) == (0, f"Wrote 1 snapshot to {name}.\n")
    assert read_snapshot(Path(name)) == simulation(seed=1).platform.observe()


def test_a_dash_is_the_screen(opendrs: Opendrs) -> None:
    answer = opendrs("record", "demo", "-o", "-")

    assert json.loads(answer.out)["format"] == "opendrs-snapshot/1"


def test_a_history_has_one_snapshot_a_line(opendrs: Opendrs) -> None:
    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "3")

    lines = Path("h.jsonl").read_text().splitlines()
    times = [json.loads(line)["taken_at"] for line in lines]
    assert answer.out == "Wrote 3 snapshots to h.jsonl.\n"
    assert times == [f"2026-11-21T12:0{minute}:00Z" for minute in range(3)]


def test_a_history_is_added_to(opendrs: Opendrs) -> None:
    for _ in range(2):
        opendrs("record", "demo", "-o", "h.jsonl", "--every", "1", "--count", "2")

    assert len(Path("h.jsonl").read_text().splitlines()) == 4


def test_json_says_what_was_written(opendrs: Opendrs) -> None:
    answer = opendrs("record", "demo", "-o", "c.json", "--format", "json")

    assert json.loads(answer.out) == {"file": "c.json", "snapshots": 1}


class Interrupted(SimulatedPlatform):
    """A cluster at which the operator presses Ctrl-C at the third look."""

    looks = 0

    def observe(self) -> Snapshot:
        self.looks += 1
        if self.looks == 3:
            raise KeyboardInterrupt
        return super().observe()


class Away(SimulatedPlatform):
    """A cluster that cannot be seen at the second look."""

    looks = 0

    def observe(self) -> Snapshot:
        self.looks += 1
        if self.looks == 2:
            raise PlatformUnavailableError("no answer")
        return super().observe()


def instead(kind: type[SimulatedPlatform], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = simulation(seed=1).clock
    source = Source(platform=kind(draw_cluster(1), clock), clock=clock, lasting=False)
    monkeypatch.setattr(record, "open_source", lambda *_, **__: source)


def test_an_interruption_ends_a_history_well(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(Interrupted, monkeypatch)

    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "1")

    assert (answer.status, answer.out) == (0, "Wrote 2 snapshots to h.jsonl.\n")


def test_a_history_goes_on_when_the_platform_was_away(
    opendrs: Opendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(Away, monkeypatch)

    answer = opendrs("record", "demo", "-o", "h.jsonl", "--every", "1", "--count", "2")

    assert answer.out == "Wrote 2 snapshots to h.jsonl.\n"
    assert answer.err == "opendrs: not seen this time: no answer\n"


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-o", "c.json", "--count", "2"], "--count needs --every"),
        (["-o", "none/c.json"], "cannot write none/c.json"),
        (["-o", "none/h.jsonl", "--every", "1"], "cannot write none/h.jsonl"),
        (["-o", "c.json", "--every", "0"], "not in the range"),
        (["-o", "c.json", "--every", "1e300"], "not in the range"),
        (["-o", "c.json", "--every", "nan"], "nan is not a number"),
        (["-o", "c.json", "--every", "5 parsecs"], 'such as "10 min" (units: ms, s'),
        (["-o", "c.json", "--every", "often"], "got 'often'"),
        ([], "Missing option"),
    ],
)
def test_bad_options_are_bad_input(
    opendrs: Opendrs, options: list[str], complaint: str
) -> None:
    answer = opendrs("record", "demo", *options)

    assert answer.status == 2
    assert complaint in answer.err


@pytest.mark.parametrize("name", ["c.json", "c.toml"])
def test_a_file_that_is_there_is_not_overwritten(opendrs: Opendrs, name: str) -> None:
    Path(name).write_text("precious")

    refused = opendrs("record", "demo", "-o", name)

    assert refused.status == 2
    assert refused.err == (
        f"opendrs: cannot write {name}: it is there; --force replaces it\n"
    )
    assert Path(name).read_text() == "precious"
    assert opendrs("record", "demo", "-o", name, "--force").status == 0
    assert read_snapshot(Path(name)) == simulation(seed=1).platform.observe()


def test_a_history_is_not_added_to_a_file_of_another_kind(opendrs: Opendrs) -> None:
    opendrs("record", "demo", "-o", "c.json")
    before = Path("c.json").read_text()
    every = ("--every", "1", "--count", "2")

    refused = opendrs("record", "demo", "-o", "c.json", *every)

    assert refused.status == 2
    assert "no history to add to; --force replaces it" in refused.err
    assert Path("c.json").read_text() == before
    assert opendrs("record", "demo", "-o", "c.json", *every, "--force").status == 0
    assert len(Path("c.json").read_text().splitlines()) == 2


def test_what_is_no_file_is_written_to(opendrs: Opendrs) -> None:
    assert opendrs("record", "demo", "-o", "/dev/null").status == 0
    every = ("--every", "1", "--count", "2")
    assert opendrs("record", "demo", "-o", "/dev/null", *every).status == 0


READERS = [("show",), ("plan",), ("check",), ("compare", "--policy", "balance")]


@pytest.mark.parametrize("reader", READERS, ids=lambda words: words[0])
@pytest.mark.parametrize("name", ["h.jsonl", "h.json"])
def test_a_history_is_read(
    opendrs: Opendrs, reader: tuple[str, ...], name: str
) -> None:
    opendrs("record", "demo", "-o", name, "--every", "60", "--count", "3")
    with Path(name).open("a") as file:
        file.write('{"format": "opendrs-snap')

    newest = opendrs(reader[0], name, *reader[1:])
    second = opendrs(reader[0], name, *reader[1:], "--at", "2026-11-21T12:01:30")
    early = opendrs(reader[0], name, *reader[1:], "--at", "2026-11-21T12:30+01:00")

    assert (newest.status, second.status) == (0, 0)
    assert f"{name}: the last line is damaged" in newest.err
    assert "begins at 2026-11-21T12:00:00Z" in early.err
    assert early.status == 2
    if reader[0] in ("show", "check"):
        assert "2026-11-21 12:02:00 UTC" in newest.out
        assert "2026-11-21 12:01:00 UTC" in second.out


def test_a_history_of_the_configuration_is_read(opendrs: Opendrs) -> None:
    opendrs("record", "demo", "-o", "h.jsonl", "--every", "60", "--count", "3")
    Path("c.toml").write_text('[platform.old]\nkind = "file"\npath = "h.jsonl"\n')

    answer = opendrs("show", "old", "--config", "c.toml", "--at", "2026-11-21T12:00")

    assert "2026-11-21 12:00:00 UTC" in answer.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "demo", "--at", "2026-11-21"), "demo is no history in a file"),
        (("show", "h.jsonl", "--at", "noon"), "'noon' is no time such as 2026-"),
        (("check", "h.jsonl", "--at", ""), "'' is no time such as 2026-"),
    ],
)
def test_a_time_that_means_nothing_is_bad_input(
    opendrs: Opendrs, words: tuple[str, ...], complaint: str
) -> None:
    answer = opendrs(*words)

    assert answer.status == 2
    assert complaint in answer.err
