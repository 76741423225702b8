"""Complete small runs with random load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.errors import (
    ConfigurationError,
    InvalidSettingError,
    UnknownPolicyError,
)
from opendrs.simulation.cloudsim import (
    CloudSimBaseline,
    CloudSimDetector,
    CloudSimSelector,
    MigrationScheme,
    parse_scheme,
    simulate,
    simulate_days,
)
from opendrs.simulation.traces import Trace

SCHEMES = (
    "thr-mmt",
    "iqr-mmt",
    "mad-mu",
    "lr-mmt",
    "lrr-mmt",
    "iqr-mc",
    "lr-rs",
)

SAMPLES = 60
RUN = 300.1 + 300 * (SAMPLES - 2)  # s until the last update
KWH = 3_600_000


def day(guests: int = 24, seed: int = 1, least: int = 1) -> Trace:
    """Return random walks between *least* and 99 %."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-12, 13, size=(guests, SAMPLES))
    walks = np.abs((rng.integers(0, 60, (guests, 1)) + steps.cumsum(axis=1)) % 198 - 99)
    names = tuple(f"vm{each:03}" for each in range(guests))
    return Trace(names, np.clip(walks, least, 99))


def constant(*loads: int) -> Trace:
    percent = np.tile(np.array(loads)[:, None], (1, SAMPLES))
    return Trace(tuple(f"vm{each}" for each in range(len(loads))), percent)


def test_at_full_power_only_the_hosts_count() -> None:
    result = simulate(day(), parse_scheme("npa"), hosts=20)

    assert result.energy == pytest.approx(RUN * 10 * (117 + 135))


def test_a_constant_load_draws_constant_power_after_the_first_interval() -> None:
    # One guest of 2500 MIPS, at half load, fits a core of the second host only:
    # 1250 / 5320 of it, between 101 and 105 W.
    load = 1250 / 5320
    result = simulate(constant(50), parse_scheme("dvfs"), hosts=4)

    assert result.energy == pytest.approx((RUN - 300.1) * (101 + 4 * (load * 10 - 2)))
    assert result.active_hosts == pytest.approx((RUN - 300.1) / RUN)
    assert result.shutdowns == 3


def test_without_migrations_nothing_is_violated_where_there_is_enough() -> None:
    result = simulate(day(), parse_scheme("dvfs"), hosts=20)

    assert (result.migrations, result.slav, result.overall_violation) == (0, 0, 0)
    assert result.migration_time is None


@pytest.mark.parametrize("name", SCHEMES)
def test_consolidation_saves_energy_and_keeps_all_guests(name: str) -> None:
    trace = day()
    before = simulate(trace, parse_scheme("dvfs"), hosts=20)
    after = simulate(trace, parse_scheme(name), hosts=20)

    assert after.energy < before.energy
    assert after.active_hosts < before.active_hosts
    assert after.guests_left == len(trace.names)
    assert after.migrations > 0
    assert 0 < after.slatah < 1
    assert 0 < after.pdm < 0.1


@pytest.mark.parametrize("name", SCHEMES)
def test_the_same_day_gives_the_same_result(name: str) -> None:
    assert simulate(day(), parse_scheme(name), hosts=20) == simulate(
        day(), parse_scheme(name), hosts=20
    )


def test_only_the_random_selection_depends_on_the_seed() -> None:
    trace = day(guests=40)
    random = {
        simulate(trace, parse_scheme("thr-rs-0.6", seed), hosts=30).energy
        for seed in range(4)
    }
    fixed = {
        simulate(trace, parse_scheme("thr-mmt-0.6", seed), hosts=30).energy
        for seed in range(2)
    }

    assert len(random) > 1
    assert len(fixed) == 1


def test_lr_and_lrr_are_the_same() -> None:
    assert simulate(day(), parse_scheme("lr-mmt"), hosts=20) == simulate(
        day(), parse_scheme("lrr-mmt"), hosts=20
    )


def test_guest_without_demand_vanishes() -> None:
    trace = day(guests=4)
    percent = trace.percent.copy()
    percent[2, 40:42] = 0
    result = simulate(replace(trace, percent=percent), parse_scheme("dvfs"), hosts=8)

    assert result.guests_left == 3


def test_a_single_zero_does_not_make_a_guest_vanish() -> None:
    trace = day(guests=4)
    percent = trace.percent.copy()
    percent[2, 40] = 0
    result = simulate(replace(trace, percent=percent), parse_scheme("dvfs"), hosts=8)

    assert result.guests_left == 4


def test_a_migration_takes_as_long_as_the_memory_at_half_a_gigabit() -> None:
    # Guests of 870 and of 1740 MB: the host of the second has less to do.
    result = simulate(constant(10, 10), parse_scheme("thr-mmt"), hosts=4)

    assert result.migrations == 1
    assert result.migration_time == pytest.approx(1740 / 62.5)


def test_unplaceable_guests_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="does not fit on 2 hosts"):
        simulate(day(), parse_scheme("thr-mmt"), hosts=2)


def test_days_are_simulated_one_by_one() -> None:
    days = {"a": day(seed=1), "b": day(seed=2)}
    found = simulate_days(days, parse_scheme("dvfs"), hosts=20)

    assert found == {
        name: simulate(each, parse_scheme("dvfs"), hosts=20)
        for name, each in days.items()
    }


def test_the_products_are_of_the_published_units() -> None:
    result = simulate(day(), parse_scheme("thr-mmt"), hosts=20)

    assert result.energy_kwh == result.energy / KWH
    assert result.slav == result.slatah * result.pdm
    assert result.esv == pytest.approx(result.energy_kwh * result.slav)


def test_a_trace_too_short_for_an_update_costs_nothing() -> None:
    short = Trace(("vm",), np.array([[50, 50]]))

    assert simulate(short, parse_scheme("thr-mmt"), hosts=4).energy == 0


def test_a_name_says_detector_selector_and_parameter() -> None:
    parsed = parse_scheme("thr-mmt-0.9", seed=3)

    assert parsed == MigrationScheme(CloudSimDetector.THR, CloudSimSelector.MMT, 0.9, 3)
    assert str(parsed) == "thr-mmt-0.9"


def test_the_parameter_is_the_published_one_unless_given() -> None:
    assert parse_scheme("lr-mu") == MigrationScheme(
        CloudSimDetector.LR, CloudSimSelector.MU, 1.2
    )


def test_a_baseline_has_no_selector() -> None:
    assert parse_scheme("dvfs") is CloudSimBaseline.DVFS


@pytest.mark.parametrize("name", ["", "lr", "lr-", "lr-xy", "xy-mmt", "lr-mmt-x"])
def test_unknown_scheme_is_rejected(name: str) -> None:
    with pytest.raises(UnknownPolicyError):
        parse_scheme(name)


@pytest.mark.parametrize("name", ["lr-mmt-0", "lr-mmt-nan"])
def test_parameter_of_scheme_out_of_range_is_rejected(name: str) -> None:
    with pytest.raises(InvalidSettingError):
        parse_scheme(name)
