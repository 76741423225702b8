"""Who is not beaten: the Pareto front of two measures of which less is better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.sim.consolidation.hardware import Truths


def on_front(first: Sequence[float], second: Sequence[float]) -> Truths:
    """Return which points no other point beats.

    A point beats another when it is better in one measure and no worse in the other.
    What is not known (NaN) neither beats nor is on the front.

    Args:
        first: One measure of each point; less is better.
        second: The other.
    """
    x, y = np.array(first, np.float64), np.array(second, np.float64)
    known = ~(np.isnan(x) | np.isnan(y))
    front = np.zeros(len(x), np.bool_)
    least, least_at = np.inf, np.nan
    for place in np.lexsort((y, x)).tolist():
        if not known[place]:
            continue
        # In this order a point is beaten only by what came before.
        if y[place] < least:
            least, least_at = y[place], x[place]
            front[place] = True
        elif y[place] == least and x[place] == least_at:
            front[place] = True
    return front
