"""AHP: the analytic hierarchy process, from pairwise judgments to weights.

Source:
    Saaty, The Analytic Hierarchy Process (1980).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from opendrs.metrics.imbalance import sum_in_order, sum_of_rows

# Mean consistency index of random judgments of 1 to 10 criteria (Saaty 1980).
RANDOM_INDEX = (0.0, 0.0, 0.58, 0.90, 1.12, 1.24, 1.32, 1.41, 1.45, 1.49)

JudgmentMatrix = Sequence[Sequence[float]]
Stack = npt.NDArray[np.float64]


class AhpMethod(StrEnum):
    """Method that derives weights from a judgment matrix.

    ROW_MEANS divides each column by its sum and averages the rows. EIGENVECTOR takes
    the principal eigenvector. Both agree if the judgments are consistent.
    """

    ROW_MEANS = "row-means"
    EIGENVECTOR = "eigenvector"


@dataclass(frozen=True, slots=True)
class Weighting:
    """Weights of criteria, and the consistency of the judgments.

    Attributes:
        weights: Importance of each criterion; positive, sum 1; shape (n,).
        consistency_index: Inconsistency of the judgments; 0 if consistent.
        consistency_ratio: Consistency index divided by that of random judgments; below
            0.1 is considered acceptable. 0 for fewer than three criteria.
    """

    weights: tuple[float, ...]
    consistency_index: float
    consistency_ratio: float


def judgment_matrix(
    preferences: Mapping[str, Mapping[str, float]],
) -> tuple[tuple[str, ...], list[list[float]]]:
    """Return the criteria and the complete matrix for a triangle of preferences.

    Args:
        preferences: preferences[a][b] = x means that a is x times as important as b. A
            missing value is the reciprocal of its mirror image.

    Returns:
        Criteria in the order of *preferences*, and the matrix; shape (n, n).

    Raises:
        ValueError: A pair is given in neither direction, has a preference of 0, or
            refers to a criterion that does not exist.
    """
    names = tuple(preferences)
    for row in preferences.values():
        if unknown := set(row) - set(names):
            raise ValueError(f"preferences: not a criterion: {min(unknown)}")
    return names, [[_judgment(preferences, a, b) for b in names] for a in names]


def ahp(matrix: JudgmentMatrix, method: AhpMethod = AhpMethod.ROW_MEANS) -> Weighting:
    """Return the weights of the criteria compared in *matrix*.

    Args:
        matrix: matrix[i][j] = x means that criterion i is x times as important as j;
            positive, reciprocal; shape (n, n) with n from 1 to 10.
        method: Method that derives the weights.

    Returns:
        Weights and consistency. The index comes from the principal eigenvalue for both
        methods.

    Raises:
        ValueError: The matrix is not square, too large, or not reciprocal.
    """
    n = _require_reciprocal(matrix)
    weights, eigenvalue = _principal_eigenvector(matrix)
    if method is AhpMethod.ROW_MEANS:
        weights = _row_means(matrix)
    index = (eigenvalue - n) / (n - 1) if n > 1 else 0.0
    ratio = index / RANDOM_INDEX[n - 1] if RANDOM_INDEX[n - 1] else 0.0
    return Weighting(tuple(weights), index, ratio)


def ahp_stack(stack: Stack, method: AhpMethod = AhpMethod.ROW_MEANS) -> Stack:
    """Return the weights for many judgment matrices at once.

    Args:
        stack: One matrix per layer, each as for `ahp`; shape (k, n, n).
        method: Method that derives the weights.

    Returns:
        Weights, one row per matrix; shape (k, n).
    """
    if method is AhpMethod.ROW_MEANS:
        column_sums = sum_of_rows(stack.transpose(1, 0, 2))
        parts = stack / column_sums[:, None, :]
        means: Stack = sum_of_rows(parts.transpose(2, 0, 1)) / stack.shape[1]
        return means
    values, vectors = np.linalg.eig(stack)
    largest = values.real.argmax(axis=1)
    principal_vectors = np.abs(vectors[np.arange(len(stack)), :, largest].real)
    weights: Stack = principal_vectors / principal_vectors.sum(axis=1, keepdims=True)
    return weights


def _judgment(preferences: Mapping[str, Mapping[str, float]], a: str, b: str) -> float:
    if b in preferences[a]:
        return float(preferences[a][b])
    if preferences[b].get(a, 0.0) != 0:
        return 1 / preferences[b][a]
    if a == b:
        return 1.0
    raise ValueError(f"preferences: no comparison of {a} and {b}")


def _require_reciprocal(matrix: JudgmentMatrix) -> int:
    n = len(matrix)
    if not 1 <= n <= len(RANDOM_INDEX) or any(len(row) != n for row in matrix):
        raise ValueError(
            "judgment matrix: expected a square matrix of 1 to "
            f"{len(RANDOM_INDEX)} criteria"
        )
    for i in range(n):
        for j in range(n):
            product = matrix[i][j] * matrix[j][i]
            if not matrix[i][j] > 0 or not math.isclose(product, 1, rel_tol=1e-9):
                raise ValueError(
                    f"judgment matrix: {i},{j} and {j},{i} are not reciprocal"
                )
    return n


def _row_means(matrix: JudgmentMatrix) -> list[float]:
    sums = [sum_in_order(column) for column in zip(*matrix, strict=True)]
    parts = [
        [value / total for value, total in zip(row, sums, strict=True)]
        for row in matrix
    ]
    return [sum_in_order(row) / len(sums) for row in parts]


def _principal_eigenvector(matrix: JudgmentMatrix) -> tuple[list[float], float]:
    """Return the principal eigenvector, of sum 1, and its eigenvalue.

    Power iteration: the matrix is positive, so it converges (Perron).
    """
    n = len(matrix)
    weights, eigenvalue = [1 / n] * n, float(n)
    for _ in range(1000):
        image = [
            sum(a * w for a, w in zip(row, weights, strict=True)) for row in matrix
        ]
        eigenvalue = sum(image)
        next_weights = [value / eigenvalue for value in image]
        change = max(abs(a - b) for a, b in zip(weights, next_weights, strict=True))
        weights = next_weights
        if change < 1e-16:
            break
    return weights, eigenvalue
