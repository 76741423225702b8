"""Sums whose last digit does not depend on the version of Python."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt


def sum_in_order(values: Iterable[float]) -> float:
    """Return the sum of *values*, added from left to right in doubles.

    `sum` compensates rounding since Python 3.12; the systems whose decisions
    are matched to the last digit do not.
    """
    total = 0.0
    for value in values:
        total += value
    return total


def sum_of_rows(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return what `sum_in_order` gives for each column, whatever the layout.

    NumPy's own sum adds pairwise when a column is contiguous in memory, as in a
    matrix of one column; a running sum cannot.

    Args:
        rows: What to add along the first axis; shape (n, ...), n > 0.
    """
    total: npt.NDArray[np.float64] = np.add.accumulate(rows, axis=0)[-1]
    return total
