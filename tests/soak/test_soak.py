"""Controllers that are killed again and again keep every promise, whatever goes wrong.

The short form of `make soak`; each seed draws a cluster, a policy, limits and faults.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.__main__ import describe
from soak.episode import Episode, Result

HERE = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11)


def assert_kept(result: Result) -> None:
    assert not result.failed, describe(result)
    assert result.cycles >= 40


@pytest.mark.parametrize("seed", HERE)
def test_killed_at_any_call_a_controller_keeps_what_it_promises(
    seed: int, tmp_path: Path
) -> None:
    assert_kept(Episode(seed, tmp_path).play())


@pytest.mark.parametrize("seed", [8, 16])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_by_a_signal_a_controller_keeps_what_it_promises(
    seed: int, tmp_path: Path
) -> None:
    result = Episode(seed, tmp_path, forked=True).play()

    assert_kept(result)
    assert result.kills
