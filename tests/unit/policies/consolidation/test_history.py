"""Histories of one host and of many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import LoadHistories
from support.oracles.neat import cpu_used, host_history, host_names, migration_time


def test_host_history_aligns_newest_samples() -> None:
    found = host_history([[10, 20, 30], [5]], overhead=[1, 2, 3, 4], capacity=100)

    assert found == pytest.approx([0.12, 0.23, 0.39])


def test_host_history_without_guests_is_empty() -> None:
    assert host_history([], overhead=[1, 2], capacity=100) == []


@given(st.lists(st.lists(st.floats(0, 1), max_size=5), max_size=4))
def test_load_histories_are_right_aligned(
    rows: list[list[float]],
) -> None:
    columns = LoadHistories.of(rows)

    for row, newest in zip(rows, columns.newest(7), strict=True):
        assert newest.tolist() == [0.0] * (7 - len(row)) + row


@given(st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=6))
def test_groups_contain_each_history_once_without_padding(
    rows: list[list[float]],
) -> None:
    found = {
        int(row): samples.tolist()
        for places, group in LoadHistories.of(rows).groups()
        for row, samples in zip(places, group, strict=True)
    }

    assert found == dict(enumerate(rows))


def test_cpu_used_is_the_busy_part_of_a_core() -> None:
    # 15 s of CPU time in 30 s, on a core of 2000.
    assert cpu_used(2000, (100.0, 0), (130.0, 15_000_000_000)) == 1000


def test_migration_time_is_that_of_the_mean_guest() -> None:
    assert migration_time([512, 1536], bandwidth=10) == pytest.approx(102.4)


def test_host_names_are_separated_by_everything_else() -> None:
    assert host_names("node-1_x,node.2") == ["node-1_x", "node", "2"]
