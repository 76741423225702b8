"""A decision within a time is the best so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from builders import cluster
from opendrs.cli import anytime
from opendrs.cli.anytime import decided_within
from opendrs.errors import ConfigurationError
from opendrs.model import AntiAffinity, GuestId
from opendrs.platforms.file import write_snapshot
from opendrs.policies import Balance, Optimize, Reason
from opendrs.policies.optimising.work import Work
from opendrs.policies.optimising.worth import Goal
from terminal import Opendrs

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0}, guests={"one": ("a", 0.4), "two": ("a", 0.4)}
)
LEVEL = cluster(nodes={"a": 0.4, "b": 0.4}, guests={})


def searches(
    monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]
) -> list[tuple[int, float]]:
    """Let so many moves take so many seconds; return what is searched as it comes."""
    now = [0.0]
    seen: list[tuple[int, float]] = []
    monkeypatch.setattr(anytime, "monotonic", lambda: now[0])

    def improve(self: Work, iterations: int, progress: float) -> None:
        del self
        seen.append((iterations, progress))
        now[0] += seconds(iterations)

    monkeypatch.setattr(Work, "improve", improve)
    return seen


def test_the_search_goes_on_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = searches(monkeypatch, lambda _: 1.0)

    decision = decided_within(Optimize(), LOPSIDED, 10.0)

    assert decision.plan.steps
    assert len(seen) == 10
    assert [progress for _, progress in seen] == sorted({p for _, p in seen})
    assert seen[-1][1] <= 1.0


def test_who_stops_it_gets_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(self: Work, iterations: int, progress: float) -> None:
        del self, iterations, progress
        raise KeyboardInterrupt

    monkeypatch.setattr(Work, "improve", stopped)

    assert len(decided_within(Optimize(), LOPSIDED, 60.0).plan.steps) == 1


def test_no_time_is_spent_where_there_is_nothing_to_do() -> None:
    assert decided_within(Optimize(), LEVEL, 60.0).reason is Reason.BALANCED


def test_no_time_is_spent_where_nobody_may_go_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = count(0.0, 1.0)
    monkeypatch.setattr(anytime, "monotonic", lambda: next(now))
    apart = AntiAffinity(guests=frozenset({GuestId("one"), GuestId("two")}))
    guests = {"one": ("a", 0.8), "two": ("b", 0.2)}
    pair = cluster(nodes={"a": 0.8, "b": 0.2}, guests=guests, rules=[apart])
    alone = cluster(nodes={"a": 0.8}, guests={"one": ("a", 0.8)})
    packing = Optimize(priorities=(Goal.PACKING,))

    for policy, each in ((Optimize(), pair), (packing, alone)):
        decision = decided_within(policy, each, 3600.0)
        assert decision.reason is Reason.NO_CANDIDATE
    assert next(now) < 20


def test_a_portion_is_short_however_much_time_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = searches(monkeypatch, lambda moves: moves / 1e6)

    decided_within(Optimize(), LOPSIDED, 3600.0)

    assert max(moves for moves, _ in seen) == pytest.approx(anytime.LONGEST * 1e6)
    assert sum(moves for moves, _ in seen) / 1e6 == pytest.approx(
        3600.0, abs=anytime.LONGEST
    )


def test_moves_that_take_no_time_are_not_counted_beyond_all_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = searches(monkeypatch, lambda _: 1e-3)

    decided_within(Optimize(), LOPSIDED, 10.0)

    assert max(moves for moves, _ in seen) == anytime.MOST


def test_a_policy_that_does_not_become_better_with_time_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="--time: balance takes as long"):
        decided_within(Balance(), LOPSIDED, 1.0)


def test_plan_takes_a_time_and_a_budget(opendrs: Opendrs) -> None:
    write_snapshot(LOPSIDED, Path("lopsided.json"))
    asked = ("plan", "lopsided.json", "--policy", "optimize", "--time", "0.1")

    answer = opendrs(*asked, "--budget", "1 moves")
    found = json.loads(opendrs(*asked, "--budget", "0 moves", "--format", "json").out)

    assert answer.status == 0
    assert "bound: no plan that moves as much is " in answer.out
    assert (found["reason"], found["steps"]) == ("limit-reached", [])


def test_the_advice_has_the_budget_in_it(opendrs: Opendrs) -> None:
    asked = ("plan", "demo", "--policy", "optimize", "--budget", "9 moves")

    text = " ".join(opendrs(*asked).out.split())

    advice = "opendrs apply demo --policy optimize --budget '9 moves'"
    assert f"To do this: {advice}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "optimize", "--budget", "much"], "budget must be knee"),
        (["--policy", "balance", "--budget", "knee"], "balance takes none"),
        (["--policy", "optimize", "--time", "0"], "--time"),
        (
            ["--policy", "optimize", "--budget", "knee", "--set", "budget=9 moves"],
            "--budget: --set budget=… says it already",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    opendrs: Opendrs, arguments: list[str], message: str
) -> None:
    write_snapshot(LOPSIDED, Path("lopsided.json"))

    answer = opendrs("plan", "lopsided.json", *arguments)

    assert answer.status == 2
    assert message in answer.err


@pytest.mark.parametrize("command", ["plan", "apply"])
@pytest.mark.parametrize(
    ("option", "why"),
    [
        (("--budget", "3 moves"), "--budget: balance takes none; --policy optimize"),
        (("--time", "3"), "--time: balance takes as long as it takes"),
        (("--time", "0"), "0.0 is not in the range 0<x<=86400"),
        (("--time", "-1"), "-1.0 is not in the range 0<x<=86400"),
        (("--time", "inf"), "inf is not in the range 0<x<=86400"),
        (("--time", "nan"), "nan is not a number of seconds"),
        (("--time", "soon"), "got 'soon'"),
        (("--policy", "optimize", "--budget", "0"), "budget must be knee, unlimited,"),
        (("--policy", "optimize", "--budget", "inf GiB"), "budget must be knee,"),
        (("--policy", "optimize", "--budget", "9e999 GiB"), "too large a number"),
    ],
)
def test_a_time_or_budget_that_makes_no_sense_is_refused(
    opendrs: Opendrs, command: str, option: tuple[str, ...], why: str
) -> None:
    answer = opendrs(command, "demo", *option)

    assert answer.status == 2
    assert why in answer.err


def test_what_was_said_to_plan_is_said_to_apply(opendrs: Opendrs) -> None:
    said = ("--policy", "optimize", "--budget", "2 moves", "--time", "0.2")

    plan, apply = (
        opendrs("plan", "demo", *said),
        opendrs("apply", "demo", "--yes", *said),
    )

    assert plan.out.endswith(
        "opendrs apply demo --policy optimize --budget '2 moves' --time 0.2\n"
    )
    assert apply.status == 0
    assert "Result: 2 done." in apply.out
