"""Simulated failure of nodes, and its impact on guests, memory and rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from opendrs.errors import UnknownNodeError
from opendrs.model import (
    ColdMigration,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Node,
    NodeId,
    NodeState,
    Snapshot,
    Usage,
)
from opendrs.pve_ha.simulator import actions
from opendrs.pve_ha.simulator.cmdlist import CommandStep
from opendrs.pve_ha.simulator.drill_log import DrillLogEntry
from opendrs.pve_ha.simulator.event_schedule import ScheduledEvent, run_rounds
from opendrs.pve_ha.simulator.failure_impact import (
    AffectedGuest,
    FailureImpact,
    RecoveryTarget,
)
from opendrs.pve_ha.simulator.history import DrillHistory, DrillHistoryReader
from opendrs.pve_ha.simulator.run import (
    Drill,
    DrillRounds,
    TimeObserver,
    finish_drill,
    ignore_time,
    start_drill,
)
from opendrs.pve_ha.simulator.service_requests import ServiceRequest, ServiceRequests
from opendrs.pve_ha.simulator.service_timeline import ServiceTimeline
from opendrs.pve_ha.simulator.setup import (
    DrillSetup,
    has_power,
    prepare_drill,
)
from opendrs.pve_ha.status_files import DatacenterSettings
from opendrs.rules import (
    AvailableMemory,
    new_violations,
    required_memory,
    restart_blocker,
    usable_memory,
)

FAILURE_TIME = 80  # seconds after the start; by then all processes have settled
MAX_RECOVERY_TIME = 400  # seconds; a recovery with a lost master takes about 200

# Without failback no service migrates before the failure. Recovery is the same.
NO_FAILBACK = ServiceRequest(failback=False)


@dataclass(frozen=True, slots=True)
class FailureRun:
    """Events of a simulation from the failure on.

    Attributes:
        entries: Log entries, in order.
        failure: Error that ended the drill; None if it finished.
    """

    entries: tuple[DrillLogEntry, ...]
    failure: str | None


class NodeFailureSimulation:
    """Simulation of node failures in one cluster, with a common start phase.

    Args:
        snapshot: The cluster.
        limits: Memory limits of the operator.
        assume_ha: Every guest is a service, whatever the snapshot contains.
        datacenter: Settings of the HA manager; None for defaults.
        observer: Called with the time before each round of the start phase.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        limits: Limits,
        assume_ha: bool = False,
        datacenter: DatacenterSettings | None = None,
        observer: TimeObserver = ignore_time,
    ) -> None:
        requests = ServiceRequests(default=NO_FAILBACK, all_managed=assume_ha)
        self._setup = prepare_drill(snapshot, requests, datacenter)
        self._limits = limits
        # Services stop only with their host here, so checking them is redundant.
        services = dict(sorted(self._setup.scenario.services.items()))
        self._scenario = replace(
            self._setup.scenario, services=services, recheck_services=False
        )
        self._passes = DrillRounds(self._scenario)
        initial_events = self._setup.initial_events
        self._due = 0

        def begin() -> None:
            self._due = run_rounds(
                self._passes, initial_events, 0, FAILURE_TIME - 1, observer=observer
            )

        self._failure = start_drill(self._passes, begin)
        self._reader = DrillHistoryReader(self._scenario)
        self._reader.read(self._passes.processes.log)
        self._before = self._reader.history()
        self._nodes_at_failure = self._find_guest_nodes()

    @property
    def service_count(self) -> int:
        """Return the number of services."""
        return len(self._scenario.services)

    def simulate(
        self, nodes: Collection[NodeId], observer: TimeObserver = ignore_time
    ) -> FailureImpact:
        """Return the impact of a simultaneous power loss of *nodes*.

        Args:
            nodes: Failing nodes.
            observer: Called with the time before each round.

        Raises:
            UnknownNodeError: A node is not in the snapshot.
        """
        return self.impact_of(nodes, self.run_failure(nodes, observer))

    def run_failure(
        self, nodes: Collection[NodeId], observer: TimeObserver = ignore_time
    ) -> FailureRun:
        """Simulate the failure of *nodes* and return the events from then on.

        Raises:
            UnknownNodeError: A node is not in the snapshot.
        """
        for node in nodes:
            if node not in self._setup.snapshot.nodes:
                raise UnknownNodeError(f"unknown node {node}")
        rounds = self._passes.copy()
        power_offs = [
            _power_off_event(self._setup.names.nodes[node]) for node in sorted(nodes)
        ]

        def run() -> None:
            end, settled = FAILURE_TIME + MAX_RECOVERY_TIME, rounds.processes.is_settled
            run_rounds(
                rounds, power_offs, self._due, end, observer=observer, is_over=settled
            )

        drill = finish_drill(self._scenario, rounds, run, self._failure)
        return FailureRun(
            drill.entries[len(self._passes.processes.log) :], drill.failure
        )

    def impact_of(
        self, nodes: Collection[NodeId], failure_run: FailureRun
    ) -> FailureImpact:
        """Return the impact of the failure of *nodes*, simulated as *failure_run*."""
        entries = (*self._passes.processes.log, *failure_run.entries)
        reader = self._reader.copy()
        reader.read(failure_run.entries)
        drill = Drill(self._scenario, entries, failure_run.failure)
        return self._impact(tuple(sorted(nodes)), drill, reader.history())

    def _impact(
        self, failed_nodes: tuple[NodeId, ...], drill: Drill, history: DrillHistory
    ) -> FailureImpact:
        setup, snapshot = self._setup, self._setup.snapshot
        nodes_at_failure = self._nodes_at_failure
        affected_guests = tuple(
            _find_affected_guests(setup, failed_nodes, nodes_at_failure, history)
        )
        side_effects = _find_side_effects(
            setup, failed_nodes, nodes_at_failure, history
        )
        moved_before = {
            name: node
            for name, node in nodes_at_failure.items()
            if node != snapshot.guests[name].node
        }
        after = _snapshot_after(
            snapshot, failed_nodes, affected_guests, {**moved_before, **side_effects}
        )
        powered = [name for name, node in snapshot.nodes.items() if has_power(node)]
        return FailureImpact(
            nodes=failed_nodes,
            quorate=len(set(powered) - set(failed_nodes)) > len(snapshot.nodes) // 2,
            affected_guests=affected_guests,
            targets=tuple(_recovery_targets(snapshot, after, self._limits)),
            new_violations=new_violations(snapshot, after),
            side_effect_migrations=tuple(sorted(side_effects)),
            moved_before=tuple(sorted(moved_before)),
            includes_master=min(powered, key=lambda name: setup.names.nodes[name])
            in failed_nodes
            if powered
            else False,
            setup=setup,
            drill=drill,
            history=history,
        )

    def _find_guest_nodes(self) -> dict[GuestId, NodeId]:
        """Return the node of each running guest at the time of the failure."""
        names = self._setup.names
        result: dict[GuestId, NodeId] = {}
        for name, guest in self._setup.snapshot.guests.items():
            service = names.services.get(name)
            timeline = None if service is None else self._before.timeline_of(service)
            node = None if timeline is None else _node(self._setup, timeline)
            if guest.is_active:
                result[name] = node or guest.node
        return result


