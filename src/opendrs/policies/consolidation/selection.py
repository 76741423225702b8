"""Which guest should leave an overloaded host first.

Each way of choosing is a key: the guest with the least key leaves, and between
equals the name decides. OpenStack Neat leaves that to the order of a table in
memory, and chooses nobody where no candidate has used any CPU.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from opendrs.model import GuestId
from opendrs.policies.consolidation.detector import require_samples
from opendrs.policies.consolidation.history import (
    Floats,
    Integers,
    LoadHistories,
    mean_of_last,
    means_of_last,
)

SortKey = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EvictionCandidates:
    """The guests of all hosts, in the order of their names.

    Attributes:
        node_of: Which host each is on; shape (guests,).
        memory: What moving it has to transfer; shape (guests,).
        histories: What CPU it used.
    """

    node_of: Integers
    memory: Floats
    histories: LoadHistories


class GuestSelector(Protocol):
    """Chooses the guest that leaves.

    Attributes:
        name: What operators call it; never renamed.
    """

    name: ClassVar[str]

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the key of each of the guests of one host."""

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the keys of all guests, each part of shape (guests,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumMigrationTime:
    """MMT: the guest with the least memory."""

    name: ClassVar[str] = "minimum-migration-time"

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the memory of each guest."""
        return [(guest.memory,) for guest in guests]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the memory of each guest."""
        return (guests.memory,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumMigrationTimeMaximumCpu:
    """Of the guests with the least memory, the one that uses most CPU.

    Attributes:
        averaging_window: How many samples the use is averaged over.
    """

    name: ClassVar[str] = "minimum-migration-time-maximum-cpu"
    averaging_window: int = 2

    def __post_init__(self) -> None:
        require_samples("averaging_window", self.averaging_window)

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the memory and the use of each guest, the latter negated."""
        return [
            (each.memory, -(each.demand(self.averaging_window) or 0.0))
            for each in guests
        ]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the memory and the use of each guest, the latter negated."""
        return guests.memory, -means_of_last(guests.histories, self.averaging_window)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumUtilization:
    """MU: the guest that used least CPU when last seen."""

    name: ClassVar[str] = "minimum-utilization"

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the newest sample of each guest; 0 where there is none."""
        return [(each.demand(1) or 0.0,) for each in guests]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the newest sample of each guest; 0 where there is none."""
        return (guests.histories.last(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomChoice:
    """RS: any guest, each as likely as another.

    A guest's lot depends on *seed* and on its name's place on its host, so give
    a new seed with each decision.
    """

    name: ClassVar[str] = "random"
    seed: int | str = 0

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return a number drawn for each guest."""
        generator = random.Random(str(self.seed))  # noqa: S311
        return [(generator.random(),) for _ in guests]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return a number drawn for each guest, the same as on its host alone."""
        order = np.argsort(guests.node_of, kind="stable")
        counts = np.bincount(guests.node_of)
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order)) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        generator = random.Random(str(self.seed))  # noqa: S311
        draws = np.array(
            [generator.random() for _ in range(int(counts.max(initial=0)))]
        )
        return (draws[position] if len(order) else np.zeros(0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumCorrelation:
    """MC: the guest whose load the others' loads tell best.

    Where there are too few samples, or none can be told from the others, all are
    equal but for their memory, and the least leaves.

    Source:
        Verma et al., Server workload analysis for power minimization using
        consolidation (USENIX 2009), as in Beloglazov and Buyya (CCPE 2012).
    """

    name: ClassVar[str] = "maximum-correlation"

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return how well each guest is told, negated, and its memory."""
        length = min((len(each.history) for each in guests), default=0)
        newest = [each.history[len(each.history) - length :] for each in guests]
        samples = np.array(newest)
        coefficients = coefficients_of_determination(samples) if length else None
        correlations = np.zeros(len(guests)) if coefficients is None else coefficients
        return [
            (-correlation, each.memory)
            for correlation, each in zip(correlations.tolist(), guests, strict=True)
        ]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return how well each guest is told, negated, and its memory."""
        correlations, width = (
            np.zeros(len(guests.node_of)),
            guests.histories.values.shape[1],
        )
        order = np.argsort(guests.node_of, kind="stable")
        _, starts = np.unique(guests.node_of[order], return_index=True)
        for rows in np.split(order, starts[1:]) if len(order) else ():
            length = int(guests.histories.lengths[rows].min())
            samples = guests.histories.values[rows, width - length :]
            coefficients = coefficients_of_determination(samples) if length else None
            if coefficients is not None:
                correlations[rows] = coefficients
        return -correlations, guests.memory


ZERO_DEVIATION = 1e-12  # standard deviations below this are rounding

MIN_EIGENVALUE_RATIO = (
    1e-8  # smallest eigenvalue, over the largest, that tells guests apart
)


def coefficients_of_determination(samples: Floats) -> Floats | None:
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
    coefficients = _by_inverse(samples)
    if coefficients is not None:
        return coefficients
    return np.array(
        [_coefficient_of_determination(samples, each) for each in range(guests)]
    )


def _by_inverse(samples: Floats) -> Floats | None:
    """Return 1 - 1 / (diagonal of the inverse of the correlations), if it is good."""
    centered = samples - samples.mean(axis=1, keepdims=True)
    size = np.sqrt((centered**2).sum(axis=1, keepdims=True))
    if (size <= ZERO_DEVIATION * samples.shape[1]).any():
        return None
    scaled = centered / size
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    if values[0] <= MIN_EIGENVALUE_RATIO * values[-1]:
        return None
    coefficients: Floats = 1 - 1 / (vectors**2 / values).sum(axis=1)
    return np.clip(coefficients, 0.0, 1.0)


def _coefficient_of_determination(samples: Floats, guest: int) -> float:
    centered = samples - samples.mean(axis=1, keepdims=True)
    response, others = centered[guest], np.delete(centered, guest, axis=0)
    total = float(response @ response)
    if total <= ZERO_DEVIATION**2 * response.size:
        return 0.0
    weights, *_ = np.linalg.lstsq(others.T, response, rcond=None)
    residuals = response - weights @ others
    return min(1.0, max(0.0, 1 - float(residuals @ residuals) / total))


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestLoad:
    """A guest as consolidation sees it, in any unit of CPU and of memory.

    Attributes:
        id: Its name.
        memory: What moving it has to transfer, and what its host must have free.
        history: CPU it used, the oldest sample first.
    """

    id: GuestId
    memory: float
    history: Sequence[float]

    def demand(self, count: int) -> float | None:
        """Return the mean of its last *count* samples; None when it has none."""
        return mean_of_last(self.history, count) if self.history else None
