"""Runs a drill: pass after pass over all nodes, until nothing happens any more."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from opendrs.errors import InvalidFileError
from opendrs.sim.drill.actions import Delay, ImpossibleError, SkipRounds
from opendrs.sim.drill.happenings import (
    DrillBegun,
    DrillEnded,
    DrillFailed,
    Executed,
    RoundSkipped,
)
from opendrs.sim.drill.log import HARDWARE, Entry, log_text
from opendrs.sim.drill.machinery import DrillError, Kind, Machinery
from opendrs.sim.drill.parsing import Step, parse_batches
from opendrs.sim.drill.scenario import Scenario

SHORTEST_PASS = 20  # seconds
CADENCE = 5  # passes between two batches
QUIET_TIME = 500  # seconds after the last command until a drill ends


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


def hold_drill(scenario: Scenario) -> Drill:
    """Return what happens in *scenario*.

    Raises:
        InvalidFileError: A command has no meaning, or cannot be done; says
            which, and why.
    """
    loop = _Loop(scenario)
    failure = None
    loop.site.say(HARDWARE, DrillBegun())
    try:
        while loop.goes_on():
            pass
        loop.site.say(HARDWARE, DrillEnded())
    except DrillError as error:
        failure = str(error)
        loop.site.say(HARDWARE, DrillFailed(failure))
    return Drill(scenario, tuple(loop.site.log), failure)


class _Loop:
    """The passes of a drill.

    Args:
        scenario: What it begins with.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.site = Machinery(scenario)
        self._timing = scenario.timing
        self._batches = deque(
            parse_batches(scenario.batches, scenario.hosts.keys(), scenario.origin)
        )
        self._passes = 0
        self._next_command = 0
        self._last_command = 0
        self._skips = dict.fromkeys(Kind, 0)

    def goes_on(self) -> bool:
        """Hold a pass, and return whether another one follows."""
        self._pass()
        site = self.site
        if site.time > self._timing.end:
            raise DrillError(
                f"simulation exceeded maximum time ({self._timing.end}) - force end"
            )
        site.set_clocks()
        if site.time < self._next_command:
            return True
        if self._passes % CADENCE == 0:
            if not self._batches and site.time - self._last_command > QUIET_TIME:
                return False
            for step in self._batches.popleft() if self._batches else ():
                self._last_command = site.time
                self._execute(step)
        self._passes += 1
        return True

    def _pass(self) -> None:
        """Let all processes take their turns."""
        begin, nodes = self.site.time, list(self.site.cluster.hosts)
        length = max(SHORTEST_PASS, 2 * self._timing.turn * len(nodes))
        longest = self._timing.longest_pass
        if longest is not None and length >= longest:
            raise DrillError(
                "unable to simulate so many nodes. You need to increase "
                "watchdog/lock timeouts."
            )
        for node in nodes:
            if node in self.site.managers:
                if self._skips[Kind.CRM]:
                    self._tell_skipped(Kind.CRM, first=node == nodes[0])
                else:
                    self.site.run_manager(node)
            if node in self.site.agents:
                if self._skips[Kind.LRM]:
                    self._tell_skipped(Kind.LRM, first=node == nodes[0])
                else:
                    self.site.run_agent(node)
            self.site.let_watchdogs_bite()
        self._skips = {kind: max(0, left - 1) for kind, left in self._skips.items()}
        self.site.time = max(self.site.time, begin + length)

    def _tell_skipped(self, kind: Kind, *, first: bool) -> None:
        if first:
            self.site.say("run-loop", RoundSkipped(kind.upper()))

    def _execute(self, step: Step) -> None:
        self.site.say("cmdlist", Executed(step.text))
        match step.action:
            case Delay(seconds):
                self._next_command = self.site.time + seconds
            case SkipRounds(kind, rounds):
                self._skips[kind] += rounds
            case action:
                try:
                    action.perform(self.site)
                except ImpossibleError as error:
                    raise InvalidFileError(f"{step.place}: {error}") from error
