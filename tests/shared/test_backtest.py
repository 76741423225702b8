"""Backtest of a record drawn from shared traces, judged in plain Python."""

from __future__ import annotations

from statistics import fmean

import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.model import GuestId, Limits, NodeId, Snapshot
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.simulation.backtest import (
    BacktestRow,
    BacktestSettings,
    LoadRecord,
    run_backtest,
)
from runners.backtest import CLUSTER, SERIES, recorded_month
from support.oracles.placement_load import ExpectedLoad, expected_load

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not (CLUSTER.exists() and SERIES.exists()), reason="no shared traces"
    ),
]
HOUR = 3600


@pytest.fixture(scope="module")
def snapshots() -> list[Snapshot]:
    """A day with a snapshot every hour, near the capacity of the nodes."""
    return list(recorded_month(1, HOUR, load=0.7, seed=2))


@pytest.fixture(scope="module")
def rows(snapshots: list[Snapshot]) -> dict[str, BacktestRow]:
    limits = Limits()
    policies = {name: build_policy(name, limits=limits) for name in BUILT_IN_POLICIES}
    settings = BacktestSettings(policies=policies, limits=limits)
    found = run_backtest(LoadRecord(snapshots, "day"), settings)
    return {row.name: row for row in found}


def expected_loads(snapshots: list[Snapshot]) -> list[ExpectedLoad]:
    """Return the load of the recorded placement at each time."""
    placement: dict[GuestId, NodeId] = {
        guest.id: guest.node for guest in snapshots[0].guests.values()
    }
    loads = [expected_load(each, placement, {}) for each in snapshots]
    return [load for load in loads if load is not None]


def test_recorded_and_static_rows_are_those_of_plain_python(
    snapshots: list[Snapshot], rows: dict[str, BacktestRow]
) -> None:
    expected = expected_loads(snapshots)

    assert len(expected) == len(snapshots) == 24
    contention = sum(load.contended for load in expected) * HOUR / 60
    assert contention > 0
    for name in ("recorded", "static"):
        metrics = rows[name].metrics
        assert metrics.contention_minutes == pytest.approx(contention)
        assert metrics.highest_load_mean == pytest.approx(
            fmean(load.highest for load in expected)
        )
        assert metrics.imbalance_mean == pytest.approx(
            fmean(load.imbalance for load in expected)
        )
        assert metrics.measured_hours == pytest.approx(24)


def test_no_policy_is_better_than_the_best_plan(rows: dict[str, BacktestRow]) -> None:
    assert rows["best"].metrics.rules_broken_at_end == 0
    for name in BUILT_IN_POLICIES:
        regret = rows[name].regret
        assert regret is not None
        assert regret > -0.001, name  # the search is a heuristic


def test_optimize_repairs_rules_and_reduces_contention(
    rows: dict[str, BacktestRow],
) -> None:
    static, optimize = rows["static"].metrics, rows["optimize"].metrics

    assert static.rules_broken_at_end > 0
    assert optimize.rules_broken_at_end == 0
    assert static.contention_minutes is not None
    assert optimize.contention_minutes is not None
    assert optimize.contention_minutes < static.contention_minutes
