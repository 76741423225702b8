"""The probabilities of transitions on many hosts at once, as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.policies.consolidation.histories import Floats, Integers, Truths
from opendrs.scoring.sums import sum_of_rows


def transition_chances(
    overloaded: Truths, lengths: Integers, sizes: Sequence[int]
) -> Floats:
    """Return what `transition_estimates` gives for two states, for each host.

    Args:
        overloaded: Whether the host was in state 1; shape (hosts, samples), the
            newest last, what counts at the end of each row.
        lengths: How many samples of each row count; shape (hosts,).
        sizes: Window sizes, ascending, at least 2.

    Returns:
        The probability of each transition; shape (hosts, left, entered).
    """
    hosts, samples = overloaded.shape
    valid = np.arange(samples) >= samples - lengths[:, None]
    before = np.zeros_like(overloaded)
    before[:, 1:] = overloaded[:, :-1] & valid[:, :-1]
    chances = np.zeros((hosts, 2, 2))
    for left in (0, 1):
        asked = valid & (before == bool(left))
        followers, count = _at_the_end(overloaded, asked), asked.sum(axis=1)
        present = np.arange(samples) >= samples - count[:, None]
        for entered in (0, 1):
            hits = present & (followers == bool(entered))
            chances[:, left, entered] = _estimates(hits, count, sizes)
    return chances


def _at_the_end(values: Truths, chosen: Truths) -> Truths:
    """Return the *chosen* values of each row in order, at the end of the row."""
    order = np.argsort(chosen, axis=1, kind="stable")
    moved: Truths = np.take_along_axis(values, order, axis=1)
    return moved


def _estimates(hits: Truths, count: Integers, sizes: Sequence[int]) -> Floats:
    so_far = np.zeros((hits.shape[0], hits.shape[1] + 2 * sizes[-1]), np.int64)
    so_far[:, 2 * sizes[-1] :] = np.cumsum(hits, axis=1)
    steady = np.ones(len(count), np.bool_)
    chances = np.zeros(len(count))
    for size in sizes:
        estimates = (so_far[:, -size:] - so_far[:, -2 * size : -size]) / size
        last = estimates[:, -1]
        if size == sizes[0]:
            chances = last
        mean = sum_of_rows(estimates.T) / size
        variance = sum_of_rows((estimates.T - mean) ** 2) / (size - 1)
        steady &= (count >= size) & (variance <= last * (1 - last) / size)
        chances = np.where(steady, last, chances)
    return chances
