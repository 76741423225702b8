"""How unevenly loads are spread."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from opendrs.scoring.sums import sum_in_order, sum_of_rows

Loads = npt.NDArray[np.float64]


class ImbalanceForm(StrEnum):
    """How the deviation of loads becomes one number.

    Source:
        proxmox-resource-scheduling: RAW up to 2.0.0, NORMALISED since 2.1.0,
        which Proxmox VE 9.2 ships.
    """

    RAW = "raw"
    NORMALISED = "normalised"


def imbalance(
    loads: Sequence[float], form: ImbalanceForm = ImbalanceForm.NORMALISED
) -> float:
    """Return how unevenly *loads* are spread; 0 when all are equal.

    RAW is the population coefficient of variation, in [0, sqrt(n - 1)] for n
    loads. NORMALISED divides it by that bound, so that it lies in [0, 1].

    Args:
        loads: One load per node, as a fraction of its capacity; shape (n,). They
            are added in this order.
        form: Which of both to return.

    Returns:
        A ratio; 0 when there are no loads or all are 0, and when NORMALISED is
        asked of a single one.

    Source:
        Proxmox VE's node imbalance; the bound: Katsnelson and Kotz, On the
        upper limits of some measures of variability (1957).
    """
    n = len(loads)
    total = sum_in_order(loads)
    if total == 0 or (form is ImbalanceForm.NORMALISED and n < 2):
        return 0.0
    mean = total / n
    squares = sum_in_order((load - mean) * (load - mean) for load in loads)
    return math.sqrt(squares / n) / mean / divisor(n, form)


def imbalances(
    loads: Loads, form: ImbalanceForm = ImbalanceForm.NORMALISED
) -> npt.NDArray[np.float64]:
    """Return the `imbalance` of each of many clusters, to the last digit.

    Args:
        loads: One column per cluster, one row per node; shape (n, k).
        form: As for `imbalance`.

    Returns:
        One imbalance per cluster; shape (k,).
    """
    n, k = loads.shape
    if n == 0 or (form is ImbalanceForm.NORMALISED and n < 2):
        return np.zeros(k)
    total = sum_of_rows(loads)
    mean = np.where(total == 0, 1.0, total / n)
    deviation = np.sqrt(sum_of_rows(np.square(loads - mean)) / n)
    return np.where(total == 0, 0.0, deviation / mean / divisor(n, form))


def divisor(n: int, form: ImbalanceForm) -> float:
    """Return what the raw form is divided by to get *form*, for n > 1 loads."""
    return math.sqrt(n - 1) if form is ImbalanceForm.NORMALISED else 1.0