def _power_off_event(name: NodeId) -> ScheduledEvent:
    step = CommandStep(
        f"power {name} off", "node failure", actions.SetPower(name, on=False)
    )
    return ScheduledEvent(FAILURE_TIME, step)


def _find_affected_guests(
    setup: DrillSetup,
    failed_nodes: Collection[NodeId],
    nodes_at_failure: Mapping[GuestId, NodeId],
    history: DrillHistory,
) -> Iterator[AffectedGuest]:
    for name, source in sorted(nodes_at_failure.items()):
        if source not in failed_nodes:
            continue
        guest, service = setup.snapshot.guests[name], setup.names.services.get(name)
        timeline = None if service is None else history.timeline_of(service)
        target = None if timeline is None else _node(setup, timeline)
        yield AffectedGuest(
            guest=guest,
            source=source,
            managed=timeline is not None,
            target=target,
            downtime=None
            if timeline is None or target is None
            else timeline.downtime(history.ended_at),
            blocker=restart_blocker(guest, setup.snapshot.nodes[source]),
        )


def _find_side_effects(
    setup: DrillSetup,
    failed_nodes: Collection[NodeId],
    nodes_at_failure: Mapping[GuestId, NodeId],
    history: DrillHistory,
) -> dict[GuestId, NodeId]:
    """Return the new nodes of guests that moved although their node did not fail."""
    moved = {setup.names.guests[move.service] for move in history.moves}
    result: dict[GuestId, NodeId] = {}
    for name in moved & nodes_at_failure.keys():
        node = _node(setup, history.timeline_of(setup.names.services[name]))
        if nodes_at_failure[name] not in failed_nodes and node not in (
            None,
            nodes_at_failure[name],
        ):
            result[name] = NodeId(str(node))
    return result


def _node(setup: DrillSetup, timeline: ServiceTimeline) -> NodeId | None:
    node = timeline.last.node
    return None if node is None else setup.names.node_name(node)


def _snapshot_after(
    snapshot: Snapshot,
    failed_nodes: Collection[NodeId],
    affected_guests: Collection[AffectedGuest],
    moved: Mapping[GuestId, NodeId],
) -> Snapshot:
    """Return the cluster after the HA manager has settled."""
    restarted = {one.guest.id: one.target for one in affected_guests if one.target}
    after = snapshot
    for guest, target in sorted({**moved, **restarted}.items()):
        source = snapshot.guests[guest].node
        if source != target:
            after = after.apply(ColdMigration(guest, source, target))
    stopped = {
        one.guest.id: replace(one.guest, state=GuestState.STOPPED)
        for one in affected_guests
        if one.target is None
    }
    offline = {
        name: replace(after.nodes[name], state=NodeState.OFFLINE, usage=Usage())
        for name in failed_nodes
    }
    return replace(
        after, guests={**after.guests, **stopped}, nodes={**after.nodes, **offline}
    )


def _recovery_targets(
    before: Snapshot, after: Snapshot, limits: Limits
) -> Iterator[RecoveryTarget]:
    """Yield the nodes that received guests from other nodes."""
    arrivals = {
        guest.node
        for name, guest in after.guests.items()
        if guest.node != before.guests[name].node
    }
    guests_before, guests_after = _guests_by_node(before), _guests_by_node(after)
    for name in sorted(arrivals):
        yield RecoveryTarget(
            node=before.nodes[name],
            before=_available_memory(
                before.nodes[name], guests_before.get(name, []), limits
            ),
            after=_available_memory(
                after.nodes[name], guests_after.get(name, []), limits
            ),
        )


def _guests_by_node(snapshot: Snapshot) -> dict[NodeId, list[Guest]]:
    guests_by_node: dict[NodeId, list[Guest]] = {}
    for guest in snapshot.guests.values():
        for node in guest.occupied_nodes:
            guests_by_node.setdefault(node, []).append(guest)
    return guests_by_node


def _available_memory(
    node: Node, guests: Sequence[Guest], limits: Limits
) -> AvailableMemory:
    used = AvailableMemory(node.usage.memory, required_memory(guests).committed)
    return usable_memory(node, limits).minus(used)
