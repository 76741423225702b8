"""Window of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from opendrs.errors import DiagnosticCode, InvalidSettingError
from opendrs.simulation.traces import WindowSettings, read_planetlab
from opendrs.simulation.traces.window import cut_window, resolve_window
from support.errors import has_code

TRACE = Path("trace.csv")


@pytest.mark.parametrize(
    "settings",
    [
        {"length": 0},
        {"length": float("inf")},
        {"interval": -300},
        {"interval": float("nan")},
        {"start": float("nan")},
        {"max_gap": -1},
        {"max_guests": 0},
    ],
)
def test_invalid_window_is_rejected(settings: Mapping[str, float]) -> None:
    with pytest.raises(
        InvalidSettingError,
        match=next(iter(settings)),
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        WindowSettings(**settings)  # type: ignore[arg-type]


def test_an_interval_is_no_shorter_than_a_sample() -> None:
    with pytest.raises(
        InvalidSettingError,
        match=r"trace\.csv: .* at least 300 s",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        resolve_window(
            TRACE, WindowSettings(interval=60), step=300, begin=0, length=3600
        )


def test_a_window_has_two_intervals_at_least() -> None:
    with pytest.raises(
        InvalidSettingError,
        match="expected at least 2 intervals",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        resolve_window(
            TRACE, WindowSettings(interval=3600), step=300, begin=0, length=3600
        )


def test_too_long_window_is_rejected() -> None:
    with pytest.raises(
        InvalidSettingError,
        match="at most 1,000,000 intervals",
        check=has_code(DiagnosticCode.OUT_OF_RANGE),
    ):
        resolve_window(TRACE, WindowSettings(), step=300, begin=0, length=1e11)


def test_part_of_a_day_and_longer_intervals() -> None:
    values = np.arange(12.0).reshape(2, 6)

    part, interval = cut_window(
        TRACE, values, WindowSettings(start=600, interval=600, length=1200), 300
    )

    assert interval == 600
    assert part.tolist() == [[2.5, 4.5], [8.5, 10.5]]


@pytest.mark.parametrize(
    ("window", "detail", "code"),
    [
        (
            WindowSettings(start=100),
            "start: expected a multiple of 300 s",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            WindowSettings(interval=400),
            "interval: expected a multiple of 300 s",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            WindowSettings(start=-300),
            "expected a window in 0 to 1800 s",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            WindowSettings(start=600, length=1500),
            "expected a window in 0 to 1800 s",
            DiagnosticCode.OUT_OF_RANGE,
        ),
        (
            WindowSettings(start=1500),
            "at least 2 intervals",
            DiagnosticCode.OUT_OF_RANGE,
        ),
    ],
)
def test_window_beyond_trace_is_rejected(
    window: WindowSettings, detail: str, code: DiagnosticCode
) -> None:
    with pytest.raises(InvalidSettingError, match=detail, check=has_code(code)):
        cut_window(TRACE, np.zeros((2, 6)), window, 300)


def test_a_day_of_planetlab_may_be_cut(tmp_path: Path) -> None:
    for name in "abc":
        text = "\n".join(str(sample // 12) for sample in range(288))
        (tmp_path / name).write_text(text)

    work = read_planetlab(
        tmp_path, WindowSettings(start=3600, length=7200, interval=3600, max_guests=2)
    )

    assert work.names == ("a", "b")
    assert work.interval == 3600
    (note,) = work.notes
    assert "the first 2 by name" in note
    assert work.cpu.tolist() == [pytest.approx([0.01, 0.02])] * 2
