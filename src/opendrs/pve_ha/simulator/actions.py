"""Actions of the operator and of the hardware in a drill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import NodeId, Usage
from opendrs.pve_ha.observation import PowerChange
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.simulator.processes import NodeProcesses, ProcessKind
from opendrs.pve_ha.simulator.scenario import SimulatedHost
from opendrs.pve_ha.states import DisarmMode, RequestedState, ServiceId
from opendrs.pve_ha.status_files import ServiceConfig


class ActionImpossibleError(ConfigurationError):
    """Action that is not possible in the current state."""

    code = DiagnosticCode.INCONSISTENT


class DrillAction(Protocol):
    """An action on the cluster."""

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action.

        Raises:
            ActionImpossibleError: It is not possible in the current state.
        """


@dataclass(frozen=True, slots=True)
class DelayCommands:
    """Wait before the next command."""

    seconds: int


@dataclass(frozen=True, slots=True)
class SkipRounds:
    """Skip rounds of all processes of a kind."""

    kind: ProcessKind
    rounds: int


@dataclass(frozen=True, slots=True)
class SetPower:
    """Power a node on or off."""

    node: NodeId
    on: bool

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        (processes.power_on if self.on else processes.power_off)(self.node)


@dataclass(frozen=True, slots=True)
class ChangeHost:
    """Change other properties of a host."""

    node: NodeId
    change: Callable[[SimulatedHost], SimulatedHost]

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.cluster.change_host(self.node, self.change)


@dataclass(frozen=True, slots=True)
class StopCrm:
    """Ask the CRM of a node to stop."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.stop_crm(self.node)


@dataclass(frozen=True, slots=True)
class StartCrm:
    """Start the CRM of a node."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.start_crm(self.node)


@dataclass(frozen=True, slots=True)
class SendCrmCommand:
    """Queue a command for the master."""

    command: str

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.cluster.requests.append(self.command)


@dataclass(frozen=True, slots=True)
class ShutDownNode:
    """Shut down or reboot a node gracefully."""

    node: NodeId
    change: PowerChange

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.request_power_change(self.node, self.change)


@dataclass(frozen=True, slots=True)
class RestartLrm:
    """Restart the LRM of a node."""

    node: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.restart_lrm(self.node)


@dataclass(frozen=True, slots=True)
class ChangeService:
    """Change the configuration of a service."""

    service: ServiceId
    change: Callable[[ServiceConfig], ServiceConfig]

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        _require(processes, self.service)
        processes.cluster.change_service(self.service, self.change)


@dataclass(frozen=True, slots=True)
class AddService:
    """Configure a service of unknown usage."""

    service: ServiceId
    config: ServiceConfig
    running: bool

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        if self.service in processes.cluster.services:
            raise ActionImpossibleError(
                f"service '{self.service}' already exists",
                code=DiagnosticCode.DUPLICATE_NAME,
            )
        processes.cluster.services[self.service] = self.config
        running = processes.cluster.running[self.config.node]
        (running.add if self.running else running.discard)(self.service)


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Remove a service from the configuration."""

    service: ServiceId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        _require(processes, self.service)
        del processes.cluster.services[self.service]
        processes.cluster.limits.pop(self.service, None)


@dataclass(frozen=True, slots=True)
class SetLimit:
    """Change the limits of a service; None keeps a value."""

    service: ServiceId
    amount: Usage

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        limits = processes.cluster.limits
        limits[self.service] = _updated(limits.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class SetUsage:
    """Change the measured usage of a service; None keeps a value."""

    service: ServiceId
    amount: Usage

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        usages = processes.cluster.usages
        usages[self.service] = _updated(usages.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class CrashService:
    """Stop a service unexpectedly; its node keeps running."""

    service: ServiceId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        _require(processes, self.service)
        for running in processes.cluster.running.values():
            running.discard(self.service)


@dataclass(frozen=True, slots=True)
class InjectFailures:
    """Let operations of a service fail from now on."""

    service: ServiceId
    failures: InjectedFailures

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.counters.inject(self.service, self.failures)


@dataclass(frozen=True, slots=True)
class ReplaceRules:
    """Replace the rules."""

    text: str

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        processes.cluster.replace_rules(self.text)


@dataclass(frozen=True, slots=True)
class MoveManually:
    """Move a service without the manager, while it does not track it."""

    service: ServiceId
    target: NodeId

    def perform(self, processes: NodeProcesses) -> None:
        """Perform the action."""
        _require(processes, self.service)
        disarm = processes.cluster.status.disarm
        suspended = disarm is not None and disarm.mode == DisarmMode.IGNORE
        if not suspended and (
            processes.cluster.services[self.service].state != RequestedState.IGNORED
        ):
            raise ActionImpossibleError(
                f"service '{self.service}' is managed; request state ignored or "
                "disarm with mode ignore before a manual move"
            )
        processes.cluster.change_service(
            self.service, lambda config: replace(config, node=self.target)
        )


def _require(processes: NodeProcesses, service: ServiceId) -> None:
    if service not in processes.cluster.services:
        raise ActionImpossibleError(
            f"no such service '{service}'", code=DiagnosticCode.UNKNOWN_NAME
        )


def _updated(old: Usage | None, new: Usage) -> Usage:
    if old is None:
        return new
    return Usage(
        old.cpu if new.cpu is None else new.cpu,
        old.memory if new.memory is None else new.memory,
    )
