"""Results file of the machine reassignment benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.reassignment.results import Result, Results, summary


def result(instance: str = "a1_1", cost: int = 1010, broken: int = 0) -> Result:
    return Result(
        instance=instance,
        time=300.0,
        threads=2,
        seed=0,
        machines=4,
        units=100,
        initial=2000,
        cost=cost,
        known=1000,
        broken=broken,
        cpu=590.5,
    )


def test_results_are_continued_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "build" / "results.csv"
    Results(path).add(result())
    Results(path).add(result("a1_2"))

    kept = Results(path)

    assert kept.of("a1_2", time=300.0, threads=2, seed=0) == result("a1_2")
    assert kept.of("a1_3", time=300.0, threads=2, seed=0) is None


@pytest.mark.parametrize(
    ("time", "threads", "seed"), [(30.0, 2, 0), (300.0, 1, 0), (300.0, 2, 1)]
)
def test_results_with_other_settings_are_ignored(
    tmp_path: Path, time: float, threads: int, seed: int
) -> None:
    kept = Results(tmp_path / "results.csv")
    kept.add(result())

    assert kept.of("a1_1", time=time, threads=threads, seed=seed) is None


def test_results_with_invalid_line_raise(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text("instance,time\na1_1,soon\n")

    with pytest.raises(ValueError, match=r"results\.csv: line 2: not a result"):
        Results(path)


def test_score_is_excess_in_percent_of_the_initial_cost() -> None:
    assert result(cost=1010).score == pytest.approx(0.5)
    assert result(cost=1010).row().endswith("| 1010 | 1000 | 0.5000 | 590 |")


def test_summary_has_mean_of_families_and_invalid_count() -> None:
    found = [
        result("a1_1", cost=1000),
        result("a2_1", cost=1020),
        result("b_1", cost=1010, broken=2),
    ]

    assert summary(found) == "mean of a: 0.5000 %\nmean of b: 0.5000 %\ninvalid: 1"
