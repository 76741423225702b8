"""Regressions on plain numbers, and the guest that is told best."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.sim.consolidation.hardware import Guests, Hosts
from opendrs.sim.consolidation.regression import determination
from opendrs.sim.consolidation.schemes import Selector
from opendrs.sim.consolidation.selectors import selector
from opendrs.sim.consolidation.sharing import Residents
from opendrs.sim.consolidation.watches import View

GUESTS = Guests.of(8)  # two of each kind: 870, 1740, 1740 and 613 MB


def view(history: list[list[float]]) -> View:
    loads = np.array(history, dtype=np.float64)
    return View(
        Hosts.of(1),
        GUESTS,
        Residents(np.arange(8), np.zeros(8, np.int64)),
        loads[:, -1] * GUESTS.mips,
        loads,
    )


@given(st.integers(0, 10_000), st.integers(1, 5))
def test_the_determination_is_that_of_least_squares(seed: int, others: int) -> None:
    numbers = np.random.default_rng(seed).random((others + 1, 12))
    table = np.column_stack([np.ones(12), *numbers[1:]])
    weights, *_ = np.linalg.lstsq(table, numbers[0], rcond=None)
    missed = numbers[0] - table @ weights
    total = numbers[0] - numbers[0].mean()

    found = determination(numbers[0].tolist(), numbers[1:].tolist())

    assert found == pytest.approx(1 - (missed @ missed) / (total @ total))


def test_a_singular_regression_has_no_determination() -> None:
    assert determination([1.0, 2.0, 4.0], [[0.0, 0.0, 0.0]]) is None


def test_a_load_that_never_changes_is_not_told() -> None:
    found = determination([0.0, 0.0, 0.0], [[1.0, 2.0, 4.0]])

    assert found is not None
    assert math.isnan(found)


def test_minimum_migration_time_takes_the_first_with_least_memory() -> None:
    select = selector(Selector.MMT, view([[0.5]] * 8), random.Random(0))  # noqa: S311

    assert select([0, 2, 7, 6]) == 7
    assert select([5, 2]) == 5


def test_minimum_utilisation_takes_the_least_part_of_its_mips() -> None:
    loads = [[0.5], [0.2], [0.3], [0.4], [0.9], [0.9], [0.9], [0.9]]
    select = selector(Selector.MU, view(loads), random.Random(0))  # noqa: S311

    assert select([0, 7, 2, 3]) == 2


def test_maximum_correlation_takes_who_is_told_best() -> None:
    rng = np.random.default_rng(5)
    loads = rng.random((8, 30))
    loads[3] = (loads[1] + loads[2]) / 2 + 0.01 * rng.random(30)
    select = selector(Selector.MC, view(loads.tolist()), random.Random(0))  # noqa: S311

    centred = [each.tolist() for each in loads[[0, 1, 2, 3, 4]]]
    told = [
        determination(row, centred[:place] + centred[place + 1 :]) or 0.0
        for place, row in enumerate(centred)
    ]
    assert select([0, 1, 2, 3, 4]) == told.index(max(told))


def test_maximum_correlation_falls_back_on_memory_with_too_few_samples() -> None:
    loads = [[each / 10, 0.5] for each in range(8)]
    select = selector(Selector.MC, view(loads), random.Random(0))  # noqa: S311

    assert select([2, 1, 0]) == 1
    assert select([4]) == 4
