"""Real traces compared with the figures of their specification."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opendrs.simulation.traces import WindowSettings, read_google2011, read_planetlab

DEFAULT_SHARED = Path(__file__).parents[2].parent / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", DEFAULT_SHARED)) / "data"
DAYS = sorted((DATA / "planetlab").glob("*.tar.gz"))
SERIES = DATA / "google2011-vms/GCD_VMs.tar.gz"
# Guests, mean and standard deviation in percent: neat-cloudsim.md, section 6.1.
KNOWN = {
    "20110303": (1052, 12.31, 17.09),
    "20110306": (898, 11.44, 16.83),
    "20110309": (1061, 10.70, 15.57),
    "20110322": (1516, 9.26, 12.78),
    "20110325": (1078, 10.56, 14.14),
    "20110403": (1463, 12.39, 16.55),
    "20110409": (1358, 11.12, 15.09),
    "20110411": (1233, 11.56, 15.07),
    "20110412": (1054, 11.54, 15.15),
    "20110420": (1033, 10.43, 15.21),
}

pytestmark = pytest.mark.shared


@pytest.mark.parametrize("path", DAYS, ids=lambda path: path.name.partition(".")[0])
def test_planetlab_day_agrees_with_paper(path: Path) -> None:
    work = read_planetlab(path)

    assert work.cpu.shape == (len(work.names), 288)
    assert list(work.names) == sorted(work.names)
    known = KNOWN.get(path.name.partition(".")[0])
    if known is not None:
        guests, mean, deviation = known
        assert len(work.names) == guests
        # Two digits, computed from percentages that are truncated to one.
        assert 100 * work.cpu.mean() == pytest.approx(mean, abs=0.05)
        assert 100 * work.cpu.std() == pytest.approx(deviation, abs=0.05)


@pytest.mark.parametrize("path", DAYS[:1], ids=lambda path: path.name.partition(".")[0])
def test_hours_of_a_day_have_the_mean_of_their_samples(path: Path) -> None:
    day, hours = (
        read_planetlab(path),
        read_planetlab(path, WindowSettings(interval=3600)),
    )

    assert hours.cpu.shape[1] == 24
    assert hours.cpu.mean() == pytest.approx(day.cpu.mean())


@pytest.mark.skipif(not SERIES.exists(), reason="no such series")
def test_google2011_series_agree_with_description() -> None:
    # 1,600 guests, 21.8 % CPU and 19.6 % memory on average: section 6.2.
    work = read_google2011(SERIES)

    assert work.cpu.shape == (1600, 288)
    assert 100 * work.cpu.mean() == pytest.approx(21.8, abs=0.05)
    assert work.memory is not None
    assert 100 * work.memory.mean() == pytest.approx(19.6, abs=0.1)
    assert work.notes == ("memory above 100 % counts as 100 %: 12 guests",)
