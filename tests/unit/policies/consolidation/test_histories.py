"""Histories, of one host and of all, and what they are made from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import (
    Histories,
    cpu_used,
    host_history,
    host_names,
    migration_time,
)
from opendrs.policies.consolidation.dispersion import (
    interquartile_range,
    median_absolute_deviation,
)


def test_the_newest_samples_of_all_guests_are_of_the_same_moment() -> None:
    found = host_history([[10, 20, 30], [5]], own=[1, 2, 3, 4], capacity=100)

    assert found == pytest.approx([0.12, 0.23, 0.39])


def test_a_host_without_guests_has_no_history() -> None:
    assert host_history([], own=[1, 2], capacity=100) == []


@given(st.lists(st.lists(st.floats(0, 1), max_size=5), max_size=4))
def test_columns_hold_each_history_at_the_end_of_its_row(
    rows: list[list[float]],
) -> None:
    columns = Histories.of(rows)

    for row, newest in zip(rows, columns.newest(7), strict=True):
        assert newest.tolist() == [0.0] * (7 - len(row)) + row


@given(st.lists(st.lists(st.floats(0, 1), max_size=3), max_size=6))
def test_groups_hold_every_history_once_without_padding(
    rows: list[list[float]],
) -> None:
    found = {
        int(row): samples.tolist()
        for places, group in Histories.of(rows).groups()
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


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        median_absolute_deviation([])
    with pytest.raises(ValueError, match="2 are needed"):
        interquartile_range([0.5])
