"""opendrs sweep: policies, settings, loads and seeds, in every combination."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import distributed  # noqa: F401 - or its settings would be forgotten with ours
import pytest
import tomli_w
from pyarrow import parquet

from opendrs.cli.sweep_report import SweepReport, print_sweep
from opendrs.simulation.sweep.dask_cluster import SILENCED_LOGGERS
from opendrs.simulation.sweep.parsing import read_sweep
from opendrs.simulation.sweep.results import METRICS, RUN_COLUMNS, SweepCandidate
from opendrs.simulation.sweep.run import prepare_trials
from support.network import free_port
from support.sweeps import SMALL_SWEEP, ignore_progress
from support.terminal import RunOpendrs

DOCUMENTS = Path(__file__).parents[3] / "docs/reference"
POLICIES = [
    {"name": ["none", "lr-mmt"]},
    {"name": "consolidate", "settings": {"fill_target": [0.5, 0.8]}},
]
ONE = ("--jobs", "1")  # processes take longer to begin than these runs do


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    """Restore the log levels that a command has raised."""
    before = {name: logging.getLogger(name).level for name in SILENCED_LOGGERS}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def write_sweep(name: str = "grid.toml", **tables: Any) -> str:  # noqa: ANN401 - a document
    Path(name).write_text(
        tomli_w.dumps({**SMALL_SWEEP, "policies": POLICIES, **tables})
    )
    return name


def files() -> list[str]:
    return sorted(each.name for each in Path().iterdir())


def test_prints_a_table_and_keeps_every_run(opendrs: RunOpendrs) -> None:
    answer = opendrs("sweep", write_sweep(seed=[1, 2]), *ONE)

    assert answer.status == 0
    head, *lines = answer.out.splitlines()
    assert head.split() == [
        *("energy", "(kWh)", "SLAV", "energy", "/", "lower", "bound"),
        *("migrations", "policy"),
    ]
    labels = (
        "none",
        "lr-mmt",
        "consolidate fill_target=0.5",
        "consolidate fill_target=0.8",
    )
    for label in labels:
        assert len([line for line in lines if line.rstrip().endswith(label)]) == 1
    assert lines[0].startswith("*")
    assert (
        "* on the Pareto front of energy (kWh) and SLA violation (SLAV); "
        "means of 2 runs." in answer.out
    )
    assert "8 runs, 8 of them new; results: grid.parquet" in answer.out
    assert files() == ["grid.parquet", "grid.toml"]
    rows = parquet.read_table("grid.parquet").to_pylist()
    assert {(row["policy"], row["seed"]) for row in rows} == {
        (label, seed) for label in labels for seed in (1, 2)
    }


def test_prints_json_for_programs(opendrs: RunOpendrs) -> None:
    answer = opendrs("sweep", write_sweep(seed=[1, 2]), *ONE, "--format", "json")

    document = json.loads(answer.out)
    assert document["title"] == "grid"
    assert document["results"] == "grid.parquet"
    assert (document["runs"], document["computed"]) == (8, 8)
    assert document["front"] == ["energy_kwh", "slav"]
    found = {each["label"]: each for each in document["candidates"]}
    rows = parquet.read_table("grid.parquet").to_pylist()
    for label, each in found.items():
        own = [row["energy_kwh"] for row in rows if row["policy"] == label]
        assert each["runs"] == len(own) == 2
        assert each["means"]["energy_kwh"] == pytest.approx(sum(own) / 2)
    points = [
        (each["means"]["energy_kwh"], each["means"]["slav"]) for each in found.values()
    ]
    assert {label for label, each in found.items() if each["on_front"]} == {
        label
        for label, (x, y) in zip(found, points, strict=True)
        if not any((a < x and b <= y) or (a <= x and b < y) for a, b in points)
    }


def test_a_run_is_that_of_simulate(opendrs: RunOpendrs) -> None:
    opendrs("sweep", write_sweep(policies=[{"name": "lr-mmt"}], seed=2), *ONE)
    options = ("--guests", "8", "--hosts", "6", "--seed", "2", "--policy", "lr-mmt")
    alone = opendrs("simulate", "synthetic", *options, "--format", "json")

    (row,) = parquet.read_table("grid.parquet").to_pylist()
    metrics = json.loads(alone.out)["metrics"]
    assert {name: row[name] for name in metrics} == metrics


def test_policies_with_their_settings_are_runs_of_their_own(
    opendrs: RunOpendrs,
) -> None:
    Path("day").mkdir()
    for name in ("a", "b", "c"):
        (Path("day") / name).write_text("20\n" * 288)
    policies = [
        {"name": ["balance", "threshold-rebalance"]},
        {"name": "balance", "settings": {"threshold": [0.2, 0.3]}},
    ]
    workload = {"kind": "planetlab", "path": "day", "length": 1200}
    name = write_sweep(workload=workload, policies=policies)

    answer = opendrs("sweep", name, *ONE, "--format", "json")

    assert answer.err == ""
    assert {each["label"] for each in json.loads(answer.out)["candidates"]} == {
        "balance",
        "threshold-rebalance",
        "balance threshold=0.2",
        "balance threshold=0.3",
    }
    rows = parquet.read_table("grid.parquet").to_pylist()
    assert len({row["id"] for row in rows}) == 4
    assert {row["limits.cooldown"] for row in rows} == {600.0}
    found = {json.loads(row["parameters"])["policy"]["name"] for row in rows}
    assert found == {"balance", "threshold-rebalance"}


def test_existing_runs_are_not_repeated(opendrs: RunOpendrs) -> None:
    name = write_sweep()
    first = opendrs("sweep", name, *ONE, "--format", "json")
    before = Path("grid.parquet").read_bytes()

    again = opendrs("sweep", name, *ONE, "--format", "json")

    assert json.loads(again.out) == {**json.loads(first.out), "computed": 0}
    assert Path("grid.parquet").read_bytes() == before


def test_front_uses_the_requested_metrics(opendrs: RunOpendrs) -> None:
    options = ("--front", "migrations", "energy_kwh", "--format", "json")

    document = json.loads(opendrs("sweep", write_sweep(), *ONE, *options).out)

    assert document["front"] == ["migrations", "energy_kwh"]
    first = document["candidates"][0]
    assert (first["label"], first["on_front"]) == ("none", True)
    moves = [each["means"]["migrations"] for each in document["candidates"]]
    assert moves == sorted(moves)


def test_front_of_equal_metrics_is_rejected(opendrs: RunOpendrs) -> None:
    answer = opendrs("sweep", "x.toml", "--front", "slav", "slav")

    assert (answer.status, answer.err) == (
        2,
        "opendrs: --front: expected two different metrics, got slav twice\n",
    )


def test_draws_the_front(opendrs: RunOpendrs) -> None:
    answer = opendrs("sweep", write_sweep(title="a <grid>"), *ONE, "--plot", "x.svg")

    assert answer.status == 0
    plot = Path("x.svg").read_text()
    for text in ("a &lt;grid&gt;", "energy (kWh)", "SLAV", "on the front:", "lr-mmt"):
        assert text in plot


def test_of_very_many_the_table_shows_the_front_first_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = [
        SweepCandidate(
            label=f"policy{number}",
            name="policy",
            runs=1,
            means={"energy_kwh": number, "slav": 99 - number},
            on_front=number > 50,
        )
        for number in range(60)
    ]
    outcome = SweepReport(
        title="many",
        results=Path("x.parquet"),
        runs=60,
        computed=0,
        front=("energy_kwh", "slav"),
        candidates=many,
    )

    print_sweep(outcome)

    out = capsys.readouterr().out
    numbers = [int(number) for number in re.findall(r"policy(\d+)", out)]
    assert numbers == [*range(31), *range(51, 60)]
    assert "20 more not shown" in out


def test_results_go_to_the_requested_file(opendrs: RunOpendrs) -> None:
    Path("deep").mkdir()

    opendrs("sweep", write_sweep(), *ONE, "--out", "deep/x.parquet")

    assert files() == ["deep", "grid.toml"]
    assert [each.name for each in Path("deep").iterdir()] == ["x.parquet"]


def test_policies_of_both_models_are_distinct(opendrs: RunOpendrs) -> None:
    Path("day").mkdir()
    for name in ("a", "b"):
        (Path("day") / name).write_text("20\n" * 288)
    name = write_sweep(
        model=["opendrs", "cloudsim-3.0.3"],
        workload={"kind": "planetlab", "path": "day"},
        policies=[{"name": "lr-mmt"}],
    )

    answer = opendrs("sweep", name, *ONE, "--format", "json")

    assert answer.err == ""
    found = json.loads(answer.out)["candidates"]
    assert {each["label"] for each in found} == {
        "lr-mmt model=opendrs",
        "lr-mmt-1.2 model=cloudsim-3.0.3",
    }


def test_plot_of_missing_metric_is_rejected(opendrs: RunOpendrs) -> None:
    Path("day").mkdir()
    (Path("day") / "a").write_text("20\n" * 288)
    name = write_sweep(
        model="cloudsim-3.0.3",
        workload={"kind": "planetlab", "path": "day"},
        policies=[{"name": "lr-mmt"}],
    )
    options = ("--front", "bound_ratio", "slav", "--plot", "x.svg")

    answer = opendrs("sweep", name, *ONE, *options)

    assert answer.status == 2
    assert "--plot: no policy has both bound_ratio and slav" in answer.err
    assert "1 run, 1 of them new; results: grid.parquet" in answer.out
    assert not Path("x.svg").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--out", "x.csv"), "x.csv: expected a name that ends in .parquet"),
        (("--out", "none/x.parquet"), "no such directory: none"),
        (
            ("--out", "folder.parquet"),
            "folder.parquet: exists and is not a regular file",
        ),
        (("--plot", "x.csv"), "expected a name that ends in .svg, .png or .pdf"),
        (("--jobs", "0"), "0 is not in the range"),
        (("--front", "energy_kwh", "tarot"), "'tarot' is not one of"),
        (("--jobs", "2", "--scheduler", "tcp://host:1"), "--jobs: cannot be combined"),
        (("--scheduler", ""), "expected an address such as tcp://10.0.0.1:8786"),
        (("--scheduler", "host"), "expected an address such as tcp://10.0.0.1:8786"),
        (("--scheduler", "http://host:1"), "expected an address such as tcp://"),
        (("--scheduler", "inproc://host:1"), "expected an address such as tcp://"),
        (("--scheduler", "tcp://host:x"), "expected an address such as tcp://"),
        (("--scheduler", "tls://host:1"), "certificates missing"),
    ],
)
def test_invalid_option_writes_nothing(
    opendrs: RunOpendrs, options: tuple[str, ...], message: str
) -> None:
    Path("folder.parquet").mkdir()
    name = write_sweep()

    answer = opendrs("sweep", name, *options)

    assert answer.status == 2
    assert message in answer.err
    assert answer.out == ""
    assert files() == ["folder.parquet", name]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"seed": ["x"]}, "opendrs: grid.toml: seed[0]: expected a whole number"),
        (
            {
                "policies": [
                    {"name": "consolidate", "settings": {"fill_target": [0.5, 9]}}
                ]
            },
            "fill_target[1]: expected",
        ),
        ({"workload": {"kind": "csv", "path": "no.csv"}}, "no.csv: No such file"),
        ({"workload": {"kind": "csv", "path": ["good.csv", "bad.csv"]}}, "bad.csv"),
        ({"hosts": [{"count": [6, 1], "memory": 900}]}, "does not fit on 6 hosts"),
    ],
)
def test_invalid_sweep_writes_nothing(
    opendrs: RunOpendrs, tables: dict[str, Any], message: str
) -> None:
    Path("good.csv").write_text("guest,cpu\na,10\na,20\n")
    Path("bad.csv").write_text("guest,cpu\na,10\na,-20\n")
    name = write_sweep(**tables)

    answer = opendrs("sweep", name, *ONE)

    assert answer.status == 2
    assert message in answer.err
    assert answer.out == ""
    assert files() == ["bad.csv", "good.csv", name]


@pytest.mark.parametrize("name", ["none.toml", "folder.toml", "broken.toml", "."])
def test_file_of_another_format_is_rejected(opendrs: RunOpendrs, name: str) -> None:
    Path("folder.toml").mkdir()
    Path("broken.toml").write_text("seed = [")

    answer = opendrs("sweep", name)

    assert answer.status == 2
    assert answer.err.startswith("opendrs: ")
    assert files() == ["broken.toml", "folder.toml"]


def test_results_of_another_sweep_are_unchanged(opendrs: RunOpendrs) -> None:
    opendrs("sweep", write_sweep(), *ONE)
    before = Path("grid.parquet").read_bytes()

    answer = opendrs("sweep", write_sweep(seed=5), *ONE)

    assert answer.status == 2
    assert "grid.parquet: contains only runs of another sweep" in answer.err
    assert Path("grid.parquet").read_bytes() == before
    assert files() == ["grid.parquet", "grid.toml"]


def test_foreign_files_are_unchanged(opendrs: RunOpendrs) -> None:
    name = write_sweep()
    Path("x.parquet").write_text("mine")
    Path("y.parquet.journal").write_text("mine")

    for out in ("x.parquet", "y.parquet"):
        answer = opendrs("sweep", name, *ONE, "--out", out)
        assert answer.status == 2
        assert out in answer.err

    assert Path("x.parquet").read_text() == "mine"
    assert Path("y.parquet.journal").read_text() == "mine"
    assert files() == ["grid.toml", "x.parquet", "y.parquet.journal"]


def test_a_trace_is_never_written_over(opendrs: RunOpendrs) -> None:
    workload = {"kind": "parquet", "path": "load.parquet"}

    answer = opendrs("sweep", write_sweep(workload=workload), "--out", "load.parquet")

    assert answer.status == 2
    assert "load.parquet: already used as input or output" in answer.err


@pytest.fixture(name="silent_port")
def fixture_silent_port() -> Iterator[int]:
    """Give a port with a listener that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_unreachable_scheduler_is_reported(opendrs: RunOpendrs) -> None:
    port, name = free_port(), write_sweep()

    answer = opendrs("sweep", name, "--scheduler", f"tcp://127.0.0.1:{port}")

    assert answer.status == 3
    assert f"no Dask scheduler responds at tcp://127.0.0.1:{port}" in answer.err
    assert files() == [name]


