"""Which part of a trace is simulated, and in what steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from opendrs.errors import InvalidSettingError
from opendrs.model.quantities import Seconds
from opendrs.sim.consolidation.hardware import Floats
from opendrs.sim.consolidation.workload import LEAST, Workload

CARRIED = 900.0  # s
MOST = 1_000_000  # intervals; nine years of five minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a trace is read.

    Only guests that are there from its beginning to its end are kept: a sample that
    is missing is unknown, not zero. A gap of at most `carried` seconds takes the
    value before it, at the beginning the one after it.

    Attributes:
        start: Where it begins, in seconds: of the trace's own time where that begins
            at 0 (Azure, Alibaba, Google 2019), else after the first sample; None
            for the beginning.
        length: For how many seconds; None for a day of Azure, Alibaba and Google
            2019, and else for all there is.
        interval: Seconds from one sample of the simulation to the next, which is the
            mean of those of the trace; None for that of the trace, or 300.
        carried: For how many seconds a value that was recorded stands for those
            that are missing.
        most: How many guests to keep, the first by name; None for all.

    Raises:
        InvalidSettingError: A value is out of range.
    """

    start: Seconds | None = None
    length: Seconds | None = None
    interval: Seconds | None = None
    carried: Seconds = CARRIED
    most: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "interval"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InvalidSettingError(f"{name} must be above 0 s, not {value}")
        if self.start is not None and not -math.inf < self.start < math.inf:
            raise InvalidSettingError(f"start must be a time, not {self.start}")
        if not 0 <= self.carried < math.inf:
            raise InvalidSettingError(f"carried must be 0 s or more: {self.carried}")
        if self.most is not None and self.most < 1:
            raise InvalidSettingError(f"most must be at least 1, not {self.most}")


WHOLE = Window()


class Reader(Protocol):
    """Reads a trace."""

    def __call__(self, path: Path, window: Window = WHOLE) -> Workload:
        """Return what the guests at *path* ask for in *window*.

        Raises:
            InvalidFileError: There is nothing, or not what there should be.
            InvalidSettingError: The window does not suit the trace.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
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


def frame(
    path: Path, window: Window, *, step: float, begin: float, length: float
) -> Frame:
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
    asked = length if window.length is None else window.length
    samples = math.floor(asked / interval + 1e-9)
    if samples < LEAST:
        raise InvalidSettingError(
            f"{path}: {asked:g} s hold fewer than {LEAST} intervals of {interval:g} s"
        )
    if samples > MOST:
        raise InvalidSettingError(
            f"{path}: {asked:g} s hold more than {MOST:,} intervals of {interval:g} s: "
            "choose a length, or look for a wrong time in the trace"
        )
    return Frame(begin=begin, interval=interval, samples=samples, trace=str(path))


def limited(window: Window, guests: int) -> tuple[str, ...]:
    """Return a note if fewer are kept than the *guests* that there are."""
    if window.most is None or guests <= window.most:
        return ()
    return (f"only the first {window.most} guests by name are kept",)


def cut(
    path: Path, values: Floats, window: Window, step: float
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
    whole = values.shape[1] * step
    start = 0.0 if window.start is None else window.start
    part = frame(path, window, step=step, begin=start, length=whole - start)
    for name, value in (("start", start), ("interval", part.interval)):
        if value % step:
            raise InvalidSettingError(
                f"{path}: {name} must be a multiple of {step:g} s, not {value:g}"
            )
    if start < 0 or part.end > whole:
        raise InvalidSettingError(
            f"{path}: there are {whole:g} s: {start:g} to {part.end:g} s is beyond"
        )
    first, width = int(start / step), int(part.interval / step)
    found = values[: window.most, first : first + part.samples * width]
    shape = (len(found), part.samples, width)
    mean: Floats = np.mean(found.reshape(shape), axis=2)
    return mean, part.interval
