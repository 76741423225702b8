"""Machine reassignment: the costs that were published, and solutions that are valid."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instances.roadef import (
    Instance,
    Integers,
    encode_problem,
    read_assignment,
    read_instance,
)
from opendrs.optimizer import AnnealingSearch
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.feasibility import infeasibilities
from runners.reassignment import checker

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("OPENDRS_SHARED", ROOT.parent / "shared"))
FOLDER = DATA / "data" / "roadef2012"
PROGRAM = ROOT / "benchmarks" / "runners" / "roadef.py"

pytestmark = pytest.mark.shared


def known() -> dict[str, int]:
    """Return the initial cost of each instance that is there."""
    table = FOLDER / "best-known.csv"
    if not table.exists():
        return {}
    with table.open(newline="") as lines:
        return {
            row["instance"]: int(row["initial_cost"])
            for row in csv.DictReader(lines)
            if (FOLDER / f"model_{row['instance']}.txt.gz").exists()
        }


KNOWN = known()
SMALL = [name for name in KNOWN if name.startswith("a")]


def read(name: str) -> tuple[Instance, Integers]:
    instance = read_instance(FOLDER / f"model_{name}.txt.gz")
    origin = read_assignment(FOLDER / f"assignment_{name}.txt.gz", instance)
    return instance, origin


@pytest.mark.skipif(not KNOWN, reason=f"no instances in {FOLDER}")
@pytest.mark.parametrize("name", KNOWN)
def test_the_initial_assignment_costs_what_was_published(name: str) -> None:
    instance, origin = read(name)
    places = origin.tolist()

    assert checker.cost(instance, places, places) == KNOWN[name]
    assert checker.violations(instance, places, places) == []


@pytest.mark.skipif(not SMALL, reason=f"no instances in {FOLDER}")
@pytest.mark.parametrize("name", SMALL)
def test_what_is_found_is_valid_and_costs_what_the_judge_says(name: str) -> None:
    instance, origin = read(name)
    problem = encode_problem(instance, origin)
    search = AnnealingSearch(problem, seed=1)

    for progress in (0.2, 0.6, 1.0):
        best = search.run(100_000, progress)
        places = best.assignment.tolist()

        assert checker.violations(instance, origin.tolist(), places) == []
        assert checker.cost(instance, origin.tolist(), places) == best.cost
    assert best.cost < KNOWN[name]


@pytest.mark.skipif(not SMALL, reason=f"no instances in {FOLDER}")
def test_the_engine_and_the_judge_agree_on_what_is_broken() -> None:
    instance, origin = read(SMALL[0])
    problem = encode_problem(instance, origin)
    broken = origin.copy()
    broken[:] = origin[0]

    found = checker.violations(instance, origin.tolist(), broken.tolist())

    assert found
    assert infeasibilities(problem, broken)
    assert cost(problem, broken) == checker.cost(
        instance, origin.tolist(), broken.tolist()
    )


@pytest.mark.skipif(not SMALL, reason=f"no instances in {FOLDER}")
def test_the_program_writes_a_valid_assignment(tmp_path: Path) -> None:
    name, out = SMALL[0], tmp_path / "out.txt"
    files = [str(FOLDER / f"{kind}_{name}.txt.gz") for kind in ("model", "assignment")]
    command = [sys.executable, str(PROGRAM), *files, "--time", "1", "--out", str(out)]

    done = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT / 'src'}"},
    )

    assert done.returncode == 0, done.stderr
    instance, origin = read(name)
    places = read_assignment(out, instance).tolist()
    assert checker.violations(instance, origin.tolist(), places) == []
    assert checker.cost(instance, origin.tolist(), places) <= KNOWN[name]
