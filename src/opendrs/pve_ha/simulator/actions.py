"""What can be done to a cluster from outside, in a drill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from opendrs.model import NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.simulator.processes import NodeProcesses, ProcessKind
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import DisarmMode, RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig


class ActionImpossibleError(Exception):
    """Something cannot be done as things are."""


class DrillAction(Protocol):
    """Something that is done to a cluster."""

    def perform(self, processes: NodeProcesses) -> None:
        """Do it.

        Raises:
            ImpossibleError: It cannot be done as things are.
        """


@dataclass(frozen=True, slots=True)
class DelayCommands:
    """Let some time pass before anything else is done."""

    seconds: int


@dataclass(frozen=True, slots=True)
class SkipRounds:
    """Let all processes of a kind miss some turns."""

    kind: ProcessKind
    rounds: int


@dataclass(frozen=True, slots=True)
class SetPower:
    """Switch a node on, or take its power away."""

    node: NodeId
    on: bool

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        (processes.power_on if self.on else processes.power_off)(self.node)


@dataclass(frozen=True, slots=True)
class ChangeHost:
    """Change something else about a host."""

    node: NodeId
    change: Callable[[SimulatedHost], SimulatedHost]

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.cluster.change_host(self.node, self.change)


@dataclass(frozen=True, slots=True)
class StopCrm:
    """Ask the manager process of a node to end."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.stop_crm(self.node)


@dataclass(frozen=True, slots=True)
class StartCrm:
    """Start the manager process of a node."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.start_crm(self.node)


@dataclass(frozen=True, slots=True)
class SendCrmCommand:
    """Ask something of the master."""

    command: str

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.cluster.requests.append(self.command)


@dataclass(frozen=True, slots=True)
class ShutDownNode:
    """Let a node go down in good order."""

    node: NodeId
    change: PowerChange

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.request_power_change(self.node, self.change)


@dataclass(frozen=True, slots=True)
class RestartLrm:
    """Restart the agent of a node."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.restart_lrm(self.node)


@dataclass(frozen=True, slots=True)
class ChangeService:
    """Write something else of a service."""

    service: ServiceId
    change: Callable[[ServiceConfig], ServiceConfig]

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        _require(processes, self.service)
        processes.cluster.change_service(self.service, self.change)


@dataclass(frozen=True, slots=True)
class AddService:
    """Configure a service; nothing is known of what it uses."""

    service: ServiceId
    config: ServiceConfig
    running: bool

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        if self.service in processes.cluster.services:
            raise ActionImpossibleError(f"service '{self.service}' exists already")
        processes.cluster.services[self.service] = self.config
        running = processes.cluster.running[self.config.node]
        (running.add if self.running else running.discard)(self.service)


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Do not configure a service any more."""

    service: ServiceId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        _require(processes, self.service)
        del processes.cluster.services[self.service]
        processes.cluster.limits.pop(self.service, None)


@dataclass(frozen=True, slots=True)
class SetLimit:
    """Let a service use more or less; what is None stays as it is."""

    service: ServiceId
    amount: Usage

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        limits = processes.cluster.limits
        limits[self.service] = _updated(limits.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class SetUsage:
    """Let it be known that a service uses more or less."""

    service: ServiceId
    amount: Usage

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        usages = processes.cluster.usages
        usages[self.service] = _updated(usages.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class CrashService:
    """Let a service die; its node goes on."""

    service: ServiceId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        _require(processes, self.service)
        for running in processes.cluster.running.values():
            running.discard(self.service)


@dataclass(frozen=True, slots=True)
class InjectFailures:
    """Let a service fail from now on."""

    service: ServiceId
    failures: InjectedFailures

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.counters.inject(self.service, self.failures)


@dataclass(frozen=True, slots=True)
class ReplaceRules:
    """Write other rules."""

    text: str

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        processes.cluster.replace_rules(self.text)


@dataclass(frozen=True, slots=True)
class MoveManually:
    """Move a service behind the manager's back, while it does not look."""

    service: ServiceId
    target: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Do it."""
        _require(processes, self.service)
        disarm = processes.cluster.status.disarm
        suspended = disarm is not None and disarm.mode == DisarmMode.IGNORE
        if not suspended and (
            processes.cluster.services[self.service].state != RequestedState.IGNORED
        ):
            raise ActionImpossibleError(
                f"service '{self.service}' is managed, and not to be moved by hand"
            )
        processes.cluster.change_service(
            self.service, lambda config: replace(config, node=self.target)
        )


def _require(processes: NodeProcesses, service: ServiceId) -> None:
    if service not in processes.cluster.services:
        raise ActionImpossibleError(f"no such service '{service}'")


def _updated(old: Usage | None, new: Usage) -> Usage:
    if old is None:
        return new
    return Usage(
        old.cpu if new.cpu is None else new.cpu,
        old.memory if new.memory is None else new.memory,
    )
