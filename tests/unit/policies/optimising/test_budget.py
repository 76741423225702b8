"""A budget is read as operators write it."""

from __future__ import annotations

import math

import pytest

from opendrs.policies.optimising.budget import Budget


@pytest.mark.parametrize(
    ("text", "gib", "moves"),
    [
        ("500 GiB", 500.0, math.inf),
        ("500GiB", 500.0, math.inf),
        ("1.5 TiB", 1536.0, math.inf),
        ("512 MiB", 0.5, math.inf),
        ("40 moves", math.inf, 40.0),
        ("1 move", math.inf, 1.0),
        ("100 GiB, 40 moves", 100.0, 40.0),
        ("100 GiB, 50 gib", 50.0, math.inf),
        ("unlimited", math.inf, math.inf),
    ],
)
def test_amounts_are_read_with_their_units(text: str, gib: float, moves: float) -> None:
    budget = Budget.parsed(text)

    assert (budget.gib, budget.moves, budget.knee) == (gib, moves, False)


@pytest.mark.parametrize("text", ["30 min", "30 minutes", "0.5 h", "1800 s"])
def test_a_budget_may_be_of_time(text: str) -> None:
    assert Budget.parsed(text) == Budget(minutes=30.0)


def test_the_knee_is_no_amount() -> None:
    assert Budget.parsed("knee") == Budget(knee=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "500",
        "nan GiB",
        "-5 GiB",
        "5 hours",
        "nan min",
        "1.2.3 GiB",
        "2.5 moves",
        "500 GB",
        "5 GiB;",
        "GiB",
    ],
)
def test_what_is_no_budget_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="budget"):
        Budget.parsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "knee",
        "unlimited",
        "500 GiB",
        "40 moves",
        "100 GiB, 40 moves",
        "1 moves, 30 min",
    ],
)
def test_what_is_told_of_a_budget_is_read_as_the_same(text: str) -> None:
    budget = Budget.parsed(text)

    assert Budget.parsed(str(budget)) == budget


def test_nothing_may_move_for_nothing() -> None:
    assert Budget.parsed("0 GiB").nothing
    assert Budget.parsed("0 moves").nothing
    assert Budget.parsed("0 min").nothing
    assert not Budget.parsed("1 moves").nothing
