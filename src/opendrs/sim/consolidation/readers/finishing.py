"""From what was read to parts of what a guest has."""

from __future__ import annotations

import numpy as np

from opendrs.sim.consolidation.hardware import Floats

SLACK = 1e-9  # of rounding


def part(values: Floats, what: str) -> tuple[Floats, tuple[str, ...]]:
    """Return *values* as parts of a whole, and a note if some were more than it.

    Args:
        values: Parts; more than 1 counts as 1; shape (guests, samples).
        what: Of what.
    """
    above = int((values > 1 + SLACK).any(axis=1).sum())
    note = f"{what} above 100 % counts as 100 %: {above} guests"
    return np.minimum(values, 1.0), (note,) if above else ()
