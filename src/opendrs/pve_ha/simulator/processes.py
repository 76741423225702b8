"""The processes on the hosts of a drill, and the effects of power changes."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from enum import StrEnum
from typing import Self, TypeVar

from opendrs.model import NodeId
from opendrs.pve_ha import crm
from opendrs.pve_ha.crm import Crm
from opendrs.pve_ha.log_events import LogEvent, LogLevel
from opendrs.pve_ha.lrm import Lrm, lrm_states
from opendrs.pve_ha.observation import PowerChange, ProcessObservation
from opendrs.pve_ha.process_step import StepResult
from opendrs.pve_ha.simulator.cluster import SimulatedCluster, WatchdogExpiredError
from opendrs.pve_ha.simulator.drill_log import (
    HARDWARE,
    CommandExecuted,
    DrillLogEntry,
    ProcessExited,
    ProcessKilledByPowerOff,
    WatchdogExpired,
)
from opendrs.pve_ha.simulator.injected_failures import FailureCounters
from opendrs.pve_ha.simulator.scenario import DrillScenario, SimulatedHost
from opendrs.pve_ha.simulator.service_executor import ServiceExecutor
from opendrs.pve_ha.states import PveNodeState, ServiceState

CrmOrLrmT = TypeVar("CrmOrLrmT", Crm, Lrm)
OPERATIONAL_STATES = frozenset({PveNodeState.ONLINE, PveNodeState.MAINTENANCE})
SETTLED_STATES = frozenset(
    {ServiceState.STOPPED, ServiceState.ERROR, ServiceState.FREEZE}
)


class DrillError(Exception):
    """The drill cannot continue; Proxmox VE's simulator ends here as well."""


class ProcessKind(StrEnum):
    """Kind of a process of a node."""

    CRM = "crm"
    LRM = "lrm"


