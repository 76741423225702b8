"""What can be done to a cluster from outside, in a drill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from opendrs.ha import DisarmMode, PowerChange, Requested, ServiceConfig, ServiceId
from opendrs.model import NodeId, Usage
from opendrs.sim.drill.failing import Failures
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.machinery import Kind, Machinery


class ImpossibleError(Exception):
    """Something cannot be done as things are."""


class Action(Protocol):
    """Something that is done to a cluster."""

    def perform(self, site: Machinery) -> None:
        """Do it.

        Raises:
            ImpossibleError: It cannot be done as things are.
        """


@dataclass(frozen=True, slots=True)
class Delay:
    """Let some time pass before anything else is done."""

    seconds: int


@dataclass(frozen=True, slots=True)
class SkipRounds:
    """Let all processes of a kind miss some turns."""

    kind: Kind
    rounds: int


@dataclass(frozen=True, slots=True)
class SetPower:
    """Switch a node on, or take its power away."""

    node: NodeId
    on: bool

    def perform(self, site: Machinery) -> None:
        """Do it."""
        (site.power_on if self.on else site.power_off)(self.node)


@dataclass(frozen=True, slots=True)
class ChangeHost:
    """Change something else about a host."""

    node: NodeId
    change: Callable[[Host], Host]

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.cluster.change_host(self.node, self.change)


@dataclass(frozen=True, slots=True)
class StopManager:
    """Ask the manager process of a node to end."""

    node: NodeId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.stop_manager(self.node)


@dataclass(frozen=True, slots=True)
class StartManager:
    """Start the manager process of a node."""

    node: NodeId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.start_manager(self.node)


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask something of the master."""

    line: str

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.cluster.requests.append(self.line)


@dataclass(frozen=True, slots=True)
class GoDown:
    """Let a node go down in good order."""

    node: NodeId
    change: PowerChange

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.change_power(self.node, self.change)


@dataclass(frozen=True, slots=True)
class RestartAgent:
    """Restart the agent of a node."""

    node: NodeId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.restart_agent(self.node)


@dataclass(frozen=True, slots=True)
class ChangeService:
    """Write something else of a service."""

    service: ServiceId
    change: Callable[[ServiceConfig], ServiceConfig]

    def perform(self, site: Machinery) -> None:
        """Do it."""
        _require(site, self.service)
        site.cluster.change_service(self.service, self.change)


@dataclass(frozen=True, slots=True)
class AddService:
    """Configure a service; nothing is known of what it uses."""

    service: ServiceId
    config: ServiceConfig
    running: bool

    def perform(self, site: Machinery) -> None:
        """Do it."""
        if self.service in site.cluster.services:
            raise ImpossibleError(f"service '{self.service}' exists already")
        site.cluster.services[self.service] = self.config
        running = site.cluster.running[self.config.node]
        (running.add if self.running else running.discard)(self.service)


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Do not configure a service any more."""

    service: ServiceId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        _require(site, self.service)
        del site.cluster.services[self.service]
        site.cluster.limits.pop(self.service, None)


@dataclass(frozen=True, slots=True)
class SetLimit:
    """Let a service use more or less; what is None stays as it is."""

    service: ServiceId
    amount: Usage

    def perform(self, site: Machinery) -> None:
        """Do it."""
        limits = site.cluster.limits
        limits[self.service] = _updated(limits.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class SetUsage:
    """Let it be known that a service uses more or less."""

    service: ServiceId
    amount: Usage

    def perform(self, site: Machinery) -> None:
        """Do it."""
        usages = site.cluster.usages
        usages[self.service] = _updated(usages.get(self.service), self.amount)


@dataclass(frozen=True, slots=True)
class Crash:
    """Let a service die; its node goes on."""

    service: ServiceId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        _require(site, self.service)
        for running in site.cluster.running.values():
            running.discard(self.service)


@dataclass(frozen=True, slots=True)
class LetFail:
    """Let a service fail from now on."""

    service: ServiceId
    failures: Failures

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.counters.let_fail(self.service, self.failures)


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Write other rules."""

    text: str

    def perform(self, site: Machinery) -> None:
        """Do it."""
        site.cluster.write_rules(self.text)


@dataclass(frozen=True, slots=True)
class MoveByHand:
    """Move a service behind the manager's back, while it does not look."""

    service: ServiceId
    target: NodeId

    def perform(self, site: Machinery) -> None:
        """Do it."""
        _require(site, self.service)
        disarm = site.cluster.status.disarm
        suspended = disarm is not None and disarm.mode == DisarmMode.IGNORE
        if not suspended and (
            site.cluster.services[self.service].state != Requested.IGNORED
        ):
            raise ImpossibleError(
                f"service '{self.service}' is managed, and not to be moved by hand"
            )
        site.cluster.change_service(
            self.service, lambda config: replace(config, node=self.target)
        )


def _require(site: Machinery, service: ServiceId) -> None:
    if service not in site.cluster.services:
        raise ImpossibleError(f"no such service '{service}'")


def _updated(old: Usage | None, new: Usage) -> Usage:
    if old is None:
        return new
    return Usage(
        old.cpu if new.cpu is None else new.cpu,
        old.memory if new.memory is None else new.memory,
    )
