"""From a snapshot to the beginning of a drill."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from opendrs.ha.documents import Datacenter
from opendrs.ha.identifiers import ServiceId
from opendrs.model import Guest, Node, NodeId, NodeState, Resources, Snapshot, Usage
from opendrs.sim.drill import actions
from opendrs.sim.drill.actions import Action
from opendrs.sim.drill.failing import Failures
from opendrs.sim.drill.hosts import Host
from opendrs.sim.drill.naming import Names, names_for
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.restarts import restart_blocker
from opendrs.sim.drill.scenario import AT_ONCE, Scenario
from opendrs.sim.drill.timetable import Appointment
from opendrs.sim.drill.translation import Translation, translation_of
from opendrs.sim.drill.wishes import (
    Wishes,
    managed_guests,
    nothing_known_of_management,
)

OPENING = "the beginning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A cluster that is ready for a drill.

    Attributes:
        snapshot: What it was built from.
        scenario: The cluster.
        names: What guests and nodes are called in it.
        opening: What is done to it before anything else.
        remarks: What differs from the snapshot, in words for the operator.
    """

    snapshot: Snapshot
    scenario: Scenario
    names: Names
    opening: tuple[Appointment, ...]
    remarks: tuple[str, ...]


def staged(
    snapshot: Snapshot,
    wishes: Wishes | None = None,
    datacenter: Datacenter | None = None,
) -> Stage:
    """Return a drill's beginning: *snapshot*, with all that runs in it running.

    Args:
        snapshot: The cluster.
        wishes: What the operator says of services; None for nothing.
        datacenter: The settings of the HA manager; None for the usual ones.
    """
    wanted, settings = wishes or Wishes(), datacenter or Datacenter()
    managed = managed_guests(snapshot, wanted)
    names = names_for(managed, snapshot.nodes)
    translation = translation_of(snapshot.rules, names)
    scene = _Scene(snapshot, managed, wanted, names)
    return Stage(
        snapshot=snapshot,
        scenario=scene.scenario(translation, settings),
        names=names,
        opening=tuple(_opening(snapshot, names)),
        remarks=(*_remarks(snapshot, wanted, names), *translation.remarks),
    )


@dataclass(frozen=True, slots=True)
class _Scene:
    """What a scenario is made of."""

    snapshot: Snapshot
    managed: Collection[Guest]
    wishes: Wishes
    names: Names

    def scenario(self, rules: Translation, settings: Datacenter) -> Scenario:
        """Return the scenario, in which nothing is done yet."""
        nodes, services = self.names.nodes, self.names.services
        wishes = {guest.id: self.wishes.wish(guest.id) for guest in self.managed}
        return Scenario(
            hosts={nodes[id_]: _host(node) for id_, node in self._nodes()},
            services={
                services[guest.id]: wishes[guest.id].config(guest, nodes[guest.node])
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
            timing=AT_ONCE,
        )

    def _nodes(self) -> Collection[tuple[NodeId, Node]]:
        return self.snapshot.nodes.items()

    def _running(self) -> dict[NodeId, set[ServiceId]]:
        running: dict[NodeId, set[ServiceId]] = {}
        for guest in self.managed:
            if guest.present and has_power(self.snapshot.nodes[guest.node]):
                place = running.setdefault(self.names.nodes[guest.node], set())
                place.add(self.names.services[guest.id])
        return running

    def _failures(self, guest: Guest) -> Failures | None:
        fails = self.wishes.wish(guest.id).fails
        if restart_blocker(guest) is None:
            return fails
        home = self.names.nodes[guest.node]
        return replace(fails or Failures(), only_on=home)

    def _limit(self, guest: Guest) -> Usage:
        limit = guest.limit
        if limit is None:
            return Usage()
        capacity = self.snapshot.nodes[guest.node].capacity
        return Usage(limit.cpu or _cores(capacity), limit.memory or None)


def _cores(capacity: Resources | None) -> float | None:
    return None if capacity is None else capacity.cpu


def _host(node: Node) -> Host:
    """Return *node* before it is switched on."""
    capacity = Usage() if node.capacity is None else Usage.of(node.capacity)
    return Host(capacity=capacity)


def has_power(node: Node) -> bool:
    """Return whether *node* is on in the beginning; it is when that is unknown."""
    return node.state is not NodeState.OFFLINE


def _opening(snapshot: Snapshot, names: Names) -> Iterator[Appointment]:
    """Yield what is done so that the nodes are as in *snapshot*."""
    nodes = [(names.nodes[id_], snapshot.nodes[id_]) for id_ in sorted(snapshot.nodes)]
    for name, node in nodes:
        if has_power(node):
            yield _opened(f"power {name} on", actions.SetPower(name, on=True))
    for name, node in nodes:
        if node.state is NodeState.MAINTENANCE:
            request = f"enable-node-maintenance {name}"
            yield _opened(f"crm {name} enable-node-maintenance", actions.Ask(request))


def _opened(text: str, action: Action) -> Appointment:
    return Appointment(0, Step(text, OPENING, action))


def _remarks(snapshot: Snapshot, wishes: Wishes, names: Names) -> Iterator[str]:
    if (
        snapshot.guests
        and not wishes.all_managed
        and nothing_known_of_management(snapshot)
    ):
        yield "no guest says whether it is HA-managed: all are taken to be"
    nodes = sorted(snapshot.nodes)
    states = [snapshot.nodes[node].state for node in nodes]
    if NodeState.UNKNOWN in states:
        unknown = states.count(NodeState.UNKNOWN)
        yield f"the state of {unknown} nodes is not known: they are taken to be online"
    for node in nodes:
        if names.nodes[node] != node:
            yield f"{node} is called {names.nodes[node]} in the log"
