"""How much CPU guests will need, and how likely a host is to have too little.

The next samples of a guest are taken to scatter about the mean of its last ones as
they did before. Guests scatter independently of one another, so that on a host
variances add up, and the sum is near enough to normal: in PlanetLab traces what is
left of a guest's load once a mean of two hours is taken off has no correlation with
its past, and hardly any with other guests. What they do have in common, the hours of
the day, shows in their sum (`drift`).
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.histories import Floats, Integers

BURSTS = 0.1
"""Variance of a guest of which little is known, as part of the most it can be with
its mean: of a guest that is idle or at its limit, nothing in between. Measured in
PlanetLab, 20110303 and 20110306: 0.08 to 0.11 at means between 3 and 70 %."""
PRIOR = 6  # samples that this counts as
UNSURE = 0.05  # least standard deviation of a host's load, as part of its CPU
FURTHEST = 8.0  # standard deviations
LATELY = 6  # samples that tell where all guests together are going


def scatter(
    samples: Floats, lengths: Integers, mean: Floats, most: Floats, last_n: int
) -> Floats:
    """Return the variance of a sample to come of each guest, about *mean*.

    Args:
        samples: CPU each used, the newest sample last and zeros before the first;
            shape (guests, samples).
        lengths: How many of them count; shape (guests,).
        mean: CPU each needs on average; shape (guests,).
        most: CPU each can use at most; shape (guests,).
        last_n: How many samples that mean was taken of.
    """
    count = np.maximum(lengths, 1)
    squares = np.einsum("ij,ij->i", samples, samples)
    seen = np.maximum(squares - samples.sum(axis=1) ** 2 / count, 0.0)
    unknown = BURSTS * mean * np.maximum(most - mean, 0.0)
    variance = (seen + PRIOR * unknown) / (count - 1 + PRIOR)
    # The mean is not known exactly either: it is one of so many samples.
    found: Floats = variance * (1 + 1 / np.clip(lengths, 1, last_n))
    return found


def drift(samples: Floats, lengths: Integers, mean: Floats, variance: Floats) -> float:
    """Return by what the need of all guests together has changed of late.

    A day has hours in which all guests need more. Of one guest that cannot be told
    from chance, of their sum it can: a mean of two hours lags behind, one of the
    last samples does not. What may be chance is taken off: as a part, its variance
    over the square of what is seen (James and Stein).

    Args:
        samples: CPU each used, as in `scatter`.
        lengths: How many of them count.
        mean: CPU each needs on average.
        variance: Of a sample to come of each, about that mean.

    Returns:
        What the mean is to be multiplied with; 1 for no change.
    """
    long = lengths > LATELY
    before = float(mean[long].sum())
    change = float(samples[long, -LATELY:].sum()) / LATELY - before
    chance = float(variance[long].sum()) / LATELY
    if before <= 0 or change**2 <= chance:
        return 1.0
    return 1 + (1 - chance / change**2) * change / before


def overload(mean: Floats, variance: Floats, cpu: Floats) -> Floats:
    """Return the part of the time for which hosts will have too little CPU.

    The tail of the normal distribution. A host that lacks CPU on average is beyond
    counting time; the value goes on growing, straight on from one half, so that one
    that lacks more is still told from one that lacks less.

    Args:
        mean: CPU that is asked of each on average; any shape.
        variance: Of what is asked.
        cpu: CPU that each has.

    Source:
        E. Page, Approximations to the cumulative normal function and its inverse for
        use on a pocket calculator, Applied Statistics 26 (1977) 75-76; within 0.0002.
    """
    spread = np.sqrt(np.maximum(variance, (UNSURE * cpu) ** 2))
    margin = np.minimum((cpu - mean) / spread, FURTHEST)
    over = np.maximum(margin, 0.0)
    tail = 1 / (1 + np.exp(over * (1.5957691 + 0.0713548 * over * over)))
    beyond: Floats = tail + 0.3989423 * np.maximum(-margin, 0.0)
    return beyond
