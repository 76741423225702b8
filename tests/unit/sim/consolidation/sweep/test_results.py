"""Results are read back as they were written, and another's file is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from opendrs.errors import InvalidFileError
from opendrs.model import Limits
from opendrs.policies import Consolidate
from opendrs.sim.consolidation.sweep.results import (
    COLUMNS,
    METRICS,
    TYPES,
    Row,
    read_results,
    renamed,
    results_bytes,
    row_of,
    write_results,
)
from opendrs.sim.consolidation.sweep.task import done
from sweeps import entries

KNOWN = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def rows(**tables: object) -> list[Row]:
    return [
        row_of(each.trial, each.identity, each.digest, done(each.task()))
        for each in entries(**tables)
    ]


@pytest.fixture(scope="module", name="found")
def fixture_found() -> list[Row]:
    settings = {"target": [0.5, 0.6], "history": 12}
    return rows(
        policies=[{"name": "none"}, {"name": "consolidate", "settings": settings}]
    )


def test_rows_are_read_back(found: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"

    write_results(path, found)

    back = {row["policy"]: row for row in read_results(path)}
    assert back == {row["policy"]: row for row in found}


def test_a_row_tells_all_that_was_set_and_all_that_came_of_it(found: list[Row]) -> None:
    ours = next(row for row in found if "target=0.5" in str(row["policy"]))

    assert ours["policy.target"] == 0.5
    assert ours["policy.detector"] == Consolidate().detector.value
    assert ours["limits.cooldown"] == Limits().cooldown
    assert ours["behaviour.wake"] == 120
    assert (ours["seed"], ours["hosts"], ours["guests"]) == (1, 6, 8)
    assert ours["workload"] == "synthetic, 8 guests, 1 day, seed 1"
    assert isinstance(ours["energy_kwh"], float)
    assert set(METRICS) < set(ours) == set(COLUMNS)


def test_nobody_has_no_settings(found: list[Row]) -> None:
    nobody = next(row for row in found if row["policy"] == "none")

    assert nobody["policy.target"] is None
    assert nobody["limits.cooldown"] is None


def test_columns_are_of_one_type_whoever_ran(found: list[Row]) -> None:
    for some in (found, found[:1], found[1:]):
        content = results_bytes(some)
        schema = parquet.read_schema(pa.BufferReader(content))
        assert {name: schema.field(name).type for name in COLUMNS} == {
            name: KNOWN[TYPES[name]] for name in COLUMNS
        }


def test_the_order_of_runs_does_not_show(found: list[Row]) -> None:
    assert results_bytes(found) == results_bytes([*reversed(found), found[0]])


def test_a_file_that_is_as_it_should_be_is_not_written_again(
    found: list[Row], tmp_path: Path
) -> None:
    path = tmp_path / "x.parquet"
    write_results(path, found)
    before = path.stat().st_ino

    write_results(path, found)
    assert path.stat().st_ino == before
    write_results(path, found[:1])
    assert path.stat().st_ino != before


def test_what_a_later_version_adds_is_kept(found: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    later: Mapping[str, float] = {"kindness": 0.5}

    write_results(path, [{**found[0], **later}, found[1]])

    kind = {row["id"]: row["kindness"] for row in read_results(path)}
    assert kind == {found[0]["id"]: 0.5, found[1]["id"]: None}


def test_a_run_is_called_as_it_is_called_now(found: list[Row]) -> None:
    (entry,) = entries(policies=[{"name": "none", "label": "nobody"}])

    assert renamed(found[0], entry.trial) == {**found[0], "policy": "nobody"}


def test_no_file_holds_no_rows(tmp_path: Path) -> None:
    assert read_results(tmp_path / "x.parquet") == []


def test_another_parquet_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"id": ["a"]}), path)

    with pytest.raises(InvalidFileError, match="is not the result of a sweep"):
        read_results(path)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"something else\n" * 9])
def test_a_file_that_is_no_parquet_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(content)

    with pytest.raises(InvalidFileError, match="no sound Parquet file"):
        read_results(path)


def test_a_file_that_was_cut_is_told(found: list[Row], tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    content = results_bytes(found)
    path.write_bytes(content[: len(content) // 2])

    with pytest.raises(InvalidFileError, match="no sound Parquet file"):
        read_results(path)
