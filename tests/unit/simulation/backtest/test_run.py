"""Backtest: rows with and without a policy, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from opendrs.config.policy_loading import build_policy
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.model import (
    GIB,
    AntiAffinity,
    GuestId,
    Limits,
    NodeId,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.policies import BUILT_IN_POLICIES, Policy
from opendrs.policies.balance import Balance
from opendrs.policies.optimize import Repair
from opendrs.simulation.backtest import (
    BacktestRow,
    BacktestSettings,
    LoadRecord,
    PolicyWindows,
    RowKind,
    run_backtest,
)
from support.builders import guest_ids
from support.recorded_load import recorded_snapshots, with_dirty_rate

A, B, V = NodeId("a"), NodeId("b"), GuestId("v")
LIMITS = Limits(bandwidth=0.1 * GIB)
APART = AntiAffinity(guests=guest_ids("v", "w"))


def rows_of(
    snapshots: list[Snapshot],
    policies: Mapping[str, Policy[Any]] | None = None,
    every: float = 0.0,
) -> dict[str, BacktestRow]:
    settings = BacktestSettings(policies=policies or {}, limits=LIMITS, every=every)
    rows = run_backtest(LoadRecord(snapshots, "x"), settings)
    return {row.name: row for row in rows}


def imbalanced(count: int, rules: Sequence[Rule] = ()) -> list[Snapshot]:
    """Return a record with two equal guests on one of two nodes."""
    return recorded_snapshots(
        {"v": ("a", [0.3] * count), "w": ("a", [0.3] * count)}, rules=rules
    )


def test_rows_without_a_policy_come_first() -> None:
    rows = rows_of(imbalanced(3), {"balance": Balance(limits=LIMITS)})

    assert [(row.name, row.kind) for row in rows.values()] == [
        ("recorded", RowKind.RECORDED),
        ("static", RowKind.STATIC),
        ("best", RowKind.BEST),
        ("balance", RowKind.POLICY),
    ]


def test_static_row_keeps_what_the_recorded_row_moves() -> None:
    first, *others = imbalanced(4)
    moved = [
        replace(
            each,
            guests={**each.guests, V: replace(each.guests[V], node=B)},
            nodes={
                name: replace(
                    node, usage=Usage.of(Resources(node.capacity.cpu * 0.4, 40 * GIB))
                )
                for name, node in each.nodes.items()
                if node.capacity is not None
            },
        )
        for each in others
    ]

    rows = rows_of([first, *moved])

    recorded, static, best = rows["recorded"], rows["static"], rows["best"]
    assert recorded.migrations == 1
    assert recorded.gib == pytest.approx(30)
    assert recorded.migration_minutes is None
    assert (static.migrations, static.gib) == (0, 0.0)
    # Static: loads 0.7 and 0.1, so the CV is 0.3 / 0.4. Recorded: a quarter of that.
    assert static.metrics.imbalance_mean == pytest.approx(0.75)
    assert recorded.metrics.imbalance_mean == pytest.approx(0.75 / 4)
    assert best.metrics.imbalance_mean == pytest.approx(0.0, abs=1e-9)
    assert static.regret == pytest.approx(0.75)
    assert recorded.regret == pytest.approx(0.75 / 4)
    assert best.regret == 0.0


def test_policy_moves_with_the_duration_of_a_migration() -> None:
    snapshots = with_dirty_rate(imbalanced(2), 0.0)

    row = rows_of(snapshots, {"balance": Balance(limits=LIMITS)})["balance"]

    # 30 GiB at 0.1 GiB/s take 300 s. Until then the memory counts on both nodes: the
    # mean loads are 0.7 and (0.1 + 0.4) / 2, their CV 0.225 / 0.475. Then it is 0.
    expected = 0.225 / 0.475 * 300 / 1200
    assert row.migrations == 1
    assert row.gib == pytest.approx(30)
    assert row.migration_minutes == pytest.approx(5.0, abs=0.1)
    assert row.metrics.imbalance_mean == pytest.approx(expected)
    assert row.regret == pytest.approx(expected)
    assert row.reasons == {"balanced": 1, "improves-balance": 1}


def test_decisions_are_made_at_most_every_so_many_seconds() -> None:
    row = rows_of(imbalanced(6), {"balance": Balance(limits=LIMITS)}, every=1200.0)

    assert sum(row["balance"].reasons.values()) == 3


def test_decision_waits_for_the_plan_before_it() -> None:
    slow = Limits(bandwidth=0.03 * GIB)  # 30 GiB take 1,000 s
    snapshots = with_dirty_rate(imbalanced(4), 0.0)
    settings = BacktestSettings(policies={"balance": Balance(limits=slow)}, limits=slow)

    *_, row = run_backtest(LoadRecord(snapshots, "x"), settings)

    # At 0 s and 1,200 s, not at 600 s, and at 1,800 s.
    assert sum(row.reasons.values()) == 3


def test_minutes_of_violated_strict_rules_are_counted() -> None:
    rows = rows_of(
        imbalanced(3, rules=[APART]),
        {"optimize": build_policy("optimize", limits=LIMITS)},
    )

    static, optimize = rows["static"].metrics, rows["optimize"].metrics
    assert (static.rule_minutes, static.rules_broken_at_end) == (30.0, 1)
    assert optimize.rules_broken_at_end == 0
    assert 0 < optimize.rule_minutes < 30.0


def test_migration_that_does_not_converge_is_aborted_and_no_migration() -> None:
    snapshots = with_dirty_rate(imbalanced(6), 1.0 * GIB)

    row = rows_of(snapshots, {"balance": Balance(limits=LIMITS)})["balance"]

    # At 0 s, and again at 2,400 s: the migration timeout is 1,800 s.
    assert (row.migrations, row.gib) == (0, 0.0)
    assert row.unfinished_steps == {"aborted": 2}


@pytest.mark.parametrize("name", sorted(BUILT_IN_POLICIES))
def test_backtest_is_deterministic(name: str) -> None:
    snapshots = recorded_snapshots(
        {
            "v": ("a", [0.3, 0.5, 0.4, 0.2]),
            "w": ("a", [0.3, 0.1, 0.3, 0.5]),
            "x": ("b", [0.1, 0.2, 0.1, 0.1]),
        },
        nodes=("a", "b", "c"),
    )
    policies = {name: build_policy(name, limits=LIMITS)}

    first, second = (rows_of(snapshots, policies) for _ in range(2))

    assert [replace(row, cpu_seconds=0.0) for row in first.values()] == [
        replace(row, cpu_seconds=0.0) for row in second.values()
    ]


def test_progress_ends_with_all_snapshots() -> None:
    seen: dict[str, tuple[int, int]] = {}
    settings = BacktestSettings(
        policies={"balance": Balance(limits=LIMITS)}, limits=LIMITS
    )

    def progress(name: str, done: int, total: int) -> None:
        seen[name] = (done, total)

    list(run_backtest(LoadRecord(imbalanced(3), "x"), settings, progress))

    assert seen == {"best": (3, 3), "recorded": (3, 3), "balance": (3, 3)}


def schedule_row(
    snapshots: list[Snapshot], *entries: tuple[ScheduleSettings, Policy[Any]]
) -> BacktestRow:
    """Return the row of a schedule; the record starts at 12:00 UTC."""
    settings = BacktestSettings(
        policies={},
        limits=LIMITS,
        schedule=PolicyWindows(entries=entries, interval=300.0),
    )
    *_, row = run_backtest(LoadRecord(snapshots, "x"), settings)
    assert (row.name, row.kind) == ("schedule", RowKind.SCHEDULE)
    return row


def test_policy_of_a_schedule_decides_only_in_its_windows() -> None:
    entry = ScheduleSettings(policy="balance", interval=600, windows=("12:20-12:40",))

    row = schedule_row(imbalanced(6), (entry, Balance(limits=LIMITS)))

    assert row.reasons == {"improves-balance": 1, "balanced": 1}  # at 12:20 and 12:30
    assert row.migrations == 1
    # CV before: 0.3 / 0.4. The migration starts with the third snapshot.
    assert [point.imbalance for point in row.series[:2]] == pytest.approx([0.75] * 2)
    assert row.series[-1].imbalance == pytest.approx(0.0)


def test_entries_of_a_schedule_decide_at_their_intervals() -> None:
    """With a snapshot every ten minutes, an entry is due at the closest one."""
    often = ScheduleSettings(policy="repair", interval=600)
    slow = ScheduleSettings(policy="balance", interval=1190)

    row = schedule_row(
        imbalanced(6), (often, Repair(limits=LIMITS)), (slow, Balance(limits=LIMITS))
    )

    assert row.reasons == {"rules-hold": 6, "improves-balance": 1, "balanced": 2}
    assert row.migrations == 1
