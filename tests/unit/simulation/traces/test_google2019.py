"""Google's trace of 2019, in small files of the published format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces import WindowSettings, read_google2019
from opendrs.simulation.workload import CpuUnit, MemoryUnit
from support.errors import has_code

SHORT = WindowSettings(length=1200)
SECOND = 1_000_000
Record = dict[str, object]


def sample(
    start: float,
    cpus: float | None,
    memory: float | None = 0.25,
    seconds: float = 300,
    instance: int = 1,
) -> Record:
    """Return a record as published, with integers as strings."""
    usage = {"cpus": cpus, "memory": memory}
    return {
        "start_time": str(int(start * SECOND)),
        "end_time": str(int((start + seconds) * SECOND)),
        "collection_id": "330587238433",
        "instance_index": str(instance),
        "machine_id": "23624491139",
        "alloc_collection_id": "330587160469",
        "alloc_instance_index": "111",
        "collection_type": "0",
        "average_usage": {
            name: each for name, each in usage.items() if each is not None
        },
        "maximum_usage": {"cpus": 0.9, "memory": 0.9},
        "random_sample_usage": {"cpus": 0.1},
        "assigned_memory": 0,
        "cpu_usage_distribution": [0.0004711151123046875, 0.04779052734375],
    }


def steady(cpus: float, instance: int = 1) -> list[Record]:
    return [sample(600 + 300 * each, cpus, instance=instance) for each in range(4)]


def write_file(path: Path, records: Iterable[Record]) -> Path:
    text = "".join(f"{json.dumps(each)}\n" for each in records).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_instance_size_is_largest_usage(tmp_path: Path) -> None:
    records = [sample(600 + 300 * each, 0.1 * (each + 1)) for each in range(4)]
    write_file(tmp_path / "instance_usage-000000000000.json.gz", records)

    work = read_google2019(tmp_path, SHORT)

    assert work.names == ("330587238433-1",)
    assert work.cpu.tolist() == [pytest.approx([0.25, 0.5, 0.75, 1.0])]
    assert work.memory is not None
    assert work.memory.tolist() == [[1.0] * 4]
    assert work.sizes is not None
    assert work.sizes.cpu_unit is CpuUnit.LARGEST_HOST
    assert work.sizes.memory_unit is MemoryUnit.LARGEST_HOST
    assert work.sizes.cpu.tolist() == pytest.approx([0.4])
    assert work.sizes.memory is not None
    assert work.sizes.memory.tolist() == [0.25]


def test_files_are_merged(tmp_path: Path) -> None:
    records = [*steady(0.1), *steady(0.2, instance=2)]
    write_file(tmp_path / "instance_usage-000000000000.json.gz", records[::2])
    write_file(tmp_path / "instance_usage-000000000001.json", records[1::2])
    write_file(tmp_path / "machine_events-000000000000.json", [{"machine_id": "1"}])

    assert len(read_google2019(tmp_path, SHORT).names) == 2


def test_alloc_instances_are_skipped_with_note(tmp_path: Path) -> None:
    allocs = [{**each, "collection_type": "1"} for each in steady(0.9, instance=2)]
    path = write_file(tmp_path / "usage.json", [*steady(0.1), *allocs])

    work = read_google2019(path, SHORT)

    assert work.names == ("330587238433-1",)
    assert work.notes[-1].endswith(": 4")


def test_samples_are_weighted_by_duration(tmp_path: Path) -> None:
    records = [
        sample(600, 0.9, seconds=100),
        sample(700, 0.3, seconds=200),
        *steady(0.5)[1:],
    ]

    work = read_google2019(write_file(tmp_path / "usage.json", records), SHORT)

    assert work.sizes is not None
    assert (work.cpu * work.sizes.cpu).tolist() == [pytest.approx([0.5] * 4)]


def test_missing_samples_are_unknown(tmp_path: Path) -> None:
    records = steady(0.5)
    records[1] = sample(900, None, None)
    path = write_file(tmp_path / "usage.json", records)

    work = read_google2019(path, SHORT)

    assert work.cpu.tolist() == [[1.0] * 4]
    assert "900 s" in work.notes[0]
    with pytest.raises(
        InvalidFileError,
        match="no guest exists",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        read_google2019(path, WindowSettings(length=1200, max_gap=0))


def test_sample_without_usage_is_unknown(tmp_path: Path) -> None:
    records = steady(0.5)
    records[1] = {**records[1], "average_usage": None}
    del records[2]["average_usage"]
    path = write_file(tmp_path / "usage.json", records)

    assert "2 samples of 1 guest" in read_google2019(path, SHORT).notes[0]


def test_idle_guest_has_minimum_size(tmp_path: Path) -> None:
    work = read_google2019(write_file(tmp_path / "usage.json", steady(0.0)), SHORT)

    assert work.cpu.tolist() == [[0.0] * 4]


def test_exports_agree_with_published_files(tmp_path: Path) -> None:
    records = [*steady(0.1), *steady(0.2, instance=2)]
    flat = pa.Table.from_pylist(
        [
            {
                "start_time": int(str(each["start_time"])),
                "end_time": int(str(each["end_time"])),
                "collection_id": int(str(each["collection_id"])),
                "instance_index": int(str(each["instance_index"])),
                "average_usage": each["average_usage"],
            }
            for each in records
        ]
    )
    parquet.write_table(flat, tmp_path / "usage.parquet")
    csv.write_csv(flat.flatten(), tmp_path / "usage.csv")
    published = read_google2019(write_file(tmp_path / "usage.json", records), SHORT)

    for name in ("usage.parquet", "usage.csv"):
        work = read_google2019(tmp_path / name, SHORT)
        assert work.names == published.names
        assert (work.cpu == published.cpu).all()
        assert (work.memory == published.memory).all()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("record", "detail", "code"),
    [
        (
            sample(900, -0.1),
            "average_usage.cpus: expected .* got -0.1",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            {**sample(900, 0.1), "start_time": "soon"},
            "start_time: .* got 'soon'",
            DiagnosticCode.WRONG_TYPE,
        ),
        (
            {**sample(900, 0.1), "end_time": None},
            "end_time: .* got nothing",
            DiagnosticCode.MISSING_KEY,
        ),
        *(
            (
                {**sample(900, 0.1), "average_usage": wrong},
                rf"average_usage\.cpus: expected .* got {expected} instead of",
                DiagnosticCode.WRONG_TYPE,
            )
            for wrong, expected in (("x", "'x'"), (0.5, "0.5"), ([], r"\[\]"))
        ),
        (
            {**sample(900, 0.1), "instance_index": None},
            "instance_index: expected a name",
            DiagnosticCode.MISSING_KEY,
        ),
    ],
)
def test_invalid_line_is_reported(
    tmp_path: Path, record: Record, detail: str, code: DiagnosticCode
) -> None:
    path = write_file(tmp_path / "usage.json", [sample(600, 0.1), record])

    with pytest.raises(
        InvalidFileError, match=rf"usage\.json, line 2: {detail}", check=has_code(code)
    ):
        read_google2019(path)


def test_sample_ending_before_its_start_is_reported(tmp_path: Path) -> None:
    path = write_file(tmp_path / "usage.json", [sample(600, 0.1, seconds=-300)])

    with pytest.raises(
        InvalidFileError,
        match=r"end_time of a sample of .* got 300000000",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_google2019(path)


def test_duplicate_samples_are_reported(tmp_path: Path) -> None:
    path = write_file(tmp_path / "usage.json", [*steady(0.1), *steady(0.1)])

    with pytest.raises(
        InvalidFileError,
        match="too many samples from 600 to 900",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        read_google2019(path, SHORT)


def test_missing_or_unknown_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidFileError,
        match="no instance_usage",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_google2019(tmp_path)
    with pytest.raises(
        InvalidFileError,
        match="No such file",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_google2019(tmp_path / "missing.json")
    path = tmp_path / "usage.avro"
    path.write_bytes(b"Obj")
    with pytest.raises(
        InvalidFileError,
        match=r"expected .json",
        check=has_code(DiagnosticCode.UNUSABLE_FILE),
    ):
        read_google2019(path)
    (tmp_path / "usage.csv").write_text("start_time,end_time\n1,2\n")
    with pytest.raises(
        InvalidFileError,
        match="no column 'collection_id'",
        check=has_code(DiagnosticCode.MISSING_KEY),
    ):
        read_google2019(tmp_path / "usage.csv")
