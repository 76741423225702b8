"""Robust statistics of load histories: MAD, IQR, local regression.

Local regression is of degree one, at the newest sample, as OpenStack Neat applies it:
least squares use each weight squared, and the first two samples have the weight of the
third. The lines are computed in closed form.

Source:
    Cleveland, Robust locally weighted regression and smoothing scatterplots (1979);
    Beloglazov and Buyya, CCPE 24 (2012) 1397-1420.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opendrs.policies.consolidation.history import Floats, Mask


def median_absolute_deviation(samples: Sequence[float]) -> float:
    """Return the median of the absolute deviations from the median.

    Raises:
        ValueError: There are no samples.
    """
    if not samples:
        raise ValueError("median absolute deviation: expected samples, got none")
    middle = _median(samples)
    return _median([abs(each - middle) for each in samples])


def interquartile_range(samples: Sequence[float]) -> float:
    """Return the distance from the first to the third quartile.

    The quartiles are samples, at the indices of `quartile_indices`.

    Raises:
        ValueError: There are fewer than two samples.
    """
    first, third = quartile_indices(len(samples))
    ordered = sorted(samples)
    return ordered[third] - ordered[first]


def quartile_indices(count: int) -> tuple[int, int]:
    """Return the indices of the quartiles among *count* sorted samples.

    Halves are rounded up, as in Java and in Python 2.

    Raises:
        ValueError: There are fewer than two samples.
    """
    if count < 2:
        raise ValueError(f"quartiles: expected at least 2 samples, got {count}")
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
    first, third = quartile_indices(samples.shape[1])
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


MIN_SAMPLES = 3  # two parameters of the line, and one degree of freedom
ROUNDING = 1e-12  # residuals below this fraction of the samples are rounding errors


class RegressionLine(NamedTuple):
    """Line `intercept + slope * x`; the oldest sample is at x = 1."""

    intercept: float
    slope: float

    def at(self, x: float) -> float:
        """Return the value of the line at *x*."""
        return self.intercept + self.slope * x


class RegressionLines(NamedTuple):
    """One line per row; each of shape (rows,)."""

    intercept: Floats
    slope: Floats

    def at(self, x: Floats) -> Floats:
        """Return the value of each line at its *x*."""
        heights: Floats = self.intercept + self.slope * x
        return heights


def tricube_weights(count: int) -> Floats:
    """Return the tricube weight of each of *count* samples, 1 for the newest.

    Raises:
        ValueError: There are fewer than three samples.
    """
    if count < MIN_SAMPLES:
        raise ValueError(f"loess: expected at least {MIN_SAMPLES} samples, got {count}")
    distance = np.arange(count - 1, -1, -1) / (count - 1)
    weights: Floats = (1 - distance**3) ** 3
    return _first_as_third(weights)


def robust_weights(residuals: Sequence[float]) -> Floats:
    """Return the tricube weights, reduced for samples with large residuals.

    Samples beyond six times the median residual are not excluded, although the
    bisquare would: the original does not.

    Raises:
        ValueError: There are fewer than three samples.
    """
    weights: Floats = _robust_weights(np.array([residuals]))[0]
    return weights


def loess(samples: Sequence[float]) -> RegressionLine:
    """Return the line of weighted least squares through *samples*.

    Raises:
        ValueError: There are fewer than three samples.
    """
    lines = loess_lines(np.array([samples], dtype=np.float64))
    return RegressionLine(float(lines.intercept[0]), float(lines.slope[0]))


def robust_loess(samples: Sequence[float]) -> RegressionLine:
    """Return the line of a second regression with less weight on outliers.

    If the first line has no residuals, it is returned.

    Raises:
        ValueError: There are fewer than three samples.
    """
    lines = robust_loess_lines(np.array([samples], dtype=np.float64))
    return RegressionLine(float(lines.intercept[0]), float(lines.slope[0]))


def loess_lines(samples: Floats) -> RegressionLines:
    """Return `loess` of each row; shape (rows, samples)."""
    weights = tricube_weights(samples.shape[1])
    return _lines(samples, np.broadcast_to(weights, samples.shape))


def robust_loess_lines(samples: Floats) -> RegressionLines:
    """Return `robust_loess` of each row; shape (rows, samples)."""
    first = loess_lines(samples)
    x = np.arange(1, samples.shape[1] + 1)
    residuals = samples - first.intercept[:, None] - first.slope[:, None] * x
    size = np.abs(samples).max(axis=1, initial=0)
    exact = np.median(np.abs(residuals), axis=1) <= ROUNDING * size
    second = _lines(samples, _robust_weights(residuals, exact))
    return RegressionLines(
        np.where(exact, first.intercept, second.intercept),
        np.where(exact, first.slope, second.slope),
    )


def _robust_weights(residuals: Floats, exact: Mask | None = None) -> Floats:
    scale = 6 * np.median(np.abs(residuals), axis=1, keepdims=True)
    if exact is not None:
        scale[exact] = np.inf
    bisquare = (1 - (residuals / scale) ** 2) ** 2
    weights: Floats = tricube_weights(residuals.shape[1]) * bisquare
    return _first_as_third(weights)


def _first_as_third(weights: Floats) -> Floats:
    weights[..., :2] = weights[..., 2:3]
    return weights


def _lines(samples: Floats, weights: Floats) -> RegressionLines:
    x = np.arange(1, samples.shape[1] + 1, dtype=np.float64)
    share = weights**2 / np.sum(weights**2, axis=1, keepdims=True)
    center = (share * x).sum(axis=1)
    height = (share * samples).sum(axis=1)
    offset = x - center[:, None]
    slope = (share * offset * (samples - height[:, None])).sum(axis=1) / (
        share * offset**2
    ).sum(axis=1)
    return RegressionLines(height - slope * center, slope)
