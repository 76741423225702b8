"""CloudSim 3.0.3 on PlanetLab, as measured: the same counts, the same energy.

All of the first day that is there, and of the others the baselines and LR-MMT;
`benchmarks/runners/cloudsim.py` compares every row.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest

from opendrs.simulation.cloudsim import parse_scheme, simulate
from opendrs.simulation.traces import Trace, read_planetlab_day

BESIDE = Path(__file__).parents[2].parent / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
EVERY_DAY = {"npa", "dvfs", "lr-mmt"}

Row = Mapping[str, str]

pytestmark = [pytest.mark.shared, pytest.mark.slow]


def name_of(row: Row) -> str:
    return "-".join(filter(None, [row["policy"], row["selection"], row["param"]]))


def rows() -> list[Row]:
    """Return the rows of CloudSim 3.0.3 with an available trace, sorted."""
    table = DATA / "cloudsim" / "reference.csv"
    if not table.exists():
        return []
    with table.open(newline="") as lines:
        return [
            row
            for row in csv.DictReader(lines)
            if row["version"] == "CloudSim 3.0.3"
            and row["file_order"] == "sorted"
            and archive(row["day"]).exists()
        ]


def archive(day: str) -> Path:
    return DATA / "planetlab" / f"{day}.tar.gz"


@cache
def trace(day: str) -> Trace:
    return read_planetlab_day(archive(day))


ROWS = rows()
FIRST = min((row["day"] for row in ROWS), default="")
SAMPLE = [
    row
    for row in ROWS
    if row["selection"] != "rs"
    and (row["day"] == FIRST or name_of(row).removesuffix("-1.2") in EVERY_DAY)
]
REPEATED = [row for row in ROWS if row["selection"] == "rs" and row["day"] == FIRST]


@pytest.mark.skipif(not SAMPLE, reason=f"no reference or traces in {DATA}")
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: f"{row['day']}-{name_of(row)}")
def test_metrics_equal_cloudsim(row: Row) -> None:
    result = simulate(trace(row["day"]), parse_scheme(name_of(row)), int(row["hosts"]))

    assert result.migrations == int(row["raw_migrations"])
    assert result.shutdowns == int(row["raw_shutdowns"])
    assert result.energy_kwh == pytest.approx(float(row["raw_energy"]), rel=1e-6)
    # Where rounding chose between equal hosts otherwise than there, 1e-6 is missed.
    assert result.slatah == pytest.approx(float(row["raw_slatah"]), rel=1e-5)
    assert result.pdm == pytest.approx(float(row["raw_pdm"]), rel=1e-5)
    assert result.overall_violation == pytest.approx(
        float(row["raw_overall"]), rel=1e-5
    )
    assert result.time_to_shutdown == pytest.approx(float(row["raw_mtbs"]), rel=1e-5)


@pytest.mark.skipif(len(REPEATED) < 2, reason=f"no repeated rows in {DATA}")
def test_a_random_selection_is_within_the_spread_of_its_repeats() -> None:
    name = name_of(REPEATED[0])
    results = [simulate(trace(FIRST), parse_scheme(name, seed)) for seed in range(3)]
    energy = [float(row["raw_energy"]) for row in REPEATED]
    migrations = [int(row["raw_migrations"]) for row in REPEATED]
    mean = fmean(each.energy_kwh for each in results)
    moved = fmean(each.migrations for each in results)

    assert abs(mean - fmean(energy)) < max(energy) - min(energy)
    assert abs(moved - fmean(migrations)) < max(migrations) - min(migrations)
