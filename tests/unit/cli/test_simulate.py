"""opendrs simulate: what policies cost over recorded or drawn load."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pyarrow import parquet

from opendrs.policies import BUILT_IN_POLICIES
from support.terminal import RunOpendrs

DOCUMENTS = Path(__file__).parents[3] / "docs/reference"
SMALL = ("simulate", "synthetic", "--guests", "20", "--hosts", "20")
SCENARIO: dict[str, Any] = {
    "format": "opendrs-scenario/1",
    "workload": {"kind": "synthetic", "guests": 20},
    "hosts": [{"count": 20}],
}


def write_day(name: str = "day", guests: int = 3) -> str:
    Path(name).mkdir()
    for number in range(guests):
        (Path(name) / f"vm{number}").write_text("20\n" * 288)
    return name


def write_scenario(**tables: object) -> str:
    Path("scenario.toml").write_text(tomli_w.dumps({**SCENARIO, **tables}))
    return "scenario.toml"


def test_prints_the_metrics_as_a_table(opendrs: RunOpendrs) -> None:
    answer = opendrs(*SMALL)

    assert answer.status == 0
    for metric in ("energy (kWh)", "SLATAH", "PDM", "SLAV", "ESV", "migrations"):
        assert metric in answer.out


def test_prints_json_for_programs(opendrs: RunOpendrs) -> None:
    answer = opendrs(*SMALL, "--format", "json", "--set", "fill_target=0.6")

    document = json.loads(answer.out)
    assert document["model"] == "opendrs"
    assert document["settings"] == {"fill_target": 0.6}
    assert document["metrics"]["guests"] == 20


def test_simulation_without_policy_has_no_migrations(opendrs: RunOpendrs) -> None:
    answer = opendrs(*SMALL, "--policy", "none", "--format", "json")

    assert json.loads(answer.out)["metrics"]["migrations"] == 0


def test_several_policies_are_compared(opendrs: RunOpendrs) -> None:
    policies = ("--policy", "none", "--policy", "consolidate", "--policy", "lr-mmt")

    table = opendrs(*SMALL, *policies, "--set", "fill_target=0.6")
    documents = json.loads(opendrs(*SMALL, *policies, "--format", "json").out)

    assert "metric" in table.out
    head = next(line for line in table.out.splitlines() if line.startswith("metric"))
    assert head.split() == ["metric", "none", "consolidate", "lr-mmt"]
    assert [each["policy"] for each in documents] == ["none", "consolidate", "lr-mmt"]
    energies = [each["metrics"]["energy_kwh"] for each in documents]
    assert len(set(energies)) == 3


def test_every_policy_can_be_simulated(opendrs: RunOpendrs) -> None:
    names = sorted(BUILT_IN_POLICIES)
    options = [word for name in names for word in ("--policy", name)]
    small = ("simulate", "csv", "load.csv", "--hosts", "3", "--format", "json")
    rows = [f"g{guest},{(guest % 3) * 20 + 10}" for guest in range(6)]
    Path("load.csv").write_text("\n".join(["guest,cpu", *(4 * rows)]) + "\n")

    answer = opendrs(*small, *options)

    assert (answer.status, answer.err) == (0, "")
    documents = json.loads(answer.out)
    assert [each["policy"] for each in documents] == names
    assert all(each["metrics"]["energy_kwh"] > 0 for each in documents)


def test_setting_of_another_policy_is_rejected(opendrs: RunOpendrs) -> None:
    answer = opendrs(*SMALL, "--policy", "balance", "--set", "fill_target=0.6")

    assert (answer.status, answer.out) == (2, "")
    assert "fill_target: unknown setting" in answer.err


def test_writes_the_metrics_to_files(opendrs: RunOpendrs) -> None:
    outputs = [f"run.{suffix}" for suffix in ("csv", "json", "parquet")]
    options = [word for name in outputs for word in ("--out", name)]

    answer = opendrs(*SMALL, *options, "--format", "json")

    metrics = json.loads(answer.out)["metrics"]
    with Path("run.csv").open(newline="") as lines:
        (row,) = csv.DictReader(lines)
    assert float(row["energy_kwh"]) == metrics["energy_kwh"]
    assert json.loads(Path("run.json").read_text())["metrics"] == metrics
    (kept,) = parquet.read_table("run.parquet").to_pylist()
    assert {name: kept[name] for name in metrics} == metrics
    assert sorted(each.name for each in Path().iterdir()) == sorted(outputs)


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_writes_what_happens_in_each_interval(opendrs: RunOpendrs, suffix: str) -> None:
    policies = ("--policy", "none", "--policy", "consolidate")
    answer = opendrs(*SMALL, *policies, "--series", f"x.{suffix}", "--format", "json")

    if suffix == "parquet":
        rows = parquet.read_table("x.parquet").to_pylist()
    elif suffix == "json":
        rows = json.loads(Path("x.json").read_text())
    else:
        with Path("x.csv").open(newline="") as lines:
            rows = list(csv.DictReader(lines))
    assert [row["policy"] for row in rows] == ["none"] * 288 + ["consolidate"] * 288
    for document in json.loads(answer.out):
        own = [row for row in rows if row["policy"] == document["policy"]]
        energy = sum(float(row["energy_kwh"]) for row in own)
        assert energy == pytest.approx(document["metrics"]["energy_kwh"])
        moves = sum(int(row["migrations"]) for row in own)
        assert moves == document["metrics"]["migrations"]


def test_simulate_writes_a_plot(opendrs: RunOpendrs) -> None:
    answer = opendrs(*SMALL, "--plot", "x.svg")

    assert answer.status == 0
    plot = Path("x.svg").read_text()
    assert "synthetic, 20 guests, 1 day, seed 1 (20 hosts, model opendrs)" in plot


def test_reads_a_day_of_planetlab_in_both_models(opendrs: RunOpendrs) -> None:
    name = write_day()
    files = ("--series", "x.csv", "--plot", "x.png", "--format", "json")

    ours = opendrs("simulate", "planetlab", name, "--format", "json")
    theirs = opendrs("simulate", "planetlab", name, "--model", "cloudsim-3.0.3", *files)

    assert json.loads(ours.out)["policy"] == "consolidate"
    assert json.loads(theirs.out)["policy"] == "thr-mmt-0.8"
    assert json.loads(theirs.out)["metrics"]["energy_kwh"] > 0
    assert len(Path("x.csv").read_text().splitlines()) == 1 + 287
    assert Path("x.png").read_bytes().startswith(b"\x89PNG")


def test_reads_csv(opendrs: RunOpendrs) -> None:
    Path("load.csv").write_text("guest,cpu\na,10\na,20\n")

    assert opendrs("simulate", "csv", "load.csv").status == 0


def test_part_of_a_trace_can_be_simulated(opendrs: RunOpendrs) -> None:
    window = ("--guests", "2", "--days", "0.5", "--start", "3600", "--interval", "600")

    answer = opendrs("simulate", "planetlab", write_day(), *window, "--format", "json")

    metrics = json.loads(answer.out)["metrics"]
    assert (metrics["guests"], metrics["hours"]) == (2, 12)


def test_runs_a_scenario_file(opendrs: RunOpendrs) -> None:
    file = write_scenario(
        title="a day", policies=[{"name": "none"}, {"name": "lr-mmt"}]
    )

    answer = opendrs("simulate", file, "--format", "json", "--plot", "x.svg")

    assert [each["policy"] for each in json.loads(answer.out)] == ["none", "lr-mmt"]
    assert "a day (20 hosts, model opendrs)" in Path("x.svg").read_text()


def test_scenario_file_and_options_are_equivalent(opendrs: RunOpendrs) -> None:
    from_file = opendrs("simulate", write_scenario(), "--format", "json")

    assert from_file.out == opendrs(*SMALL, "--format", "json").out


def test_options_may_change_policies_and_seed_of_a_scenario(
    opendrs: RunOpendrs,
) -> None:
    file = write_scenario(seed=3)
    options = (
        "--policy",
        "consolidate",
        "--set",
        "fill_target=0.5",
        "--format",
        "json",
    )

    changed = opendrs("simulate", file, "--seed", "1", *options)

    assert json.loads(changed.out)["settings"] == {"fill_target": 0.5}
    assert changed.out == opendrs(*SMALL, *options).out


def test_a_path_begins_from_the_folder_of_its_file(opendrs: RunOpendrs) -> None:
    Path("deep").mkdir()
    Path("deep/load.csv").write_text("guest,cpu\na,10\na,20\n")
    workload = {"kind": "csv", "path": "load.csv"}
    text = tomli_w.dumps({**SCENARIO, "workload": workload})
    Path("deep/scenario.toml").write_text(text)

    assert opendrs("simulate", "deep/scenario.toml").status == 0


def test_the_example_of_the_reference_runs_as_it_stands(opendrs: RunOpendrs) -> None:
    text = (DOCUMENTS / "scenario-file.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    Path("day.toml").write_text(example)

    answer = opendrs("simulate", "day.toml", "--format", "json")

    assert answer.status == 0, answer.err
    assert len(json.loads(answer.out)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("planetlab",), "planetlab: PATH missing"),
        (("planetlab", "missing"), "missing: No such file"),
        (("csv", "missing.csv"), "No such file"),
        (("synthetic", "--start", "3"), "--start: only for traces"),
        (
            ("synthetic", "--days", "0.5"),
            "--days: expected a whole number for synthetic",
        ),
        (
            ("planetlab", "missing", "--interval", "0"),
            "interval: expected more than 0 s",
        ),
        (("synthetic", "path"), "synthetic: expected no PATH"),
        (("synthetic", "--policy", "balanced"), "expected auto-rebalance, balance, "),
        (
            ("synthetic", "--policy", "none", "--set", "fill_target=1"),
            "neither settings",
        ),
        (("synthetic", "--set", "fill_target=2"), "fill_target: expected"),
        (("synthetic", "--set", "tarpit=2"), "unknown setting"),
        (("synthetic", "--model", "cloudsim-3.0.3"), 'only "planetlab" is supported'),
        (("synthetic", "--hosts", "1"), "does not fit on 1 host"),
        (("synthetic", "--out", "run.xls"), "ends in .json, .csv or .parquet"),
        (("synthetic", "--series", "run.svg"), "ends in .json, .csv or .parquet"),
        (("synthetic", "--plot", "run.csv"), "ends in .svg, .png or .pdf"),
        (("synthetic", "--out", "none/run.csv"), "no such directory"),
        (
            ("synthetic", "--out", "x.csv", "--series", "x.csv"),
            "already used as input or output",
        ),
        (("tarot",), "tarot: expected a scenario file (.toml or .json), or one of"),
        (("none.toml",), "cannot read none.toml"),
    ],
)
def test_invalid_input_writes_nothing(
    opendrs: RunOpendrs, arguments: tuple[str, ...], message: str
) -> None:
    answer = opendrs("simulate", *arguments)

    assert answer.status == 2
    assert message in answer.err
    assert answer.out == ""
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--hosts", "3"), "--hosts: not allowed with a scenario file"),
        (("--model", "opendrs"), "--model: not allowed with a scenario file"),
        (("--set", "fill_target=1"), "--set: needs --policy"),
        (("path",), "a scenario file has no PATH"),
        (
            ("--out", "scenario.json", "--out", "x.csv"),
            "already used as input or output",
        ),
    ],
)
def test_scenario_rejects_workload_options(
    opendrs: RunOpendrs, arguments: tuple[str, ...], message: str
) -> None:
    Path("scenario.json").write_text(json.dumps(SCENARIO))

    answer = opendrs("simulate", "scenario.json", *arguments)

    assert answer.status == 2
    assert message in answer.err
    assert [each.name for each in Path().iterdir()] == ["scenario.json"]


def test_all_errors_of_a_scenario_are_listed(opendrs: RunOpendrs) -> None:
    answer = opendrs("simulate", write_scenario(seed="x", policies=[{"name": "y"}]))

    assert answer.status == 2
    first, second = answer.err.splitlines()
    assert first.startswith("opendrs: scenario.toml: seed: expected a whole number")
    assert second.startswith("opendrs: scenario.toml: policies[0].name: expected auto")


def test_scenario_without_capacity_fails_before_it_runs(
    opendrs: RunOpendrs,
) -> None:
    answer = opendrs("simulate", write_scenario(hosts=[{"count": 1, "memory": 900}]))

    assert answer.status == 2
    assert "does not fit on 1 host" in answer.err


def test_unknown_scheme_is_rejected(opendrs: RunOpendrs) -> None:
    name = write_day()

    answer = opendrs(
        *("simulate", "planetlab", name, "--model", "cloudsim-3.0.3"),
        *("--policy", "abc-mmt"),
    )

    assert answer.status == 2
    assert "policy 'abc-mmt'" in answer.err


def test_empty_directory_is_rejected(opendrs: RunOpendrs) -> None:
    Path("empty").mkdir()

    answer = opendrs("simulate", "planetlab", "empty")

    assert answer.status == 2
    assert "no traces found" in answer.err


def test_a_trace_is_never_written_over(opendrs: RunOpendrs) -> None:
    Path("load.csv").write_text("guest,cpu\na,10\na,20\n")

    answer = opendrs("simulate", "csv", "load.csv", "--out", "./load.csv")

    assert answer.status == 2
    assert "load.csv: already used as input or output" in answer.err
    assert Path("load.csv").read_text() == "guest,cpu\na,10\na,20\n"


def test_unwritable_output_leaves_nothing(
    opendrs: RunOpendrs,
) -> None:
    Path("run.csv").mkdir()

    answer = opendrs(*SMALL, "--out", "run.csv", "--series", "series.csv")

    assert answer.status == 2
    assert "run.csv: exists and is not a regular file" in answer.err
    assert [each.name for each in Path().iterdir()] == ["run.csv"]


@pytest.mark.parametrize("command", ["simulate"])
def test_help_loads_no_library_that_only_some_runs_need(command: str) -> None:
    program = (
        f"import sys; from opendrs.cli.main import run; run(['{command}', '--help']);"
        "print({'pandas', 'pyarrow', 'matplotlib', 'dask', 'distributed'}"
        " & set(sys.modules))"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, check=True
    )

    assert done.stdout.endswith(b"set()\n")
