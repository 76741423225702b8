"""Budgets in the notation of operators."""

from __future__ import annotations

import math
from random import Random

import pytest

from opendrs.model import GIB, PowerOff, PowerOn
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.budget import Budget
from support.builders import cluster


@pytest.mark.parametrize(
    ("text", "gib", "migrations"),
    [
        ("500 GiB", 500.0, math.inf),
        ("500GiB", 500.0, math.inf),
        ("1.5 TiB", 1536.0, math.inf),
        ("512 MiB", 0.5, math.inf),
        ("40 migrations", math.inf, 40.0),
        ("1 migration", math.inf, 1.0),
        ("100 GiB, 40 migrations", 100.0, 40.0),
        ("100 GiB, 50 gib", 50.0, math.inf),
        ("unlimited", math.inf, math.inf),
    ],
)
def test_budget_parses_amounts_with_units(
    text: str, gib: float, migrations: float
) -> None:
    budget = Budget.parse(text)

    assert (budget.gib, budget.migrations, budget.knee) == (gib, migrations, False)


@pytest.mark.parametrize("text", ["30 min", "30 minutes", "0.5 h", "1800 s"])
def test_budget_parses_time(text: str) -> None:
    assert Budget.parse(text) == Budget(minutes=30.0)


def test_budget_knee_has_no_amounts() -> None:
    assert Budget.parse("knee") == Budget(knee=True)


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
        "2.5 migrations",
        "500 GB",
        "5 GiB;",
        "GiB",
    ],
)
def test_budget_with_invalid_text_raises_with_expected_forms(text: str) -> None:
    with pytest.raises(ValueError, match="budget"):
        Budget.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "knee",
        "unlimited",
        "500 GiB",
        "40 migrations",
        "100 GiB, 40 migrations",
        "1 migrations, 30 min",
    ],
)
def test_budget_text_parses_to_the_same_budget(text: str) -> None:
    budget = Budget.parse(text)

    assert Budget.parse(str(budget)) == budget


def test_budget_of_zero_is_zero() -> None:
    assert Budget.parse("0 GiB").is_zero
    assert Budget.parse("0 migrations").is_zero
    assert Budget.parse("0 min").is_zero
    assert not Budget.parse("1 migrations").is_zero


@pytest.mark.parametrize(
    ("text", "smaller"),
    [
        ("9 migrations", "8 migrations"),
        ("8 migrations", "4 migrations"),
        ("2 migrations", "1 migration"),
        ("100 GiB, 3 migrations", "64 GiB, 2 migrations"),
    ],
)
def test_smaller_budget_has_the_next_powers_of_two(text: str, smaller: str) -> None:
    assert Budget.parse(text).smaller == Budget.parse(smaller)


@pytest.mark.parametrize("text", ["knee", "unlimited", "1 migration", "512 MiB"])
def test_budget_without_larger_amounts_has_no_smaller_one(text: str) -> None:
    assert Budget.parse(text).smaller is None


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("unit", "size"), [("GiB", GIB), ("MiB", 2**20)])
def test_budget_of_exactly_what_a_plan_transfers_allows_the_plan(
    seed: int, unit: str, size: int
) -> None:
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    guests = {
        f"vm{index}": (random.choice("aab"), random.uniform(0.01, 0.12))
        for index in range(8)
    }
    loads = {
        name: sum(part for node, part in guests.values() if node == name)
        for name in "abc"
    }
    snapshot = cluster(loads, guests)
    unlimited = Optimize(budget="unlimited", threshold=0.0, min_improvement=0.0)
    best = unlimited.decide(snapshot, None)
    transferred = sum(
        snapshot.guests[step.action.guest].usage.memory or 0
        for step in best.plan.steps
        if not isinstance(step.action, PowerOff | PowerOn)
    )

    limited = Optimize(
        budget=f"{transferred / size!r} {unit}", threshold=0.0, min_improvement=0.0
    )
    found = limited.decide(snapshot, None)

    assert best.plan.steps
    assert found.after["imbalance"] <= best.after["imbalance"] + 1e-9
