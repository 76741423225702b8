"""Underload detector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import (
    LoadHistories,
    UnderloadDetector,
    UnderloadLastNAverage,
)
from support.oracles.neat import AlwaysUnderloaded, UnderloadThreshold

DETECTORS: tuple[UnderloadDetector, ...] = (
    AlwaysUnderloaded(),
    UnderloadThreshold(threshold=0.5),
    UnderloadLastNAverage(threshold=0.5, n=2),
)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda each: each.name)
def test_node_without_history_is_underloaded_only_if_every_node_is(
    detector: UnderloadDetector,
) -> None:
    expected = detector.name == "always"

    assert detector.underloaded([]) is expected
    assert detector.all_underloaded(LoadHistories.of([[]])).tolist() == [expected]


def test_the_threshold_itself_is_underload() -> None:
    assert UnderloadThreshold(threshold=0.5).underloaded([0.9, 0.5])
    assert not UnderloadThreshold(threshold=0.5).underloaded([0.1, 0.51])


def test_the_average_is_of_the_newest_samples() -> None:
    detector = UnderloadLastNAverage(threshold=0.5, n=2)

    assert detector.underloaded([1.0, 0.75, 0.25])
    assert not detector.underloaded([0.0, 0.75, 0.5])


@given(st.lists(st.lists(st.floats(0, 1.3), max_size=9), max_size=5))
def test_all_underloaded_agrees_with_underloaded(rows: list[list[float]]) -> None:
    columns = LoadHistories.of(rows)
    for detector in DETECTORS:
        found = detector.all_underloaded(columns).tolist()

        assert found == [detector.underloaded(row) for row in rows]


@pytest.mark.parametrize("wrong", [{"threshold": -1.0}, {"n": 0}])
def test_invalid_underload_settings_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        UnderloadLastNAverage(**wrong)  # type: ignore[arg-type]
