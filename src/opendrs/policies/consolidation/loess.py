"""Straight lines through the newest samples, the newest counting most.

Cleveland's local regression of degree one, at the newest sample, as OpenStack
Neat applies it: least squares see each weight squared, and the first two samples
have the weight of the third. The lines are found in closed form.

Source:
    Cleveland, Robust locally weighted regression and smoothing scatterplots (1979);
    Beloglazov and Buyya, CCPE 24 (2012) 1397-1420.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from opendrs.policies.consolidation.histories import Floats, Truths

LEAST = 3  # a line, and something left over to weigh
EXACT = 1e-12  # residuals below this part of the samples are rounding


class Line(NamedTuple):
    """The line `intercept + slope * x`; the oldest sample stands at x = 1."""

    intercept: float
    slope: float

    def at(self, x: float) -> float:
        """Return the height of the line at *x*."""
        return self.intercept + self.slope * x


class Lines(NamedTuple):
    """One line per row; each of shape (rows,)."""

    intercept: Floats
    slope: Floats

    def at(self, x: Floats) -> Floats:
        """Return the height of each line at its *x*."""
        heights: Floats = self.intercept + self.slope * x
        return heights


def tricube_weights(count: int) -> Floats:
    """Return the weight of each of *count* samples, 1 for the newest.

    Raises:
        ValueError: There are fewer than three samples.
    """
    if count < LEAST:
        raise ValueError(f"a weighted line needs {LEAST} samples, not {count}")
    distance = np.arange(count - 1, -1, -1) / (count - 1)
    weights: Floats = (1 - distance**3) ** 3
    return _first_as_third(weights)


def robust_weights(residuals: Sequence[float]) -> Floats:
    """Return the tricube weights, lessened where the line misses by much.

    Samples that miss by more than six times the median are not left out, as
    the bisquare would have it: the original does not.

    Raises:
        ValueError: There are fewer than three samples.
    """
    weights: Floats = _robust_weights(np.array([residuals]))[0]
    return weights


def loess(samples: Sequence[float]) -> Line:
    """Return the line of weighted least squares through *samples*.

    Raises:
        ValueError: There are fewer than three samples.
    """
    lines = loess_lines(np.array([samples], dtype=np.float64))
    return Line(float(lines.intercept[0]), float(lines.slope[0]))


def robust_loess(samples: Sequence[float]) -> Line:
    """Return the line through *samples* once more, outliers counting less.

    Where the first line misses nothing, it stands.

    Raises:
        ValueError: There are fewer than three samples.
    """
    lines = robust_loess_lines(np.array([samples], dtype=np.float64))
    return Line(float(lines.intercept[0]), float(lines.slope[0]))


def loess_lines(samples: Floats) -> Lines:
    """Return `loess` of each row; shape (rows, samples)."""
    weights = tricube_weights(samples.shape[1])
    return _lines(samples, np.broadcast_to(weights, samples.shape))


def robust_loess_lines(samples: Floats) -> Lines:
    """Return `robust_loess` of each row; shape (rows, samples)."""
    first = loess_lines(samples)
    x = np.arange(1, samples.shape[1] + 1)
    residuals = samples - first.intercept[:, None] - first.slope[:, None] * x
    size = np.abs(samples).max(axis=1, initial=0)
    exact = np.median(np.abs(residuals), axis=1) <= EXACT * size
    second = _lines(samples, _robust_weights(residuals, exact))
    return Lines(
        np.where(exact, first.intercept, second.intercept),
        np.where(exact, first.slope, second.slope),
    )


def _robust_weights(residuals: Floats, exact: Truths | None = None) -> Floats:
    scale = 6 * np.median(np.abs(residuals), axis=1, keepdims=True)
    if exact is not None:
        scale[exact] = np.inf
    bisquare = (1 - (residuals / scale) ** 2) ** 2
    weights: Floats = tricube_weights(residuals.shape[1]) * bisquare
    return _first_as_third(weights)


def _first_as_third(weights: Floats) -> Floats:
    weights[..., :2] = weights[..., 2:3]
    return weights


def _lines(samples: Floats, weights: Floats) -> Lines:
    x = np.arange(1, samples.shape[1] + 1, dtype=np.float64)
    share = weights**2 / np.sum(weights**2, axis=1, keepdims=True)
    centre = (share * x).sum(axis=1)
    height = (share * samples).sum(axis=1)
    offset = x - centre[:, None]
    slope = (share * offset * (samples - height[:, None])).sum(axis=1) / (
        share * offset**2
    ).sum(axis=1)
    return Lines(height - slope * centre, slope)
