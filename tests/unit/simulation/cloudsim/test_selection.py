"""Regressions on small samples, and the selected guest."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.simulation.cloudsim import CloudSimSelector
from opendrs.simulation.cloudsim.cpu_sharing import HostedGuests
from opendrs.simulation.cloudsim.hardware import CloudSimGuests, CloudSimHosts
from opendrs.simulation.cloudsim.overload import CloudSimView
from opendrs.simulation.cloudsim.selection import (
    cloudsim_selector,
    regression_r_squared,
)
from opendrs.simulation.workload import Floats

GUESTS = CloudSimGuests.of_four_sizes(8)  # two of each kind: 870, 1740, 1740 and 613 MB


def view(history: list[list[float]]) -> CloudSimView:
    loads = np.array(history, dtype=np.float64)
    return CloudSimView(
        CloudSimHosts.alternating(1),
        GUESTS,
        HostedGuests(np.arange(8), np.zeros(8, np.int64)),
        loads[:, -1] * GUESTS.mips,
        loads,
    )


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_r_squared_is_that_of_least_squares(seed: int, guests: int) -> None:
    samples = np.random.default_rng(seed).random((guests, 12))
    found = regression_r_squared(samples)

    assert found is not None
    for guest, r_squared in enumerate(found.tolist()):
        assert r_squared == pytest.approx(by_least_squares(samples, guest))


def by_least_squares(samples: Floats, guest: int) -> float:
    """Return R² of the regression of a row on the others, computed by NumPy."""
    others = np.delete(samples, guest, axis=0)
    table = np.column_stack([np.ones(samples.shape[1]), *others])
    weights, *_ = np.linalg.lstsq(table, samples[guest], rcond=None)
    missed = samples[guest] - table @ weights
    total = samples[guest] - samples[guest].mean()
    return float(1 - (missed @ missed) / (total @ total))


def test_r_squared_of_square_regression_is_one() -> None:
    found = regression_r_squared(np.random.default_rng(3).random((6, 6)))

    assert found == pytest.approx([1.0] * 6)


def test_singular_regression_has_no_r_squared() -> None:
    assert regression_r_squared(np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])) is None


def test_minimum_migration_time_takes_the_first_with_least_memory() -> None:
    select = cloudsim_selector(
        CloudSimSelector.MMT,
        view([[0.5]] * 8),
        random.Random(0),  # noqa: S311
    )

    assert select([0, 2, 7, 6]) == 7
    assert select([5, 2]) == 5


def test_minimum_utilization_selects_least_share_of_mips() -> None:
    loads = [[0.5], [0.2], [0.3], [0.4], [0.9], [0.9], [0.9], [0.9]]
    select = cloudsim_selector(CloudSimSelector.MU, view(loads), random.Random(0))  # noqa: S311

    assert select([0, 7, 2, 3]) == 2


def test_maximum_correlation_selects_largest_r_squared() -> None:
    rng = np.random.default_rng(5)
    loads = rng.random((8, 30))
    loads[3] = (loads[1] + loads[2]) / 2 + 0.01 * rng.random(30)
    select = cloudsim_selector(
        CloudSimSelector.MC,
        view(loads.tolist()),
        random.Random(0),  # noqa: S311
    )

    r_squared = [by_least_squares(loads[:5], guest) for guest in range(5)]
    assert select([0, 1, 2, 3, 4]) == r_squared.index(max(r_squared))


def test_maximum_correlation_falls_back_on_memory_with_too_few_samples() -> None:
    loads = [[each / 10, 0.5] for each in range(8)]
    select = cloudsim_selector(CloudSimSelector.MC, view(loads), random.Random(0))  # noqa: S311

    assert select([2, 1, 0]) == 1
    assert select([4]) == 4


def test_maximum_correlation_of_constant_loads_falls_back_on_memory() -> None:
    # Halves and ones: reflections are exact, and find the regression singular.
    select = cloudsim_selector(
        CloudSimSelector.MC,
        view([[0.5] * 12] * 8),
        random.Random(0),  # noqa: S311
    )

    assert select([2, 1, 0]) == 1


def test_maximum_correlation_regresses_as_many_guests_as_samples() -> None:
    loads = np.random.default_rng(3).random((8, 4)).tolist()
    select = cloudsim_selector(CloudSimSelector.MC, view(loads), random.Random(0))  # noqa: S311
    r_squared = regression_r_squared(np.array(loads)[[2, 3, 4, 5], ::-1])

    assert r_squared is not None
    assert select([2, 3, 4, 5]) == 2 + int(np.argmax(r_squared))


def test_identical_loads_differ_by_rounding_only() -> None:
    loads = np.random.default_rng(3).random((8, 20))
    loads[1] = loads[0]
    select = cloudsim_selector(
        CloudSimSelector.MC,
        view(loads.tolist()),
        random.Random(0),  # noqa: S311
    )

    assert select([0, 1, 2]) in {0, 1}


def test_random_selection_reaches_every_guest() -> None:
    select = cloudsim_selector(CloudSimSelector.RS, view([[0.5]] * 8), random.Random(0))  # noqa: S311

    assert {select([1, 2, 3]) for _ in range(50)} == {1, 2, 3}
