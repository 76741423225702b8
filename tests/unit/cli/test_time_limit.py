"""A decision within a time is the best so far."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from opendrs.cli import time_limit
from opendrs.cli.time_limit import decide_within
from opendrs.config import write_snapshot
from opendrs.errors import ConfigurationError
from opendrs.model import AntiAffinity, GuestId
from opendrs.policies import Balance, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.run import OptimizeRun
from support.builders import cluster
from support.terminal import RunOpendrs

IMBALANCED = cluster(
    nodes={"a": 0.8, "b": 0.0}, guests={"one": ("a", 0.4), "two": ("a", 0.4)}
)
BALANCED = cluster(nodes={"a": 0.4, "b": 0.4}, guests={})


def record_searches(
    monkeypatch: pytest.MonkeyPatch, seconds: Callable[[int], float]
) -> list[tuple[int, float]]:
    """Let so many moves take so many seconds; return what is searched as it comes."""
    now = [0.0]
    seen: list[tuple[int, float]] = []
    monkeypatch.setattr(time_limit, "monotonic", lambda: now[0])

    def improve(self: OptimizeRun, iterations: int, progress: float) -> None:
        del self
        seen.append((iterations, progress))
        now[0] += seconds(iterations)

    monkeypatch.setattr(OptimizeRun, "improve", improve)
    return seen


def test_search_continues_until_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = record_searches(monkeypatch, lambda _: 1.0)

    decision = decide_within(Optimize(), IMBALANCED, 10.0)

    assert decision.plan.steps
    assert len(seen) == 10
    assert [progress for _, progress in seen] == sorted({p for _, p in seen})
    assert seen[-1][1] <= 1.0


def test_interrupted_search_returns_the_best_plan_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(self: OptimizeRun, iterations: int, progress: float) -> None:
        del self, iterations, progress
        raise KeyboardInterrupt

    monkeypatch.setattr(OptimizeRun, "improve", stopped)

    assert len(decide_within(Optimize(), IMBALANCED, 60.0).plan.steps) == 1


def test_search_without_work_ends_at_once() -> None:
    assert decide_within(Optimize(), BALANCED, 60.0).reason is DecisionReason.BALANCED


def test_search_without_feasible_move_ends_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = count(0.0, 1.0)
    monkeypatch.setattr(time_limit, "monotonic", lambda: next(now))
    apart = AntiAffinity(guests=frozenset({GuestId("one"), GuestId("two")}))
    guests = {"one": ("a", 0.8), "two": ("b", 0.2)}
    pair = cluster(nodes={"a": 0.8, "b": 0.2}, guests=guests, rules=[apart])
    alone = cluster(nodes={"a": 0.8}, guests={"one": ("a", 0.8)})
    packing = Optimize(priorities=(Goal.CONSOLIDATION,))

    for policy, each in ((Optimize(), pair), (packing, alone)):
        decision = decide_within(policy, each, 3600.0)
        assert decision.reason is DecisionReason.NO_CANDIDATE
    assert next(now) < 20


def test_slice_is_short_for_any_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = record_searches(monkeypatch, lambda moves: moves / 1e6)

    decide_within(Optimize(), IMBALANCED, 3600.0)

    assert max(moves for moves, _ in seen) == pytest.approx(time_limit.MAX_SLICE * 1e6)
    assert sum(moves for moves, _ in seen) / 1e6 == pytest.approx(
        3600.0, abs=time_limit.MAX_SLICE
    )


def test_iterations_of_a_slice_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = record_searches(monkeypatch, lambda _: 1e-3)

    decide_within(Optimize(), IMBALANCED, 10.0)

    assert max(moves for moves, _ in seen) == time_limit.MAX_ITERATIONS


def test_policy_without_time_limit_support_is_rejected() -> None:
    with pytest.raises(
        ConfigurationError, match="--time-limit: balance has no time limit"
    ):
        decide_within(Balance(), IMBALANCED, 1.0)


def test_plan_accepts_time_limit_and_budget(opendrs: RunOpendrs) -> None:
    write_snapshot(IMBALANCED, Path("lopsided.json"))
    command = ("plan", "lopsided.json", "--policy", "optimize", "--time-limit", "0.1")

    answer = opendrs(*command, "--budget", "1 migrations")
    found = json.loads(
        opendrs(*command, "--budget", "0 migrations", "--format", "json").out
    )

    assert answer.status == 0
    assert "bound: no plan that moves as much is " in answer.out
    assert (found["reason"], found["steps"]) == ("migration-limit-reached", [])


def test_suggested_apply_command_contains_the_budget(opendrs: RunOpendrs) -> None:
    command = ("plan", "demo", "--policy", "optimize", "--budget", "9 migrations")

    text = " ".join(opendrs(*command).out.split())

    advice = "opendrs apply demo --policy optimize --budget '9 migrations'"
    assert f"To execute this plan: {advice}" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--policy", "optimize", "--budget", "much"], "budget: expected knee"),
        (["--policy", "balance", "--budget", "knee"], "balance has no budget"),
        (["--policy", "optimize", "--time-limit", "0"], "--time-limit"),
        (
            [
                "--policy",
                "optimize",
                "--budget",
                "knee",
                "--set",
                "budget=9 migrations",
            ],
            "--budget: also given by --set budget",
        ),
    ],
)
def test_contradictory_options_are_rejected(
    opendrs: RunOpendrs, arguments: list[str], message: str
) -> None:
    write_snapshot(IMBALANCED, Path("lopsided.json"))

    answer = opendrs("plan", "lopsided.json", *arguments)

    assert answer.status == 2
    assert message in answer.err


@pytest.mark.parametrize("command", ["plan", "apply"])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            ("--budget", "3 migrations"),
            "--budget: balance has no budget; use --policy optimize",
        ),
        (("--time-limit", "3"), "--time-limit: balance has no time limit"),
        (("--time-limit", "0"), "0.0 is not in the range 0<x<=86400"),
        (("--time-limit", "-1"), "-1.0 is not in the range 0<x<=86400"),
        (("--time-limit", "inf"), "inf is not in the range 0<x<=86400"),
        (("--time-limit", "nan"), "expected a number of seconds, got nan"),
        (("--time-limit", "soon"), "got 'soon'"),
        (("--policy", "optimize", "--budget", "0"), "budget: expected knee, unlimited"),
        (("--policy", "optimize", "--budget", "inf GiB"), "budget: expected knee"),
        (("--policy", "optimize", "--budget", "9e999 GiB"), "number too large"),
    ],
)
def test_invalid_time_limit_or_budget_is_rejected(
    opendrs: RunOpendrs, command: str, option: tuple[str, ...], message: str
) -> None:
    answer = opendrs(command, "demo", *option)

    assert answer.status == 2
    assert message in answer.err


def test_suggested_apply_command_repeats_the_options(opendrs: RunOpendrs) -> None:
    said = ("--policy", "optimize", "--budget", "2 migrations", "--time-limit", "0.2")

    plan, apply = (
        opendrs("plan", "demo", *said),
        opendrs("apply", "demo", "--yes", *said),
    )

    assert plan.out.endswith(
        "opendrs apply demo --policy optimize --budget '2 migrations' "
        "--time-limit 0.2\n"
    )
    assert apply.status == 0
    assert "Result: 2 done." in apply.out
