"""Node imbalance of Proxmox VE; plain and with arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.metrics import ImbalanceMetric, imbalance, imbalances, sum_in_order

METRICS = st.sampled_from(ImbalanceMetric)
LOAD = st.sampled_from([0.0, 0.1, 0.25, 0.7, 1.0]) | st.floats(0, 1e6)


@st.composite
def clusters(draw: st.DrawFn) -> list[list[float]]:
    """Draw the loads of some clusters of as many nodes each."""
    n, k = draw(st.integers(1, 40)), draw(st.integers(1, 4))
    loads = draw(st.lists(LOAD, min_size=n * k, max_size=n * k))
    return [loads[i * n : (i + 1) * n] for i in range(k)]


@pytest.mark.parametrize(
    ("loads", "cv", "normalized_cv"),
    [
        ([], 0, 0),
        ([0.7], 0, 0),
        ([0, 0, 0], 0, 0),
        ([0.5, 0.5], 0, 0),
        ([1, 0], 1, 1),
        ([0.3, 0, 0, 0, 0], 2, 1),
        # By hand: mean 2, squared deviations 1, 0 and 1.
        ([1, 2, 3], math.sqrt(2 / 3) / 2, math.sqrt(2 / 3) / 2 / math.sqrt(2)),
    ],
)
def test_is_the_coefficient_of_variation(
    loads: list[float], cv: float, normalized_cv: float
) -> None:
    assert imbalance(loads, ImbalanceMetric.CV) == pytest.approx(cv, rel=1e-15)
    assert imbalance(loads) == pytest.approx(normalized_cv, rel=1e-15)


@given(st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=20))
def test_stays_within_its_bounds(loads: list[float]) -> None:
    bound = math.sqrt(len(loads) - 1)

    assert 0 <= imbalance(loads) <= 1 + 1e-12
    assert 0 <= imbalance(loads, ImbalanceMetric.CV) <= bound * (1 + 1e-12)


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=20), METRICS)
def test_a_power_of_two_as_factor_does_not_matter(
    loads: list[float], form: ImbalanceMetric
) -> None:
    assert imbalance([load * 8 for load in loads], form) == imbalance(loads, form)


@given(clusters(), METRICS)
def test_both_forms_agree_to_the_last_digit(
    loads: list[list[float]], form: ImbalanceMetric
) -> None:
    columns = imbalances(np.array(loads).T.copy(), form)

    assert list(columns) == [imbalance(each, form) for each in loads]


@given(clusters(), METRICS)
def test_the_layout_in_memory_does_not_matter(
    loads: list[list[float]], form: ImbalanceMetric
) -> None:
    array = np.asfortranarray(np.array(loads).T)

    assert list(imbalances(array, form)) == [imbalance(each, form) for each in loads]


@pytest.mark.parametrize("form", ImbalanceMetric)
def test_no_clusters_and_no_nodes_are_no_mistake(form: ImbalanceMetric) -> None:
    assert list(imbalances(np.zeros((3, 0)), form)) == []
    assert list(imbalances(np.zeros((0, 2)), form)) == [0, 0]


def test_sums_are_not_compensated() -> None:
    # Compensated, as by `sum` since Python 3.12, it would be 1.0.
    assert sum_in_order([0.1] * 10) == 0.9999999999999999
