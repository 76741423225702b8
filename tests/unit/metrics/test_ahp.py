"""AHP against worked examples; plain and with arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import AhpMethod, ahp, judgment_matrix
from opendrs.metrics.ahp import Weighting, ahp_stack

Matrix = list[list[float]]

# PVE's VM-centric balancer (April 2022), the preferences among its criteria.
BALANCER: Mapping[str, Mapping[str, float]] = {
    "affinity": {
        "affinity": 1,
        "cpu_pressure": 9,
        "mem_pseudo_pressure": 9,
        "mem": 9,
        "total_cpu": 9,
    },
    "cpu_pressure": {
        "cpu_pressure": 1,
        "mem_pseudo_pressure": 3,
        "mem": 3,
        "total_cpu": 5,
    },
    "mem_pseudo_pressure": {"mem_pseudo_pressure": 1, "mem": 3, "total_cpu": 3},
    "mem": {"mem": 1, "total_cpu": 2},
    "total_cpu": {"total_cpu": 1},
}
WEIGHTS = {
    AhpMethod.ROW_MEANS: (
        0.6349039364047594,
        0.1640555987481021,
        0.10251736741486854,
        0.05851884561146868,
        0.04000425182080127,
    ),
    AhpMethod.EIGENVECTOR: (
        0.6709421812832357,
        0.1530036696583888,
        0.0881730809699044,
        0.0515598586124644,
        0.0363212094760068,
    ),
}


@st.composite
def matrices(draw: st.DrawFn, minimum: int = 1, maximum: int = 10) -> Matrix:
    """Draw judgements as people give them: 1 to 9 times, either way."""
    n = draw(st.integers(minimum, maximum))
    matrix = [[1.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            times = float(draw(st.integers(1, 9)))
            times = times if draw(st.booleans()) else 1 / times
            matrix[i][j], matrix[j][i] = times, 1 / times
    return matrix


@pytest.mark.parametrize("method", AhpMethod)
def test_gives_the_weights_of_the_balancer_to_12_digits(method: AhpMethod) -> None:
    names, matrix = judgment_matrix(BALANCER)

    weights = ahp(matrix, method).weights

    assert names == tuple(BALANCER)
    assert weights == pytest.approx(WEIGHTS[method], rel=1e-12, abs=0)


@pytest.mark.parametrize("method", AhpMethod)
def test_ahp_returns_consistency_of_judgments(method: AhpMethod) -> None:
    weighting = ahp(judgment_matrix(BALANCER)[1], method)

    assert round(4 * weighting.consistency_index + 5, 5) == 5.41397
    assert round(weighting.consistency_index, 5) == 0.10349
    assert round(weighting.consistency_ratio, 4) == 0.0924


def test_fills_in_the_reciprocals_of_a_triangle() -> None:
    names, matrix = judgment_matrix({"mem": {"mem": 1, "cpu": 2}, "cpu": {"cpu": 1}})

    assert names == ("mem", "cpu")
    assert matrix == [[1, 2], [0.5, 1]]
    assert ahp(matrix).weights == pytest.approx((2 / 3, 1 / 3), rel=1e-15)


def test_a_diagonal_that_is_not_given_is_1() -> None:
    assert judgment_matrix({"mem": {"cpu": 4}, "cpu": {}})[1] == [[1, 4], [0.25, 1]]


@pytest.mark.parametrize(
    ("preferences", "message"),
    [
        ({"mem": {}, "cpu": {}}, "no comparison of mem and cpu"),
        ({"mem": {"disk": 2.0}}, "not a criterion: disk"),
        ({"mem": {"cpu": 0.0}, "cpu": {}}, "no comparison of cpu and mem"),
    ],
)
def test_judgment_matrix_of_incomplete_preferences_raises_error(
    preferences: Mapping[str, Mapping[str, float]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        judgment_matrix(preferences)


@pytest.mark.parametrize(
    "matrix",
    [
        [],
        [[1, 2]],
        [[1, 2], [2, 1]],
        [[2]],
        [[1, -1], [-1, 1]],
        [[1, math.inf], [0, 1]],
        [[1, math.nan], [math.nan, 1]],
        [[1.0] * 11] * 11,
    ],
)
def test_ahp_of_invalid_matrix_raises_error(matrix: Matrix) -> None:
    with pytest.raises(ValueError, match="judgment matrix: "):
        ahp(matrix)


def test_a_single_criterion_has_all_the_weight() -> None:
    assert ahp([[1]]) == Weighting((1.0,), 0.0, 0.0)


@pytest.mark.parametrize("n", range(1, 11))
@pytest.mark.parametrize("method", AhpMethod)
def test_consistent_judgments_give_their_weights(n: int, method: AhpMethod) -> None:
    true = [(i + 1) / sum(range(1, n + 1)) for i in range(n)]

    weighting = ahp([[a / b for b in true] for a in true], method)

    assert weighting.weights == pytest.approx(true, rel=1e-12)
    assert weighting.consistency_index == pytest.approx(0, abs=1e-12)
    assert weighting.consistency_ratio == pytest.approx(0, abs=1e-12)


def test_consistency_ratio_compares_with_random_judgments() -> None:
    # Saaty: a beats b, b beats c, c beats a, each 2 times. The principal
    # eigenvalue of such a circulant is 1 + 2 + 1/2; 0.58 is for three criteria.
    weighting = ahp([[1, 2, 0.5], [0.5, 1, 2], [2, 0.5, 1]])

    assert weighting.consistency_index == pytest.approx(0.25)
    assert weighting.consistency_ratio == pytest.approx(0.25 / 0.58)


@given(matrices())
def test_weights_add_up_to_1(matrix: Matrix) -> None:
    for method in AhpMethod:
        assert math.isclose(sum(ahp(matrix, method).weights), 1, rel_tol=1e-12)


@given(st.lists(matrices(4, 4), min_size=2, max_size=5))
def test_row_means_over_columns_agree_to_the_last_digit(stack: list[Matrix]) -> None:
    weights = ahp_stack(np.array(stack))

    assert [tuple(row) for row in weights] == [ahp(each).weights for each in stack]


@given(matrices())
def test_row_means_of_one_matrix_agree_to_the_last_digit(matrix: Matrix) -> None:
    assert tuple(ahp_stack(np.array([matrix]))[0]) == ahp(matrix).weights


@given(matrices())
def test_eigenvectors_over_columns_agree(matrix: Matrix) -> None:
    plain = ahp(matrix, AhpMethod.EIGENVECTOR).weights

    columns = ahp_stack(np.array([matrix]), AhpMethod.EIGENVECTOR)[0]

    assert tuple(columns) == pytest.approx(plain, rel=1e-9)
