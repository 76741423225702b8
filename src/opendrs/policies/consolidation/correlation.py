"""How well the load of one guest is told by the loads of the others."""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.histories import Floats

CONSTANT = 1e-12  # standard deviations below this are rounding
ALIKE = 1e-8  # smallest eigenvalue, over the largest, that tells guests apart


def determinations(samples: Floats) -> Floats | None:
    """Return the coefficient of determination of each row by the others.

    That of the linear regression with intercept of one row on all the others.

    Args:
        samples: One row per guest, one column per sample.

    Returns:
        Parts in [0, 1]; 0 for a guest whose load never changed. None when there
        are fewer samples than guests and one more, or only one guest.
    """
    guests, length = samples.shape
    if guests < 2 or length < guests + 1:
        return None
    quick = _by_inverse(samples)
    if quick is not None:
        return quick
    return np.array([_determination(samples, each) for each in range(guests)])


def _by_inverse(samples: Floats) -> Floats | None:
    """Return 1 - 1 / (diagonal of the inverse of the correlations), if it is good."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    size = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    if (size <= CONSTANT * samples.shape[1]).any():
        return None
    scaled = centred / size
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    if values[0] <= ALIKE * values[-1]:
        return None
    told: Floats = 1 - 1 / (vectors**2 / values).sum(axis=1)
    return np.clip(told, 0.0, 1.0)


def _determination(samples: Floats, guest: int) -> float:
    centred = samples - samples.mean(axis=1, keepdims=True)
    asked, others = centred[guest], np.delete(centred, guest, axis=0)
    total = float(asked @ asked)
    if total <= CONSTANT**2 * asked.size:
        return 0.0
    weights, *_ = np.linalg.lstsq(others.T, asked, rcond=None)
    missed = asked - weights @ others
    return min(1.0, max(0.0, 1 - float(missed @ missed) / total))