class NodeProcesses:
    """The processes on all hosts, their clocks, and the log.

    Args:
        scenario: Initial state and timing.

    Attributes:
        time: Time of the hardware, in seconds.
        cluster: State that the processes observe and change.
        log: Log entries so far.
        counters: Injected failures and their counts.
    """

    def __init__(self, scenario: DrillScenario) -> None:
        self.time = 0
        self.cluster = SimulatedCluster(scenario)
        self.log: list[DrillLogEntry] = []
        self.crms: dict[NodeId, Crm] = {}
        self.lrms: dict[NodeId, Lrm] = {}
        self._timing = scenario.timing
        self._imbalance_metric = scenario.imbalance_metric
        self._recheck_services = scenario.recheck_services
        self.counters = FailureCounters(scenario.failures)
        self._clocks = {
            kind: dict.fromkeys(self.cluster.hosts, 0) for kind in ProcessKind
        }
        self._stopping: set[NodeId] = set()
        self._restarting: set[NodeId] = set()

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        copied.cluster, copied.counters = self.cluster.copy(), self.counters.copy()
        copied.log = list(self.log)
        copied.crms, copied.lrms = dict(self.crms), dict(self.lrms)
        vars(copied).update(
            _clocks={kind: dict(clock) for kind, clock in self._clocks.items()},
            _stopping=set(self._stopping),
            _restarting=set(self._restarting),
        )
        return copied

    def log_event(self, source: str, event: LogEvent) -> None:
        """Log an event of the hardware."""
        self.log.append(DrillLogEntry(self.time, source, event))

    def set_clocks(self) -> None:
        """Set the clocks of all processes to the time of the hardware."""
        for clock in self._clocks.values():
            for node in clock:
                clock[node] = self.time

    def is_settled(self) -> bool:
        """Return True if no further event happens without an external action.

        The master knows the state of each node. Each service either runs where the
        manager status has it, is stopped, or is left to the operator.
        """
        cluster, status = self.cluster, self.cluster.status
        if status.master is None or not cluster.members.get(status.master):
            return False
        operational = {
            node for node, state in status.nodes.items() if state in OPERATIONAL_STATES
        }
        if operational != {node for node, online in cluster.members.items() if online}:
            return False
        return PveNodeState.FENCE not in status.nodes.values() and all(
            service_status.state in SETTLED_STATES
            or (
                service_status.state is ServiceState.STARTED
                and service_status.running
                and service in cluster.running[service_status.node]
            )
            for service, service_status in status.services.items()
        )

    def run_crm(self, node: NodeId) -> None:
        """Run one step of the CRM of *node*."""
        observation = self._begin_step(node, ProcessKind.CRM)
        result = crm.step_crm(self.crms[node], observation)
        self._finish_step(node, ProcessKind.CRM, result)
        self.crms[node] = result.process
        if result.exits:
            self._log_process_event(node, ProcessKind.CRM, ProcessExited())
            del self.crms[node]
            self._handle_crm_exit(node)

    def run_lrm(self, node: NodeId) -> None:
        """Run one step of the LRM of *node*."""
        observation = self._begin_step(node, ProcessKind.LRM)
        step = lrm_states.step_lrm(self.lrms[node], observation)
        try:
            job = next(step)
            executor = ServiceExecutor(self.cluster, self.counters, node)
            while True:
                job = step.send(executor.execute(job))
        except StopIteration as end:
            result: StepResult[Lrm] = end.value
        self._finish_step(node, ProcessKind.LRM, result)
        self.lrms[node] = result.process
        if result.exits:
            self._log_process_event(node, ProcessKind.LRM, ProcessExited())
            del self.lrms[node]
            self._handle_lrm_exit(node)

    def expire_watchdogs(self) -> None:
        """Power off the nodes whose watchdogs have expired."""
        for node in self.cluster.watchdogs.pop_expired(self.time):
            self.log_event("watchdog", CommandExecuted(f"power {node} off"))
            self.power_off(node)
            self.log_event(HARDWARE, WatchdogExpired(node))
            self.crms.pop(node, None)
            self.lrms.pop(node, None)

    def power_on(self, node: NodeId) -> None:
        """Power on *node* and connect it."""
        if not self.cluster.hosts[node].power:
            self.start_crm(node)
            self._start_lrm(node)
            self._restarting.discard(node)
            self._update_host(node, files_readable=True, files_consistent=True)
        self._update_host(node, power=True, network=True, power_change=None)

    def power_off(self, node: NodeId) -> None:
        """Power off *node*; all its processes and services stop."""
        if self.cluster.hosts[node].power:
            if self.crms.pop(node, None) is not None:
                self._log_process_event(
                    node, ProcessKind.CRM, ProcessKilledByPowerOff()
                )
            if self.lrms.pop(node, None) is not None:
                self._log_process_event(
                    node, ProcessKind.LRM, ProcessKilledByPowerOff()
                )
            self.cluster.watchdogs.drop(node)
            self.cluster.running[node].clear()
        self._update_host(node, power=False, network=False, power_change=None)

    def start_crm(self, node: NodeId) -> None:
        """Start the CRM of *node* unless it runs."""
        if node not in self.crms:
            result = crm.start_crm(
                self._imbalance_metric, recheck_services=self._recheck_services
            )
            self._apply_outputs(node, ProcessKind.CRM, result)
            self.crms[node] = result.process

    def stop_crm(self, node: NodeId) -> None:
        """Ask the CRM of *node* to stop."""
        if node in self.crms:
            self._stopping.add(node)
            result = crm.request_crm_stop(self.crms[node])
            self._apply_outputs(node, ProcessKind.CRM, result)
            self.crms[node] = result.process

    def request_power_change(self, node: NodeId, change: PowerChange) -> None:
        """Shut down or reboot *node* gracefully."""
        self._update_host(node, power_change=change)
        self._stop_lrm(node)

    def restart_lrm(self, node: NodeId) -> None:
        """Restart the LRM of *node*."""
        if node in self.lrms:
            self._restarting.add(node)
            self._stop_lrm(node)

    def _start_lrm(self, node: NodeId) -> None:
        if node not in self.lrms:
            result = lrm_states.start_lrm(node, self._clocks[ProcessKind.LRM][node])
            self._apply_outputs(node, ProcessKind.LRM, result)
            self.lrms[node] = result.process

    def _stop_lrm(self, node: NodeId) -> None:
        if node in self.lrms:
            now = self._clocks[ProcessKind.LRM][node]
            observation = self.cluster.observe_from(node, now)
            result = lrm_states.request_lrm_stop(self.lrms[node], observation)
            self._apply_outputs(node, ProcessKind.LRM, result)
            self.lrms[node] = result.process

    def _handle_crm_exit(self, node: NodeId) -> None:
        change = self.cluster.hosts[node].power_change
        if change is not None:
            self.log_event(change, CommandExecuted(f"power {node} off"))
            self.power_off(node)
            if change is PowerChange.REBOOT:
                self.log_event(change, CommandExecuted(f"power {node} on"))
                self.power_on(node)
        elif node not in self._stopping:
            raise DrillError("unexpected CRM exit - not implemented")
        self._stopping.discard(node)

    def _handle_lrm_exit(self, node: NodeId) -> None:
        change = self.cluster.hosts[node].power_change
        if node in self._restarting:
            if change is not None:
                raise DrillError("lrm restart during shutdown - not implemented")
            self._restarting.discard(node)
            self._start_lrm(node)
        elif change is None:
            raise DrillError("unexpected LRM exit - not implemented")
        else:
            self.log_event(change, CommandExecuted(f"crm {node} stop"))
            self.stop_crm(node)

    def _begin_step(self, node: NodeId, kind: ProcessKind) -> ProcessObservation:
        self._clocks[kind][node] = self.time
        return self.cluster.observe_from(node, self.time)

    def _finish_step(
        self, node: NodeId, kind: ProcessKind, result: StepResult[CrmOrLrmT]
    ) -> None:
        self._apply_outputs(node, kind, result)
        if result.failure is not None:
            raise DrillError(result.failure)
        max_step_time = self._timing.max_step_time
        if max_step_time is not None and result.delay > max_step_time:
            raise DrillError(f"loop took too long ({result.delay} seconds)")
        self._clocks[kind][node] += self._timing.step_time
        self.time = max(self.time, self._clocks[kind][node])

    def _apply_outputs(
        self, node: NodeId, kind: ProcessKind, result: StepResult[CrmOrLrmT]
    ) -> None:
        now = self._clocks[kind][node]
        for output in result.outputs:
            if isinstance(output, LogEvent):
                self._log_process_event(node, kind, output)
                continue
            try:
                self.cluster.apply(output, node, kind, now, self.time)
            except WatchdogExpiredError as error:
                raise DrillError(str(error)) from error

    def _log_process_event(
        self, node: NodeId, kind: ProcessKind, event: LogEvent
    ) -> None:
        if event.level is LogLevel.HARDWARE_WARNING:
            self.log_event(HARDWARE, event)
        else:
            now = self._clocks[kind][node]
            self.log.append(DrillLogEntry(now, f"{node}/{kind}", event))

    def _update_host(self, node: NodeId, **changes: object) -> None:
        def change(host: SimulatedHost) -> SimulatedHost:
            return replace(host, **changes)  # type: ignore[arg-type]

        self.cluster.change_host(node, change)
