"""A series adds up to the account of its run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.policies import Consolidate
from opendrs.sim.consolidation import Trace, scheme, simulate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.journal import Account
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.series import Film, Recorder, Series
from opendrs.sim.consolidation.workload import Workload

GUESTS, SAMPLES = 60, 40


def busy_day() -> Workload:
    drawn = np.random.default_rng(5)
    cpu = np.clip(drawn.gamma(1.0, 0.25, (GUESTS, SAMPLES)), 0, 1)
    return Workload(names=tuple(f"g{n:02}" for n in range(GUESTS)), cpu=cpu)


def recorded(policy: Consolidate | None) -> tuple[Account, Recorder]:
    recorder = Recorder(film=True)
    account = run(busy_day(), policy, Machines.of(40), watcher=recorder)
    return account, recorder


def day_of_percentages() -> Trace:
    drawn = np.random.default_rng(5)
    percent = drawn.integers(1, 100, (GUESTS, SAMPLES))
    return Trace(tuple(f"g{n:02}" for n in range(GUESTS)), percent)


def mean(column: np.ndarray[tuple[int], np.dtype[np.float64]], series: Series) -> float:
    return float((column * series.seconds).sum() / series.seconds.sum())


@pytest.mark.parametrize("policy", [None, Consolidate(target=0.6, last_n=1)])
def test_a_series_adds_up_to_the_account(policy: Consolidate | None) -> None:
    account, recorder = recorded(policy)
    series = recorder.series()

    assert len(series.time_s) == SAMPLES
    assert series.energy_kwh.sum() == pytest.approx(account.energy_kwh)
    assert series.migrations.sum() == account.migrations
    assert mean(series.hosts_on, series) == pytest.approx(account.hosts_on)
    assert mean(series.active_hosts, series) == pytest.approx(account.active_hosts)
    overloaded = mean(series.overloaded_hosts, series) / account.active_hosts
    assert overloaded == pytest.approx(account.overload_time_fraction)
    assert (policy is None) == (account.migrations == 0)


@pytest.mark.parametrize("name", ["npa", "dvfs", "thr-mmt"])
def test_a_series_of_cloudsim_adds_up_to_its_result(name: str) -> None:
    recorder = Recorder(film=True)
    result = simulate(day_of_percentages(), scheme(name), 60, watcher=recorder)
    series = recorder.series()

    assert series.energy_kwh.sum() == pytest.approx(result.energy_kwh)
    assert series.migrations.sum() == result.migrations
    assert mean(series.active_hosts, series) == pytest.approx(result.active_hosts)
    assert np.allclose(series.hosts_on, 60) == (name == "npa")
    assert recorder.film().loads().shape == (len(series.time_s), 60)


def test_whoever_watches_changes_nothing() -> None:
    watched, _ = recorded(Consolidate())

    assert watched == run(busy_day(), Consolidate(), Machines.of(40))


def test_a_film_shows_the_load_of_each_host_and_who_is_asleep() -> None:
    account, recorder = recorded(None)
    loads = recorder.film().loads()
    asleep = np.isnan(loads[-1])

    assert loads.shape == (SAMPLES, 40)
    assert (~asleep).sum() == account.active_hosts
    watts = Machines.of(40).power(np.nan_to_num(loads[-1]).astype(np.float64))
    drawn = recorder.series().power_w[-1]
    assert watts[~asleep].sum() == pytest.approx(drawn, rel=1e-5)


def test_an_interval_without_active_hosts_has_no_load() -> None:
    names = ("seconds", "joules", "on", "active", "overloaded", "asked", "capacity")
    sums = {name: np.array([0.0, 0.0]) for name in (*names, "migrations")}
    sums["seconds"] = np.array([300.0, 600.0])

    assert np.isnan(Series.of(sums).load).all()


@given(count=st.integers(1, 70), most=st.sampled_from([2, 8, 16]))
def test_a_film_has_few_frames_that_cover_all_intervals(count: int, most: int) -> None:
    film = Film(most)
    for number in range(count):
        film.add(np.array([float(number), np.nan, 1.0 if number % 2 else np.nan]))
    frames = film.loads()

    assert 1 <= len(frames) <= most
    assert np.isnan(frames[:, 1]).all()
    assert (np.diff(frames[:, 0]) > 0).all()
    assert len(frames) == -(-count // film.each)
    assert frames[0, 0] == pytest.approx((min(count, film.each) - 1) / 2)
    assert most // 2 * film.each <= count or film.each == 1
