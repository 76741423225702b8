"""The initial state of a drill, built from a snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from opendrs.model import (
    Guest,
    Node,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.pve_ha.simulator import actions
from opendrs.pve_ha.simulator.actions import DrillAction
from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.event_schedule import ScheduledEvent
from opendrs.pve_ha.simulator.injected_failures import InjectedFailures
from opendrs.pve_ha.simulator.pve_names import PveNames, assign_names
from opendrs.pve_ha.simulator.pve_rules import TranslatedRules, translate_rules
from opendrs.pve_ha.simulator.scenario import (
    INSTANT_TIMING,
    DrillScenario,
    SimulatedHost,
)
from opendrs.pve_ha.simulator.service_requests import (
    ServiceRequests,
    is_management_unknown,
    managed_guests,
)
from opendrs.pve_ha.states import ServiceId
from opendrs.pve_ha.status_files import DatacenterSettings
from opendrs.rules import restart_blocker

INITIAL_EVENTS_ORIGIN = "initial events"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillSetup:
    """A cluster that is ready for a drill.

    Attributes:
        snapshot: Its source.
        scenario: The simulated cluster.
        names: Names of guests and nodes in the drill.
        initial_events: Events that establish the initial state.
        notes: Differences from the snapshot, for the operator.
    """

    snapshot: Snapshot
    scenario: DrillScenario
    names: PveNames
    initial_events: tuple[ScheduledEvent, ...]
    notes: tuple[str, ...]


def prepare_drill(
    snapshot: Snapshot,
    requests: ServiceRequests | None = None,
    datacenter: DatacenterSettings | None = None,
) -> DrillSetup:
    """Return the setup of a drill in which the guests of *snapshot* run.

    Args:
        snapshot: The cluster.
        requests: Requested configuration of services; None for defaults.
        datacenter: Settings of the HA manager; None for defaults.
    """
    service_requests, settings = (
        requests or ServiceRequests(),
        datacenter or DatacenterSettings(),
    )
    managed = managed_guests(snapshot, service_requests)
    names = assign_names(managed, snapshot.nodes)
    rules = translate_rules(snapshot.rules, names)
    builder = _ScenarioBuilder(snapshot, managed, service_requests, names)
    return DrillSetup(
        snapshot=snapshot,
        scenario=builder.build(rules, settings),
        names=names,
        initial_events=tuple(_initial_events(snapshot, names)),
        notes=(*_notes(snapshot, service_requests, names), *rules.notes),
    )


@dataclass(frozen=True, slots=True)
class _ScenarioBuilder:
    """Builder of a scenario from a snapshot."""

    snapshot: Snapshot
    managed: Collection[Guest]
    requests: ServiceRequests
    names: PveNames

    def build(
        self, rules: TranslatedRules, settings: DatacenterSettings
    ) -> DrillScenario:
        """Return the scenario before any event."""
        nodes, services = self.names.nodes, self.names.services
        requests = {
            guest.id: self.requests.request_for(guest.id) for guest in self.managed
        }
        return DrillScenario(
            hosts={nodes[id_]: _host(node) for id_, node in self._nodes()},
            services={
                services[guest.id]: requests[guest.id].config(guest, nodes[guest.node])
                for guest in self.managed
            },
            batches=(),
            rules=rules.text(),
            datacenter=settings,
            limits={services[guest.id]: self._limit(guest) for guest in self.managed},
            usages={services[guest.id]: guest.usage for guest in self.managed},
            running=self._running(),
            failures={
                services[guest.id]: failures
                for guest in self.managed
                if (failures := self._failures(guest)) is not None
            },
            timing=INSTANT_TIMING,
        )

    def _nodes(self) -> Collection[tuple[NodeId, Node]]:
        return self.snapshot.nodes.items()

    def _running(self) -> dict[NodeId, set[ServiceId]]:
        running: dict[NodeId, set[ServiceId]] = {}
        for guest in self.managed:
            if guest.is_active and has_power(self.snapshot.nodes[guest.node]):
                services = running.setdefault(self.names.nodes[guest.node], set())
                services.add(self.names.services[guest.id])
        return running

    def _failures(self, guest: Guest) -> InjectedFailures | None:
        failures = self.requests.request_for(guest.id).failures
        if restart_blocker(guest, self.snapshot.nodes[guest.node]) is None:
            return failures
        own_node = self.names.nodes[guest.node]
        return replace(failures or InjectedFailures(), only_on=own_node)

    def _limit(self, guest: Guest) -> Usage:
        limit = guest.limit
        if limit is None:
            return Usage()
        capacity = self.snapshot.nodes[guest.node].capacity
        return Usage(limit.cpu or _cores(capacity), limit.memory or None)


def _cores(capacity: Resources | None) -> float | None:
    return None if capacity is None else capacity.cpu


def _host(node: Node) -> SimulatedHost:
    """Return *node* as a host that is powered off."""
    capacity = Usage() if node.capacity is None else Usage.of(node.capacity)
    return SimulatedHost(capacity=capacity)


def has_power(node: Node) -> bool:
    """Return True if *node* is on initially. A node in unknown state is on."""
    return node.state is not NodeState.OFFLINE


def _initial_events(snapshot: Snapshot, names: PveNames) -> Iterator[ScheduledEvent]:
    """Yield the events that put the nodes into the state of *snapshot*."""
    nodes = [(names.nodes[id_], snapshot.nodes[id_]) for id_ in sorted(snapshot.nodes)]
    for name, node in nodes:
        if has_power(node):
            yield _initial_event(f"power {name} on", actions.SetPower(name, on=True))
    for name, node in nodes:
        if node.state is NodeState.MAINTENANCE:
            request = f"enable-node-maintenance {name}"
            yield _initial_event(
                f"crm {name} enable-node-maintenance", actions.SendCrmCommand(request)
            )


def _initial_event(text: str, action: DrillAction) -> ScheduledEvent:
    return ScheduledEvent(0, CommandStep(text, INITIAL_EVENTS_ORIGIN, action))


def _notes(
    snapshot: Snapshot, requests: ServiceRequests, names: PveNames
) -> Iterator[str]:
    if snapshot.guests and not requests.all_managed and is_management_unknown(snapshot):
        yield "HA management of the guests is unknown; all are treated as managed"
    nodes = sorted(snapshot.nodes)
    states = [snapshot.nodes[node].state for node in nodes]
    if NodeState.UNKNOWN in states:
        unknown = states.count(NodeState.UNKNOWN)
        yield f"nodes in unknown state: {unknown}; treated as online"
    for node in nodes:
        if names.nodes[node] != node:
            yield f"node {node} is {names.nodes[node]} in the log"
