"""What runs on the hosts of a drill, and what becomes of it."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from enum import StrEnum
from typing import Self, TypeVar

from opendrs.ha import Crm, Lrm, Observation, Outcome, PowerChange, agent, crm
from opendrs.ha.events import Event
from opendrs.ha.states import NodeState, ServiceState
from opendrs.ha.wording import Level
from opendrs.model import NodeId
from opendrs.sim.drill.cluster import Cluster
from opendrs.sim.drill.failing import Counters
from opendrs.sim.drill.happenings import (
    Executed,
    KilledByPowerOff,
    LoopEnded,
    WatchdogBit,
)
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.log import HARDWARE, LINES, Entry
from opendrs.sim.drill.scenario import Scenario
from opendrs.sim.drill.watchdogs import WatchdogBittenError
from opendrs.sim.drill.worker import Worker

StatusT = TypeVar("StatusT", Crm, Lrm)
OPERATIONAL = frozenset({NodeState.ONLINE, NodeState.MAINTENANCE})
AT_REST = frozenset({ServiceState.STOPPED, ServiceState.ERROR, ServiceState.FREEZE})


class DrillError(Exception):
    """The drill cannot go on; the original ends its run here, too."""


class Kind(StrEnum):
    """The processes of a node: manager and agent."""

    CRM = "crm"
    LRM = "lrm"


class Machinery:
    """The processes on all hosts, their clocks, and the log.

    Args:
        scenario: The cluster, and how time passes in it.

    Attributes:
        time: The time of the hardware, in seconds.
        cluster: What the processes see and change.
        log: What has happened so far.
        counters: Which services fail, and how often they did.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.time = 0
        self.cluster = Cluster(scenario)
        self.log: list[Entry] = []
        self.managers: dict[NodeId, Crm] = {}
        self.agents: dict[NodeId, Lrm] = {}
        self._timing = scenario.timing
        self._form = scenario.form
        self._rechecks = scenario.rechecks
        self.counters = Counters(scenario.failures)
        self._clocks = {kind: dict.fromkeys(self.cluster.hosts, 0) for kind in Kind}
        self._stopping: set[NodeId] = set()
        self._restarting: set[NodeId] = set()

    def copy(self) -> Self:
        """Return processes that are the same now and go on by themselves."""
        made = copy(self)
        made.cluster, made.counters = self.cluster.copy(), self.counters.copy()
        made.log = list(self.log)
        made.managers, made.agents = dict(self.managers), dict(self.agents)
        vars(made).update(
            _clocks={kind: dict(clock) for kind, clock in self._clocks.items()},
            _stopping=set(self._stopping),
            _restarting=set(self._restarting),
        )
        return made

    def say(self, source: str, event: Event) -> None:
        """Tell that something happened to the hardware."""
        self.log.append(Entry(self.time, source, event))

    def set_clocks(self) -> None:
        """Let the clocks of all processes show the time of the hardware."""
        for clock in self._clocks.values():
            for node in clock:
                clock[node] = self.time

    def is_settled(self) -> bool:
        """Return whether nothing more happens unless something is done from outside.

        The master knows the state of each node, and each service runs where the
        master has it, does not run and is not to, or is left to the operator.
        """
        cluster, status = self.cluster, self.cluster.status
        if status.master is None or not cluster.members.get(status.master):
            return False
        seen = {node for node, state in status.nodes.items() if state in OPERATIONAL}
        if seen != {node for node, online in cluster.members.items() if online}:
            return False
        return NodeState.FENCE not in status.nodes.values() and all(
            each.state in AT_REST
            or (
                each.state is ServiceState.STARTED
                and each.running
                and service in cluster.running[each.node]
            )
            for service, each in status.services.items()
        )

    def run_manager(self, node: NodeId) -> None:
        """Let the manager process of *node* take its turn."""
        seen = self._begin(node, Kind.CRM)
        outcome = crm.take_turn(self.managers[node], seen)
        self._end(node, Kind.CRM, outcome)
        self.managers[node] = outcome.status
        if outcome.exits:
            self._say_of(node, Kind.CRM, LoopEnded())
            del self.managers[node]
            self._after_manager(node)

    def run_agent(self, node: NodeId) -> None:
        """Let the agent of *node* take its turn."""
        seen = self._begin(node, Kind.LRM)
        work = agent.take_turn(self.agents[node], seen)
        try:
            job = next(work)
            worker = Worker(self.cluster, self.counters, node)
            while True:
                job = work.send(worker.carry_out(job))
        except StopIteration as end:
            outcome: Outcome[Lrm] = end.value
        self._end(node, Kind.LRM, outcome)
        self.agents[node] = outcome.status
        if outcome.exits:
            self._say_of(node, Kind.LRM, LoopEnded())
            del self.agents[node]
            self._after_agent(node)

    def let_watchdogs_bite(self) -> None:
        """Switch off the nodes whose watchdogs nobody fed."""
        for node in self.cluster.watchdogs.bitten(self.time):
            self.say("watchdog", Executed(f"power {node} off"))
            self.power_off(node)
            self.say(HARDWARE, WatchdogBit(node))
            self.managers.pop(node, None)
            self.agents.pop(node, None)

    def power_on(self, node: NodeId) -> None:
        """Switch *node* on, and connect it."""
        if not self.cluster.hosts[node].power:
            self.start_manager(node)
            self._start_agent(node)
            self._restarting.discard(node)
            self._change(node, files_readable=True, files_consistent=True)
        self._change(node, power=True, network=True, power_change=None)

    def power_off(self, node: NodeId) -> None:
        """Take the power of *node* away, and all that runs there with it."""
        if self.cluster.hosts[node].power:
            if self.managers.pop(node, None) is not None:
                self._say_of(node, Kind.CRM, KilledByPowerOff())
            if self.agents.pop(node, None) is not None:
                self._say_of(node, Kind.LRM, KilledByPowerOff())
            self.cluster.watchdogs.drop(node)
            self.cluster.running[node].clear()
        self._change(node, power=False, network=False, power_change=None)

    def start_manager(self, node: NodeId) -> None:
        """Start the manager process of *node* unless it runs."""
        if node not in self.managers:
            outcome = crm.start(self._form, rechecks=self._rechecks)
            self._bring_about(node, Kind.CRM, outcome)
            self.managers[node] = outcome.status

    def stop_manager(self, node: NodeId) -> None:
        """Ask the manager process of *node* to end."""
        if node in self.managers:
            self._stopping.add(node)
            outcome = crm.ask_to_end(self.managers[node])
            self._bring_about(node, Kind.CRM, outcome)
            self.managers[node] = outcome.status

    def change_power(self, node: NodeId, change: PowerChange) -> None:
        """Let *node* go down in good order."""
        self._change(node, power_change=change)
        self._stop_agent(node)

    def restart_agent(self, node: NodeId) -> None:
        """Restart the agent of *node*."""
        if node in self.agents:
            self._restarting.add(node)
            self._stop_agent(node)

    def _start_agent(self, node: NodeId) -> None:
        if node not in self.agents:
            outcome = agent.start(node, self._clocks[Kind.LRM][node])
            self._bring_about(node, Kind.LRM, outcome)
            self.agents[node] = outcome.status

    def _stop_agent(self, node: NodeId) -> None:
        if node in self.agents:
            now = self._clocks[Kind.LRM][node]
            seen = self.cluster.observed_from(node, now)
            outcome = agent.ask_to_end(self.agents[node], seen)
            self._bring_about(node, Kind.LRM, outcome)
            self.agents[node] = outcome.status

    def _after_manager(self, node: NodeId) -> None:
        change = self.cluster.hosts[node].power_change
        if change is not None:
            self.say(change, Executed(f"power {node} off"))
            self.power_off(node)
            if change is PowerChange.REBOOT:
                self.say(change, Executed(f"power {node} on"))
                self.power_on(node)
        elif node not in self._stopping:
            raise DrillError("unexpected CRM exit - not implemented")
        self._stopping.discard(node)

    def _after_agent(self, node: NodeId) -> None:
        change = self.cluster.hosts[node].power_change
        if node in self._restarting:
            if change is not None:
                raise DrillError("lrm restart during shutdown - not implemented")
            self._restarting.discard(node)
            self._start_agent(node)
        elif change is None:
            raise DrillError("unexpected LRM exit - not implemented")
        else:
            self.say(change, Executed(f"crm {node} stop"))
            self.stop_manager(node)

    def _begin(self, node: NodeId, kind: Kind) -> Observation:
        self._clocks[kind][node] = self.time
        return self.cluster.observed_from(node, self.time)

    def _end(self, node: NodeId, kind: Kind, outcome: Outcome[StatusT]) -> None:
        self._bring_about(node, kind, outcome)
        if outcome.failure is not None:
            raise DrillError(outcome.failure)
        longest = self._timing.longest_turn
        if longest is not None and outcome.delay > longest:
            raise DrillError(f"loop took too long ({outcome.delay} seconds)")
        self._clocks[kind][node] += self._timing.turn
        self.time = max(self.time, self._clocks[kind][node])

    def _bring_about(self, node: NodeId, kind: Kind, outcome: Outcome[StatusT]) -> None:
        now = self._clocks[kind][node]
        for effect in outcome.effects:
            if isinstance(effect, Event):
                self._say_of(node, kind, effect)
                continue
            try:
                self.cluster.apply(effect, node, kind, now, self.time)
            except WatchdogBittenError as error:
                raise DrillError(str(error)) from error

    def _say_of(self, node: NodeId, kind: Kind, event: Event) -> None:
        if LINES[type(event)].level is Level.HARDWARE_WARNING:
            self.say(HARDWARE, event)
        else:
            now = self._clocks[kind][node]
            self.log.append(Entry(now, f"{node}/{kind}", event))

    def _change(self, node: NodeId, **changes: object) -> None:
        def change(host: Host) -> Host:
            return replace(host, **changes)  # type: ignore[arg-type]

        self.cluster.change_host(node, change)
