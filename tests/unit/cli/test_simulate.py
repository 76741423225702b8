"""opendrs simulate: what a policy costs over recorded or drawn load."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from terminal import Opendrs

SMALL = ("simulate", "synthetic", "--guests", "20", "--hosts", "20")


def day(name: str = "day", guests: int = 3) -> str:
    Path(name).mkdir()
    for number in range(guests):
        (Path(name) / f"vm{number}").write_text("20\n" * 288)
    return name


def test_prints_the_metrics_as_a_table(opendrs: Opendrs) -> None:
    answer = opendrs(*SMALL)

    assert answer.status == 0
    for metric in ("energy kwh", "slatah", "pdm", "slav", "esv", "migrations"):
        assert metric in answer.out


def test_prints_json_for_programs(opendrs: Opendrs) -> None:
    answer = opendrs(*SMALL, "--format", "json", "--set", "target=0.6")

    document = json.loads(answer.out)
    assert document["model"] == "opendrs"
    assert document["settings"] == {"target": 0.6}
    assert document["metrics"]["guests"] == 20


def test_without_a_policy_nobody_moves(opendrs: Opendrs) -> None:
    answer = opendrs(*SMALL, "--policy", "none", "--format", "json")

    assert json.loads(answer.out)["metrics"]["migrations"] == 0


def test_writes_the_metrics_to_a_file(opendrs: Opendrs) -> None:
    answer = opendrs(*SMALL, "--out", "run.csv", "--format", "json")
    opendrs(*SMALL, "--out", "run.json")

    metrics = json.loads(answer.out)["metrics"]
    with Path("run.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert float(row["energy_kwh"]) == metrics["energy_kwh"]
    assert json.loads(Path("run.json").read_text())["metrics"] == metrics


def test_reads_a_day_of_planetlab_in_both_models(opendrs: Opendrs) -> None:
    name = day()

    ours = opendrs("simulate", "planetlab", name, "--format", "json")
    theirs = opendrs(
        "simulate", "planetlab", name, "--model", "cloudsim-3.0.3", "--format", "json"
    )

    assert json.loads(ours.out)["policy"] == "consolidate"
    assert json.loads(theirs.out)["policy"] == "thr-mmt-0.8"
    assert json.loads(theirs.out)["metrics"]["energy_kwh"] > 0


def test_reads_csv(opendrs: Opendrs) -> None:
    Path("load.csv").write_text("guest,cpu\na,10\na,20\n")

    assert opendrs("simulate", "csv", "load.csv").status == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("planetlab",), "planetlab needs a PATH"),
        (("planetlab", "missing"), "missing"),
        (("csv", "missing.csv"), "No such file"),
        (("synthetic", "path"), "synthetic takes no PATH"),
        (("synthetic", "--policy", "balance"), "knows the policies consolidate"),
        (("synthetic", "--policy", "none", "--set", "target=1"), "has no settings"),
        (("synthetic", "--set", "target=2"), "target must be"),
        (("synthetic", "--set", "tarpit=2"), "no such setting"),
        (("synthetic", "--model", "cloudsim-3.0.3"), "runs planetlab"),
        (("synthetic", "--hosts", "1"), "finds no room"),
        (("synthetic", "--out", "run.parquet"), "ends in .json or .csv"),
        (("synthetic", "--out", "none/run.csv"), "there is no directory"),
        (("tarot",), "'tarot' is not one of"),
    ],
)
def test_bad_input_is_told_and_nothing_is_written(
    opendrs: Opendrs, arguments: tuple[str, ...], why: str
) -> None:
    answer = opendrs("simulate", *arguments)

    assert answer.status == 2
    assert why in answer.err
    assert answer.out == ""
    assert list(Path().iterdir()) == []


def test_a_scheme_that_does_not_exist_is_told(opendrs: Opendrs) -> None:
    name = day()

    answer = opendrs(
        *("simulate", "planetlab", name, "--model", "cloudsim-3.0.3"),
        *("--policy", "abc-mmt"),
    )

    assert answer.status == 2
    assert "no scheme is called 'abc-mmt'" in answer.err


def test_an_empty_directory_is_told(opendrs: Opendrs) -> None:
    Path("empty").mkdir()

    answer = opendrs("simulate", "planetlab", "empty")

    assert answer.status == 2
    assert "no traces in there" in answer.err


def test_a_file_that_cannot_be_written_is_told_and_nothing_is_left(
    opendrs: Opendrs,
) -> None:
    Path("run.csv").mkdir()

    answer = opendrs(*SMALL, "--out", "run.csv")

    assert answer.status == 2
    assert "run.csv" in answer.err
    assert [each.name for each in Path().iterdir()] == ["run.csv"]
