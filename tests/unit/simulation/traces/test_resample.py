"""Resampling to intervals, and handling of missing samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.simulation.traces import WindowSettings
from opendrs.simulation.traces.resample import ResampledLoad, Resampler, fill_gaps
from opendrs.simulation.traces.window import TraceWindow
from opendrs.simulation.workload import Floats
from support.errors import has_code

HOUR = TraceWindow(begin=0.0, interval=300.0, samples=4)
NAN = np.nan


def add(grid: Resampler, name: str, *samples: tuple[float, ...]) -> None:
    time, *columns = np.array(samples, float).T
    grid.add([name], np.zeros(len(time), np.int64), time, *columns)


def resampled(grid: Resampler, **window: float) -> ResampledLoad:
    return grid.complete_guests("trace", WindowSettings(**window), None)  # type: ignore[arg-type]


def test_an_interval_has_the_mean_of_its_samples() -> None:
    grid = Resampler(TraceWindow(begin=0, interval=600, samples=2), memory=False)
    add(grid, "a", (900, 0.5), (0, 0.1), (300, 0.3), (600, 0.7))

    assert resampled(grid).cpu.tolist() == [pytest.approx([0.2, 0.6])]


def test_samples_outside_of_the_window_do_not_count() -> None:
    grid = Resampler(TraceWindow(begin=600, interval=300, samples=2), memory=False)
    add(grid, "a", *((time, time / 3000) for time in range(0, 3000, 300)))

    assert resampled(grid).cpu.tolist() == [[0.2, 0.3]]


def test_gap_takes_previous_value_with_note() -> None:
    grid = Resampler(HOUR, memory=False)
    add(grid, "a", (0, 0.1), (900, 0.4))

    found = resampled(grid, max_gap=600)

    assert found.cpu.tolist() == [[0.1, 0.1, 0.1, 0.4]]
    expected = (
        "gaps of at most 600 s filled with the value before them: 2 samples of 1 guest"
    )
    assert found.notes == (expected,)


def test_too_long_gap_excludes_guest() -> None:
    grid = Resampler(HOUR, memory=False)
    add(grid, "a", (0, 0.1), (900, 0.4))
    add(grid, "b", (0, 0.1), (300, 0.2), (600, 0.3), (900, 0.4))

    found = resampled(grid, max_gap=300)

    assert found.names == ("b",)
    assert "skipped" in found.notes[0]
    assert found.notes[0].endswith("1 of 2")


def test_a_missing_sample_is_not_zero() -> None:
    grid = Resampler(HOUR, memory=True)
    add(grid, "a", (0, 0.5, NAN), (300, NAN, 0.2), (600, 0.7, 0.3), (900, 0.8, 0.4))

    found = resampled(grid)

    assert found.cpu.tolist() == [[0.5, 0.5, 0.7, 0.8]]
    assert found.memory is not None
    assert found.memory.tolist() == [[0.2, 0.2, 0.3, 0.4]]


def test_guest_of_unknown_memory_is_excluded() -> None:
    grid = Resampler(HOUR, memory=True)
    for time in range(0, 1200, 300):
        add(grid, "a", (time, 0.5, NAN))
        add(grid, "b", (time, 0.5, 0.5))

    assert resampled(grid).names == ("b",)


def test_no_complete_guest_reports_range_of_samples() -> None:
    grid = Resampler(HOUR, memory=False)
    add(grid, "a", (86_400, 0.5), (86_700, 0.5))

    with pytest.raises(
        InvalidFileError,
        match="between 86400 and 86700 s",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        resampled(grid)
    with pytest.raises(
        InvalidFileError,
        match="trace: no samples",
        check=has_code(DiagnosticCode.INCOMPLETE),
    ):
        resampled(Resampler(HOUR, memory=False))


def test_duplicate_samples_raise_error() -> None:
    grid = Resampler(HOUR, memory=False)
    add(grid, "a", (0, 0.5), (300, 0.5), (300, 0.5))

    with pytest.raises(
        InvalidFileError,
        match="'a': too many samples from 300 to 600",
        check=has_code(DiagnosticCode.INCONSISTENT),
    ):
        grid.check_duplicates("trace", 1)
    grid.check_duplicates("trace", 2)


def test_weights_make_a_weighted_mean() -> None:
    grid = Resampler(TraceWindow(begin=0, interval=300, samples=2), memory=False)
    time, cpu = np.array([0.0, 100.0, 300.0]), np.array([0.9, 0.3, 0.1])
    grid.add(["a"], np.zeros(3, np.int64), time, cpu, weight=np.array([100, 200, 300]))

    assert resampled(grid).cpu.tolist() == [pytest.approx([0.5, 0.1])]


def test_a_sample_may_be_early() -> None:
    grid = Resampler(HOUR, memory=False, tolerance=150)
    add(grid, "a", (-3, 0.1), (299, 0.2), (601, 0.3), (904, 0.4), (1051, 0.9))

    assert resampled(grid).cpu.tolist() == [[0.1, 0.2, 0.3, 0.4]]


def test_max_guests_limits_guests() -> None:
    grid = Resampler(HOUR, memory=False)
    for name in "cab":
        add(grid, name, *((time, 0.5) for time in range(0, 1200, 300)))

    found = resampled(grid, max_guests=2)

    assert found.names == ("a", "b")
    (note,) = found.notes
    assert "the first 2 by name" in note


def test_max_guests_equal_to_count_has_no_note() -> None:
    grid = Resampler(HOUR, memory=False)
    for name in "ab":
        add(grid, name, *((time, 0.5) for time in range(0, 1200, 300)))
    add(grid, "c", (0, 0.5))

    found = resampled(grid, max_guests=2, max_gap=0)

    assert found.names == ("a", "b")
    assert found.notes[0].endswith("in the whole window: 1 of 3")


def test_resampling_stops_at_max_guests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("opendrs.simulation.traces.resample.GUESTS_PER_CHUNK", 1)
    grid = Resampler(HOUR, memory=True)
    for name in "dcab":
        add(grid, name, *((time, 0.5, 0.25) for time in range(0, 1200, 300)))

    found = resampled(grid, max_guests=2)

    assert found.names == ("a", "b")
    assert found.cpu.tolist() == [[0.5] * 4] * 2
    (note,) = found.notes
    assert "the first 2 by name" in note


def test_guests_of_unknown_size_are_excluded() -> None:
    grid = Resampler(HOUR, memory=False)
    for name in "ab":
        add(grid, name, *((time, 0.5) for time in range(0, 1200, 300)))

    assert grid.complete_guests("trace", WindowSettings(), ["b", "z"]).names == ("b",)


@given(
    seed=st.integers(0, 2**32 - 1),
    guests=st.integers(1, 6),
    parts=st.integers(1, 5),
)
def test_order_and_batches_of_samples_have_no_effect(
    seed: int, guests: int, parts: int
) -> None:
    random = np.random.default_rng(seed)
    names = [f"g{number}" for number in range(guests)]
    which = np.repeat(np.arange(guests), 8)
    time = np.tile(np.arange(8) * 150.0, guests)
    # Quarters add up without rounding.
    cpu = random.integers(0, 5, len(time)) / 4
    whole = Resampler(HOUR, memory=False)
    whole.add(names, which, time, cpu)

    mixed = Resampler(HOUR, memory=False)
    for part in np.array_split(random.permutation(len(time)), parts):
        mixed.add(names, which[part], time[part], cpu[part])

    assert (resampled(whole).cpu == resampled(mixed).cpu).all()
    assert resampled(mixed).names == tuple(names)


def fill_gaps_plainly(row: list[float], max_gap: int) -> list[float]:
    """Fill the gaps of one row, value by value."""
    known = [place for place, value in enumerate(row) if not np.isnan(value)]
    result = []
    for place, value in enumerate(row):
        before = [each for each in known if each <= place]
        nearest = before[-1] if before else next(iter(known), None)
        near = nearest is not None and abs(place - nearest) <= max_gap
        result.append(row[nearest] if near and nearest is not None else value)
    return result


@given(
    rows=st.integers(1, 8).flatmap(
        lambda width: st.lists(
            st.lists(
                st.one_of(st.just(NAN), st.floats(0, 1)), min_size=width, max_size=width
            ),
            min_size=1,
            max_size=4,
        )
    ),
    reach=st.integers(0, 4),
)
def test_fill_gaps_agrees_with_plain_form(rows: list[list[float]], reach: int) -> None:
    values: Floats = np.array(rows)

    by_hand = np.array([fill_gaps_plainly(row, reach) for row in rows])

    assert np.array_equal(fill_gaps(values, reach), by_hand, equal_nan=True)
