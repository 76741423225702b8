"""PlanetLab experiment side by side with CloudSim 3.0.3.

    .venv/bin/python benchmarks/runners/cloudsim.py
    .venv/bin/python benchmarks/runners/cloudsim.py --only 20110303 lr-mmt

Every measured row of CloudSim 3.0.3 with sorted file order is simulated again. Rows and
traces are read from `data/cloudsim/reference.csv` and `data/planetlab/`, beside the
project or below OPENDRS_SHARED. Times are CPU seconds of one run; those of OpenDRS
include reading the trace. Random selections are drawn again, so their rows are close
but not equal.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from opendrs.simulation.cloudsim import CloudSimMetrics, parse_scheme, simulate
from opendrs.simulation.traces import read_planetlab_day

BESIDE = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
DIGITS = 1e-6  # relative tolerance of the energy

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of one row here and in CloudSim; times in CPU seconds."""

    day: str
    name: str
    ours: CloudSimMetrics
    row: Row
    cpu: float

    @property
    def theirs(self) -> float:
        """CPU seconds of CloudSim."""
        return float(self.row["cpu_user_s"]) + float(self.row["cpu_sys_s"])

    @property
    def equal(self) -> bool:
        """True if counts are identical and the energy agrees to six digits."""
        energy = float(self.row["raw_energy"])
        return (
            self.ours.migrations == int(self.row["raw_migrations"])
            and self.ours.shutdowns == int(self.row["raw_shutdowns"])
            and abs(self.ours.energy_kwh - energy) <= DIGITS * energy
        )

    def line(self) -> str:
        """Return the row of the table."""
        agreement = "random" if "-rs" in self.name else "yes" if self.equal else "NO"
        return (
            f"| {self.day} | {self.name} "
            f"| {self.ours.energy_kwh:.6f} | {float(self.row['raw_energy']):.6f} "
            f"| {self.ours.migrations} | {self.row['raw_migrations']} "
            f"| {self.ours.shutdowns} | {self.row['raw_shutdowns']} "
            f"| {agreement} | {self.cpu:.2f} | {self.theirs:.2f} "
            f"| {self.theirs / self.cpu:.0f} |"
        )


def rows(only: list[str]) -> list[Row]:
    """Return the rows to compare: all, or those that match every word of *only*."""
    with (DATA / "cloudsim" / "reference.csv").open(newline="") as lines:
        return [
            row
            for row in csv.DictReader(lines)
            if row["version"] == "CloudSim 3.0.3"
            and row["file_order"] == "sorted"
            and archive(row["day"]).exists()
            and all(each in f"{row['day']} {name_of(row)}" for each in only)
        ]


def archive(day: str) -> Path:
    """Return the path of the traces of *day*."""
    return DATA / "planetlab" / f"{day}.tar.gz"


def name_of(row: Row) -> str:
    """Return the name of the scheme of *row*."""
    return "-".join(filter(None, [row["policy"], row["selection"], row["param"]]))


def compare(row: Row, seed: int) -> Comparison:
    """Simulate *row*; *seed* is for a random selection."""
    name = name_of(row)
    start = time.process_time()
    trace = read_planetlab_day(archive(row["day"]))
    result = simulate(trace, parse_scheme(name, seed), int(row["hosts"]))
    return Comparison(row["day"], name, result, row, time.process_time() - start)


def main() -> None:
    """Print the table in Markdown, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="a day, a name, or both")
    print(
        "| day | scheme | kWh | CloudSim | migrations | CloudSim | shutdowns "
        "| CloudSim | equal | CPU s | CloudSim | times faster |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|")
    comparisons = []
    for seed, row in enumerate(rows(parser.parse_args().only)):
        comparisons.append(compare(row, seed))
        print(comparisons[-1].line(), flush=True)
    if not comparisons:
        raise SystemExit(f"{DATA}: no rows to compare; set OPENDRS_SHARED")
    fixed = [each for each in comparisons if "-rs" not in each.name]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"\n{sum(each.equal for each in fixed)} of {len(fixed)} rows equal; median "
        f"{median(each.theirs / each.cpu for each in comparisons):.0f} times faster, "
        f"least {min(each.theirs / each.cpu for each in comparisons):.0f}; "
        f"peak {peak:.0f} MiB"
    )


if __name__ == "__main__":
    main()
