"""The simulated cluster: hosts, watchdogs and the cluster file system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import singledispatchmethod
from itertools import takewhile
from typing import Self

from opendrs.model import NodeId, Usage
from opendrs.pve_ha import effects
from opendrs.pve_ha.observation import ClusterFiles, ObservedMetrics, ProcessObservation
from opendrs.pve_ha.simulator.scenario import (
    DEFAULT_VERSION,
    DrillScenario,
    SimulatedHost,
)
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import ClusterLock, LrmStatus, ServiceConfig

WATCHDOG_TIMEOUT = 60  # seconds without update after which a watchdog expires


class WatchdogExpiredError(Exception):
    """A process updated a watchdog that had already expired."""

    def __init__(self, node: NodeId) -> None:
        super().__init__(f"watchdog of node '{node}' has expired")


class Watchdogs:
    """All watchdogs of a cluster, by node and process.

    They are kept in the order of their last update, so the first one expires first.
    """

    def __init__(self) -> None:
        self._fed: dict[tuple[NodeId, str], int] = {}

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        vars(copied).update(_fed=dict(self._fed))
        return copied

    def feed(self, node: NodeId, process: str, now: int) -> None:
        """Update the watchdog of *process* on *node*.

        Raises:
            WatchdogExpiredError: It expired before *now*.
        """
        self._require_alive(node, process, now)
        self._fed.pop((node, process), None)
        self._fed[node, process] = now

    def close(self, node: NodeId, process: str, now: int) -> None:
        """Close the watchdog of *process* on *node*, if there is one.

        Raises:
            WatchdogExpiredError: It expired before *now*.
        """
        self._require_alive(node, process, now)
        self._fed.pop((node, process), None)

    def drop(self, node: NodeId) -> None:
        """Remove the watchdogs of *node*, which lost its power."""
        for key in [key for key in self._fed if key[0] == node]:
            del self._fed[key]

    def pop_expired(self, now: int) -> list[NodeId]:
        """Remove expired watchdogs and return their nodes, in order."""
        nodes = set()
        expired = takewhile(
            lambda fed: now - fed[1] > WATCHDOG_TIMEOUT, self._fed.items()
        )
        for key, _ in list(expired):
            nodes.add(key[0])
            del self._fed[key]
        return sorted(nodes)

    def _require_alive(self, node: NodeId, process: str, now: int) -> None:
        fed_at = self._fed.get((node, process))
        if fed_at is not None and now - fed_at > WATCHDOG_TIMEOUT:
            raise WatchdogExpiredError(node)


class SimulatedCluster:
    """State of the cluster that the processes observe and change.

    Args:
        scenario: Initial state.
    """

    def __init__(self, scenario: DrillScenario) -> None:
        self.hosts: dict[NodeId, SimulatedHost] = dict(sorted(scenario.hosts.items()))
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
        self._reports: dict[NodeId, LrmStatus] = {}
        self._locks: dict[str, ClusterLock] = {}
        self._members: Mapping[NodeId, bool] | None = None
        self._measurements: ObservedMetrics | None = None

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        copied.hosts, copied.services = dict(self.hosts), dict(self.services)
        copied.limits, copied.usages = dict(self.limits), dict(self.usages)
        copied.running = {node: set(here) for node, here in self.running.items()}
        copied.watchdogs = self.watchdogs.copy()
        copied.requests = list(self.requests)
        vars(copied).update(
            _reports=dict(self._reports),
            _locks=dict(self._locks),
            _measurements=None,  # it refers to the dictionaries above
        )
        return copied

    def change_host(
        self, node: NodeId, change: Callable[[SimulatedHost], SimulatedHost]
    ) -> None:
        """Replace the state of the host *node*."""
        self.hosts[node] = change(self.hosts[node])
        self._members = self._measurements = None

    def change_service(
        self, service: ServiceId, change: Callable[[ServiceConfig], ServiceConfig]
    ) -> None:
        """Replace the configuration of *service*; nothing if it is not configured."""
        if service in self.services:
            self.services[service] = change(self.services[service])

    def replace_rules(self, text: str) -> None:
        """Replace the text of the rules."""
        self._rules = text

    @property
    def members(self) -> Mapping[NodeId, bool]:
        """Return all nodes; True for those that are online in a majority."""
        if self._members is None:
            online = [node for node, host in self.hosts.items() if host.online]
            quorate = len(online) > len(self.hosts) // 2
            self._members = {
                node: quorate and host.online for node, host in self.hosts.items()
            }
        return self._members

    def observe_from(self, node: NodeId, now: int) -> ProcessObservation:
        """Return the observation of a process on *node* at *now* of its clock."""
        host = self.hosts[node]
        return ProcessObservation(
            node=node,
            now=now,
            members=self.members,
            quorate=self.members[node],
            consistent=host.files_consistent,
            files=self._files() if host.files_readable else None,
            locks=self._locks,
            datacenter=self._datacenter,
            metrics=self._current_metrics(),
            power_change=host.power_change,
            has_lrm_statuses=bool(self._reports),
        )

    def apply(
        self, effect: effects.Effect, node: NodeId, process: str, now: int, time: int
    ) -> None:
        """Apply an effect of *process* on *node*.

        Args:
            effect: The effect.
            node: Node of the process.
            process: Kind of the process.
            now: Time of the clock of the process.
            time: Time of the hardware.

        Raises:
            WatchdogExpiredError: A watchdog is updated that has expired.
        """
        match effect:
            case effects.AcquireLock(name):
                self._locks[name] = ClusterLock(node, now)
            case effects.FeedWatchdog():
                self.watchdogs.feed(node, process, time)
            case effects.CloseWatchdog():
                self.watchdogs.close(node, process, time)
            case effects.WriteLrmStatus(report):
                self._reports[node] = report
            case _:
                self._write_effect(effect)

    @singledispatchmethod
    def _write_effect(self, command: effects.Effect) -> None:
        raise TypeError(f"unknown effect: {command}")

    @_write_effect.register
    def _(self, command: effects.ReleaseLock) -> None:
        self._locks.pop(command.name, None)

    @_write_effect.register
    def _(self, command: effects.WriteManagerStatus) -> None:
        self.status = command.status

    @_write_effect.register
    def _(self, _: effects.ClearCrmCommands) -> None:
        self.requests = []

    @_write_effect.register
    def _(self, command: effects.SetServiceState) -> None:
        self.change_service(command.service, lambda s: replace(s, state=command.state))

    @_write_effect.register
    def _(self, command: effects.SetServiceNode) -> None:
        self.change_service(command.service, lambda s: replace(s, node=command.node))

    @_write_effect.register
    def _(self, command: effects.RemoveServiceLock) -> None:
        self.change_service(command.service, lambda s: replace(s, lock=None))

    @_write_effect.register
    def _(self, command: effects.LeaveGroup) -> None:
        self.change_service(
            command.service,
            lambda s: replace(s, group=None, failback=command.failback),
        )

    @_write_effect.register
    def _(self, command: effects.WriteRules) -> None:
        self._rules = command.text

    @_write_effect.register
    def _(self, _: effects.DeleteGroups) -> None:
        self._groups = ""

    def _files(self) -> ClusterFiles:
        return ClusterFiles(
            status=self.status,
            services=self.services,
            lrm_statuses=self._reports,
            rules=self._rules,
            groups=self._groups,
            crm_commands=tuple(self.requests),
        )

    def _current_metrics(self) -> ObservedMetrics:
        if self._measurements is None:
            self._measurements = ObservedMetrics(
                capacities={node: host.capacity for node, host in self.hosts.items()},
                versions={
                    node: host.version or DEFAULT_VERSION
                    for node, host in self.hosts.items()
                },
                limits=self.limits,
                usages=self.usages,
                running=self.running,
            )
        return self._measurements
