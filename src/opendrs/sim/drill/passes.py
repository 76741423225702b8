"""Passes over all nodes: in each, every process takes its turn."""

from __future__ import annotations

from copy import copy
from typing import Self

from opendrs.errors import InvalidFileError
from opendrs.sim.drill.actions import Delay, ImpossibleError, SkipRounds
from opendrs.sim.drill.happenings import Executed, RoundSkipped
from opendrs.sim.drill.machinery import DrillError, Kind, Machinery
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.scenario import Scenario

SHORTEST_PASS = 20  # seconds


class Passes:
    """The passes of a drill.

    Args:
        scenario: What it begins with.

    Attributes:
        site: What runs on the hosts.
        next_command: Until when a delay holds up what is to be done.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.site = Machinery(scenario)
        self.next_command = 0
        self._timing = scenario.timing
        self._skips = dict.fromkeys(Kind, 0)

    def copy(self) -> Self:
        """Return passes that are the same so far and go on by themselves."""
        made = copy(self)
        vars(made).update(site=self.site.copy(), _skips=dict(self._skips))
        return made

    def hold(self) -> int:
        """Let all processes take their turns, and return when the next pass is due.

        Raises:
            DrillError: The drill cannot go on.
        """
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
        return max(self.site.time, begin + length)

    def go_to(self, time: int) -> None:
        """Let it be *time*, and all clocks show it."""
        self.site.time = time
        self.site.set_clocks()

    def execute(self, step: Step) -> None:
        """Do what is to be done from outside.

        Raises:
            InvalidFileError: It cannot be done as things are.
        """
        self.site.say("cmdlist", Executed(step.text))
        match step.action:
            case Delay(seconds):
                self.next_command = self.site.time + seconds
            case SkipRounds(kind, rounds):
                self._skips[kind] += rounds
            case action:
                try:
                    action.perform(self.site)
                except ImpossibleError as error:
                    raise InvalidFileError(f"{step.place}: {error}") from error

    def _tell_skipped(self, kind: Kind, *, first: bool) -> None:
        if first:
            self.site.say("run-loop", RoundSkipped(kind.upper()))
