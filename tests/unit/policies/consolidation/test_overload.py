"""Overload detectors by hand, and their array forms against their scalar forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import (
    IqrDetector,
    LastNAverageDetector,
    LoadHistories,
    LoessDetector,
    MadDetector,
    MhodDetector,
    NeverOverloaded,
    OverloadCounter,
    OverloadCounters,
    OverloadDetector,
    OverloadTimeFraction,
    RobustLoessDetector,
    ThresholdDetector,
)

DETECTORS: tuple[OverloadDetector, ...] = (
    NeverOverloaded(),
    ThresholdDetector(threshold=0.8),
    LastNAverageDetector(threshold=0.7, n=3),
    MadDetector(safety=2.5, limit=5),
    IqrDetector(safety=1.5, limit=1),
    LoessDetector(length=5),
    RobustLoessDetector(length=5),
    OverloadTimeFraction(otf=0.2, limit=3),
    MhodDetector(otf=0.3, windows=(3, 5, 8), learning=4, step=0.25),
)

loads = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 1.0, 1.2])
histories = st.lists(st.lists(loads, max_size=25), min_size=1, max_size=6)


def judged(detector: OverloadDetector, *history: float) -> bool:
    return detector.judge(list(history), OverloadCounter(), 1.0).overloaded


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda each: each.name)
def test_node_without_history_is_not_overloaded(
    detector: OverloadDetector,
) -> None:
    assert detector.judge([], OverloadCounter(), 1.0) == (False, OverloadCounter())


def test_the_threshold_itself_is_no_overload() -> None:
    assert not judged(ThresholdDetector(threshold=0.8), 0.9, 0.8)
    assert judged(ThresholdDetector(threshold=0.8), 0.1, 0.81)


def test_the_average_is_of_what_there_is() -> None:
    assert judged(LastNAverageDetector(threshold=0.6, n=2), 0.0, 0.5, 0.75)
    assert not judged(LastNAverageDetector(threshold=0.6, n=3), 0.0, 0.5, 0.75)
    assert judged(LastNAverageDetector(threshold=0.6, n=9), 0.7)


def test_mad_threshold_leaves_median_deviation_free() -> None:
    # Median 0.5, deviations 0.2 0.1 0 0.1 0.2: their median is 0.1.
    history = [0.3, 0.4, 0.5, 0.6, 0.7]

    assert MadDetector(safety=2.5, limit=5).threshold(history) == pytest.approx(0.75)
    assert not judged(MadDetector(safety=2.5, limit=5), *history)
    assert judged(MadDetector(safety=3.5, limit=5), *history)


def test_iqr_takes_quartiles_that_are_samples_and_rounds_halves_up() -> None:
    # Five samples: places 0.25 * 6 = 1.5 -> 2 and 0.75 * 6 = 4.5 -> 5, from 1.
    history = [0.9, 0.1, 0.2, 0.3, 0.5]

    assert IqrDetector(safety=1.0, limit=5).threshold(history) == pytest.approx(0.3)


@pytest.mark.parametrize("make", [MadDetector, IqrDetector])
def test_spread_is_not_judged_by_too_few_samples(
    make: Callable[..., OverloadDetector],
) -> None:
    history = [1.0] * 11

    assert not judged(make(limit=12), *history)
    assert judged(make(limit=12), *history, 1.0)


@pytest.mark.parametrize("make", [LoessDetector, RobustLoessDetector])
def test_a_trend_on_a_straight_line_is_followed(
    make: Callable[..., LoessDetector],
) -> None:
    detector = make(safety=1.0, length=4, threshold=0.75)

    assert detector.prediction([0.1, 0.2, 0.3, 0.4, 0.5], 1.5) == pytest.approx(0.65)
    assert not detector.overloaded([0.1, 0.2, 0.3, 0.4, 0.5], 1.5)
    assert detector.overloaded([0.1, 0.2, 0.3, 0.4, 0.5], 3.0)


def test_robust_loess_is_not_overloaded_by_a_host_that_does_nothing() -> None:
    assert not judged(RobustLoessDetector(length=10), *[0.0] * 10)
    assert not judged(RobustLoessDetector(length=10), *[0.3] * 10)


def test_robust_loess_is_moved_less_by_an_outlier() -> None:
    history = [0.5, 0.51, 0.49, 0.5, 0.52, 1.0, 0.5, 0.49, 0.51, 0.5]
    plain, robust = (
        make(length=10).prediction(history, 0)
        for make in (LoessDetector, RobustLoessDetector)
    )

    assert abs(robust - 0.5) < abs(plain - 0.5)


def test_otf_counts_what_it_sees_and_the_migration_to_come() -> None:
    detector = OverloadTimeFraction(otf=0.5, threshold=0.8, limit=1)
    first = detector.judge([0.1], OverloadCounter(), 1.0)
    second = detector.judge([0.1, 0.9], first.counter, 1.0)

    assert first == (False, OverloadCounter(samples=1, overloaded=0))
    # (1 + 1) / (1 + 2) of the time would be overload once the guest has left.
    assert second == (True, OverloadCounter(samples=2, overloaded=1))


def test_mhod_keeps_a_host_while_some_policy_keeps_the_bound() -> None:
    detector = MhodDetector(otf=0.3, windows=(5, 10), learning=4)
    history = [0.5] * 30 + [0.9, 0.9]

    assert not detector.judge(history, OverloadCounter(100, 1), 0.1).overloaded
    assert detector.judge(history, OverloadCounter(31, 31), 0.1).overloaded


@given(histories, st.integers(0, 40), st.floats(0, 3))
def test_judge_all_agrees_with_judge(
    rows: list[list[float]], seen: int, migration: float
) -> None:
    columns, tallies = LoadHistories.of(rows), OverloadCounters.zeros(len(rows))
    tallies = OverloadCounters(tallies.samples + seen, tallies.overloaded + seen // 4)
    moving = np.full(len(rows), migration)
    for detector in DETECTORS:
        found = detector.judge_all(columns, tallies, moving)
        plain = [
            detector.judge(row, OverloadCounter(seen, seen // 4), migration)
            for row in rows
        ]

        assert found.overloaded.tolist() == [each.overloaded for each in plain]
        assert [
            OverloadCounter(*each)
            for each in zip(
                found.counters.samples.tolist(),
                found.counters.overloaded.tolist(),
                strict=True,
            )
        ] == [each.counter for each in plain]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (ThresholdDetector, {"threshold": -0.1}),
        (LastNAverageDetector, {"n": 0}),
        (MadDetector, {"limit": 0}),
        (IqrDetector, {"safety": float("nan")}),
        (LoessDetector, {"length": 2}),
        (OverloadTimeFraction, {"otf": 1.5}),
        (MhodDetector, {"windows": (40, 30)}),
        (MhodDetector, {"windows": ()}),
        (MhodDetector, {"windows": (1, 2)}),
        (MhodDetector, {"step": 0.0}),
        (MhodDetector, {"learning": 0}),
    ],
)
def test_invalid_settings_are_rejected(
    make: Callable[..., OverloadDetector], wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make(**wrong)
