"""Selection of the guest to evict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.model import GuestId
from opendrs.policies.consolidation import (
    EvictionCandidates,
    GuestLoad,
    GuestSelector,
    LoadHistories,
    MaximumCorrelation,
    MinimumMigrationTime,
    MinimumMigrationTimeMaximumCpu,
    MinimumUtilization,
    RandomChoice,
)
from opendrs.policies.consolidation.selection import coefficients_of_determination
from support.oracles.neat import select_guest, select_guest_per_node

SELECTORS: tuple[GuestSelector, ...] = (
    MinimumMigrationTime(),
    MinimumMigrationTimeMaximumCpu(averaging_window=2),
    MinimumUtilization(),
    RandomChoice(seed=7),
    MaximumCorrelation(),
)


def guest(name: str, memory: float, *history: float) -> GuestLoad:
    return GuestLoad(id=GuestId(name), memory=memory, history=history)


@st.composite
def guests_on_hosts(draw: st.DrawFn) -> tuple[list[GuestLoad], list[int]]:
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


def candidates(guests: list[GuestLoad], hosts: list[int]) -> EvictionCandidates:
    return EvictionCandidates(
        np.array(hosts, dtype=np.int64),
        np.array([each.memory for each in guests], dtype=np.float64),
        LoadHistories.of([each.history for each in guests]),
    )


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda each: each.name)
def test_empty_host_selects_no_guest(selector: GuestSelector) -> None:
    assert select_guest(selector, []) is None


def test_minimum_migration_time_is_the_least_memory_then_the_name() -> None:
    guests = [guest("c", 512, 1), guest("b", 512, 9), guest("a", 1024, 0)]

    assert select_guest(MinimumMigrationTime(), guests) == "b"


def test_maximum_cpu_decides_among_the_least_memory() -> None:
    guests = [guest("a", 512, 9, 1, 1), guest("b", 512, 0, 2, 2), guest("c", 1024, 9)]

    assert (
        select_guest(MinimumMigrationTimeMaximumCpu(averaging_window=2), guests) == "b"
    )
    assert (
        select_guest(MinimumMigrationTimeMaximumCpu(averaging_window=3), guests) == "a"
    )


def test_idle_guests_are_selected_too() -> None:
    guests = [guest("b", 512, 0, 0), guest("a", 512, 0)]

    assert select_guest(MinimumMigrationTimeMaximumCpu(), guests) == "a"


def test_minimum_utilization_uses_newest_sample() -> None:
    assert select_guest(
        MinimumUtilization(), [guest("a", 1, 0, 5), guest("b", 2, 9, 4)]
    ) == ("b")


def test_maximum_correlation_selects_guest_explained_by_others() -> None:
    rising, falling = [1, 2, 3, 4, 5, 6], [9, 2, 7, 1, 8, 3]
    both = [a + b for a, b in zip(rising, falling, strict=True)]
    explained = guest("b", 9, *(each + 0.1 * (-1) ** each for each in both))
    alone = guest("a", 1, 4, 4, 1, 1, 4, 4)
    guests = [alone, explained, guest("c", 5, *rising), guest("d", 5, *falling)]

    assert select_guest(MaximumCorrelation(), guests) in {"b", "c", "d"}


@given(st.integers(0, 10_000), st.integers(2, 6), st.sampled_from([0, 1]))
def test_coefficients_of_determination_are_those_of_least_squares(
    seed: int, guests: int, twins: int
) -> None:
    samples = np.random.default_rng(seed).random((guests, 12))
    if twins:
        samples[-1] = samples[0]
    found = coefficients_of_determination(samples)

    assert found is not None
    for guest, coefficient in enumerate(found.tolist()):
        others = np.delete(samples, guest, axis=0)
        table = np.column_stack([np.ones(12), *others])
        weights, *_ = np.linalg.lstsq(table, samples[guest], rcond=None)
        residuals = samples[guest] - table @ weights
        total = samples[guest] - samples[guest].mean()
        assert coefficient == pytest.approx(
            1 - (residuals @ residuals) / (total @ total)
        )


def test_coefficient_of_constant_load_is_zero() -> None:
    samples = np.array([[0.5] * 6, [1, 2, 3, 4, 5, 6], [2, 1, 3, 1, 2, 9.0]])
    found = coefficients_of_determination(samples)

    assert found is not None
    assert found[0] == 0
    assert found[1] > 0


def test_maximum_correlation_falls_back_on_memory() -> None:
    guests = [guest("a", 9, 1, 2), guest("b", 5, 2, 1)]

    assert select_guest(MaximumCorrelation(), guests) == "b"


def test_random_choice_is_the_same_for_the_same_seed_and_reaches_all() -> None:
    guests = [guest(name, 1, 1) for name in "abcd"]
    chosen = [select_guest(RandomChoice(seed=seed), guests) for seed in range(60)]

    assert chosen == [
        select_guest(RandomChoice(seed=seed), guests) for seed in range(60)
    ]
    assert set(chosen) == set("abcd")


@given(guests_on_hosts(), st.randoms(use_true_random=False))
def test_order_of_guests_is_irrelevant(
    drawn: tuple[list[GuestLoad], list[int]], random: object
) -> None:
    guests, _ = drawn
    shuffled = list(guests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for selector in SELECTORS:
        assert select_guest(selector, guests) == select_guest(selector, shuffled)


@given(guests_on_hosts())
def test_array_selection_agrees_with_selection_per_host(
    drawn: tuple[list[GuestLoad], list[int]],
) -> None:
    guests, hosts = drawn
    for selector in SELECTORS:
        found = select_guest_per_node(selector, candidates(guests, hosts), 4)
        plain = [
            select_guest(
                selector,
                [g for g, at in zip(guests, hosts, strict=True) if at == host],
            )
            for host in range(4)
        ]

        assert [None if at < 0 else guests[at].id for at in found] == plain
