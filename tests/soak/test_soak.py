"""Controllers that are killed again and again keep every promise, whatever goes wrong.

The short form of `make soak`; each seed draws a cluster, a policy, limits and faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.__main__ import describe
from soak.run import RunResult, SoakRun

HERE = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11)


def assert_no_violation(result: RunResult) -> None:
    assert not result.failed, describe(result)
    assert result.cycles >= 40


@pytest.mark.parametrize("seed", HERE)
def test_controller_killed_at_any_call_violates_nothing(
    seed: int, tmp_path: Path
) -> None:
    assert_no_violation(SoakRun(seed, tmp_path).run())


@pytest.mark.parametrize("seed", [8, 16])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_controller_killed_by_sigkill_violates_nothing(
    seed: int, tmp_path: Path
) -> None:
    result = SoakRun(seed, tmp_path, forked=True).run()

    assert_no_violation(result)
    assert result.kills
