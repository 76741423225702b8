"""Multiple regressions by Householder reflections, step by step.

With as many guests as samples every regression is perfect but for rounding, and
the largest R² is the largest rounding error. So the steps and their order are
those of the textbook algorithm, on which the original is built; the regressions of
all guests of a host take them side by side.

Source:
    Golub and Van Loan, Matrix Computations (2013), section 5.2.
"""

from __future__ import annotations

import numpy as np

from opendrs.scoring.sums import sum_of_rows
from opendrs.sim.consolidation.hardware import Floats


def determinations(samples: Floats) -> Floats | None:
    """Return R² of the regression of each row on all others, with an intercept.

    Args:
        samples: One row per guest, at least as many columns as rows.

    Returns:
        One number per guest, NaN for one that never changes; None where a
        regression has no single answer.
    """
    table = _table(samples)
    reflected = table.copy()
    diagonal = _reflect(reflected)
    if (diagonal == 0).any():
        return None
    weights = _solve(reflected, diagonal, samples.T.copy())
    told = sum_of_rows(np.moveaxis(table, 2, 0) * weights[:, None, :])
    missed = sum_of_rows((samples.T - told) ** 2)
    total = _squares(samples)
    part = missed / np.where(total > 0, total, 1.0)
    return np.where(total > 0, 1 - part, np.nan)


def _table(samples: Floats) -> Floats:
    """Return a 1 and the others' samples; shape (samples, guests, guests)."""
    guests, length = samples.shape
    table = np.ones((length, guests, guests))
    for guest in range(guests):
        table[:, guest, 1:] = np.delete(samples, guest, axis=0).T
    return table


def _reflect(table: Floats) -> Floats:
    """Make *table* triangular in place, but for its diagonal, which is returned.

    Below the diagonal and on it, the reflections are left. Where an element of
    the diagonal is 0 it stops.
    """
    diagonal = np.zeros(table.shape[1:][::-1])
    for place in range(table.shape[2]):
        pivot, rest = table[place:, :, place], table[place:, :, place + 1 :]
        norm = np.sqrt(sum_of_rows(pivot * pivot))
        diagonal[place] = np.where(pivot[0] > 0, -norm, norm)
        if (diagonal[place] == 0).any():
            break
        pivot[0] -= diagonal[place]
        scale = (diagonal[place] * pivot[0])[:, None]
        if rest.size:
            factor = sum_of_rows(rest * pivot[:, :, None]) / scale
            rest += factor * pivot[:, :, None]
    return diagonal


def _solve(reflected: Floats, diagonal: Floats, right: Floats) -> Floats:
    """Return the weights; shape (columns, guests)."""
    for place in range(len(diagonal)):
        pivot = reflected[place:, :, place]
        scale = diagonal[place] * pivot[0]
        right[place:] += sum_of_rows(right[place:] * pivot) / scale * pivot
    weights = np.zeros_like(diagonal)
    for place in reversed(range(len(diagonal))):
        weights[place] = right[place] / diagonal[place]
        right[:place] -= weights[place] * reflected[:place, :, place]
    return weights


def _squares(samples: Floats) -> Floats:
    """Return the squared deviations from the mean, updated sample by sample."""
    mean, squares = np.zeros(len(samples)), np.zeros(len(samples))
    for seen, values in enumerate(samples.T):
        deviation = values - mean
        mean += deviation / (seen + 1)
        squares += deviation * (deviation / (seen + 1)) * seen
    return squares
