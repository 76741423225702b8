"""Imbalance of node loads, and sums with a defined order of additions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Loads = npt.NDArray[np.float64]


def sum_in_order(values: Iterable[float]) -> float:
    """Return the sum of *values*, added from left to right in doubles.

    `sum` compensates rounding since Python 3.12. The original systems do not, and their
    decisions are reproduced to the last digit.
    """
    total = 0.0
    for value in values:
        total += value
    return total


def sum_of_rows(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the sum of each column with the rounding of `sum_in_order`.

    NumPy's own sum adds pairwise if a column is contiguous in memory, as in a matrix of
    one column. A running sum cannot.

    Args:
        rows: Values to add along the first axis; shape (n, ...), n > 0.
    """
    total: npt.NDArray[np.float64] = np.add.accumulate(rows, axis=0)[-1]
    return total


class ImbalanceMetric(StrEnum):
    """Normalization of the coefficient of variation of loads.

    Source:
        proxmox-resource-scheduling: CV up to 2.0.0, NORMALIZED_CV since 2.1.0, which
            Proxmox VE 9.2 includes.
    """

    CV = "cv"
    NORMALIZED_CV = "normalized-cv"

    @property
    def label(self) -> str:
        """Return the name in messages, such as `normalized CV`."""
        return "CV" if self is ImbalanceMetric.CV else "normalized CV"


def imbalance(
    loads: Sequence[float], metric: ImbalanceMetric = ImbalanceMetric.NORMALIZED_CV
) -> float:
    """Return the imbalance of *loads*; 0 if all are equal.

    CV is the population coefficient of variation, in [0, sqrt(n - 1)] for n loads.
    NORMALIZED_CV divides it by that bound, so that it is in [0, 1].

    Args:
        loads: One load per node, as a fraction of its capacity; shape (n,). The loads
            are added in this order.
        metric: Metric to return.

    Returns:
        A ratio. 0 if there are no loads or all are 0; for NORMALIZED_CV also if there
        is only one.

    Source:
        Node imbalance of Proxmox VE; the bound: Katsnelson and Kotz, On the upper
        limits of some measures of variability (1957).
    """
    n = len(loads)
    total = sum_in_order(loads)
    if total == 0 or (metric is ImbalanceMetric.NORMALIZED_CV and n < 2):
        return 0.0
    mean = total / n
    squares = sum_in_order((load - mean) * (load - mean) for load in loads)
    return math.sqrt(squares / n) / mean / divisor(n, metric)


def imbalances(
    loads: Loads, metric: ImbalanceMetric = ImbalanceMetric.NORMALIZED_CV
) -> npt.NDArray[np.float64]:
    """Return the `imbalance` of each of many clusters, to the last digit.

    Args:
        loads: One column per cluster, one row per node; shape (n, k).
        metric: As for `imbalance`.

    Returns:
        One imbalance per cluster; shape (k,).
    """
    n, k = loads.shape
    if n == 0 or (metric is ImbalanceMetric.NORMALIZED_CV and n < 2):
        return np.zeros(k)
    total = sum_of_rows(loads)
    mean = np.where(total == 0, 1.0, total / n)
    deviation = np.sqrt(sum_of_rows(np.square(loads - mean)) / n)
    return np.where(total == 0, 0.0, deviation / mean / divisor(n, metric))


def divisor(n: int, metric: ImbalanceMetric) -> float:
    """Return the divisor of the raw coefficient that gives *metric*, for n > 1."""
    return math.sqrt(n - 1) if metric is ImbalanceMetric.NORMALIZED_CV else 1.0
