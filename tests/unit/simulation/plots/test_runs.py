"""Plots of runs are readable with any number of hosts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from opendrs.policies.consolidation import Consolidate
from opendrs.simulation.engine import run_simulation
from opendrs.simulation.hardware import HostSpecs
from opendrs.simulation.plots import PlottedRun, draw_runs
from opendrs.simulation.plots.hosts import frequently_on
from opendrs.simulation.time_series import TimeSeriesRecorder
from opendrs.simulation.workload import SyntheticSettings, synthetic_workload


def plotted_run(
    label: str, policy: Consolidate | None = None, days: int = 1
) -> PlottedRun:
    recorder = TimeSeriesRecorder(with_frames=True)
    work = synthetic_workload(SyntheticSettings(guests=20, days=days, seed=2))
    account = run_simulation(work, policy, HostSpecs.alternating(12), observer=recorder)
    return PlottedRun(
        label=label,
        series=recorder.time_series(),
        frames=recorder.load_frames(),
        energy_kwh=account.energy_kwh,
        slav=account.slav,
    )


def drawn_text(title: str, runs: list[PlottedRun], path: Path) -> str:
    """Return the texts in a plot."""
    draw_runs(title, runs, path, path.suffix)
    return " ".join(re.findall(r"<text[^>]*>([^<]*)", path.read_text()))


def test_one_run_is_drawn_over_time(tmp_path: Path) -> None:
    words = drawn_text(
        "a $day$", [plotted_run("ours", Consolidate())], tmp_path / "x.svg"
    )

    for word in ("a $day$", "load of each host under ours", "with guests", "hours"):
        assert word in words
    assert "power, kW" in words
    assert "SLAV" not in words


@pytest.mark.parametrize("count", [2, 4, 5])
def test_several_runs_are_drawn_side_by_side(tmp_path: Path, count: int) -> None:
    runs = [plotted_run(f"policy {number}") for number in range(count)]

    words = drawn_text("", runs, tmp_path / "x.svg")

    assert all(run.label in words for run in runs)
    assert "energy (kWh)" in words
    assert "SLAV" in words


def test_time_axis_of_long_run_is_in_days(tmp_path: Path) -> None:
    words = drawn_text("", [plotted_run("x", days=4)], tmp_path / "x.svg")

    assert "days" in words
    assert "hours" not in words


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_equal_runs_give_equal_plots(tmp_path: Path, suffix: str, begin: bytes) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    runs = [plotted_run("ours", Consolidate()), plotted_run("nobody")]

    draw_runs("x", runs, one, suffix)
    draw_runs("x", runs, other, suffix)

    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()


def test_rarely_on_hosts_are_omitted_and_others_sorted() -> None:
    frames = np.full((100, 4), np.nan, np.float32)
    frames[:3, 0] = 0.5
    frames[50:, 1] = 0.0
    frames[:, 2] = 1.0
    frames[:50, 3] = 0.5

    assert frequently_on(frames).tolist() == [2, 3, 1]
