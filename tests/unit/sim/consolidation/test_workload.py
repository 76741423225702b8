"""What a workload must be."""

from __future__ import annotations

import numpy as np
import pytest

from opendrs.errors import ModelError
from opendrs.sim.consolidation.workload import Workload


@pytest.mark.parametrize(
    "cpu", [np.zeros((2, 3)), np.zeros((1, 1)), np.full((1, 2), 1.5), np.zeros(3)]
)
def test_refuses_a_workload_that_cannot_be(
    cpu: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    with pytest.raises(ModelError):
        Workload(names=("a",), cpu=cpu)


def test_refuses_a_memory_of_another_length() -> None:
    with pytest.raises(ModelError, match="as many samples"):
        Workload(names=("a",), cpu=np.zeros((1, 3)), memory=np.zeros((1, 2)))
    with pytest.raises(ModelError, match="interval"):
        Workload(names=("a",), cpu=np.zeros((1, 3)), interval=0)
