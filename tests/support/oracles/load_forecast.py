"""Forecast of one series by plain loops, from the description of the method."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean, median

Series = Sequence[float | None]


def oracle_forecast(
    means: Series, lasts: Series, hours: int
) -> tuple[float, float] | None:
    """Return the expected mean load of the next *hours*, and its bound.

    Each predictor has the weight 1 / (mean square of its past errors + 1e-9)². The
    bound adds the error of rank ceil(0.9 (n + 1)) of the n past errors. None if no
    predictor has three past errors.
    """
    now = len(means)

    def average(start: int, end: int) -> float | None:
        known = [each for each in means[max(0, start) : end] if each is not None]
        return mean(known) if known else None

    def former(row: int, period: int, count: int) -> float | None:
        starts = [row - period * number for number in range(1, count + 1)]
        found = [average(each, each + hours) for each in starts if each >= 0]
        known = [each for each in found if each is not None]
        return median(known) if known else None

    predictors: list[Callable[[int], float | None]] = [
        lambda row: lasts[row - 1],
        lambda row: average(row - 1, row),
        lambda row: average(row - 4, row),
        lambda row: average(row - 24, row),
        lambda row: former(row, 24, 7),
        lambda row: former(row, 168, 3),
    ]
    recent = {row for row in range(1, now - hours + 1) if row > now - hours - 48}
    rows = recent | {row for row in range(1, now - 23) if (now - row) % 24 == 0}

    def error(predict: Callable[[int], float | None], row: int) -> float | None:
        predicted, actual = predict(row), average(row, row + hours)
        if predicted is None or actual is None:
            return None
        return actual - predicted

    errors = [[error(predict, row) for row in sorted(rows)] for predict in predictors]
    weights = []
    for predict, past in zip(predictors, errors, strict=True):
        known = [each for each in past if each is not None]
        usable = len(known) >= 3 and predict(now) is not None
        square = mean(each**2 for each in known) if usable else math.inf
        weights.append((square + 1e-9) ** -2)
    if not any(weights):
        return None

    def combined(values: Sequence[float | None]) -> float | None:
        pairs = [
            (weight, value)
            for weight, value in zip(weights, values, strict=True)
            if value is not None and weight
        ]
        total = sum(weight for weight, _ in pairs)
        return sum(weight * value for weight, value in pairs) / total if pairs else None

    expected = combined([predict(now) for predict in predictors])
    assert expected is not None
    past = [combined(column) for column in zip(*errors, strict=True)]
    ordered = sorted(each for each in past if each is not None)
    rank = min(len(ordered), math.ceil(0.9 * (len(ordered) + 1)))
    expected = max(0.0, expected)
    return expected, expected + max(0.0, ordered[rank - 1])
