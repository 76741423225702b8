"""A decision within a time is the best so far."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from opendrs.cli import time_limit
from opendrs.cli.time_limit import TimeLimit, decide_within
from opendrs.config import write_snapshot
from opendrs.controller.replay import RecordedPortions
from opendrs.errors import ConfigurationError
from opendrs.model import AntiAffinity, GuestId
from opendrs.optimizer import END_OF_SEARCH, Portion
from opendrs.optimizer.evaluation import Incumbent
from opendrs.optimizer.search.local_search import LocalSearch
from opendrs.policies import Balance, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.objective import Goal
from support.builders import cluster
from support.terminal import RunOpendrs

IMBALANCED = cluster(
    nodes={"a": 0.8, "b": 0.0}, guests={"one": ("a", 0.4), "two": ("a", 0.4)}
)
BALANCED = cluster(nodes={"a": 0.4, "b": 0.4}, guests={})


def slices(
    monkeypatch: pytest.MonkeyPatch, limit: float, duration: Callable[[int], float]
) -> list[Portion]:
    """Return the portions of a time limit if so many moves take so many seconds."""
    now = [0.0]
    monkeypatch.setattr(time_limit, "monotonic", lambda: now[0])
    found = []
    for portion in TimeLimit(limit, lambda _: None).portions(10):
        found.append(portion)
        now[0] += duration(portion.iterations)
    return found


def test_search_continues_until_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = slices(monkeypatch, 10.0, lambda _: 1.0)

    assert len(seen) == 10
    assert [progress for _, progress in seen] == sorted({p for _, p in seen})
    assert seen[-1].progress <= 1.0


def test_time_before_the_search_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = count(0.0, 1.0)
    monkeypatch.setattr(time_limit, "monotonic", lambda: next(now))
    shown: list[float] = []
    limit = TimeLimit(10.0, shown.append)
    for _ in range(8):
        next(now)

    assert len([*limit.portions(10)]) == 1
    assert shown == [1.1]


def test_ctrl_c_ends_the_search_after_the_slice() -> None:
    before = signal.getsignal(signal.SIGINT)
    portions = TimeLimit(60.0, lambda _: None).portions(10)
    next(portions)

    signal.raise_signal(signal.SIGINT)

    assert [*portions] == []
    assert signal.getsignal(signal.SIGINT) is before


def test_second_ctrl_c_interrupts() -> None:
    portions = TimeLimit(60.0, lambda _: None).portions(10)
    next(portions)
    signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_end_of_the_search_restores_the_signal_handler() -> None:
    before = signal.getsignal(signal.SIGINT)

    decide_within(Optimize(), IMBALANCED, 0.1)

    assert signal.getsignal(signal.SIGINT) is before


def test_interrupted_search_returns_the_best_plan_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: LocalSearch, iterations: int, progress: float) -> Incumbent:
        del iterations, progress
        signal.raise_signal(signal.SIGINT)
        return self.best

    monkeypatch.setattr(LocalSearch, "run", interrupted)

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
    seen = slices(monkeypatch, 3600.0, lambda moves: moves / 1e6)

    assert max(moves for moves, _ in seen) == pytest.approx(time_limit.MAX_SLICE * 1e6)
    assert sum(moves for moves, _ in seen) / 1e6 == pytest.approx(
        3600.0, abs=time_limit.MAX_SLICE
    )


def test_iterations_of_a_slice_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = slices(monkeypatch, 10.0, lambda _: 1e-3)

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
    assert "\ndistance from the optimum: " in answer.out
    assert (found["reason"], found["steps"]) == ("migration-limit-reached", [])


def test_suggested_apply_command_contains_the_budget(opendrs: RunOpendrs) -> None:
    command = ("plan", "demo", "--policy", "optimize", "--budget", "9 migrations")

    text = " ".join(opendrs(*command).out.split())

    advice = "opendrs apply demo --policy optimize --budget '9 migrations'"
    assert f"To plan again and execute: {advice}" in text


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


def test_searches_share_the_time_and_are_replayed_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = count(0.0, 1.0)
    monkeypatch.setattr(time_limit, "monotonic", lambda: next(now))
    limit = TimeLimit(20.0, lambda _: None)
    begun = limit.portions(10)
    first = [next(begun), next(begun)]
    begun.close()  # nothing more can be found
    second, third = [*limit.portions(10)], [*limit.portions(10)]

    recorded = RecordedPortions(limit.yielded)
    replayed = recorded.portions(10)

    assert len(second) > len(third) == 1
    assert [next(replayed), next(replayed)] == first
    replayed.close()
    assert [*recorded.portions(10)] == second
    assert [*recorded.portions(10)] == third


def test_ctrl_c_ends_all_searches() -> None:
    limit = TimeLimit(60.0, lambda _: None)
    with closing(limit.portions(10)) as portions:
        next(portions)
        signal.raise_signal(signal.SIGINT)

    assert [*limit.portions(10)] == []


def test_beam_search_counts_in_the_time_and_is_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 4 nodes and 16 guests: too many placements for the exhaustive search.
    now = count(0.0, 1.0)
    monkeypatch.setattr(time_limit, "monotonic", lambda: next(now))
    guests = {f"g{n}": ("a", 0.02 + 0.003 * n) for n in range(16)}
    load = sum(each for _, each in guests.values())
    snapshot = cluster(nodes={"a": load, "b": 0.0, "c": 0.0, "d": 0.0}, guests=guests)
    policy, limit = Optimize(), TimeLimit(10.0, lambda _: None)

    decision = policy.decide_until(snapshot, limit)

    assert decision.plan.steps
    # The beam search takes the time; the other search has one slice.
    assert len(limit.yielded) < 8
    assert [each == END_OF_SEARCH for each in limit.yielded[-3:]] == [True, False, True]
    recorded = RecordedPortions(limit.yielded)
    assert policy.decide_until(snapshot, recorded) == decision
