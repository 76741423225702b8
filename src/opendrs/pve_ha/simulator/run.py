"""Rounds over all nodes of a simulated cluster until it settles."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Self

from opendrs.errors import InvalidFileError
from opendrs.pve_ha.simulator.actions import (
    ActionImpossibleError,
    DelayCommands,
    SkipRounds,
)
from opendrs.pve_ha.simulator.cmdlist import CommandStep, parse_batches
from opendrs.pve_ha.simulator.drill_log import (
    HARDWARE,
    CommandExecuted,
    DrillFailed,
    DrillFinished,
    DrillLogEntry,
    DrillStarted,
    RoundSkipped,
    format_log,
)
from opendrs.pve_ha.simulator.processes import DrillError, NodeProcesses, ProcessKind
from opendrs.pve_ha.simulator.scenario import DrillScenario

MIN_ROUND_TIME = 20  # shortest duration of a round, in seconds


class DrillRounds:
    """The rounds of a drill.

    Args:
        scenario: Initial state.

    Attributes:
        processes: Processes on the hosts.
        next_command: Time until which a delay postpones commands.
    """

    def __init__(self, scenario: DrillScenario) -> None:
        self.processes = NodeProcesses(scenario)
        self.next_command = 0
        self._timing = scenario.timing
        self._skips = dict.fromkeys(ProcessKind, 0)

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        vars(copied).update(processes=self.processes.copy(), _skips=dict(self._skips))
        return copied

    def run_round(self) -> int:
        """Run one step of each process and return the time of the next round.

        Raises:
            DrillError: The drill cannot continue.
        """
        begin, nodes = self.processes.time, list(self.processes.cluster.hosts)
        length = max(MIN_ROUND_TIME, 2 * self._timing.step_time * len(nodes))
        max_round_time = self._timing.max_round_time
        if max_round_time is not None and length >= max_round_time:
            raise DrillError(
                "unable to simulate so many nodes. You need to increase "
                "watchdog/lock timeouts."
            )
        for node in nodes:
            if node in self.processes.crms:
                if self._skips[ProcessKind.CRM]:
                    self._log_skipped(ProcessKind.CRM, first=node == nodes[0])
                else:
                    self.processes.run_crm(node)
            if node in self.processes.lrms:
                if self._skips[ProcessKind.LRM]:
                    self._log_skipped(ProcessKind.LRM, first=node == nodes[0])
                else:
                    self.processes.run_lrm(node)
            self.processes.expire_watchdogs()
        self._skips = {
            kind: max(0, remaining - 1) for kind, remaining in self._skips.items()
        }
        return max(self.processes.time, begin + length)

    def set_time(self, time: int) -> None:
        """Set the time of the hardware and of all clocks."""
        self.processes.time = time
        self.processes.set_clocks()

    def execute(self, step: CommandStep) -> None:
        """Execute a command.

        Raises:
            InvalidFileError: It is not possible in the current state.
        """
        self.processes.log_event("cmdlist", CommandExecuted(step.text))
        match step.action:
            case DelayCommands(seconds):
                self.next_command = self.processes.time + seconds
            case SkipRounds(kind, rounds):
                self._skips[kind] += rounds
            case action:
                try:
                    action.perform(self.processes)
                except ActionImpossibleError as error:
                    raise InvalidFileError(
                        f"{step.location}: {error}", code=error.codes
                    ) from error

    def _log_skipped(self, kind: ProcessKind, *, first: bool) -> None:
        if first:
            self.processes.log_event("run-loop", RoundSkipped(kind.upper()))


ROUNDS_PER_BATCH = 5  # rounds between two batches
SETTLE_TIME = 500  # seconds after the last command until a drill ends
TimeObserver = Callable[[int], None]


def ignore_time(time: int) -> None:
    """Ignore the *time*."""
    del time


@dataclass(frozen=True, slots=True)
class Drill:
    """A finished drill.

    Attributes:
        scenario: Initial state and commands.
        entries: Log entries, in order. Times are those of the clocks of their sources
            and may decrease slightly.
        failure: Error that ended the drill; None if it finished.
    """

    scenario: DrillScenario
    entries: tuple[DrillLogEntry, ...]
    failure: str | None = None

    def log(self) -> str:
        """Return the log in the format of Proxmox VE."""
        return format_log(self.entries)


def run_drill(scenario: DrillScenario, observer: TimeObserver = ignore_time) -> Drill:
    """Run the drill of *scenario*.

    Args:
        scenario: Initial state and commands.
        observer: Called with the time after each round.

    Raises:
        InvalidFileError: A command is invalid or impossible; contains the location.
    """
    rounds = DrillRounds(scenario)
    return record_drill(
        scenario, rounds, lambda: _run_batches(scenario, rounds, observer)
    )


def record_drill(
    scenario: DrillScenario, rounds: DrillRounds, run: Callable[[], None]
) -> Drill:
    """Return the drill that *run* executes, from start to end.

    Args:
        scenario: Initial state.
        rounds: Rounds of the drill.
        run: Executes rounds until the end.
    """
    return finish_drill(scenario, rounds, lambda: None, start_drill(rounds, run))


def start_drill(rounds: DrillRounds, run: Callable[[], None]) -> str | None:
    """Start a drill with *run*; return the error that ended it, or None."""
    rounds.processes.log_event(HARDWARE, DrillStarted())
    return _run_until_failure(run)


def finish_drill(
    scenario: DrillScenario,
    rounds: DrillRounds,
    run: Callable[[], None],
    failure: str | None,
) -> Drill:
    """Return the drill that *run* continues to its end.

    Args:
        scenario: Initial state.
        rounds: Rounds so far.
        run: Executes rounds until the end.
        failure: Error that ended the start phase; None if there was none.
    """
    failure = _run_until_failure(run) if failure is None else failure
    end = DrillFinished() if failure is None else DrillFailed(failure)
    rounds.processes.log_event(HARDWARE, end)
    return Drill(scenario, tuple(rounds.processes.log), failure)


def _run_until_failure(run: Callable[[], None]) -> str | None:
    try:
        run()
    except DrillError as error:
        return str(error)
    return None


def _run_batches(
    scenario: DrillScenario, rounds: DrillRounds, observer: TimeObserver
) -> None:
    nodes, max_time = scenario.hosts.keys(), scenario.timing.max_time
    batches = deque(parse_batches(scenario.batches, nodes, scenario.origin))
    count = last_command = 0
    while True:
        due = rounds.run_round()
        rounds.set_time(due)
        if due > max_time:
            raise DrillError(
                f"simulation exceeded maximum time ({max_time}) - force end"
            )
        observer(due)
        if due < rounds.next_command:
            continue
        if count % ROUNDS_PER_BATCH == 0:
            if not batches and due - last_command > SETTLE_TIME:
                return
            for step in batches.popleft() if batches else ():
                last_command = due
                rounds.execute(step)
        count += 1
