"""Guest selection of CloudSim 3.0.3, with the multiple regression of MC.

With as many guests as samples every regression is perfect except for rounding, and the
largest R² is the largest rounding error. So the steps and their order are those of the
textbook algorithm on which the original is built.

Source:
    Golub and Van Loan, Matrix Computations (2013), section 5.2.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from opendrs.metrics import sum_of_rows
from opendrs.simulation.cloudsim.overload import CloudSimView
from opendrs.simulation.cloudsim.schemes import CloudSimSelector
from opendrs.simulation.workload import Floats


def regression_r_squared(samples: Floats) -> Floats | None:
    """Return R² of the regression of each row on all others, with an intercept.

    Args:
        samples: One row per guest, at least as many columns as rows.

    Returns:
        One number per guest, NaN for a constant row; None if a regression has no
        unique solution.
    """
    table = _table(samples)
    reflected = table.copy()
    diagonal = _reflect(reflected)
    if (diagonal == 0).any():
        return None
    weights = _solve(reflected, diagonal, samples.T.copy())
    predicted = sum_of_rows(np.moveaxis(table, 2, 0) * weights[:, None, :])
    residuals = sum_of_rows((samples.T - predicted) ** 2)
    total = _squares(samples)
    unexplained = residuals / np.where(total > 0, total, 1.0)
    return np.where(total > 0, 1 - unexplained, np.nan)


def _table(samples: Floats) -> Floats:
    """Return ones and the others' samples; shape (samples, guests, guests)."""
    guests, length = samples.shape
    table = np.ones((length, guests, guests))
    for guest in range(guests):
        table[:, guest, 1:] = np.delete(samples, guest, axis=0).T
    return table


def _reflect(table: Floats) -> Floats:
    """Apply Householder reflections to *table* in place; return the diagonal.

    The reflection vectors remain on and below the diagonal. Stops at a zero in
    the diagonal.
    """
    diagonal = np.zeros(table.shape[1:][::-1])
    for column in range(table.shape[2]):
        pivot, rest = table[column:, :, column], table[column:, :, column + 1 :]
        norm = np.sqrt(sum_of_rows(pivot * pivot))
        diagonal[column] = np.where(pivot[0] > 0, -norm, norm)
        if (diagonal[column] == 0).any():
            break
        pivot[0] -= diagonal[column]
        scale = (diagonal[column] * pivot[0])[:, None]
        if rest.size:
            factor = sum_of_rows(rest * pivot[:, :, None]) / scale
            rest += factor * pivot[:, :, None]
    return diagonal


def _solve(reflected: Floats, diagonal: Floats, right: Floats) -> Floats:
    """Return the regression weights; shape (columns, guests)."""
    for column in range(len(diagonal)):
        pivot = reflected[column:, :, column]
        scale = diagonal[column] * pivot[0]
        right[column:] += sum_of_rows(right[column:] * pivot) / scale * pivot
    weights = np.zeros_like(diagonal)
    for column in reversed(range(len(diagonal))):
        weights[column] = right[column] / diagonal[column]
        right[:column] -= weights[column] * reflected[:column, :, column]
    return weights


def _squares(samples: Floats) -> Floats:
    """Return the squared deviations from the mean, updated sample by sample."""
    mean, squares = np.zeros(len(samples)), np.zeros(len(samples))
    for count, values in enumerate(samples.T):
        deviation = values - mean
        mean += deviation / (count + 1)
        squares += deviation * (deviation / (count + 1)) * count
    return squares


SelectGuest = Callable[[Sequence[int]], int]  # argument: guests of a host, in order

MAX_CONDITION = 1e10  # condition up to which the fast regression is exact enough
MIN_LEAD = 1e-9  # least lead of the best R² in the fast regression
MIN_SQUARES = 1e-14  # sum of squares below which a load is constant


def cloudsim_selector(
    kind: CloudSimSelector, view: CloudSimView, rng: random.Random
) -> SelectGuest:
    """Return the selection function for this decision."""
    memory = view.guests.memory.tolist()
    if kind is CloudSimSelector.RS:
        return rng.choice
    if kind is CloudSimSelector.MU:
        # Multiplying by MIPS and dividing again reproduces the rounding that breaks
        # ties.
        load = (view.request / view.guests.mips).tolist()
        return lambda guests: min(guests, key=load.__getitem__)
    if kind is CloudSimSelector.MMT:
        return lambda guests: min(guests, key=memory.__getitem__)
    return lambda guests: _most_correlated(guests, view.history, memory)


def _most_correlated(
    guests: Sequence[int], history: Floats, memory: Sequence[float]
) -> int:
    """Return the guest whose load is best predicted by the others' loads.

    Without a possible regression, the one with the least memory.
    """
    samples = history[guests]
    if len(guests) > 1 and samples.shape[1] >= len(guests):
        best = _clear_best(samples)
        if best is None:
            best = _exact_best(samples)
        if best is not None:
            return guests[best]
    return min(guests, key=memory.__getitem__)


def _clear_best(samples: Floats) -> int | None:
    """Return the best guest if rounding cannot matter, else None.

    Uses the inverse of the correlation matrix: R² = 1 - 1 / diagonal.
    """
    if samples.shape[1] <= len(samples):
        return None
    centered = samples - samples.mean(axis=1, keepdims=True)
    products = centered @ centered.T
    squares = np.diag(products)
    if (squares <= MIN_SQUARES).any():
        return None
    correlations = products / np.sqrt(np.outer(squares, squares))
    if np.linalg.cond(correlations) >= MAX_CONDITION:
        return None
    r_squared = 1 - 1 / np.diag(np.linalg.inv(correlations))
    *_, second, first = np.sort(r_squared)
    return int(np.argmax(r_squared)) if first - second > MIN_LEAD else None


def _exact_best(samples: Floats) -> int | None:
    # CloudSim keeps its history newest first.
    r_squared = regression_r_squared(samples[:, ::-1])
    return None if r_squared is None else int(np.argmax(np.fmax(r_squared, 0.0)))
