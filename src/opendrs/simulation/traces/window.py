"""Which part of a trace is simulated, and in what steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds
from opendrs.simulation.workload import MIN_SAMPLES, Floats, Workload

DEFAULT_MAX_GAP = 900.0  # s
MAX_INTERVALS = 1_000_000  # intervals; nine years of five minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Which part of a trace is read.

    Only guests that are there from its beginning to its end are kept: a sample that
    is missing is unknown, not zero. A gap of at most `max_gap` seconds takes the
    value before it, at the beginning the one after it.

    Attributes:
        start: Where it begins, in seconds: of the trace's own time where that begins
            at 0 (Azure, Alibaba, Google 2019), else after the first sample; None
            for the beginning.
        length: For how many seconds; None for a day of Azure, Alibaba and Google
            2019, and else for all there is.
        interval: Seconds from one sample of the simulation to the next, which is the
            mean of those of the trace; None for that of the trace, or 300.
        max_gap: For how many seconds a value that was recorded stands for those
            that are missing.
        max_guests: How many guests to keep, the first by name; None for all.

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
                raise InvalidSettingError(f"{name} must be above 0 s, not {value}")
        if self.start is not None and not -math.inf < self.start < math.inf:
            raise InvalidSettingError(f"start must be a time, not {self.start}")
        if not 0 <= self.max_gap < math.inf:
            raise InvalidSettingError(f"max_gap must be 0 s or more: {self.max_gap}")
        if self.max_guests is not None and self.max_guests < 1:
            raise InvalidSettingError(
                f"max_guests must be at least 1, not {self.max_guests}"
            )


WHOLE_TRACE = WindowSettings()


class TraceReader(Protocol):
    """Reads a trace."""

    def __call__(self, path: Path, window: WindowSettings = WHOLE_TRACE) -> Workload:
        """Return what the guests at *path* ask for in *window*.

        Raises:
            InvalidFileError: There is nothing, or not what there should be.
            InvalidSettingError: The window does not suit the trace.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceWindow:
    """A window on a trace of which it is known where it begins.

    Attributes:
        begin: Where it begins, in the time of the trace.
        interval: Seconds of each sample.
        samples: How many.
        trace: What it is a window on, for messages.
    """

    begin: float
    interval: float
    samples: int
    trace: str = "the trace"

    @property
    def end(self) -> float:
        """Where it ends, in the time of the trace."""
        return self.begin + self.samples * self.interval


def resolve_window(
    path: Path, window: WindowSettings, *, step: float, begin: float, length: float
) -> TraceWindow:
    """Return *window* on a trace.

    Args:
        path: The trace, for messages.
        window: What was asked for.
        step: Seconds from one sample of the trace to the next.
        begin: Where the trace begins, or what `start` counts from.
        length: For how many seconds, if nobody asks for another.

    Raises:
        InvalidSettingError: Its intervals are shorter than those of the trace, or
            there are fewer than two, or more than memory would hold.
    """
    interval = step if window.interval is None else window.interval
    if interval < step:
        raise InvalidSettingError(
            f"{path}: interval must be at least {step:g} s, as in the trace, "
            f"not {interval:g}"
        )
    seconds = length if window.length is None else window.length
    samples = math.floor(seconds / interval + 1e-9)
    if samples < MIN_SAMPLES:
        raise InvalidSettingError(
            f"{path}: {seconds:g} s hold fewer than {MIN_SAMPLES} intervals of {interval:g} s"
        )
    if samples > MAX_INTERVALS:
        raise InvalidSettingError(
            f"{path}: {seconds:g} s hold more than {MAX_INTERVALS:,} intervals of {interval:g} s: "
            "choose a length, or look for a wrong time in the trace"
        )
    return TraceWindow(begin=begin, interval=interval, samples=samples, trace=str(path))


def guest_limit_note(window: WindowSettings, guests: int) -> tuple[str, ...]:
    """Return a note if fewer are kept than the *guests* that there are."""
    if window.max_guests is None or guests <= window.max_guests:
        return ()
    return (f"only the first {window.max_guests} guests by name are kept",)


def cut_window(
    path: Path, values: Floats, window: WindowSettings, step: float
) -> tuple[Floats, float]:
    """Return the part of *values* that *window* asks for, and its interval.

    Args:
        path: The trace, for messages.
        values: Samples of guests, none missing; shape (guests, samples).
        window: What is asked for; `most` guests, which are in order of their names.
        step: Seconds from one to the next.

    Raises:
        InvalidSettingError: It reaches beyond, or does not suit the step.
    """
    total = values.shape[1] * step
    start = 0.0 if window.start is None else window.start
    resolved = resolve_window(
        path, window, step=step, begin=start, length=total - start
    )
    for name, value in (("start", start), ("interval", resolved.interval)):
        if value % step:
            raise InvalidSettingError(
                f"{path}: {name} must be a multiple of {step:g} s, not {value:g}"
            )
    if start < 0 or resolved.end > total:
        raise InvalidSettingError(
            f"{path}: there are {total:g} s: {start:g} to {resolved.end:g} s is beyond"
        )
    first, width = int(start / step), int(resolved.interval / step)
    selected = values[: window.max_guests, first : first + resolved.samples * width]
    shape = (len(selected), resolved.samples, width)
    mean: Floats = np.mean(selected.reshape(shape), axis=2)
    return mean, resolved.interval
