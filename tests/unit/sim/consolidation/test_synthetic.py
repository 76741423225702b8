"""Drawn workloads."""

from __future__ import annotations

import numpy as np
import pytest

from opendrs.errors import ConfigurationError
from opendrs.sim.consolidation.synthetic import Synthetic, synthetic


def test_the_same_seed_draws_the_same() -> None:
    first, again, other = (
        synthetic(Synthetic(guests=20, seed=seed)) for seed in (1, 1, 2)
    )

    assert (first.cpu == again.cpu).all()
    assert (first.cpu != other.cpu).any()


def test_guests_of_a_group_are_busy_at_the_same_hours() -> None:
    calm = Synthetic(guests=100, group=50, noise=0, bursts=0)

    told = np.asarray(np.corrcoef(synthetic(calm).cpu))

    assert told[:50, :50].min() > 0.9
    assert told[:50, 50:].mean() < 0.9


def test_weekends_are_quieter() -> None:
    week = synthetic(Synthetic(guests=50, days=7, noise=0, bursts=0)).cpu

    assert week[:, 5 * 288 :].mean() < 0.8 * week[:, : 5 * 288].mean()


def test_working_days_are_alike() -> None:
    week = synthetic(Synthetic(guests=50, days=7, noise=0, bursts=0)).cpu

    assert np.allclose(week[:, :288], week[:, 288:576])
    assert week[:, :288].std(axis=1).min() > 0


def test_the_mean_load_is_that_asked_for() -> None:
    work = synthetic(Synthetic(guests=2000, load=0.2, bursts=0))

    assert work.cpu.mean() == pytest.approx(0.2, rel=0.05)


def test_memory_is_steady_but_for_a_part_that_goes_with_cpu() -> None:
    work = synthetic(Synthetic(guests=50, bursts=5))

    assert work.memory is not None
    assert work.memory.min() >= 0.3
    assert np.ptp(work.memory, axis=1).max() <= 0.1
    pairs = zip(work.cpu, work.memory, strict=True)
    assert all(np.corrcoef(cpu, memory)[0, 1] > 0.99 for cpu, memory in pairs)


def test_bursts_raise_the_load() -> None:
    calm = synthetic(Synthetic(guests=50, bursts=0, noise=0)).cpu
    bursty = synthetic(Synthetic(guests=50, bursts=5, noise=0)).cpu

    assert bursty.max() > calm.max() + 0.2


@pytest.mark.parametrize(
    "settings", [{"guests": 0}, {"days": 0}, {"load": 0}, {"noise": -1}]
)
def test_refuses_to_draw_what_makes_no_sense(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        Synthetic(**settings)
