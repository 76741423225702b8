"""Multiple regression by Householder reflections, number by number.

With as many guests as samples every regression is perfect but for rounding, and
the largest R² is the largest rounding error. So the steps and their order are
those of the textbook algorithm on plain numbers, on which the original is built.

Source:
    Golub and Van Loan, Matrix Computations (2013), section 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Column = list[float]


def determination(asked: Sequence[float], others: Sequence[Column]) -> float | None:
    """Return R² of the regression of *asked* on *others*, with an intercept.

    Returns:
        NaN where *asked* never changes and is met; None for a singular matrix.
    """
    columns = [[1.0] * len(asked), *others]
    reflected = [list(each) for each in columns]
    diagonal = [_reflect(reflected, place) for place in range(len(columns))]
    if 0.0 in diagonal:
        return None
    weights = _solved(reflected, diagonal, list(asked))
    missed = 0.0
    for row, value in enumerate(asked):
        told = 0.0
        for column, weight in zip(columns, weights, strict=True):
            told += column[row] * weight
        missed += (value - told) * (value - told)
    total = _squares(asked)
    if total == 0:
        return math.nan if missed == 0 else -math.inf
    return 1 - missed / total


def _reflect(columns: list[Column], place: int) -> float:
    """Reflect the columns from *place* on; return the new diagonal element."""
    pivot = columns[place]
    norm = math.sqrt(_product(pivot, pivot, place))
    diagonal = -norm if pivot[place] > 0 else norm
    if diagonal != 0.0:
        pivot[place] -= diagonal
        for column in columns[place + 1 :]:
            factor = -_product(column, pivot, place) / (diagonal * pivot[place])
            _subtract(column, pivot, factor, place)
    return diagonal


def _solved(
    reflected: Sequence[Column], diagonal: Sequence[float], right: Column
) -> list[float]:
    for place, pivot in enumerate(reflected):
        scale = diagonal[place] * pivot[place]
        _subtract(right, pivot, -(_product(right, pivot, place) / scale), place)
    weights = [0.0] * len(diagonal)
    for place in reversed(range(len(diagonal))):
        weights[place] = right[place] / diagonal[place]
        for above in range(place):
            right[above] -= weights[place] * reflected[place][above]
    return weights


def _product(one: Column, other: Column, start: int) -> float:
    total = 0.0
    for row in range(start, len(one)):
        total += one[row] * other[row]
    return total


def _subtract(column: Column, pivot: Column, factor: float, start: int) -> None:
    for row in range(start, len(column)):
        column[row] -= factor * pivot[row]


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squared deviations from the mean, updated one by one."""
    mean = squares = 0.0
    for seen, value in enumerate(values):
        deviation = value - mean
        mean += deviation / (seen + 1)
        squares += deviation * (deviation / (seen + 1)) * seen
    return squares
