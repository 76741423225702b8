"""Recorded cluster as a platform: recorded load, simulated placement.

The guests and their load, the states of nodes and the rules are those of the record at
each time. Placement, migrations, moves of disks and power actions are simulated. Five
rules connect both:

- A guest appears on its recorded node, and stays where it is until it migrates.
- A guest on a node that is recorded as off or missing, while its recorded node is on,
  is placed on its recorded node: the platform restarted or moved it.
- A guest that appears on a node that was powered off in the simulation is placed on the
  online node with the most available memory.
- A node that was powered off in the simulation stays off until it is powered on there,
  and the reverse for a node that is recorded as off.
- A disk stays on its recorded storage until it is moved, and the free space of storages
  follows the simulated disks (`disks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from opendrs.model import (
    Action,
    Guest,
    GuestId,
    Node,
    NodeId,
    NodeState,
    Pressure,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.ports import TaskId, TaskState, TaskStatus
from opendrs.simulation.backtest.disks import SimulatedDisks, with_simulated_space
from opendrs.simulation.backtest.load import (
    MEMORY,
    Placement,
    node_demand,
    placement_of,
)
from opendrs.simulation.backtest.meter import PlacementMeter
from opendrs.simulation.backtest.record import Floats, LoadRecord
from opendrs.simulation.clock import SimulatedClock
from opendrs.simulation.datacenter import Datacenter
from opendrs.simulation.observation import with_stall, with_usage


class RecordedPlatform:
    """Cluster of a record that implements `opendrs.ports.Platform`.

    Its clock is at the time of the first snapshot at the start. Measurements are those
    of the newest snapshot, for the simulated placement.

    Args:
        record: The record.
        seed: Seed of the dirty rates of guests whose dirty rate is not recorded.
        bandwidth: Bytes per second on the link of one node.

    Attributes:
        clock: The clock that drives the simulation.
        meter: Receives each period with its placement.
        relocations: Number of guests placed on another node because theirs was off.
    """

    def __init__(self, record: LoadRecord, *, seed: int, bandwidth: float) -> None:
        self.clock = SimulatedClock(record.times[0])
        self.meter = PlacementMeter(record)
        self.relocations = 0
        self._record = record
        self._index = 0
        self._recorded = record.snapshot(0)
        self._tasks: dict[TaskId, Action] = {}
        self._node_of: dict[GuestId, NodeId] = {}  # also of guests that are gone
        self._disks = SimulatedDisks()
        self._states: dict[NodeId, NodeState] = {}  # as of the last snapshot
        self._powered_on: dict[NodeId, bool] = {}  # by power actions since the start
        self._datacenter = Datacenter(
            replace(self._recorded, nodes={}, guests={}),
            seed=seed,
            bandwidth=bandwidth,
            load_variation=0.0,
            on_elapsed=self._add_period,
        )
        self._placement: tuple[int, Placement] | None = None
        self._load_snapshot()

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return "backtest"

    @property
    def index(self) -> int:
        """Return the index of the snapshot of the current time."""
        return self._index

    def advance(self) -> None:
        """Simulate up to the time of the clock, at most to the end of the record."""
        now = self.clock.monotonic()
        offsets = self._record.offsets
        while self._index + 1 < len(offsets) and offsets[self._index + 1] <= now:
            self._datacenter.advance(offsets[self._index + 1])
            self._index += 1
            self._load_snapshot()
        self._datacenter.advance(now)

    def finish(self) -> None:
        """Simulate up to the end of the record."""
        remaining = self._record.end - self.clock.monotonic()
        if remaining > 0:
            self.clock.sleep(remaining)
        self.advance()

    def observe(self) -> Snapshot:
        """Return the current snapshot of the cluster."""
        self.advance()
        demand = self._demand()
        nodes = {
            node.id: self._measured_node(node, demand)
            for node in self._datacenter.nodes.values()
        }
        return Snapshot(
            taken_at=self.clock.now(),
            nodes=nodes,
            guests={
                guest.id: self._measured_guest(guest, nodes)
                for guest in self._datacenter.guests.values()
            },
            rules=self._recorded.rules,
        )

    def start(self, action: Action) -> TaskId:
        """Start *action* and return its task."""
        self.advance()
        self._datacenter.start(action)
        return self.find(action)

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have."""
        task = TaskId(repr(action))
        self._tasks[task] = action
        return task

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""
        self.advance()
        running = self._datacenter.running_action(self._tasks[task])
        if running is None:
            return TaskStatus(TaskState.LOST, f"{task} is unknown")
        return TaskStatus(running.state, running.detail)

    def abort(self, task: TaskId) -> None:
        """Request the abort of *task*."""
        self.advance()
        self._datacenter.abort(self._tasks[task], "aborted on request")

    def place(self, node_of: Mapping[GuestId, NodeId]) -> None:
        """Place guests on other nodes at once, at no cost."""
        guests = dict(self._datacenter.guests)
        for name, node in node_of.items():
            guests[name] = replace(guests[name], node=node, migrating_to=None)
        self._datacenter.update(self._datacenter.nodes, guests)

    # Snapshots of the record

    def _load_snapshot(self) -> None:
        """Replace load, states and rules by those of the current snapshot."""
        former = self._datacenter.guests
        self._node_of.update({name: guest.node for name, guest in former.items()})
        self._disks.keep(former)
        for name, node in self._datacenter.nodes.items():
            if node.state is not self._states[name]:
                self._powered_on[name] = node.online
        self._recorded = self._record.snapshot(self._index)
        nodes = {
            node.id: self._powered_node(node) for node in self._recorded.nodes.values()
        }
        self._states = {name: node.state for name, node in nodes.items()}
        self._restart_guests(nodes)
        guests = {
            guest.id: self._placed_guest(guest, former.get(guest.id), nodes)
            for guest in self._recorded.guests.values()
        }
        nodes = with_simulated_space(nodes, self._recorded.guests, guests)
        self._datacenter.update(nodes, guests)

    def _powered_node(self, node: Node) -> Node:
        """Return the recorded *node* with the power state of the simulation."""
        powered_on = self._powered_on.get(node.id)
        if powered_on is False and node.reachable:
            return replace(node, state=NodeState.OFFLINE)
        if powered_on is True and node.state is NodeState.OFFLINE:
            cpu, memory = self._capacity(node.id)
            return replace(
                node, state=NodeState.ONLINE, capacity=Resources(cpu, int(memory))
            )
        return node

    def _capacity(self, node: NodeId) -> tuple[float, float]:
        cpu, memory = self._record.capacity[
            self._index, self._record.node_index[node]
        ].tolist()
        return cpu, memory

    def _restart_guests(self, nodes: Mapping[NodeId, Node]) -> None:
        """Place the guests that appear, and those on nodes that are off or missing."""
        for guest in self._recorded.guests.values():
            former = self._node_of.get(guest.id)
            node = guest.node if former is None else former
            if not _is_reachable(nodes.get(node)):
                node = self._restart_node(guest, nodes)
            self.relocations += (
                former is not None and guest.is_active and node != former
            )
            self._node_of[guest.id] = node

    def _restart_node(self, guest: Guest, nodes: Mapping[NodeId, Node]) -> NodeId:
        """Return the node of *guest* if that of the simulation is off or missing."""
        was_on = self._recorded.nodes[guest.node].reachable
        if nodes[guest.node].reachable or not was_on:
            return guest.node
        available = {
            name: self._available_memory(name)
            for name, node in sorted(nodes.items())
            if node.online and node.capacity is not None
        }
        return max(available, key=available.__getitem__, default=guest.node)

    def _available_memory(self, node: NodeId) -> float:
        """Return the bytes of *node* that its measured guests do not use."""
        guests = (
            guest
            for guest in self._recorded.guests.values()
            if guest.is_active and self._node_of.get(guest.id) == node
        )
        return self._capacity(node)[MEMORY] - sum(
            guest.usage.memory or 0 for guest in guests
        )

    def _placed_guest(
        self, guest: Guest, former: Guest | None, nodes: Mapping[NodeId, Node]
    ) -> Guest:
        """Return the recorded *guest* on its simulated node and storages."""
        node = self._node_of[guest.id]
        if former is None or former.node != node or former.state is not guest.state:
            return replace(self._disks.placed(guest, None), node=node)
        target = former.migrating_to
        if target is not None and not _is_reachable(nodes.get(target)):
            target = None
        placed = self._disks.placed(guest, former)
        return replace(placed, node=node, migrating_to=target)

    # Placement and measurements

    def _add_period(self, start: float, seconds: float) -> None:
        self.meter.add(self._current_placement(), start, seconds)

    def _current_placement(self) -> Placement:
        changes = self._datacenter.changes
        if self._placement is None or self._placement[0] != changes:
            placement = placement_of(
                self._record,
                self._index,
                replace(
                    self._recorded,
                    nodes=self._datacenter.nodes,
                    guests=self._datacenter.guests,
                ),
            )
            self._placement = changes, placement
        return self._placement[1]

    def _demand(self) -> Floats:
        """Return the usage of each node, with the received part of migrations."""
        demand = node_demand(self._record, self._current_placement())
        guests = self._datacenter.guests
        for name, received in self._datacenter.received().items():
            target, memory = guests[name].migrating_to, guests[name].usage.memory
            if target is not None and memory is not None:
                row = self._record.node_index[target]
                demand[row, MEMORY] -= max(0, memory - received)
        return demand

    def _measured_node(self, node: Node, demand: Floats) -> Node:
        """Return *node* with its measurements under the simulated placement."""
        if not node.reachable:
            return replace(node, usage=Usage(), pressure=Pressure(), load_average=None)
        cpu, memory = demand[self._record.node_index[node.id]].tolist()
        if node.capacity is not None:
            cpu = min(cpu, node.capacity.cpu)
        usage = Usage(
            None if np.isnan(cpu) else cpu,
            None if np.isnan(memory) else max(0, round(memory)),
        )
        return with_usage(node, self._recorded.nodes[node.id].usage, usage)

    def _measured_guest(self, guest: Guest, nodes: Mapping[NodeId, Node]) -> Guest:
        """Return *guest* with its stall on its simulated node."""
        measured_on = self._recorded.guests[guest.id].node
        return with_stall(guest, self._recorded.nodes[measured_on], nodes[guest.node])


def _is_reachable(node: Node | None) -> bool:
    return node is not None and node.reachable
