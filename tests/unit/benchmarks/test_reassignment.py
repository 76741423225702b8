"""Machine reassignment benchmark: reader, checker, portfolio and program."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances.roadef import (
    InstanceError,
    encode_problem,
    read_assignment,
    read_instance,
)
from opendrs.optimizer import AnnealingSearch, Indices, Problem
from opendrs.optimizer.evaluation import cost
from opendrs.optimizer.feasibility import infeasibilities
from runners.reassignment import checker, portfolio
from runners.reassignment.portfolio import selection_points, solve, work
from runners.reassignment.swap_partners import BLOCK, PARTNERS, similar_groups
from support.oracles.assignment_cost import reference_cost
from support.oracles.random_problems import random_problem

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PROGRAM = BENCHMARKS / "runners" / "roadef.py"


# Two resources, the first transient; three machines; two services, of which the
# second needs the first; three processes; a balance; the weights of moving.
RESOURCES = "2  1 10  0 100"
MACHINES = "3  0 0 30 400 16 80 0 1 4  0 1 10 240 8 160 1 0 4  1 2 15 100 12 80 4 3 0"
SERVICES = "2  2 0  1 1 0"
PROCESSES = "3  0 12 10 1000  0 10 20 100  1 6 200 1"
BALANCE = "1  0 1 20 10"
WEIGHTS = "1 10 100"
MODEL = f"{RESOURCES}\n{MACHINES}\n{SERVICES}\n{PROCESSES}\n{BALANCE}\n{WEIGHTS}"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.txt"
    path.write_text(MODEL)
    return path


def test_checker_cost_equals_hand_calculation(model: Path) -> None:
    instance = read_instance(model)
    origin, moved = [0, 1, 0], [0, 2, 0]

    # Load: resource 0: 18 over 16 on machine 0, 10 over 8 on machine 1: 4 * 10;
    # resource 1: 210 over 80 on machine 0: 130 * 100.
    # Balance: free 12 and 190: 20 * 12 - 190 = 50; free 0 and 220: 0;
    # free 15 and 100: 20 * 15 - 100 = 200: 250 * 10.
    assert checker.cost(instance, origin, origin) == 40 + 13_000 + 2_500
    # Process 1 to machine 2: 10 is below 12 there; free 10 and 240 on machine 1:
    # 0; free 5 and 80 on machine 2: 20. The move: 100, 10 * 1, 100 * 4.
    assert checker.cost(instance, origin, moved) == 20 + 13_000 + 700 + 510


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([0, 2, 2], "machine 2 holds 220 of resource 1, of which it has 100"),
        ([1, 1, 0], "2 processes of service 0 are on machine 1"),
        ([1, 1, 0], "service 0 is in 1 locations, not 2"),
        ([0, 1, 2], "service 1 needs service 0 in neighborhood 1"),
        ([1, 0, 0], "machine 0 holds 28 of resource 0, of which it has 15"),
    ],
)
def test_checker_names_the_violated_constraint(
    tmp_path: Path, places: list[int], message: str
) -> None:
    path = tmp_path / "model.txt"
    text = MODEL.replace("0 0 30 400", "0 0 15 400") if "has 15" in message else MODEL
    path.write_text(text)
    instance = read_instance(path)

    assert message in checker.violations(instance, [0, 1, 0], places)


def test_problem_agrees_with_the_checker(model: Path) -> None:
    instance = read_instance(model)
    start = model.with_name("start.txt")
    start.write_text("0 1 0")
    origin = read_assignment(start, instance)
    problem = encode_problem(instance, origin)
    for first in range(3):
        for second in range(3):
            for third in range(3):
                places = origin.copy()
                places[:] = first, second, third

                judged = [instance, origin.tolist(), places.tolist()]
                assert cost(problem, places) == checker.cost(*judged)
                assert bool(infeasibilities(problem, places)) == bool(
                    checker.violations(*judged)
                )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (WEIGHTS, "1 10", "ends within the weights of moving"),
        (WEIGHTS, "1 10 100 7", "1 numbers follow after the end"),
        (WEIGHTS, "1 10 -100", r"the weights of moving has -100"),
        (WEIGHTS, "1 10 x", "'x' is not a whole number"),
        (PROCESSES, PROCESSES.replace("1 6 200", "2 6 200"), "service of a process ha"),
        (BALANCE, "1  0 2 20 10", "the resources of a balance has 2"),
        (SERVICES, "2  2 0  1 1 5", "services a service depends on has 5"),
        (WEIGHTS, f"1 10 {1 << 53}", "is not below 2\\^53"),
    ],
)
def test_read_instance_with_invalid_model_raises(
    model: Path, before: str, after: str, message: str
) -> None:
    model.write_text(MODEL.replace(before, after))

    with pytest.raises(InstanceError, match=message):
        read_instance(model)


@pytest.mark.parametrize("damage", [slice(None, -9), slice(None, None, 2)])
def test_read_instance_with_damaged_gzip_raises(model: Path, damage: slice) -> None:
    packed = gzip.compress(MODEL.encode(), mtime=0)
    model.write_bytes(packed[:10] + packed[10:][damage])

    with pytest.raises(InstanceError, match="cannot be read"):
        read_instance(model)


def test_read_instance_with_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="nowhere: cannot be read: No such file"):
        read_instance(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [("0 1", "ends within the assignment"), ("0 1 3", "the assignment has 3")],
)
def test_program_with_invalid_input_exits_with_2(
    model: Path, text: str, message: str
) -> None:
    start, out = model.with_name("start.txt"), model.with_name("out.txt")
    start.write_text(text)
    command = [sys.executable, str(PROGRAM), str(model), str(start), "--out", str(out)]

    paths = [str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )

    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 16])
def test_selection_points_halve_until_one_search_remains(count: int) -> None:
    ends = selection_points(count)

    assert count >> (len(ends) - 1) == 1
    assert all(before < after for before, after in pairwise([0.0, *ends]))
    assert ends[-1] == 1.0


def test_work_counts_all_searches_between_selections() -> None:
    # By hand: four run to 0.44, two continue to 0.5, and one to the end.
    assert work(4) == pytest.approx([4 * 0.44, 2 * 0.06, 0.5])
    assert work(1) == [1.0]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_solve_within_time_is_feasible_and_better(threads: int) -> None:
    problem = random_problem(11)

    found = solve(problem, seconds=3.0, seed=0, threads=threads)

    assert not infeasibilities(problem, found)
    origin = problem.origin.tolist()
    assert reference_cost(problem, found.tolist()) < reference_cost(problem, origin)


def test_solve_without_time_returns_the_origin() -> None:
    problem = random_problem(11)

    found = solve(problem, seconds=0.0, seed=0, threads=2)

    assert np.array_equal(found, problem.origin)


def test_solve_starts_all_searches_at_one_temperature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[RecordedSearch] = []

    class RecordedSearch(AnnealingSearch):
        def __init__(
            self,
            problem: Problem,
            *,
            swap_partners: Indices | None = None,
            **options: Any,  # noqa: ANN401 - those of the search
        ) -> None:
            super().__init__(problem, swap_partners=swap_partners, **options)
            self.first_temperature = self.temperature
            self.has_partners = swap_partners is not None
            searches.append(self)

    monkeypatch.setattr(portfolio, "AnnealingSearch", RecordedSearch)

    solve(random_problem(11), seconds=3.0, seed=0, threads=2)

    # The first three compile the search, and measure speed and temperature.
    searches = searches[3:]
    assert len(searches) >= 2
    assert len({each.first_temperature for each in searches}) == 1
    assert sum(each.has_partners for each in searches) == len(searches) // 4 * 2


def test_similar_groups_equal_complete_comparison() -> None:
    problem = random_problem(5, nodes=6, groups=BLOCK + 44)
    demand = problem.demand / problem.capacity.mean(axis=0)

    found = similar_groups(problem)

    assert found.shape == (BLOCK + 44, PARTNERS)
    for group, partners in enumerate(found.tolist()):
        distance = np.abs(demand - demand[group]).sum(axis=1)
        assert group not in partners
        assert distance[partners] == pytest.approx(
            np.sort(np.delete(distance, group))[:PARTNERS]
        )


def test_similar_groups_of_few_groups_are_all_others() -> None:
    found = similar_groups(random_problem(2, nodes=2, groups=5))

    assert [sorted(each) for each in found.tolist()] == [
        [other for other in range(5) if other != group] for group in range(5)
    ]
