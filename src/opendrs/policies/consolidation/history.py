"""Usage histories, oldest sample first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LoadHistories:
    """Histories of many hosts as arrays.

    Attributes:
        values: One row per host, newest sample last; shape (hosts, longest).
            Shorter histories are right-aligned and padded with zeros.
        lengths: Number of valid samples in each row; shape (hosts,).
    """

    values: Floats
    lengths: Integers

    @staticmethod
    def of(histories: Sequence[Sequence[float]]) -> LoadHistories:
        """Return *histories*, each with the oldest sample first, as arrays."""
        lengths = np.array([len(each) for each in histories], dtype=np.int64)
        values = np.zeros((len(histories), int(lengths.max(initial=0))))
        for row, each in zip(values, histories, strict=True):
            row[row.size - len(each) :] = each
        return LoadHistories(values, lengths)

    def newest(self, count: int) -> Floats:
        """Return the last *count* samples of each row, left-padded with zeros."""
        missing = max(0, count - self.values.shape[1])
        return np.pad(
            self.values[:, self.values.shape[1] - count + missing :],
            ((0, 0), (missing, 0)),
        )

    def last(self) -> Floats:
        """Return the newest sample of each row; 0 where there is none."""
        return self.newest(1)[:, 0]

    def groups(self) -> list[tuple[Integers, Floats]]:
        """Return the rows of each length, with their samples without padding."""
        width = self.values.shape[1]
        return [
            (rows, self.values[rows, width - int(length) :])
            for length in np.unique(self.lengths)
            for rows in [np.flatnonzero(self.lengths == length)]
        ]


def mean_of_last(history: Sequence[float], count: int) -> float:
    """Return the mean of the last *count* samples, or of all if there are fewer."""
    newest = history[-count:]
    total = 0.0
    for value in newest:
        total += value
    return total / len(newest)


def means_of_last(histories: LoadHistories, count: int) -> Floats:
    """Return `mean_of_last` of each row; 0 where there is no sample."""
    total = np.zeros(len(histories.lengths))
    for sample in histories.newest(count).T:
        total += sample
    means: Floats = total / np.clip(histories.lengths, 1, count)
    return means
