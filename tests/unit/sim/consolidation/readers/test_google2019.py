"""Google's trace of 2019, in small files of the form that is published."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.readers import Window, google2019
from opendrs.sim.consolidation.workload import CpuUnit, MemoryUnit

SHORT = Window(length=1200)
SECOND = 1_000_000
Record = dict[str, object]


def sample(
    start: float,
    cpus: float | None,
    memory: float | None = 0.25,
    seconds: float = 300,
    instance: int = 1,
) -> Record:
    """Return a record as published, whole numbers as strings."""
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


def written(path: Path, records: Iterable[Record]) -> Path:
    text = "".join(f"{json.dumps(each)}\n" for each in records).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_instances_are_as_large_as_the_most_they_used(tmp_path: Path) -> None:
    records = [sample(600 + 300 * each, 0.1 * (each + 1)) for each in range(4)]
    written(tmp_path / "instance_usage-000000000000.json.gz", records)

    work = google2019(tmp_path, SHORT)

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


def test_files_are_put_together(tmp_path: Path) -> None:
    records = [*steady(0.1), *steady(0.2, instance=2)]
    written(tmp_path / "instance_usage-000000000000.json.gz", records[::2])
    written(tmp_path / "instance_usage-000000000001.json", records[1::2])
    written(tmp_path / "machine_events-000000000000.json", [{"machine_id": "1"}])

    assert len(google2019(tmp_path, SHORT).names) == 2


def test_alloc_instances_are_left_out_and_told(tmp_path: Path) -> None:
    allocs = [{**each, "collection_type": "1"} for each in steady(0.9, instance=2)]
    path = written(tmp_path / "usage.json", [*steady(0.1), *allocs])

    work = google2019(path, SHORT)

    assert work.names == ("330587238433-1",)
    assert work.notes[-1] == "samples of alloc instances are left out: 4"


def test_shorter_samples_count_less(tmp_path: Path) -> None:
    records = [
        sample(600, 0.9, seconds=100),
        sample(700, 0.3, seconds=200),
        *steady(0.5)[1:],
    ]

    work = google2019(written(tmp_path / "usage.json", records), SHORT)

    assert work.sizes is not None
    assert (work.cpu * work.sizes.cpu).tolist() == [pytest.approx([0.5] * 4)]


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    records = steady(0.5)
    records[1] = sample(900, None, None)
    path = written(tmp_path / "usage.json", records)

    work = google2019(path, SHORT)

    assert work.cpu.tolist() == [[1.0] * 4]
    assert "gaps of at most 900 s" in work.notes[0]
    with pytest.raises(InvalidFileError, match="no guest is there"):
        google2019(path, Window(length=1200, carried=0))


def test_where_no_usage_is_told_it_is_unknown(tmp_path: Path) -> None:
    records = steady(0.5)
    records[1] = {**records[1], "average_usage": None}
    del records[2]["average_usage"]
    path = written(tmp_path / "usage.json", records)

    assert "2 samples of 1 guests" in google2019(path, SHORT).notes[0]


def test_a_guest_that_does_nothing_has_a_size_all_the_same(tmp_path: Path) -> None:
    work = google2019(written(tmp_path / "usage.json", steady(0.0)), SHORT)

    assert work.cpu.tolist() == [[0.0] * 4]


def test_exports_read_as_what_is_published(tmp_path: Path) -> None:
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
    published = google2019(written(tmp_path / "usage.json", records), SHORT)

    for name in ("usage.parquet", "usage.csv"):
        work = google2019(tmp_path / name, SHORT)
        assert work.names == published.names
        assert (work.cpu == published.cpu).all()
        assert (work.memory == published.memory).all()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (sample(900, -0.1), "average_usage.cpus: expected .* found -0.1"),
        ({**sample(900, 0.1), "start_time": "soon"}, "start_time: .* found 'soon'"),
        ({**sample(900, 0.1), "end_time": None}, "end_time: .* found nothing"),
        *(
            (
                {**sample(900, 0.1), "average_usage": wrong},
                rf"average_usage\.cpus: expected .* found {told} instead of an object",
            )
            for wrong, told in (("x", "'x'"), (0.5, "0.5"), ([], r"\[\]"))
        ),
        (
            {**sample(900, 0.1), "instance_index": None},
            "instance_index: expected a name",
        ),
    ],
)
def test_says_in_which_line_what_is_wrong(
    tmp_path: Path, record: Record, why: str
) -> None:
    path = written(tmp_path / "usage.json", [sample(600, 0.1), record])

    with pytest.raises(InvalidFileError, match=rf"usage\.json, line 2: {why}"):
        google2019(path)


def test_a_sample_that_ends_before_it_begins_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "usage.json", [sample(600, 0.1, seconds=-300)])

    with pytest.raises(
        InvalidFileError, match=r"end_time of a sample of .* found 300000000"
    ):
        google2019(path)


def test_samples_that_are_there_twice_are_told(tmp_path: Path) -> None:
    path = written(tmp_path / "usage.json", [*steady(0.1), *steady(0.1)])

    with pytest.raises(InvalidFileError, match="more samples from 600 to 900"):
        google2019(path, SHORT)


def test_what_is_not_there_or_of_another_form_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="no instance_usage"):
        google2019(tmp_path)
    with pytest.raises(InvalidFileError, match="No such file"):
        google2019(tmp_path / "missing.json")
    path = tmp_path / "usage.avro"
    path.write_bytes(b"Obj")
    with pytest.raises(InvalidFileError, match=r"expected .json"):
        google2019(path)
    (tmp_path / "usage.csv").write_text("start_time,end_time\n1,2\n")
    with pytest.raises(InvalidFileError, match="no column 'collection_id'"):
        google2019(tmp_path / "usage.csv")
