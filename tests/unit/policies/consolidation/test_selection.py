"""Who leaves first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GuestId
from opendrs.policies.consolidation import (
    GuestColumns,
    GuestLoad,
    Histories,
    MaximumCorrelation,
    MinimumMigrationTime,
    MinimumMigrationTimeMaximumCpu,
    MinimumUtilisation,
    RandomChoice,
    Selection,
    select,
    select_everywhere,
)
from opendrs.policies.consolidation.correlation import determinations

SELECTIONS: tuple[Selection, ...] = (
    MinimumMigrationTime(),
    MinimumMigrationTimeMaximumCpu(last_n=2),
    MinimumUtilisation(),
    RandomChoice(seed=7),
    MaximumCorrelation(),
)


def guest(name: str, memory: float, *history: float) -> GuestLoad:
    return GuestLoad(id=GuestId(name), memory=memory, history=history)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[GuestLoad], list[int]]:
    """Draw guests in the order of their names, and the host of each."""
    count = draw(st.integers(0, 8))
    sample = st.sampled_from([0.0, 1.0, 2.0, 5.0])
    guests = [
        guest(
            f"vm{index}",
            draw(st.sampled_from([512, 1024])),
            *draw(st.lists(sample, max_size=12)),
        )
        for index in range(count)
    ]
    return guests, draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))


def columns(guests: list[GuestLoad], hosts: list[int]) -> GuestColumns:
    return GuestColumns(
        np.array(hosts, dtype=np.int64),
        np.array([each.memory for each in guests], dtype=np.float64),
        Histories.of([each.history for each in guests]),
    )


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda each: each.name)
def test_nobody_leaves_an_empty_host(selection: Selection) -> None:
    assert select(selection, []) is None


def test_minimum_migration_time_is_the_least_memory_then_the_name() -> None:
    guests = [guest("c", 512, 1), guest("b", 512, 9), guest("a", 1024, 0)]

    assert select(MinimumMigrationTime(), guests) == "b"


def test_maximum_cpu_decides_among_the_least_memory() -> None:
    guests = [guest("a", 512, 9, 1, 1), guest("b", 512, 0, 2, 2), guest("c", 1024, 9)]

    assert select(MinimumMigrationTimeMaximumCpu(last_n=2), guests) == "b"
    assert select(MinimumMigrationTimeMaximumCpu(last_n=3), guests) == "a"


def test_somebody_leaves_also_where_no_cpu_was_used() -> None:
    guests = [guest("b", 512, 0, 0), guest("a", 512, 0)]

    assert select(MinimumMigrationTimeMaximumCpu(), guests) == "a"


def test_minimum_utilisation_looks_at_the_newest_sample() -> None:
    assert select(MinimumUtilisation(), [guest("a", 1, 0, 5), guest("b", 2, 9, 4)]) == (
        "b"
    )


def test_maximum_correlation_is_the_load_that_the_others_tell() -> None:
    rising, falling = [1, 2, 3, 4, 5, 6], [9, 2, 7, 1, 8, 3]
    both = [a + b for a, b in zip(rising, falling, strict=True)]
    told = guest("b", 9, *(each + 0.1 * (-1) ** each for each in both))
    alone = guest("a", 1, 4, 4, 1, 1, 4, 4)
    guests = [alone, told, guest("c", 5, *rising), guest("d", 5, *falling)]

    assert select(MaximumCorrelation(), guests) in {"b", "c", "d"}


@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([0, 1]))
def test_the_determination_is_that_of_least_squares(
    seed: int, guests: int, twins: int
) -> None:
    samples = np.random.default_rng(seed).random((guests, 12))
    if twins:
        samples[-1] = samples[0]
    found = determinations(samples)

    assert found is not None
    for guest, told in enumerate(found.tolist()):
        others = np.delete(samples, guest, axis=0)
        table = np.column_stack([np.ones(12), *others])
        weights, *_ = np.linalg.lstsq(table, samples[guest], rcond=None)
        missed = samples[guest] - table @ weights
        total = samples[guest] - samples[guest].mean()
        assert told == pytest.approx(1 - (missed @ missed) / (total @ total))


def test_who_never_changes_is_not_told_by_anybody() -> None:
    samples = np.array([[0.5] * 6, [1, 2, 3, 4, 5, 6], [2, 1, 3, 1, 2, 9.0]])
    found = determinations(samples)

    assert found is not None
    assert found[0] == 0
    assert found[1] > 0


def test_maximum_correlation_falls_back_on_memory() -> None:
    guests = [guest("a", 9, 1, 2), guest("b", 5, 2, 1)]

    assert select(MaximumCorrelation(), guests) == "b"


def test_random_choice_is_the_same_for_the_same_seed_and_reaches_all() -> None:
    guests = [guest(name, 1, 1) for name in "abcd"]
    chosen = [select(RandomChoice(seed=seed), guests) for seed in range(60)]

    assert chosen == [select(RandomChoice(seed=seed), guests) for seed in range(60)]
    assert set(chosen) == set("abcd")


@given(crowds(), st.randoms(use_true_random=False))
def test_the_order_of_guests_does_not_matter(
    crowd: tuple[list[GuestLoad], list[int]], random: object
) -> None:
    guests, _ = crowd
    shuffled = list(guests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for selection in SELECTIONS:
        assert select(selection, guests) == select(selection, shuffled)


@given(crowds())
def test_all_hosts_at_once_choose_as_one_by_one(
    crowd: tuple[list[GuestLoad], list[int]],
) -> None:
    guests, hosts = crowd
    for selection in SELECTIONS:
        found = select_everywhere(selection, columns(guests, hosts), 4)
        plain = [
            select(
                selection,
                [g for g, at in zip(guests, hosts, strict=True) if at == host],
            )
            for host in range(4)
        ]

        assert [None if at < 0 else guests[at].id for at in found] == plain