def test_unresponsive_scheduler_is_reported(
    opendrs: RunOpendrs, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendrs.simulation.sweep.dask_cluster.CONNECT_TIMEOUT", 0.2)
    name = write_sweep()

    answer = opendrs("sweep", name, "--scheduler", f"tcp://127.0.0.1:{silent_port}")

    assert answer.status == 3
    assert "no Dask scheduler responds" in answer.err
    assert files() == [name]


def test_missing_library_is_reported(
    opendrs: RunOpendrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)

    answer = opendrs("sweep", write_sweep(), "--scheduler", "tcp://127.0.0.1:1")

    assert answer.status == 2
    assert "--scheduler needs dask: pip install '.[dask]', in a checkout" in answer.err


def test_missing_certificates_are_reported(opendrs: RunOpendrs) -> None:
    tls = "distributed.comm.tls"
    named = {f"{tls}.ca-file": "no.pem", f"{tls}.client.cert": "no.pem"}

    with dask.config.set(named):
        answer = opendrs("sweep", write_sweep(), "--scheduler", "tls://127.0.0.1:1")

    assert answer.status == 2
    assert "certificates missing; set distributed.comm.tls" in answer.err
    assert "No such file" in answer.err


def test_reference_example_and_table_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCUMENTS / "sweep.md").read_text()
    Path("grid.toml").write_text(text.split("```toml\n")[1].split("```")[0])

    found = prepare_trials(read_sweep(Path("grid.toml")), ignore_progress)

    lines = text.split("```\n")[2].splitlines()
    labels = {each.trial.label for each in found}
    assert len(found) == 2 * len(labels) == 18
    for label in labels:
        assert len([line for line in lines if line.endswith(f"  {label}")]) == 1


def test_every_column_of_the_results_is_in_the_reference() -> None:
    text = (DOCUMENTS / "sweep.md").read_text() + (
        DOCUMENTS / "simulate.md"
    ).read_text()

    missing = [name for name in (*RUN_COLUMNS, *METRICS) if f"`{name}`" not in text]
    assert missing == []


def test_help_loads_no_library_that_only_some_runs_need() -> None:
    program = (
        "import sys; from opendrs.cli.main import run; run(['sweep', '--help']);"
        "print({'pandas', 'pyarrow', 'matplotlib', 'dask', 'distributed'}"
        " & set(sys.modules))"
    )

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], capture_output=True, check=True
    )

    assert done.stdout.endswith(b"set()\n")
