"""Each detector by hand; and all of them over columns against one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import (
    Histories,
    Iqr,
    LastNAverage,
    Loess,
    Mad,
    Mhod,
    Never,
    Otf,
    OverloadDetector,
    RobustLoess,
    Tallies,
    Tally,
    Threshold,
)

DETECTORS: tuple[OverloadDetector, ...] = (
    Never(),
    Threshold(threshold=0.8),
    LastNAverage(threshold=0.7, n=3),
    Mad(safety=2.5, limit=5),
    Iqr(safety=1.5, limit=1),
    Loess(length=5),
    RobustLoess(length=5),
    Otf(otf=0.2, limit=3),
    Mhod(otf=0.3, windows=(3, 5, 8), learning=4, step=0.25),
)

loads = st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 1.0, 1.2])
histories = st.lists(st.lists(loads, max_size=25), min_size=1, max_size=6)


def judged(detector: OverloadDetector, *history: float) -> bool:
    return detector.judge(list(history), Tally(), 1.0).overloaded


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda each: each.name)
def test_a_host_of_which_nothing_is_known_is_not_overloaded(
    detector: OverloadDetector,
) -> None:
    assert detector.judge([], Tally(), 1.0) == (False, Tally())


def test_the_threshold_itself_is_no_overload() -> None:
    assert not judged(Threshold(threshold=0.8), 0.9, 0.8)
    assert judged(Threshold(threshold=0.8), 0.1, 0.81)


def test_the_average_is_of_what_there_is() -> None:
    assert judged(LastNAverage(threshold=0.6, n=2), 0.0, 0.5, 0.75)
    assert not judged(LastNAverage(threshold=0.6, n=3), 0.0, 0.5, 0.75)
    assert judged(LastNAverage(threshold=0.6, n=9), 0.7)


def test_mad_leaves_room_for_the_median_deviation() -> None:
    # Median 0.5, deviations 0.2 0.1 0 0.1 0.2: their median is 0.1.
    history = [0.3, 0.4, 0.5, 0.6, 0.7]

    assert Mad(safety=2.5, limit=5).threshold(history) == pytest.approx(0.75)
    assert not judged(Mad(safety=2.5, limit=5), *history)
    assert judged(Mad(safety=3.5, limit=5), *history)


def test_iqr_takes_quartiles_that_are_samples_and_rounds_halves_up() -> None:
    # Five samples: places 0.25 * 6 = 1.5 -> 2 and 0.75 * 6 = 4.5 -> 5, from 1.
    history = [0.9, 0.1, 0.2, 0.3, 0.5]

    assert Iqr(safety=1.0, limit=5).threshold(history) == pytest.approx(0.3)


@pytest.mark.parametrize("make", [Mad, Iqr])
def test_spread_is_not_judged_by_too_few_samples(
    make: Callable[..., OverloadDetector],
) -> None:
    history = [1.0] * 11

    assert not judged(make(limit=12), *history)
    assert judged(make(limit=12), *history, 1.0)


@pytest.mark.parametrize("make", [Loess, RobustLoess])
def test_a_trend_on_a_straight_line_is_followed(
    make: Callable[..., Loess],
) -> None:
    detector = make(safety=1.0, length=4, threshold=0.75)

    assert detector.prediction([0.1, 0.2, 0.3, 0.4, 0.5], 1.5) == pytest.approx(0.65)
    assert not detector.overloaded([0.1, 0.2, 0.3, 0.4, 0.5], 1.5)
    assert detector.overloaded([0.1, 0.2, 0.3, 0.4, 0.5], 3.0)


def test_robust_loess_is_not_overloaded_by_a_host_that_does_nothing() -> None:
    assert not judged(RobustLoess(length=10), *[0.0] * 10)
    assert not judged(RobustLoess(length=10), *[0.3] * 10)


def test_robust_loess_is_moved_less_by_an_outlier() -> None:
    history = [0.5, 0.51, 0.49, 0.5, 0.52, 1.0, 0.5, 0.49, 0.51, 0.5]
    plain, robust = (
        make(length=10).prediction(history, 0) for make in (Loess, RobustLoess)
    )

    assert abs(robust - 0.5) < abs(plain - 0.5)


def test_otf_counts_what_it_sees_and_the_migration_to_come() -> None:
    detector = Otf(otf=0.5, threshold=0.8, limit=1)
    first = detector.judge([0.1], Tally(), 1.0)
    second = detector.judge([0.1, 0.9], first.tally, 1.0)

    assert first == (False, Tally(seen=1, overloaded=0))
    # (1 + 1) / (1 + 2) of the time would be overload once the guest has left.
    assert second == (True, Tally(seen=2, overloaded=1))


def test_mhod_keeps_a_host_while_some_policy_keeps_the_bound() -> None:
    detector = Mhod(otf=0.3, windows=(5, 10), learning=4)
    history = [0.5] * 30 + [0.9, 0.9]

    assert not detector.judge(history, Tally(100, 1), 0.1).overloaded
    assert detector.judge(history, Tally(31, 31), 0.1).overloaded


@given(histories, st.integers(0, 40), st.floats(0, 3))
def test_all_hosts_at_once_are_judged_as_one_by_one(
    rows: list[list[float]], seen: int, migration: float
) -> None:
    columns, tallies = Histories.of(rows), Tallies.none(len(rows))
    tallies = Tallies(tallies.seen + seen, tallies.overloaded + seen // 4)
    moving = np.full(len(rows), migration)
    for detector in DETECTORS:
        found = detector.judge_all(columns, tallies, moving)
        plain = [detector.judge(row, Tally(seen, seen // 4), migration) for row in rows]

        assert found.overloaded.tolist() == [each.overloaded for each in plain]
        assert [
            Tally(*each)
            for each in zip(
                found.tallies.seen.tolist(),
                found.tallies.overloaded.tolist(),
                strict=True,
            )
        ] == [each.tally for each in plain]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (Threshold, {"threshold": -0.1}),
        (LastNAverage, {"n": 0}),
        (Mad, {"limit": 0}),
        (Iqr, {"safety": float("nan")}),
        (Loess, {"length": 2}),
        (Otf, {"otf": 1.5}),
        (Mhod, {"windows": (40, 30)}),
        (Mhod, {"windows": ()}),
        (Mhod, {"windows": (1, 2)}),
        (Mhod, {"step": 0.0}),
        (Mhod, {"learning": 0}),
    ],
)
def test_refuses_settings_that_make_no_sense(
    make: Callable[..., OverloadDetector], wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make(**wrong)
