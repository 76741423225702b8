"""Selection of the guest to evict first from an overloaded host.

Each rule is a sort key: the guest with the least key leaves, and ties are broken by
name. OpenStack Neat breaks ties by the order of a hash table, and selects no guest if
no candidate has used any CPU.
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
    """Guests of all hosts as arrays, in the order of their names.

    Attributes:
        node_of: Row of the host of each guest; shape (guests,).
        memory: Bytes that a migration transfers; shape (guests,).
        histories: CPU used by each guest.
    """

    node_of: Integers
    memory: Floats
    histories: LoadHistories


class GuestSelector(Protocol):
    """Rule that selects the guest to evict.

    Attributes:
        name: Stable name in configuration files.
    """

    name: ClassVar[str]

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the sort key of each guest of one host."""

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
        averaging_window: Number of samples over which the usage is averaged.
    """

    name: ClassVar[str] = "minimum-migration-time-maximum-cpu"
    averaging_window: int = 2

    def __post_init__(self) -> None:
        require_samples("averaging_window", self.averaging_window)

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the memory and the negated CPU usage of each guest."""
        return [
            (each.memory, -(each.demand(self.averaging_window) or 0.0))
            for each in guests
        ]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the memory and the negated CPU usage of each guest."""
        return guests.memory, -means_of_last(guests.histories, self.averaging_window)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumUtilization:
    """MU: the guest with the least CPU usage in the newest sample."""

    name: ClassVar[str] = "minimum-utilization"

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the newest sample of each guest; 0 where there is none."""
        return [(each.demand(1) or 0.0,) for each in guests]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return the newest sample of each guest; 0 where there is none."""
        return (guests.histories.last(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomChoice:
    """RS: any guest, with equal probability.

    The number drawn for a guest depends on *seed* and on its rank on its host, so use
    a new seed for each decision.
    """

    name: ClassVar[str] = "random"
    seed: int | str = 0

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return a random number for each guest."""
        generator = random.Random(str(self.seed))  # noqa: S311
        return [(generator.random(),) for _ in guests]

    def key_columns(self, guests: EvictionCandidates) -> tuple[Floats, ...]:
        """Return a random number for each guest, equal to `keys` of its host alone."""
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
    """MC: the guest whose load is best predicted by the loads of the others.

    With too few samples all guests are equal, and the one with the least memory leaves.

    Source:
        Verma et al., Server workload analysis for power minimization using
        consolidation (USENIX 2009), as in Beloglazov and Buyya (CCPE 2012).
    """

    name: ClassVar[str] = "maximum-correlation"

    def keys(self, guests: Sequence[GuestLoad]) -> list[SortKey]:
        """Return the negated R² and the memory of each guest."""
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
        """Return the negated R² and the memory of each guest."""
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


ZERO_DEVIATION = 1e-12  # standard deviations below this are rounding errors
MIN_EIGENVALUE_RATIO = 1e-8  # smallest over largest eigenvalue of a regular matrix


def coefficients_of_determination(samples: Floats) -> Floats | None:
    """Return the coefficient of determination of each row by the others.

    It is that of the linear regression with intercept of one row on all others.

    Args:
        samples: One row per guest, one column per sample.

    Returns:
        Fractions in [0, 1]; 0 for a guest with constant load. None if there is
        only one guest, or the samples are not more than the guests.
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
    """Return 1 - 1 / diag(inverse correlation matrix); None if it is singular."""
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
    """Load of a guest, in any unit of CPU and of memory.

    Attributes:
        id: Id of the guest.
        memory: Memory that a migration transfers and the target must have free.
        history: CPU used, oldest sample first.
    """

    id: GuestId
    memory: float
    history: Sequence[float]

    def demand(self, count: int) -> float | None:
        """Return the mean of the last *count* samples; None if there are none."""
        return mean_of_last(self.history, count) if self.history else None
