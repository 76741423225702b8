"""Window of a trace: the part that is simulated, and its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from opendrs.errors import DiagnosticCode, InvalidSettingError
from opendrs.model import Seconds
from opendrs.simulation.workload import MIN_SAMPLES, Floats, Workload

DEFAULT_MAX_GAP = 900.0  # s
MAX_INTERVALS = 1_000_000  # nine years of five minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Part of a trace to read.

    Only guests that exist from its start to its end are kept: a missing sample is
    unknown, not zero. A gap of at most `max_gap` seconds is filled with the value
    before
    it, or after it at the start.

    Attributes:
        start: Start in seconds: in the time of the trace where that starts at 0
            (Azure, Alibaba, Google 2019), else after the first sample; None for the
            start of the trace.
        length: Duration in seconds; None for a day of Azure, Alibaba and Google 2019,
            and else for the whole trace.
        interval: Seconds between samples of the simulation, which are means of those
            of the trace; None for that of the trace, or 300.
        max_gap: Longest gap to fill, in seconds.
        max_guests: Number of guests to keep, the first by name; None for all.

    Raises:
        InvalidSettingError: A value is out of range.
    """

    start: Seconds | None = None
    length: Seconds | None = None
    interval: Seconds | None = None
    max_gap: Seconds = DEFAULT_MAX_GAP
    max_guests: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "interval"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidSettingError(
                    f"{name}: expected more than 0 s, got {value}",
                    code=DiagnosticCode.OUT_OF_RANGE,
                )
        if self.start is not None and not -math.inf < self.start < math.inf:
            raise InvalidSettingError(
                f"start: expected a time, got {self.start}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
        if not 0 <= self.max_gap < math.inf:
            raise InvalidSettingError(
                f"max_gap: expected at least 0 s, got {self.max_gap}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
        if self.max_guests is not None and self.max_guests < 1:
            raise InvalidSettingError(
                f"max_guests: expected at least 1, got {self.max_guests}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )


WHOLE_TRACE = WindowSettings()


class TraceReader(Protocol):
    """Reader of a trace format."""

    def __call__(self, path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
        """Return the workload of the guests at *path* in *window*.

        Raises:
            InvalidFileError: There are no such files, or their content is invalid.
            InvalidSettingError: The window does not fit the trace.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceWindow:
    """Window with a known start in a trace.

    Attributes:
        begin: Start, in the time of the trace.
        interval: Seconds of each sample.
        samples: Number of samples.
        trace: Name of the trace, for messages.
    """

    begin: float
    interval: float
    samples: int
    trace: str = "the trace"

    @property
    def end(self) -> float:
        """End, in the time of the trace."""
        return self.begin + self.samples * self.interval


def resolve_window(
    path: Path, window: WindowSettings, *, step: float, begin: float, length: float
) -> TraceWindow:
    """Return *window* with absolute times.

    Args:
        path: The trace, for messages.
        window: Requested window.
        step: Seconds between samples of the trace.
        begin: Start of the window.
        length: Duration in seconds if *window* has none.

    Raises:
        InvalidSettingError: The interval is shorter than that of the trace, or there
            are fewer than two intervals, or too many.
    """
    interval = step if window.interval is None else window.interval
    if interval < step:
        raise InvalidSettingError(
            f"{path}: interval: expected at least {step:g} s, as in the trace, "
            f"got {interval:g}",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    seconds = length if window.length is None else window.length
    samples = math.floor(seconds / interval + 1e-9)
    if samples < MIN_SAMPLES:
        raise InvalidSettingError(
            f"{path}: expected at least {MIN_SAMPLES} intervals of {interval:g} s, "
            f"got {seconds:g} s",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    if samples > MAX_INTERVALS:
        raise InvalidSettingError(
            f"{path}: expected at most {MAX_INTERVALS:,} intervals of {interval:g} s, "
            f"got {seconds:g} s; set a length, or check the times in the trace",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    return TraceWindow(begin=begin, interval=interval, samples=samples, trace=str(path))


def guest_limit_note(window: WindowSettings, guests: int) -> tuple[str, ...]:
    """Return a note if *guests* exceeds the limit of *window*."""
    if window.max_guests is None or guests <= window.max_guests:
        return ()
    return (f"guests kept: the first {window.max_guests} by name",)


def cut_window(
    path: Path, values: Floats, window: WindowSettings, step: float
) -> tuple[Floats, float]:
    """Return the part of *values* in *window*, and its interval.

    Args:
        path: The trace, for messages.
        values: Samples of guests without gaps; shape (guests, samples).
        window: Requested window; guests are in order of their names.
        step: Seconds between samples.

    Raises:
        InvalidSettingError: The window exceeds the trace, or does not fit the step.
    """
    total = values.shape[1] * step
    start = 0.0 if window.start is None else window.start
    resolved = resolve_window(
        path, window, step=step, begin=start, length=total - start
    )
    for name, value in (("start", start), ("interval", resolved.interval)):
        if value % step:
            raise InvalidSettingError(
                f"{path}: {name}: expected a multiple of {step:g} s, got {value:g}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )
    if start < 0 or resolved.end > total:
        raise InvalidSettingError(
            f"{path}: expected a window in 0 to {total:g} s, got {start:g} to "
            f"{resolved.end:g} s",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    first, width = int(start / step), int(resolved.interval / step)
    selected = values[: window.max_guests, first : first + resolved.samples * width]
    shape = (len(selected), resolved.samples, width)
    mean: Floats = np.mean(selected.reshape(shape), axis=2)
    return mean, resolved.interval
