"""The simulated cluster: its hosts, and what its file system holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import singledispatchmethod
from typing import Self

from opendrs.ha import (
    AgentReport,
    Files,
    Lock,
    Measurements,
    Observation,
    ServiceConfig,
    ServiceId,
    commands,
)
from opendrs.model import NodeId, Usage
from opendrs.sim.drill.hosts import USUAL_VERSION, Host
from opendrs.sim.drill.scenario import Scenario
from opendrs.sim.drill.watchdogs import Watchdogs


class Cluster:
    """All that managers and agents see, and change.

    Args:
        scenario: How it is in the beginning.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.hosts: dict[NodeId, Host] = dict(sorted(scenario.hosts.items()))
        self.services: dict[ServiceId, ServiceConfig] = dict(scenario.services)
        self.limits: dict[ServiceId, Usage] = dict(scenario.limits)
        self.usages: dict[ServiceId, Usage] = dict(scenario.usages)
        self.running: dict[NodeId, set[ServiceId]] = {
            node: set(scenario.running.get(node, ())) for node in self.hosts
        }
        self.watchdogs = Watchdogs()
        self.status = scenario.status
        self.requests: list[str] = []
        self._datacenter = scenario.datacenter
        self._rules, self._groups = scenario.rules, scenario.groups
        self._reports: dict[NodeId, AgentReport] = {}
        self._locks: dict[str, Lock] = {}
        self._members: Mapping[NodeId, bool] | None = None
        self._measurements: Measurements | None = None

    def copy(self) -> Self:
        """Return a cluster that is the same now and changes by itself."""
        made = copy(self)
        made.hosts, made.services = dict(self.hosts), dict(self.services)
        made.limits, made.usages = dict(self.limits), dict(self.usages)
        made.running = {node: set(here) for node, here in self.running.items()}
        made.watchdogs = self.watchdogs.copy()
        made.requests = list(self.requests)
        vars(made).update(
            _reports=dict(self._reports),
            _locks=dict(self._locks),
            _measurements=None,  # it refers to the dictionaries above
        )
        return made

    def change_host(self, node: NodeId, change: Callable[[Host], Host]) -> None:
        """Let the host *node* be another from now on."""
        self.hosts[node] = change(self.hosts[node])
        self._members = self._measurements = None

    def change_service(
        self, service: ServiceId, change: Callable[[ServiceConfig], ServiceConfig]
    ) -> None:
        """Write something else of *service*; nothing if it is not configured."""
        if service in self.services:
            self.services[service] = change(self.services[service])

    def write_rules(self, text: str) -> None:
        """Let other rules be in force from now on."""
        self._rules = text

    @property
    def members(self) -> Mapping[NodeId, bool]:
        """Return the nodes, and whether each is online in a majority."""
        if self._members is None:
            online = [node for node, host in self.hosts.items() if host.online]
            quorate = len(online) > len(self.hosts) // 2
            self._members = {
                node: quorate and host.online for node, host in self.hosts.items()
            }
        return self._members

    def observed_from(self, node: NodeId, now: int) -> Observation:
        """Return what a process on *node* sees, by whose clock it is *now*."""
        host = self.hosts[node]
        return Observation(
            node=node,
            now=now,
            members=self.members,
            quorate=self.members[node],
            consistent=host.files_consistent,
            files=self._files() if host.files_readable else None,
            locks=self._locks,
            datacenter=self._datacenter,
            measurements=self._measured(),
            power_change=host.power_change,
            reporting=bool(self._reports),
        )

    def apply(
        self, command: commands.Command, node: NodeId, process: str, now: int, time: int
    ) -> None:
        """Do what *process* on *node* wants.

        Args:
            command: What it wants.
            node: Its node.
            process: Its kind.
            now: The time by its own clock.
            time: The time of the hardware.

        Raises:
            WatchdogBittenError: It feeds a watchdog that would have bitten.
        """
        match command:
            case commands.AcquireLock(name):
                self._locks[name] = Lock(node, now)
            case commands.FeedWatchdog():
                self.watchdogs.feed(node, process, time)
            case commands.CloseWatchdog():
                self.watchdogs.close(node, process, time)
            case commands.PublishReport(report):
                self._reports[node] = report
            case _:
                self._write(command)

    @singledispatchmethod
    def _write(self, command: commands.Command) -> None:
        raise TypeError(f"no such command: {command}")

    @_write.register
    def _(self, command: commands.ReleaseLock) -> None:
        self._locks.pop(command.name, None)

    @_write.register
    def _(self, command: commands.PublishStatus) -> None:
        self.status = command.status

    @_write.register
    def _(self, _: commands.TakeRequests) -> None:
        self.requests = []

    @_write.register
    def _(self, command: commands.SetServiceState) -> None:
        self.change_service(command.service, lambda s: replace(s, state=command.state))

    @_write.register
    def _(self, command: commands.SetServiceNode) -> None:
        self.change_service(command.service, lambda s: replace(s, node=command.node))

    @_write.register
    def _(self, command: commands.RemoveServiceLock) -> None:
        self.change_service(command.service, lambda s: replace(s, lock=None))

    @_write.register
    def _(self, command: commands.LeaveGroup) -> None:
        self.change_service(
            command.service,
            lambda s: replace(s, group=None, failback=command.failback),
        )

    @_write.register
    def _(self, command: commands.WriteRules) -> None:
        self._rules = command.text

    @_write.register
    def _(self, _: commands.DeleteGroups) -> None:
        self._groups = ""

    def _files(self) -> Files:
        return Files(
            status=self.status,
            services=self.services,
            reports=self._reports,
            rules=self._rules,
            groups=self._groups,
            requests=tuple(self.requests),
        )

    def _measured(self) -> Measurements:
        if self._measurements is None:
            self._measurements = Measurements(
                capacities={node: host.capacity for node, host in self.hosts.items()},
                versions={
                    node: host.version or USUAL_VERSION
                    for node, host in self.hosts.items()
                },
                limits=self.limits,
                usages=self.usages,
                running=self.running,
            )
        return self._measurements
