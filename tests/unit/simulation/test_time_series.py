"""Time series add up to the metrics of their run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.cloudsim import parse_scheme, simulate
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.metrics import SimulationMetrics
from opendrs.simulation.time_series import LoadFrames, TimeSeries, TimeSeriesRecorder
from opendrs.simulation.traces import Trace
from opendrs.simulation.workload import Workload

GUESTS, SAMPLES = 60, 40


def busy_day() -> Workload:
    drawn = np.random.default_rng(5)
    cpu = np.clip(drawn.gamma(1.0, 0.25, (GUESTS, SAMPLES)), 0, 1)
    return Workload(names=tuple(f"g{n:02}" for n in range(GUESTS)), cpu=cpu)


def recorded(
    policy: Consolidate | None,
) -> tuple[SimulationMetrics, TimeSeriesRecorder]:
    recorder = TimeSeriesRecorder(with_frames=True)
    account = run_simulation(
        busy_day(), policy, HostSpecs.alternating(40), observer=recorder
    )
    return account, recorder


def day_of_percentages() -> Trace:
    drawn = np.random.default_rng(5)
    percent = drawn.integers(1, 100, (GUESTS, SAMPLES))
    return Trace(tuple(f"g{n:02}" for n in range(GUESTS)), percent)


def mean(
    column: np.ndarray[tuple[int], np.dtype[np.float64]], series: TimeSeries
) -> float:
    return float((column * series.seconds).sum() / series.seconds.sum())


@pytest.mark.parametrize(
    "policy", [None, Consolidate(fill_target=0.6, averaging_window=1)]
)
def test_time_series_adds_up_to_metrics(policy: Consolidate | None) -> None:
    account, recorder = recorded(policy)
    series = recorder.time_series()

    assert len(series.time_s) == SAMPLES
    assert series.energy_kwh.sum() == pytest.approx(account.energy_kwh)
    assert series.migrations.sum() == account.migrations
    assert mean(series.hosts_on, series) == pytest.approx(account.hosts_on)
    assert mean(series.active_hosts, series) == pytest.approx(account.active_hosts)
    overloaded = mean(series.overloaded_hosts, series) / account.active_hosts
    assert overloaded == pytest.approx(account.overload_time_fraction)
    assert (policy is None) == (account.migrations == 0)


@pytest.mark.parametrize("name", ["npa", "dvfs", "thr-mmt"])
def test_time_series_of_cloudsim_adds_up_to_its_metrics(name: str) -> None:
    recorder = TimeSeriesRecorder(with_frames=True)
    result = simulate(day_of_percentages(), parse_scheme(name), 60, observer=recorder)
    series = recorder.time_series()

    assert series.energy_kwh.sum() == pytest.approx(result.energy_kwh)
    assert series.migrations.sum() == result.migrations
    assert mean(series.active_hosts, series) == pytest.approx(result.active_hosts)
    assert np.allclose(series.hosts_on, 60) == (name == "npa")
    assert recorder.load_frames().loads().shape == (len(series.time_s), 60)


def test_observer_does_not_change_metrics() -> None:
    watched, _ = recorded(Consolidate())

    assert watched == run_simulation(
        busy_day(), Consolidate(), HostSpecs.alternating(40)
    )


def test_load_frames_have_host_loads_and_nan_when_off() -> None:
    account, recorder = recorded(None)
    loads = recorder.load_frames().loads()
    powered_off = np.isnan(loads[-1])

    assert loads.shape == (SAMPLES, 40)
    assert (~powered_off).sum() == account.active_hosts
    watts = HostSpecs.alternating(40).power(np.nan_to_num(loads[-1]).astype(np.float64))
    drawn = recorder.time_series().power_w[-1]
    assert watts[~powered_off].sum() == pytest.approx(drawn, rel=1e-5)


def test_an_interval_without_active_hosts_has_no_load() -> None:
    names = (
        "seconds",
        "joules",
        "powered_on",
        "active",
        "overloaded",
        "requested",
        "capacity",
    )
    sums = {name: np.array([0.0, 0.0]) for name in (*names, "migrations")}
    sums["seconds"] = np.array([300.0, 600.0])

    assert np.isnan(TimeSeries.from_cumulative(sums).load).all()


@given(count=st.integers(1, 70), most=st.sampled_from([2, 8, 16]))
def test_load_frames_are_limited_and_cover_all_intervals(count: int, most: int) -> None:
    film = LoadFrames(most)
    for number in range(count):
        film.add(np.array([float(number), np.nan, 1.0 if number % 2 else np.nan]))
    frames = film.loads()

    assert 1 <= len(frames) <= most
    assert np.isnan(frames[:, 1]).all()
    assert (np.diff(frames[:, 0]) > 0).all()
    assert len(frames) == -(-count // film.intervals_per_frame)
    assert frames[0, 0] == pytest.approx((min(count, film.intervals_per_frame) - 1) / 2)
    assert (
        most // 2 * film.intervals_per_frame <= count or film.intervals_per_frame == 1
    )
