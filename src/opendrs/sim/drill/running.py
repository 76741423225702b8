"""Runs a drill: pass after pass over all nodes, until nothing happens any more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from opendrs.sim.drill.happenings import DrillBegun, DrillEnded, DrillFailed
from opendrs.sim.drill.log import HARDWARE, Entry, log_text
from opendrs.sim.drill.machinery import DrillError
from opendrs.sim.drill.parsing import parse_batches
from opendrs.sim.drill.passes import Passes
from opendrs.sim.drill.scenario import Scenario

CADENCE = 5  # passes between two batches
QUIET_TIME = 500  # seconds after the last command until a drill ends

Watcher = Callable[[int], None]


def ignored(time: int) -> None:
    """Do nothing about the *time*."""
    del time


@dataclass(frozen=True, slots=True)
class Drill:
    """A drill that was held.

    Attributes:
        scenario: What it began with.
        entries: What happened, in the order in which it was told. Times are
            by the clocks of those who tell, and may step back a little.
        failure: Why it could not go on; None if it came to its end.
    """

    scenario: Scenario
    entries: tuple[Entry, ...]
    failure: str | None = None

    def log(self) -> str:
        """Return what happened as Proxmox VE writes it."""
        return log_text(self.entries)


def hold_drill(scenario: Scenario, watcher: Watcher = ignored) -> Drill:
    """Return what happens in *scenario*.

    Args:
        scenario: The cluster, and what is done to it.
        watcher: Told the time after each pass.

    Raises:
        InvalidFileError: A command has no meaning, or cannot be done; says
            which, and why.
    """
    passes = Passes(scenario)
    return told(scenario, passes, lambda: _run(scenario, passes, watcher))


def told(scenario: Scenario, passes: Passes, run: Callable[[], None]) -> Drill:
    """Return the drill that *run* holds, from its first word to its last.

    Args:
        scenario: What it begins with.
        passes: Where it is held.
        run: Holds it, until nothing happens any more.
    """
    return completed(scenario, passes, lambda: None, begun(passes, run))


def begun(passes: Passes, run: Callable[[], None]) -> str | None:
    """Begin a drill with *run*, and return why it cannot go on; None if it can."""
    passes.site.say(HARDWARE, DrillBegun())
    return _failure_of(run)


def completed(
    scenario: Scenario, passes: Passes, run: Callable[[], None], failure: str | None
) -> Drill:
    """Return the drill that *run* brings to its end.

    Args:
        scenario: What it began with.
        passes: What has happened so far.
        run: Goes on, until nothing happens any more.
        failure: Why it cannot go on after its beginning; None if it can.
    """
    failure = _failure_of(run) if failure is None else failure
    end = DrillEnded() if failure is None else DrillFailed(failure)
    passes.site.say(HARDWARE, end)
    return Drill(scenario, tuple(passes.site.log), failure)


def _failure_of(run: Callable[[], None]) -> str | None:
    try:
        run()
    except DrillError as error:
        return str(error)
    return None


def _run(scenario: Scenario, passes: Passes, watcher: Watcher) -> None:
    nodes, end = scenario.hosts.keys(), scenario.timing.end
    batches = deque(parse_batches(scenario.batches, nodes, scenario.origin))
    count = last_command = 0
    while True:
        due = passes.hold()
        passes.go_to(due)
        if due > end:
            raise DrillError(f"simulation exceeded maximum time ({end}) - force end")
        watcher(due)
        if due < passes.next_command:
            continue
        if count % CADENCE == 0:
            if not batches and due - last_command > QUIET_TIME:
                return
            for step in batches.popleft() if batches else ():
                last_command = due
                passes.execute(step)
        count += 1
