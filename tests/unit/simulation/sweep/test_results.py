"""Results are read back as written, and other files are left unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.sweep.results import (
    COLUMN_TYPES,
    COLUMNS,
    METRICS,
    ResultRow,
    SweepCandidate,
    read_results,
    result_row,
    results_bytes,
    sweep_candidates,
    with_current_names,
    write_results,
)
from opendrs.simulation.sweep.tasks import run_task
from support.sweeps import prepared_trials, sweep_grid

ARROW_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def result_rows(**tables: object) -> list[ResultRow]:
    return [
        result_row(each.trial, each.identity, each.digest, run_task(each.task()))
        for each in prepared_trials(**tables)
    ]


@pytest.fixture(scope="module", name="found")
def fixture_found() -> list[ResultRow]:
    settings = {"fill_target": [0.5, 0.6], "history_length": 12}
    return result_rows(
        policies=[{"name": "none"}, {"name": "consolidate", "settings": settings}]
    )


def test_rows_are_read_back(found: list[ResultRow], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"

    write_results(path, found)

    back = {row["policy"]: row for row in read_results(path)}
    assert back == {row["policy"]: row for row in found}


def test_row_has_settings_and_metrics(found: list[ResultRow]) -> None:
    ours = next(row for row in found if "fill_target=0.5" in str(row["policy"]))

    assert ours["policy.fill_target"] == 0.5
    assert ours["policy.detector"] == Consolidate().detector.value
    assert ours["limits.cooldown"] == Limits().cooldown
    assert ours["behavior.power_on_time"] == 120
    assert (ours["seed"], ours["hosts"], ours["guests"]) == (1, 6, 8)
    assert ours["workload"] == "synthetic, 8 guests, 1 day, seed 1"
    assert isinstance(ours["energy_kwh"], float)
    assert set(METRICS) < set(ours) == set(COLUMNS)


def test_run_without_policy_has_no_settings(found: list[ResultRow]) -> None:
    without_policy = next(row for row in found if row["policy"] == "none")

    assert without_policy["policy.fill_target"] is None
    assert without_policy["limits.cooldown"] is None


def test_column_types_are_independent_of_policy(found: list[ResultRow]) -> None:
    for some in (found, found[:1], found[1:]):
        content = results_bytes(some)
        schema = parquet.read_schema(pa.BufferReader(content))
        assert {name: schema.field(name).type for name in COLUMNS} == {
            name: ARROW_TYPES[COLUMN_TYPES[name]] for name in COLUMNS
        }


def test_results_are_independent_of_run_order(found: list[ResultRow]) -> None:
    assert results_bytes(found) == results_bytes([*reversed(found), found[0]])


def test_unchanged_results_are_not_rewritten(
    found: list[ResultRow], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    write_results(path, found)
    before = path.stat().st_ino

    write_results(path, found)
    assert path.stat().st_ino == before
    write_results(path, found[:1])
    assert path.stat().st_ino != before


def test_columns_of_later_version_are_kept(
    found: list[ResultRow], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    later: Mapping[str, float] = {"kindness": 0.5}

    write_results(path, [{**found[0], **later}, found[1]])

    kind = {row["id"]: row["kindness"] for row in read_results(path)}
    assert kind == {found[0]["id"]: 0.5, found[1]["id"]: None}


def test_row_has_current_names(found: list[ResultRow]) -> None:
    (entry,) = prepared_trials(policies=[{"name": "none", "label": "nobody"}])

    assert with_current_names(found[0], entry.trial) == {**found[0], "policy": "nobody"}


def test_missing_results_have_no_rows(tmp_path: Path) -> None:
    assert read_results(tmp_path / "x.parquet") == []


def test_other_parquet_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"id": ["a"]}), path)

    with pytest.raises(InvalidFileError, match="not the result of a sweep"):
        read_results(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"something else\n" * 9])
def test_file_without_parquet_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)

    with pytest.raises(InvalidFileError, match="invalid Parquet file"):
        read_results(path)


def test_truncated_results_are_reported(found: list[ResultRow], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    content = results_bytes(found)
    path.write_bytes(content[: len(content) // 2])

    with pytest.raises(InvalidFileError, match="invalid Parquet file"):
        read_results(path)


TRIALS = sweep_grid(
    seed=[1, 2], policies=[{"name": ["none", "lr-mmt", "thr-mmt"]}]
).trials

FRONT_METRICS = ("energy_kwh", "slav")


def metric_rows(**figures: list[tuple[float | None, float | None]]) -> list[ResultRow]:
    """Return a row for each trial, from energy and SLAV by policy and seed."""
    return [
        dict(
            zip(
                FRONT_METRICS,
                figures[trial.label.partition("-")[0]][trial.seed - 1],
                strict=True,
            )
        )
        for trial in TRIALS
    ]


def candidates_by_label(
    **figures: list[tuple[float | None, float | None]],
) -> dict[str, SweepCandidate]:
    return {
        each.label: each
        for each in sweep_candidates(TRIALS, metric_rows(**figures), FRONT_METRICS)
    }


def test_means_are_taken_over_loads_and_seeds() -> None:
    made = candidates_by_label(
        none=[(8, 0), (10, 0)], lr=[(4, 3), (6, 4)], thr=[(5, 5), (7, 7)]
    )

    assert list(made) == ["lr-mmt", "thr-mmt", "none"]
    assert made["lr-mmt"].runs == 2
    assert made["lr-mmt"].means["energy_kwh"] == 5
    assert made["lr-mmt"].means["slav"] == pytest.approx(3.5)
    assert made["lr-mmt"].name == "lr-mmt"
    assert made["lr-mmt"].means["power_ons"] is None


def test_dominated_candidate_is_not_on_front() -> None:
    made = candidates_by_label(
        none=[(8, 0), (10, 0)], lr=[(4, 3), (6, 4)], thr=[(5, 5), (7, 7)]
    )

    assert {label: each.on_front for label, each in made.items()} == {
        "lr-mmt": True,
        "thr-mmt": False,
        "none": True,
    }


def test_mean_of_partly_unknown_metric_is_unknown() -> None:
    made = candidates_by_label(
        none=[(8, 0), (10, 0)], lr=[(4, 3), (None, 4)], thr=[(5, 5), (7, 7)]
    )

    assert made["lr-mmt"].means["energy_kwh"] is None
    assert not made["lr-mmt"].on_front
    assert list(made) == ["thr-mmt", "none", "lr-mmt"]
