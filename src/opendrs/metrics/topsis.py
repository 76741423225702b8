"""TOPSIS: the technique for order of preference by similarity to ideal solution.

Weights are applied to the distances instead of the matrix, as in Proxmox VE. The result
is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendrs.metrics.imbalance import sum_in_order, sum_of_rows

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]


def topsis(matrix: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """Return the closeness of each alternative to the ideal solution.

    Args:
        matrix: One row per alternative, one column per criterion; shape (m, n).
        weights: Importance of each criterion; shape (n,), any sum. For a criterion with
            a negative weight, smaller is better.

    Returns:
        Closeness in [0, 1], larger is better; shape (m,). 0 for an alternative that is
        both best and worst, as when all are equal.

    Raises:
        ValueError: Shapes do not match, a value is not finite, or all weights are 0.

    Source:
        Hwang and Yoon, Multiple Attribute Decision Making (1981); arithmetic in the
        order of proxmox-resource-scheduling 2.0.0.
    """
    normalized = _normalized_weights(weights)
    if any(len(row) != len(normalized) for row in matrix):
        raise ValueError(f"matrix: expected {len(normalized)} columns")
    if not all(math.isfinite(value) for row in matrix for value in row):
        raise ValueError("matrix: expected finite values")
    rows = [list(row) for row in matrix]
    for k, column in enumerate(zip(*matrix, strict=True)):
        norm = math.sqrt(sum_in_order(value * value for value in column))
        if norm != 0:
            for row in rows:
                row[k] /= norm
    low = [min(column) for column in zip(*rows, strict=True)]
    high = [max(column) for column in zip(*rows, strict=True)]
    best = [b if w > 0 else a for a, b, w in zip(low, high, normalized, strict=False)]
    worst = [a if w > 0 else b for a, b, w in zip(low, high, normalized, strict=False)]
    return [
        _closeness(_distance(row, best, normalized), _distance(row, worst, normalized))
        for row in rows
    ]


def topsis_array(matrix: Matrix, weights: Sequence[float]) -> Vector:
    """Return the result of `topsis`, to the last digit, computed with arrays.

    Args:
        matrix: One row per alternative, one column per criterion; shape (m, n).
        weights: As for `topsis`; shape (n,).

    Returns:
        Closeness in [0, 1]; shape (m,).

    Raises:
        ValueError: As for `topsis`.
    """
    normalized = np.array(_normalized_weights(weights))
    if matrix.shape[1:] != normalized.shape:
        raise ValueError(f"matrix: expected {len(normalized)} columns")
    if not np.isfinite(matrix).all():
        raise ValueError("matrix: expected finite values")
    if len(matrix) == 0:
        return np.zeros(0)
    norm = np.sqrt(sum_of_rows(np.square(matrix)))
    scaled = matrix / np.where(norm == 0, 1.0, norm)
    low, high = scaled.min(axis=0), scaled.max(axis=0)
    to_worst = _distances(scaled, np.where(normalized > 0, low, high), normalized)
    total = to_worst + _distances(
        scaled, np.where(normalized > 0, high, low), normalized
    )
    return np.divide(to_worst, total, out=np.zeros(len(total)), where=total != 0)


def rank_descending(scores: Sequence[float] | Vector) -> list[int]:
    """Return the indices of *scores*, the highest first; ties keep their order."""
    return sorted(range(len(scores)), key=lambda index: -scores[index])


def _normalized_weights(weights: Sequence[float]) -> list[float]:
    total = sum_in_order(abs(weight) for weight in weights)
    if not math.isfinite(total) or total == 0:
        raise ValueError(
            f"weights: expected finite values, not all 0, got {list(weights)}"
        )
    return [weight / total for weight in weights]


def _distance(
    row: Sequence[float], point: Sequence[float], normalized: Sequence[float]
) -> float:
    parts = (
        weight * (value - reference)
        for value, reference, weight in zip(row, point, normalized, strict=True)
    )
    return math.sqrt(sum_in_order(part * part for part in parts))


def _distances(scaled: Matrix, point: Vector, normalized: Vector) -> Vector:
    parts = np.square(normalized * (scaled - point))
    total = np.zeros(len(scaled))
    for k in range(scaled.shape[1]):
        total += parts[:, k]
    result: Vector = np.sqrt(total)
    return result


def _closeness(to_best: float, to_worst: float) -> float:
    total = to_worst + to_best
    return to_worst / total if total != 0 else 0.0
