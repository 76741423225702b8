"""A candidate is known by its means, and stands on the front or not."""

from __future__ import annotations

import pytest

from opendrs.sim.consolidation.sweep.results import Row
from opendrs.sim.consolidation.sweep.summary import Candidate, candidates
from sweeps import grid

TRIALS = grid(seed=[1, 2], policies=[{"name": ["none", "lr-mmt", "thr-mmt"]}]).trials
FRONT = ("energy_kwh", "slav")


def rows(**figures: list[tuple[float | None, float | None]]) -> list[Row]:
    """Return a row for each trial, from energy and SLAV by policy and seed."""
    return [
        dict(
            zip(
                FRONT,
                figures[trial.label.partition("-")[0]][trial.seed - 1],
                strict=True,
            )
        )
        for trial in TRIALS
    ]


def found(**figures: list[tuple[float | None, float | None]]) -> dict[str, Candidate]:
    return {each.label: each for each in candidates(TRIALS, rows(**figures), FRONT)}


def test_means_are_taken_over_loads_and_seeds() -> None:
    made = found(none=[(8, 0), (10, 0)], lr=[(4, 3), (6, 4)], thr=[(5, 5), (7, 7)])

    assert list(made) == ["lr-mmt", "thr-mmt", "none"]
    assert made["lr-mmt"].runs == 2
    assert made["lr-mmt"].means["energy_kwh"] == 5
    assert made["lr-mmt"].means["slav"] == pytest.approx(3.5)
    assert made["lr-mmt"].name == "lr-mmt"
    assert made["lr-mmt"].means["wakes"] is None


def test_who_is_beaten_in_both_is_not_on_the_front() -> None:
    made = found(none=[(8, 0), (10, 0)], lr=[(4, 3), (6, 4)], thr=[(5, 5), (7, 7)])

    assert {label: each.best for label, each in made.items()} == {
        "lr-mmt": True,
        "thr-mmt": False,
        "none": True,
    }


def test_a_mean_of_what_is_partly_unknown_is_unknown() -> None:
    made = found(none=[(8, 0), (10, 0)], lr=[(4, 3), (None, 4)], thr=[(5, 5), (7, 7)])

    assert made["lr-mmt"].means["energy_kwh"] is None
    assert not made["lr-mmt"].best
    assert list(made) == ["thr-mmt", "none", "lr-mmt"]
