"""Controllers that are killed again and again keep every promise, whatever goes wrong.

The short form of `make soak`; each seed draws a cluster, a policy, limits, faults and
operators.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.__main__ import describe, run_seed
from soak.run import RunResult
from support.postgresql_server import PostgresqlServer

HERE = (1, 2, 3, 6, 7)
FORKED = (8, 16)
GROUPS = (4, 12)


def assert_no_violation(result: RunResult) -> None:
    assert not result.failed, describe(result)
    assert result.cycles >= 40


@pytest.mark.slow
@pytest.mark.parametrize("seed", HERE)
def test_controller_killed_at_any_call_violates_nothing(
    seed: int, tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    assert_no_violation(run_seed(seed, tmp_path, postgresql_server))


@pytest.mark.slow
@pytest.mark.parametrize("seed", FORKED)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_controller_killed_by_sigkill_violates_nothing(
    seed: int, tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    result = run_seed(seed, tmp_path, postgresql_server)

    assert_no_violation(result)
    assert result.kills


@pytest.mark.slow
@pytest.mark.parametrize("seed", GROUPS)
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_several_controllers_over_one_store_violate_nothing(
    seed: int, tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    result = run_seed(seed, tmp_path, postgresql_server)

    assert_no_violation(result)
    assert result.takeovers
