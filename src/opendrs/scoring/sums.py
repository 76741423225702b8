"""Sums whose last digit does not depend on the version of Python."""

from __future__ import annotations

from collections.abc import Iterable


def sum_in_order(values: Iterable[float]) -> float:
    """Return the sum of *values*, added from left to right in doubles.

    `sum` compensates rounding since Python 3.12; the systems whose decisions
    are matched to the last digit do not.
    """
    total = 0.0
    for value in values:
        total += value
    return total
