"""Validation of workloads, and synthetic workloads."""

from __future__ import annotations

import numpy as np
import pytest

from opendrs.errors import ConfigurationError, ModelError
from opendrs.simulation.workload import SyntheticSettings, Workload, synthetic_workload


@pytest.mark.parametrize(
    "cpu", [np.zeros((2, 3)), np.zeros((1, 1)), np.full((1, 2), 1.5), np.zeros(3)]
)
def test_invalid_workload_is_rejected(
    cpu: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> None:
    with pytest.raises(ModelError):
        Workload(names=("a",), cpu=cpu)


def test_memory_of_other_length_is_rejected() -> None:
    with pytest.raises(ModelError, match="as many samples"):
        Workload(names=("a",), cpu=np.zeros((1, 3)), memory=np.zeros((1, 2)))
    with pytest.raises(ModelError, match="interval"):
        Workload(names=("a",), cpu=np.zeros((1, 3)), interval=0)


def test_same_seed_gives_same_workload() -> None:
    first, again, other = (
        synthetic_workload(SyntheticSettings(guests=20, seed=seed))
        for seed in (1, 1, 2)
    )

    assert (first.cpu == again.cpu).all()
    assert (first.cpu != other.cpu).any()


def test_guests_of_group_peak_at_same_hour() -> None:
    quiet = SyntheticSettings(guests=100, group=50, noise=0, bursts=0)

    expected = np.asarray(np.corrcoef(synthetic_workload(quiet).cpu))

    assert expected[:50, :50].min() > 0.9
    assert expected[:50, 50:].mean() < 0.9


def test_weekends_are_quieter() -> None:
    week = synthetic_workload(
        SyntheticSettings(guests=50, days=7, noise=0, bursts=0)
    ).cpu

    assert week[:, 5 * 288 :].mean() < 0.8 * week[:, : 5 * 288].mean()


def test_working_days_are_alike() -> None:
    week = synthetic_workload(
        SyntheticSettings(guests=50, days=7, noise=0, bursts=0)
    ).cpu

    assert np.allclose(week[:, :288], week[:, 288:576])
    assert week[:, :288].std(axis=1).min() > 0


def test_mean_load_is_as_requested() -> None:
    work = synthetic_workload(SyntheticSettings(guests=2000, load=0.2, bursts=0))

    assert work.cpu.mean() == pytest.approx(0.2, rel=0.05)


def test_memory_follows_cpu_by_a_tenth() -> None:
    work = synthetic_workload(SyntheticSettings(guests=50, bursts=5))

    assert work.memory is not None
    assert work.memory.min() >= 0.3
    assert np.ptp(work.memory, axis=1).max() <= 0.1
    pairs = zip(work.cpu, work.memory, strict=True)
    assert all(np.corrcoef(cpu, memory)[0, 1] > 0.99 for cpu, memory in pairs)


def test_bursts_raise_the_load() -> None:
    quiet = synthetic_workload(SyntheticSettings(guests=50, bursts=0, noise=0)).cpu
    bursty = synthetic_workload(SyntheticSettings(guests=50, bursts=5, noise=0)).cpu

    assert bursty.max() > quiet.max() + 0.2


@pytest.mark.parametrize(
    "settings", [{"guests": 0}, {"days": 0}, {"load": 0}, {"noise": -1}]
)
def test_invalid_synthetic_settings_are_rejected(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        SyntheticSettings(**settings)
