"""How widely samples are spread, told in ways that outliers cannot sway."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opendrs.policies.consolidation.histories import Floats


def median_absolute_deviation(samples: Sequence[float]) -> float:
    """Return the median distance from the median.

    Raises:
        ValueError: There are no samples.
    """
    if not samples:
        raise ValueError("no samples have no deviation")
    middle = _median(samples)
    return _median([abs(each - middle) for each in samples])


def interquartile_range(samples: Sequence[float]) -> float:
    """Return the distance from the first quartile to the third.

    The quartiles are samples, at the places that `quartile_places` gives.

    Raises:
        ValueError: There are fewer than two samples.
    """
    first, third = quartile_places(len(samples))
    ordered = sorted(samples)
    return ordered[third] - ordered[first]


def quartile_places(count: int) -> tuple[int, int]:
    """Return where the quartiles stand among *count* samples in order.

    Halves are rounded up, as in Java and in Python 2.

    Raises:
        ValueError: There are fewer than two samples.
    """
    if count < 2:
        raise ValueError(f"{count} samples have no quartiles: 2 are needed")
    return (
        math.floor(0.25 * (count + 1) + 0.5) - 1,
        math.floor(0.75 * (count + 1) + 0.5) - 1,
    )


def median_absolute_deviations(samples: Floats) -> Floats:
    """Return `median_absolute_deviation` of each row; shape (rows, samples)."""
    deviations = np.abs(samples - _medians(samples)[:, None])
    return _medians(deviations)


def interquartile_ranges(samples: Floats) -> Floats:
    """Return `interquartile_range` of each row; shape (rows, samples)."""
    first, third = quartile_places(samples.shape[1])
    ordered = np.sort(samples, axis=1)
    ranges: Floats = ordered[:, third] - ordered[:, first]
    return ranges


def _median(samples: Sequence[float]) -> float:
    ordered, middle = sorted(samples), len(samples) // 2
    if len(samples) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _medians(samples: Floats) -> Floats:
    ordered, middle = np.sort(samples, axis=1), samples.shape[1] // 2
    if samples.shape[1] % 2:
        odd: Floats = ordered[:, middle]
        return odd
    even: Floats = (ordered[:, middle - 1] + ordered[:, middle]) / 2
    return even
