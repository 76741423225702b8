"""Forecast of loads from hourly values, with a bound on its error.

Six simple predictors are combined: the last sample, the means of the last hour, of the
last 4 and of the last 24 hours, and the medians of the same hours on former days and on
the same day of former weeks. Each predictor is applied to the past as well. The weight
of a predictor is the inverse of its squared mean square error, for each series, so a
daily or weekly pattern counts where there is one. The bound is a quantile of the errors
that the combination would have made.

Source:
    Bates and Granger, The combination of forecasts, Operational Research Quarterly 20
    (1969): weights from past errors. Lei, G'Sell, Rinaldo, Tibshirani and Wasserman,
    Distribution-free predictive inference for regression, JASA 113 (2018): the quantile
    of n errors. Hyndman and Athanasopoulos, Forecasting: principles and practice: the
    predictors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

HOURS_PER_DAY, HOURS_PER_WEEK = 24, 168
MAX_HOURS = 24  # longest horizon; the pattern of a day must be known for it
COVERAGE = 0.9  # part of the actual loads that are at most the bound
MIN_ERRORS = 3  # past errors without which there is no forecast
WINDOWS = (1, 4, 24)  # hours of the means
FORMER_DAYS, FORMER_WEEKS = 7, 3  # of which the medians are
RECENT_ORIGINS = 48  # hours before now at which errors are measured; before, daily
BLOCK = 2_000  # series that are computed at once, which bounds the memory
MIN_SQUARE = 1e-9  # added to mean square errors: constant series have none


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """Forecast of the mean load of S series over the horizon; NaN if unknown.

    Attributes:
        expected: Expected mean load; shape (S,).
        upper: Bound that the mean load does not exceed in nine cases of ten; (S,).
    """

    expected: Floats
    upper: Floats


def forecast_loads(mean: Floats, last: Floats, hours: int) -> LoadForecast:
    """Return the forecast of the mean load in the *hours* after the last row.

    Args:
        mean: Mean load in each hour, the last row being the current hour so far; NaN
            if unknown; shape (T, S).
        last: Last sample of each hour; NaN if unknown; shape (T, S).
        hours: Hours of the horizon, 1 to `MAX_HOURS`.

    Returns:
        The forecast. It is unknown for a series with fewer than `MIN_ERRORS` hours at
        which a past forecast can be compared with the load that followed.

    Raises:
        ValueError: The horizon is out of range.
    """
    if not 1 <= hours <= MAX_HOURS:
        raise ValueError(f"hours: expected 1 to {MAX_HOURS}, got {hours}")
    expected = np.full(mean.shape[1], np.nan)
    upper = expected.copy()
    for start in range(0, mean.shape[1], BLOCK):
        block = slice(start, start + BLOCK)
        expected[block], upper[block] = _forecast(mean[:, block], last[:, block], hours)
    return LoadForecast(expected, upper)


def _forecast(mean: Floats, last: Floats, hours: int) -> tuple[Floats, Floats]:
    """Return the expected loads and their bounds; NaN if unknown."""
    now = len(mean)
    past = _past_origins(now, hours)
    predictors = _Predictors(mean, last, hours)
    errors = predictors.of(past) - predictors.following(past)
    current = predictors.of(np.array([now]))[:, 0]
    known = ~np.isnan(errors)
    count = known.sum(axis=1)
    squares = np.where(known, errors**2, 0.0).sum(axis=1) / np.maximum(count, 1)
    usable = (count >= MIN_ERRORS) & ~np.isnan(current)
    weights = np.where(usable, (squares + MIN_SQUARE) ** -2.0, 0.0)
    expected = np.maximum(_combine(weights, current), 0.0)
    excess = -_combine(weights[:, None], errors)
    bound = _quantile(excess)
    return expected, np.maximum(expected + bound, expected)


def _past_origins(now: int, hours: int) -> npt.NDArray[np.intp]:
    """Return the rows at which a forecast would have started, the newest first.

    They are those of the last hours, and those at the current time of former days.
    """
    recent = np.arange(now - hours, max(0, now - hours - RECENT_ORIGINS), -1)
    daily = np.arange(now - HOURS_PER_DAY, 0, -HOURS_PER_DAY)
    return np.unique(np.concatenate([recent, daily]))[::-1].astype(np.intp)


class _Predictors:
    """Predictors of the mean of the next hours at any row.

    Args:
        mean: Mean load in each hour; shape (T, S).
        last: Last sample of each hour; shape (T, S).
        hours: Hours of the horizon.
    """

    def __init__(self, mean: Floats, last: Floats, hours: int) -> None:
        self._last, self._hours = last, hours
        known = ~np.isnan(mean)
        zeros = np.zeros((1, mean.shape[1]))
        self._sums = np.vstack([zeros, np.cumsum(np.where(known, mean, 0.0), axis=0)])
        self._counts = np.vstack([zeros, np.cumsum(known, axis=0)])

    def of(self, rows: npt.NDArray[np.intp]) -> Floats:
        """Return each predictor at *rows*; shape (predictors, rows, S)."""
        predictions = [
            self._last[rows - 1],
            *(self._mean(rows - window, rows) for window in WINDOWS),
            self._median(rows, HOURS_PER_DAY, FORMER_DAYS),
            self._median(rows, HOURS_PER_WEEK, FORMER_WEEKS),
        ]
        return np.stack(predictions)

    def following(self, rows: npt.NDArray[np.intp]) -> Floats:
        """Return the mean of the hours from each of *rows* on; shape (rows, S)."""
        return self._mean(rows, rows + self._hours)

    def _mean(self, start: npt.NDArray[np.intp], end: npt.NDArray[np.intp]) -> Floats:
        """Return the mean of the known values from *start* to before *end*."""
        start = np.maximum(start, 0)
        count = self._counts[end] - self._counts[start]
        means: Floats = np.full(count.shape, np.nan)
        np.divide(
            self._sums[end] - self._sums[start], count, out=means, where=count > 0
        )
        return means

    def _median(
        self, rows: npt.NDArray[np.intp], period: int, repetitions: int
    ) -> Floats:
        """Return the median of what followed whole *period*s before *rows*."""
        shape = (repetitions, len(rows), self._last.shape[1])
        former: Floats = np.full(shape, np.nan)
        for index in range(repetitions):
            before = rows - (index + 1) * period
            exists = before >= 0
            former[index, exists] = self.following(before[exists])
        former.sort(axis=0)  # NaN last
        count = (~np.isnan(former)).sum(axis=0)
        low, high = np.maximum(count - 1, 0) // 2, count // 2
        high = np.minimum(high, repetitions - 1)
        middle = [np.take_along_axis(former, i[None], axis=0)[0] for i in (low, high)]
        median: Floats = (middle[0] + middle[1]) / 2
        return median


def _combine(weights: Floats, values: Floats) -> Floats:
    """Return the weighted mean of the known *values* along the first axis."""
    weights = np.where(np.isnan(values), 0.0, weights)
    total = weights.sum(axis=0)
    combined: Floats = np.full(total.shape, np.nan)
    weighted = (weights * np.nan_to_num(values)).sum(axis=0)
    np.divide(weighted, total, out=combined, where=total > 0)
    return combined


def _quantile(errors: Floats) -> Floats:
    """Return the `COVERAGE` quantile of the known errors of each series."""
    if not len(errors):
        return np.full(errors.shape[1], np.nan)
    ordered = np.sort(errors, axis=0)  # NaN last
    count = (~np.isnan(ordered)).sum(axis=0)
    rank = np.ceil(COVERAGE * (count + 1)).astype(np.intp)
    index = np.clip(np.minimum(rank, count) - 1, 0, None)
    quantile: Floats = np.take_along_axis(ordered, index[None], axis=0)[0]
    return quantile
