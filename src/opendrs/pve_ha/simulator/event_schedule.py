"""Drills in which things happen at times of their own, not one list a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.run import (
    SETTLE_TIME,
    Drill,
    DrillRounds,
    TimeObserver,
    ignore_time,
    record_drill,
)
from opendrs.pve_ha.simulator.scenario import DrillScenario


@dataclass(frozen=True, slots=True)
class ScheduledEvent:
    """Something that is done at a time.

    Attributes:
        at: Seconds from the beginning.
        step: What is done.
    """

    at: int
    step: CommandStep


EventSchedule = Sequence[ScheduledEvent]


def run_schedule(
    scenario: DrillScenario,
    schedule: EventSchedule,
    until: int = 0,
    observer: TimeObserver = ignore_time,
    *,
    settle_time: int = SETTLE_TIME,
) -> Drill:
    """Return what happens in *scenario* when things are done by a timetable.

    It ends some time after the last appointment. What comes between two passes
    of the processes is done between them, at its own time.

    Args:
        scenario: The cluster; its batches are not looked at.
        schedule: What is done; what comes at one time is done in this order.
        until: How long it lasts at least, in seconds.
        observer: Told the time after each pass.
        settle_time: Seconds after the last appointment until it ends.

    Raises:
        InvalidFileError: Something cannot be done; says what, and why.
    """
    last = max((scheduled.at for scheduled in schedule), default=0)
    end = max(until, last + settle_time)
    rounds = DrillRounds(scenario)

    def run() -> None:
        run_rounds(rounds, schedule, 0, end, observer=observer)
        rounds.set_time(end)

    return record_drill(scenario, rounds, run)


def run_rounds(  # noqa: PLR0913 - all but the last are needed
    rounds: DrillRounds,
    schedule: EventSchedule,
    begin: int,
    end: int,
    *,
    observer: TimeObserver,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Go on with *rounds* from *begin* to *end*; return when the next one is due.

    Args:
        rounds: What has happened so far.
        schedule: What is done meanwhile.
        begin: When the first pass is due.
        end: No pass begins after it.
        observer: Told the time before each pass.
        is_over: Asked after each pass whether it was the last one.
    """
    pending = deque(sorted(schedule, key=lambda scheduled: scheduled.at))
    due = begin
    while due <= end:
        while pending and pending[0].at <= due:
            scheduled = pending.popleft()
            rounds.set_time(max(scheduled.at, rounds.processes.time))
            rounds.execute(scheduled.step)
        rounds.set_time(due)
        observer(due)
        due = rounds.run_round()
        if not pending and is_over():
            break
    return due
