"""Forecast of loads from hourly values."""

from __future__ import annotations

import numpy as np
import pytest

from opendrs.metrics import MAX_HOURS, forecast_loads
from support.oracles.load_forecast import oracle_forecast


def one_series(values: list[float], hours: int = 1) -> tuple[float, float]:
    """Return the forecast of one series whose last samples equal its means."""
    rows = np.array(values)[:, None]
    forecast = forecast_loads(rows, rows, hours)
    return float(forecast.expected[0]), float(forecast.upper[0])


def test_forecast_of_a_constant_load_is_that_load() -> None:
    assert one_series([2.0] * 30) == pytest.approx((2.0, 2.0))


def test_forecast_of_alternating_load_is_combined_by_past_errors() -> None:
    # 0 2 0 2 0 | ?  At the rows 1 to 4 the last sample and the last hour are always 2
    # off: mean square 4. The mean of up to 4 hours, as that of up to 24, is 0, 1, 2/3
    # and 1; it is followed by 2, 0, 2, 0: errors 2, -1, 4/3, -1; mean square
    # (4 + 1 + 16/9 + 1) / 4 = 70/36. No predictor knows a former day. Now: 0, 0,
    # (2 + 0 + 2 + 0) / 4 = 1 and 4/5.
    heavy, light = (70 / 36) ** -2, 4.0**-2
    total = 2 * heavy + 2 * light
    expected = heavy * (1 + 4 / 5) / total
    # The combination was too low by the most at the first row: by 2 for all of them.

    assert one_series([0.0, 2.0, 0.0, 2.0, 0.0]) == pytest.approx(
        (expected, expected + 2.0), rel=1e-6
    )


def test_forecast_knows_a_load_that_rises_at_the_same_hour_of_each_day() -> None:
    # Busy from 8 to 18 o'clock on twelve days; it is 8 o'clock on the next one.
    day = [1.0] * 8 + [5.0] * 10 + [1.0] * 6

    expected, upper = one_series([*day * 12, *day[:8]], hours=2)

    assert expected == pytest.approx(5.0, abs=0.01)
    assert upper == pytest.approx(5.0, abs=0.01)


def test_forecast_knows_a_load_that_rises_on_one_day_of_the_week() -> None:
    idle, busy = [1.0] * 24, [1.0] * 8 + [5.0] * 10 + [1.0] * 6
    week = [*busy, *idle * 6]

    monday, _ = one_series([*week * 3, *busy[:8]], hours=2)
    tuesday, _ = one_series([*week * 3, *busy, *idle[:8]], hours=2)

    assert (monday, tuesday) == pytest.approx((5.0, 1.0), abs=0.05)


def test_forecast_of_a_short_history_is_unknown() -> None:
    # Three hours at which a forecast can be compared need the hour before and after.
    short, _ = one_series([1.0, 1.0, 1.0])
    enough, _ = one_series([1.0, 1.0, 1.0, 1.0])

    assert np.isnan(short)
    assert enough == pytest.approx(1.0)


@pytest.mark.parametrize("hours", [0, MAX_HOURS + 1])
def test_horizon_out_of_range_is_an_error(hours: int) -> None:
    with pytest.raises(ValueError, match="hours: expected 1 to 24"):
        one_series([1.0] * 9, hours)


@pytest.mark.parametrize(("rows", "hours"), [(6, 1), (40, 2), (60, 24), (400, 3)])
def test_forecast_equals_that_of_plain_loops(rows: int, hours: int) -> None:
    # The oracle is written from the description of the method, without arrays.
    rng = np.random.default_rng(rows)
    shape = (rows, 6)
    values = rng.gamma(2.0, size=shape) + 3 * np.sin(np.arange(rows) / 4)[:, None] ** 2
    means = np.where(rng.random(shape) < 0.15, np.nan, values)
    means[: rows - 2, 5] = np.nan  # a guest that is new
    lasts = np.where(np.isnan(means), np.nan, means * rng.random(shape))

    found = forecast_loads(means, lasts, hours)

    for column in range(shape[1]):
        series = [
            [None if np.isnan(each) else float(each) for each in part[:, column]]
            for part in (means, lasts)
        ]
        expected = oracle_forecast(series[0], series[1], hours)
        pair = found.expected[column], found.upper[column]
        if expected is None:
            assert np.isnan(pair).all()
        else:
            assert pair == pytest.approx(expected, rel=1e-6, abs=1e-9)
