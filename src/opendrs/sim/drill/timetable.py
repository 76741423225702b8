"""Drills in which things happen at times of their own, not one list a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.passes import Passes
from opendrs.sim.drill.running import QUIET_TIME, Drill, Watcher, ignored, told
from opendrs.sim.drill.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Appointment:
    """Something that is done at a time.

    Attributes:
        at: Seconds from the beginning.
        step: What is done.
    """

    at: int
    step: Step


Timetable = Sequence[Appointment]


def keep_timetable(
    scenario: Scenario,
    timetable: Timetable,
    until: int = 0,
    watcher: Watcher = ignored,
    *,
    quiet: int = QUIET_TIME,
) -> Drill:
    """Return what happens in *scenario* when things are done by a timetable.

    It ends some time after the last appointment. What comes between two passes
    of the processes is done between them, at its own time.

    Args:
        scenario: The cluster; its batches are not looked at.
        timetable: What is done; what comes at one time is done in this order.
        until: How long it lasts at least, in seconds.
        watcher: Told the time after each pass.
        quiet: Seconds after the last appointment until it ends.

    Raises:
        InvalidFileError: Something cannot be done; says what, and why.
    """
    last = max((appointment.at for appointment in timetable), default=0)
    end = max(until, last + quiet)
    passes = Passes(scenario)

    def run() -> None:
        advance(passes, timetable, 0, end, watcher=watcher)
        passes.go_to(end)

    return told(scenario, passes, run)


def advance(  # noqa: PLR0913 - all but the last are needed
    passes: Passes,
    timetable: Timetable,
    begin: int,
    end: int,
    *,
    watcher: Watcher,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Go on with *passes* from *begin* to *end*; return when the next one is due.

    Args:
        passes: What has happened so far.
        timetable: What is done meanwhile.
        begin: When the first pass is due.
        end: No pass begins after it.
        watcher: Told the time before each pass.
        is_over: Asked after each pass whether it was the last one.
    """
    waiting = deque(sorted(timetable, key=lambda appointment: appointment.at))
    due = begin
    while due <= end:
        while waiting and waiting[0].at <= due:
            appointment = waiting.popleft()
            passes.go_to(max(appointment.at, passes.site.time))
            passes.execute(appointment.step)
        passes.go_to(due)
        watcher(due)
        due = passes.hold()
        if not waiting and is_over():
            break
    return due
