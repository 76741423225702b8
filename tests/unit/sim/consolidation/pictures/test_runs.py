"""A picture of a run can be read at any number of hosts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from opendrs.policies import Consolidate
from opendrs.sim.consolidation.engine import run
from opendrs.sim.consolidation.machines import Machines
from opendrs.sim.consolidation.pictures import Shown, draw_runs
from opendrs.sim.consolidation.pictures.hosts import often_on
from opendrs.sim.consolidation.series import Recorder
from opendrs.sim.consolidation.synthetic import Synthetic, synthetic


def shown(label: str, policy: Consolidate | None = None, days: int = 1) -> Shown:
    recorder = Recorder(film=True)
    work = synthetic(Synthetic(guests=20, days=days, seed=2))
    account = run(work, policy, Machines.of(12), watcher=recorder)
    return Shown(
        label=label,
        series=recorder.series(),
        film=recorder.film(),
        energy_kwh=account.energy_kwh,
        slav=account.slav,
    )


def drawn(title: str, runs: list[Shown], path: Path) -> str:
    """Return the words in a picture."""
    draw_runs(title, runs, path, path.suffix)
    return " ".join(re.findall(r"<text[^>]*>([^<]*)", path.read_text()))


def test_one_run_is_drawn_over_time(tmp_path: Path) -> None:
    words = drawn("a $day$", [shown("ours", Consolidate())], tmp_path / "x.svg")

    for word in ("a $day$", "load of each host under ours", "with guests", "hours"):
        assert word in words
    assert "power, kW" in words
    assert "SLAV" not in words


@pytest.mark.parametrize("count", [2, 4, 5])
def test_several_runs_are_drawn_side_by_side(tmp_path: Path, count: int) -> None:
    runs = [shown(f"policy {number}") for number in range(count)]

    words = drawn("", runs, tmp_path / "x.svg")

    assert all(run.label in words for run in runs)
    assert "energy, kWh" in words
    assert "SLAV" in words


def test_long_runs_are_counted_in_days(tmp_path: Path) -> None:
    words = drawn("", [shown("x", days=4)], tmp_path / "x.svg")

    assert "days" in words
    assert "hours" not in words


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_equal_runs_give_equal_pictures(
    tmp_path: Path, suffix: str, begin: bytes
) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    runs = [shown("ours", Consolidate()), shown("nobody")]

    draw_runs("x", runs, one, suffix)
    draw_runs("x", runs, other, suffix)

    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()


def test_hosts_that_are_seldom_on_are_left_out_the_longest_on_come_first() -> None:
    frames = np.full((100, 4), np.nan, np.float32)
    frames[:3, 0] = 0.5
    frames[50:, 1] = 0.0
    frames[:, 2] = 1.0
    frames[:50, 3] = 0.5

    assert often_on(frames).tolist() == [2, 3, 1]
