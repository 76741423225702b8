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
        ([], "Missing option"),
    ],
)
def test_bad_options_are_bad_input(
    opendrs: Opendrs, options: list[str], complaint: str
) -> None:
    answer = opendrs("record", "demo", *options)

    assert answer.status == 2
    assert complaint in answer.err
