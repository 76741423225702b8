"""Drills with events at given times instead of batches of commands."""

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
    """A command and its time.

    Attributes:
        at: Seconds since the start.
        step: The command.
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
    """Run the drill of *scenario* with the events of *schedule*.

    It ends *settle_time* after the last event. Events between two rounds are executed
    between them, at their own time.

    Args:
        scenario: Initial state. Its batches are ignored.
        schedule: Events. Those with equal times are executed in this order.
        until: Shortest duration of the drill, in seconds.
        observer: Called with the time before each round.
        settle_time: Seconds from the last event to the end.

    Raises:
        InvalidFileError: An event is not possible; contains the location.
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
    """Continue *rounds* from *begin* to *end*; return the time of the next round.

    Args:
        rounds: Rounds so far.
        schedule: Events to execute.
        begin: Time of the first round.
        end: Time after which no round starts.
        observer: Called with the time before each round.
        is_over: Called after each round; True ends the drill.
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
