"""Small traces, written in each supported format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv, parquet

STEP = 300  # s
KB, MHZ, CORES = 8_388_608, 10_000, 4  # of each guest, where the format gives its size
BITBRAINS = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\t"
    "CPU usage [%];\tMemory capacity provisioned [KB];\tMemory usage [KB];\t"
    "Disk read throughput [KB/s];\tDisk write throughput [KB/s];\t"
    "Network received throughput [KB/s];\tNetwork transmitted throughput [KB/s]"
)
Percent = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TraceLoad:
    """Load to be written: integer percentages; shape (guests, samples)."""

    cpu: Percent
    memory: Percent

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the guests, in order."""
        return tuple(f"g{number:03}" for number in range(len(self.cpu)))

    def samples(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield guest, sample, CPU and memory, by time."""
        for sample in range(self.cpu.shape[1]):
            for guest in range(len(self.cpu)):
                cpu, memory = self.cpu[guest, sample], self.memory[guest, sample]
                yield guest, sample, int(cpu), int(memory)


def random_load(seed: int, guests: int = 3, samples: int = 288) -> TraceLoad:
    """Draw a load."""
    rng = np.random.default_rng(seed)
    shape = (guests, samples)
    return TraceLoad(rng.integers(0, 101, shape), rng.integers(0, 101, shape))


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    text = "".join(f"{each}\n" for each in lines)
    path.write_bytes(
        gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    )


def write_planetlab(folder: Path, load: TraceLoad) -> Path:
    """Write a file per guest, without memory."""
    for name, row in zip(load.names, load.cpu.tolist(), strict=True):
        _write_lines(folder / name, (str(each) for each in row))
    return folder


def write_google2011(folder: Path, load: TraceLoad) -> Path:
    """Write a file per guest with two columns."""
    for name, *columns in zip(load.names, load.cpu, load.memory, strict=True):
        rows = zip(*(each.tolist() for each in columns), strict=True)
        _write_lines(folder / name, (f"{cpu} {memory}" for cpu, memory in rows))
    return folder


def write_bitbrains(folder: Path, load: TraceLoad) -> Path:
    """Write a file per guest, of 4 cores, 10,000 MHz, 8 GB."""
    for name, *columns in zip(load.names, load.cpu, load.memory, strict=True):
        rows = enumerate(zip(*(each.tolist() for each in columns), strict=True))
        lines = [
            f"{1372629804 + STEP * each};\t{CORES};\t{MHZ}.0;\t{cpu * MHZ / 100};\t"
            f"{cpu};\t{KB}.0;\t{memory * KB / 100};\t0.0;\t0.0;\t0.0;\t0.0"
            for each, (cpu, memory) in rows
        ]
        _write_lines(folder / f"{name}.csv", iter([BITBRAINS, *lines]))
    return folder


def write_azure(folder: Path, load: TraceLoad) -> Path:
    """Write a table and readings, without memory usage."""
    _write_lines(
        folder / "vmtable.csv.gz",
        (f"{name},s,d,0,2591700,9,9,9,Interactive,4,8" for name in load.names),
    )
    _write_lines(
        folder / "vm_cpu_readings-file-1-of-1.csv.gz",
        (
            f"{STEP * sample},{load.names[guest]},0,100,{cpu}"
            for guest, sample, cpu, _ in load.samples()
        ),
    )
    return folder


def write_alibaba(folder: Path, load: TraceLoad) -> Path:
    """Write containers and their requests."""
    _write_lines(
        folder / "container_meta.csv",
        (f"{name},m_1,0,app,started,400,400,12.5" for name in load.names),
    )
    _write_lines(
        folder / "container_usage.csv",
        (
            f"{load.names[guest]},m_1,{STEP * sample},{cpu},{memory},,,,,,3"
            for guest, sample, cpu, memory in load.samples()
        ),
    )
    return folder


def write_google2019(folder: Path, load: TraceLoad) -> Path:
    """Write instances, each of a job with its number."""
    path = folder / "instance_usage-000000000000.json.gz"
    _write_lines(
        path,
        (
            json.dumps(
                {
                    "start_time": str((600 + STEP * sample) * 1_000_000),
                    "end_time": str((600 + STEP * (sample + 1)) * 1_000_000),
                    "collection_id": load.names[guest],
                    "instance_index": "0",
                    "collection_type": "0",
                    "average_usage": {"cpus": cpu / 100, "memory": memory / 100},
                }
            )
            for guest, sample, cpu, memory in load.samples()
        ),
    )
    return folder


def _table(load: TraceLoad) -> pa.Table:
    guest, sample, cpu, memory = zip(*load.samples(), strict=True)
    return pa.table(
        {
            "time": [STEP * each for each in sample],
            "guest": [load.names[each] for each in guest],
            "cpu": cpu,
            "memory": memory,
        }
    )


def write_native_csv(folder: Path, load: TraceLoad) -> Path:
    """Write a row per guest and sample."""
    csv.write_csv(_table(load), folder / "load.csv")
    return folder / "load.csv"


def write_native_parquet(folder: Path, load: TraceLoad) -> Path:
    """Write a row per guest and sample."""
    parquet.write_table(_table(load), folder / "load.parquet")
    return folder / "load.parquet"


WRITERS: Mapping[str, Callable[[Path, TraceLoad], Path]] = {
    "planetlab": write_planetlab,
    "google": write_google2011,
    "bitbrains": write_bitbrains,
    "azure": write_azure,
    "alibaba": write_alibaba,
    "google2019": write_google2019,
    "csv": write_native_csv,
    "parquet": write_native_parquet,
}
