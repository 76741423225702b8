"""TOPSIS against published and independent values; plain and with arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opendrs.metrics import rank_descending, topsis_array
from opendrs.metrics.topsis import topsis

Table = list[list[float]]

ONE_CRITERION: Table = [[1], [2], [5], [3], [4]]
TWO_CRITERIA: Table = [[7, 4], [1, 0.5], [-1, -1], [-8.5, 11.5], [4, 7]]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Table, list[float]]:
    """Draw alternatives, with many ties, and weights of either sign."""
    n = draw(st.integers(1, 5))
    few = st.sampled_from([-2.0, 0.0, 0.1, 0.3, 1.0, 7.0])
    value = few if draw(st.booleans()) else st.floats(-1e9, 1e9)
    matrix = draw(st.lists(st.lists(value, min_size=n, max_size=n), max_size=40))
    weight = st.floats(0.01, 100) | st.floats(-100, -0.01) | st.just(0.0)
    weights = draw(st.lists(weight, min_size=n, max_size=n))
    return matrix, weights if any(weights) else [1.0] * n


@pytest.mark.parametrize(
    ("matrix", "weights", "expected"),
    [
        # proxmox-resource-scheduling, its own tests.
        (ONE_CRITERION, [1], [2, 4, 3, 1, 0]),
        (ONE_CRITERION, [-1], [0, 1, 3, 4, 2]),
        (TWO_CRITERIA, [1, -1], [0, 1, 4, 2, 3]),
        (TWO_CRITERIA, [-1, 1], [3, 2, 4, 1, 0]),
        (TWO_CRITERIA, [-1, -1], [2, 3, 1, 0, 4]),
        (TWO_CRITERIA, [1, 1], [4, 0, 1, 3, 2]),
    ],
)
def test_ranks_as_the_reference(
    matrix: Table, weights: list[float], expected: list[int]
) -> None:
    assert rank_descending(topsis(matrix, weights)) == expected
    assert rank_descending(topsis_array(np.array(matrix), weights)) == expected


def test_gives_the_scores_of_the_published_example() -> None:
    # PVE "AHP && Topsis math helpers" (2022): the less cpu, the more memory.
    scores = topsis([[80, 100], [79, 99], [90, 102]], [-1 / 3, 2 / 3])

    assert scores == pytest.approx(
        (0.745400652669653, 0.688707427881571, 0.311292572118429), rel=2e-15
    )


def test_only_the_ratio_of_the_weights_counts() -> None:
    assert topsis(TWO_CRITERIA, [2, -6]) == topsis(TWO_CRITERIA, [4, -12])


def test_a_criterion_of_weight_0_does_not_count() -> None:
    assert topsis([[1, 9], [2, 1]], [1, 0]) == [0.0, 1.0]


def test_equal_alternatives_all_score_0() -> None:
    assert topsis([[3, 4], [3, 4], [3, 4]], [1, -2]) == [0.0, 0.0, 0.0]


def test_a_column_of_zeros_decides_nothing() -> None:
    assert topsis([[0, 1], [0, 3]], [1, 1]) == [0.0, 1.0]
    assert list(topsis_array(np.array([[0.0, 1], [0, 3]]), [1, 1])) == [0.0, 1.0]


def test_no_alternatives_have_no_scores() -> None:
    assert topsis([], [1, 2]) == []
    assert list(topsis_array(np.zeros((0, 2)), [1, 2])) == []


def test_equals_keep_their_order_in_the_ranking() -> None:
    assert rank_descending([0.5, 1.0, 0.5, 1.0]) == [1, 3, 0, 2]


@pytest.mark.parametrize(
    ("matrix", "weights"),
    [
        ([[1, 2], [3, 4]], [0, 0]),
        ([[1, 2], [3, 4]], []),
        ([[1, 2], [3, 4]], [1, math.nan]),
        ([[1, 2], [3, 4]], [1, math.inf]),
        ([[1, 2], [3, 4]], [1, 2, 3]),
        ([[1, math.nan], [3, 4]], [1, 2]),
        ([[1, -math.inf], [3, 4]], [1, 2]),
    ],
)
def test_topsis_of_invalid_input_raises_error(
    matrix: Table, weights: Sequence[float]
) -> None:
    with pytest.raises(ValueError, match="expected"):
        topsis(matrix, weights)
    with pytest.raises(ValueError, match="expected"):
        topsis_array(np.array(matrix), weights)


def test_topsis_of_ragged_rows_raises_error() -> None:
    with pytest.raises(ValueError, match="matrix: expected 2 columns"):
        topsis([[1, 2], [3]], [1, 2])


TALL = ([[math.sqrt(i)] for i in range(3, 30)], [-1.0])


@given(problems())
@example(TALL)
def test_both_forms_agree_to_the_last_digit(problem: tuple[Table, list[float]]) -> None:
    matrix, weights = problem

    columns = topsis_array(np.array(matrix).reshape(-1, len(weights)), weights)

    assert list(columns) == topsis(matrix, weights)


@given(problems())
@example(TALL)
def test_the_layout_in_memory_does_not_matter(
    problem: tuple[Table, list[float]],
) -> None:
    matrix, weights = problem
    array = np.asfortranarray(np.array(matrix).reshape(-1, len(weights)))

    assert list(topsis_array(array, weights)) == topsis(matrix, weights)


@given(problems())
def test_scores_lie_between_0_and_1(problem: tuple[Table, list[float]]) -> None:
    assert all(0 <= score <= 1 for score in topsis(*problem))
