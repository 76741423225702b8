"""Simulated data center: nodes, guests, and the actions that run on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from opendrs.model import (
    Action,
    ColdMigration,
    DiskMove,
    Guest,
    GuestId,
    GuestState,
    LiveMigration,
    Migration,
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Snapshot,
    Usage,
    copied_size,
    copy_disks,
    disk_named,
    finish_disk_move,
    start_disk_move,
)
from opendrs.ports import TaskState
from opendrs.simulation.action_checks import check_action
from opendrs.simulation.migration_model import DiskCopy, guest_behavior
from opendrs.simulation.observation import SimulatedMetrics
from opendrs.simulation.running_action import RunningAction, operation_for

LINK_BANDWIDTH = 1.25e9  # bytes/s: 10 Gbit/s


class Datacenter:
    """Simulated cluster in which actions take time.

    Time passes in `advance`. Migrations share the link of each node they leave or
    enter; loads vary a little. Everything is determined by the snapshot, the seed, and
    the sequence of calls.

    Args:
        initial: Initial state of the cluster.
        seed: Seed for the behavior of the guests.
        bandwidth: Bytes per second on the link of one node.
        load_variation: Amplitude of a guest's load variation, as a fraction of its CPU
            usage, in [0, 0.5].
        on_elapsed: Called with the start and the length, in seconds, of each period in
            which no action begins or ends, before it passes; None to call nothing.
    """

    def __init__(
        self,
        initial: Snapshot,
        *,
        seed: int,
        bandwidth: float,
        load_variation: float,
        on_elapsed: Callable[[float, float], None] | None = None,
    ) -> None:
        self._seed = seed
        self._on_elapsed = on_elapsed
        self._changes = 0
        self._elapsed = 0.0
        self._advancing = False
        self._bandwidth = bandwidth
        self._load_variation = load_variation
        self._metrics = SimulatedMetrics(initial)
        self._nodes = dict(initial.nodes)
        self._guests = dict(initial.guests)
        self._behaviors = {
            g.id: guest_behavior(g, seed) for g in initial.guests.values()
        }
        self._restarted_at: dict[GuestId, float] = {}
        self._cut_links: set[NodeId] = set()
        self._actions: dict[Action, RunningAction] = {}
        self._faults: list[tuple[float, Callable[[], None]]] = []
        for guest in initial.guests.values():
            if guest.migrating_to is not None:
                self._begin(LiveMigration(guest.id, guest.node, guest.migrating_to))

    def advance(self, until: float) -> None:
        """Let time pass until *until* seconds after the start.

        A fault during that time sees its own time.
        """
        if self._advancing:
            return
        self._advancing = True
        while self._elapsed < until:
            self._run(min(until - self._elapsed, self._time_to_next_event()), until)
            self._inject_faults()
            self._handle_events()
        self._advancing = False

    def observe(self, now: datetime) -> Snapshot:
        """Return the measurable state of the cluster; the clock shows *now*."""
        guests = [
            self._metrics.guest(
                guest,
                self._elapsed - self._restarted_at.get(guest.id, 0.0),
                1
                + self._load_variation
                * self._behaviors[guest.id].load_variation(self._elapsed),
            )
            for guest in self._guests.values()
        ]
        nodes = self._metrics.nodes(self._nodes.values(), guests, self.received())
        return self._metrics.snapshot(now, nodes, guests)

    @property
    def changes(self) -> int:
        """Return the number of changes of nodes and guests since the start."""
        return self._changes

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        """Return the nodes in their current states."""
        return self._nodes

    @property
    def guests(self) -> Mapping[GuestId, Guest]:
        """Return the guests on their current nodes."""
        return self._guests

    def received(self) -> dict[GuestId, int]:
        """Return the bytes of each migrating guest that are on the target."""
        return {
            move.guest: running.operation.received
            for move, running in self._migrations()
        }

    def update(
        self, nodes: Mapping[NodeId, Node], guests: Mapping[GuestId, Guest]
    ) -> None:
        """Replace all nodes and guests, at the same time.

        A migration that *guests* do not contain fails, as do power actions of missing
        nodes. The dirty rate of a guest is the measured one, if there is one.
        """
        for running in self._running_actions():
            action = running.action
            if isinstance(action, PowerOn | PowerOff) and action.node not in nodes:
                self.abort(action, f"{action.node} is no longer in the cluster")
            if isinstance(action, DiskMove) and not _is_moving(action, guests):
                self.abort(action, f"{action.guest}: {action.disk} is no longer moved")
        for move, _ in tuple(self._migrations()):
            guest = guests.get(move.guest)
            if guest is None or guest.migrating_to != move.target:
                self.abort(move, f"{move.guest} is no longer being migrated")
        self._nodes, self._guests = dict(nodes), dict(guests)
        self._changes += 1
        for guest in guests.values():
            if guest.id not in self._behaviors:
                self._behaviors[guest.id] = guest_behavior(guest, self._seed)
            behavior, rate = self._behaviors[guest.id], guest.dirty_rate
            if rate is not None and behavior.dirty_rate != rate:
                self._behaviors[guest.id] = replace(behavior, dirty_rate=rate)

    def start(self, action: Action) -> None:
        """Start *action*.

        Raises:
            PlatformError: The action is not possible in the current state.
            UnsupportedError: The guest cannot be migrated in this way.
        """
        check_action(action, self._nodes, self._guests)
        self._begin(action)

    def running_action(self, action: Action) -> RunningAction | None:
        """Return the state of *action*, or None if it is unknown."""
        return self._actions.get(action)

    def bandwidth_of(self, running: RunningAction) -> float:
        """Return the bytes per second of an action: its share of the fuller link."""
        return self._bandwidth / max(
            self._transfers_per_link()[node] for node in running.nodes
        )

    def abort(self, action: Action, detail: str) -> None:
        """Fail *action* if it is running; its guest stays on its node."""
        running = self._actions.get(action)
        if running is None or not running.is_running:
            return
        running.end(TaskState.FAILED, detail)
        self._changes += 1
        if isinstance(action, DiskMove):
            guest = self._guests[action.guest]
            disks = [replace(each, moving_to=None) for each in guest.disks or ()]
            self._guests[guest.id] = replace(guest, disks=tuple(disks))
        elif not isinstance(action, PowerOn | PowerOff):
            guest = self._guests[action.guest]
            self._guests[guest.id] = replace(guest, migrating_to=None)

    def forget_task(self, action: Action) -> None:
        """Remove *action* from the known tasks, as a restarted service does."""
        self._actions.pop(action, None)

    def fail_node(self, node: NodeId) -> None:
        """Fail *node* and the guests on it."""
        self._changes += 1
        for running in self._actions_on(node):
            self.abort(running.action, f"{node} died")
        self._nodes[node] = replace(self._nodes[node], state=NodeState.OFFLINE)
        for guest in self._guests.values():
            if guest.node == node:
                self._guests[guest.id] = replace(
                    guest, state=GuestState.UNKNOWN, usage=Usage(), pressure=Pressure()
                )

    def cut_link(self, node: NodeId) -> None:
        """Cut the link of *node*: its guests keep running, but cannot migrate."""
        self._cut_links.add(node)
        self._handle_events()

    def restore_link(self, node: NodeId) -> None:
        """Restore the link of *node*."""
        self._cut_links.discard(node)

    def make_non_converging(self, guest: GuestId) -> None:
        """Let *guest* dirty memory faster than it can be sent.

        Its next migration does not converge.
        """
        memory = self._guests[guest].usage.memory or 1
        self._behaviors[guest] = replace(
            self._behaviors[guest],
            dirty_rate=2 * self._bandwidth,
            working_set=max(1.0, self._bandwidth / memory),
        )

    def schedule_fault(self, seconds: float, fault: Callable[[], None]) -> None:
        """Schedule *fault* in *seconds* from now."""
        self._faults.append((self._elapsed + seconds, fault))

    def _run(self, seconds: float, until: float) -> None:
        if self._on_elapsed is not None:
            self._on_elapsed(self._elapsed, seconds)
        for running in self._running_actions():
            running.operation.run(seconds, self.bandwidth_of(running))
        elapsed = self._elapsed + seconds
        # Rounding errors in the sum must not stop the clock just before the end.
        self._elapsed = until if abs(elapsed - until) < 1e-9 else elapsed

    def _time_to_next_event(self) -> float:
        """Return the seconds until the next event."""
        events = [
            running.operation.time_to_event(self.bandwidth_of(running))
            for running in self._running_actions()
        ]
        events += [at - self._elapsed for at, _ in self._faults]
        return max(0.0, min(events, default=math.inf))

    def _inject_faults(self) -> None:
        """Inject the faults that are due, earliest first."""
        due = [
            scheduled
            for scheduled in self._faults
            if scheduled[0] <= self._elapsed + 1e-9
        ]
        self._faults = [scheduled for scheduled in self._faults if scheduled not in due]
        for _, fault in sorted(due, key=lambda entry: entry[0]):
            fault()

    def _handle_events(self) -> None:
        for running in self._running_actions():
            cut_links = self._cut_links & set(running.nodes)
            if cut_links and running.uses_network:
                detail = f"the connection to {min(cut_links)} broke"
                self.abort(running.action, detail)
            elif running.operation.handle_event(self.bandwidth_of(running)):
                running.end(TaskState.DONE, "")
                self._complete(running.action)

    def _complete(self, action: Action) -> None:
        self._changes += 1
        if isinstance(action, PowerOn | PowerOff):
            powered_on = isinstance(action, PowerOn)
            state = NodeState.ONLINE if powered_on else NodeState.OFFLINE
            self._nodes[action.node] = replace(self._nodes[action.node], state=state)
            return
        nodes = self._nodes
        if isinstance(action, DiskMove):
            guest = finish_disk_move(self._guests[action.guest], action, nodes)
            self._guests[guest.id] = guest
            return
        moved, *changed = copy_disks(
            self._guests[action.guest], nodes[action.source], nodes[action.target]
        )
        nodes.update({node.id: node for node in changed})
        guest = replace(moved, node=action.target, migrating_to=None)
        if isinstance(action, ColdMigration) and guest.uptime is not None:
            guest = replace(guest, uptime=0.0)
            self._restarted_at[guest.id] = self._elapsed
        self._guests[guest.id] = guest

    def _begin(self, action: Action) -> None:
        self._changes += 1
        memory, behavior, copied = None, None, 0
        if isinstance(action, DiskMove):
            guest = start_disk_move(self._guests[action.guest], action)
            self._guests[guest.id] = guest
            moved = disk_named(guest, action.disk)
            copied = (moved and moved.size) or 0
        elif not isinstance(action, PowerOn | PowerOff):
            guest = replace(self._guests[action.guest], migrating_to=action.target)
            self._guests[guest.id] = guest
            memory, behavior = guest.usage.memory, self._behaviors[guest.id]
            copied = copied_size(guest, self._nodes[guest.node])
        operation = operation_for(action, memory, behavior)
        operation = DiskCopy(copied, operation) if copied else operation
        self._actions[action] = RunningAction(action, operation)
        self._handle_events()

    def _transfers_per_link(self) -> Counter[NodeId]:
        """Return the number of transfers on the link of each node, at least one."""
        transfers = Counter(
            node
            for running in self._running_actions()
            if running.uses_network
            for node in running.nodes
        )
        return Counter({node: max(1, transfers[node]) for node in self._nodes})

    def _running_actions(self) -> tuple[RunningAction, ...]:
        return tuple(
            running for running in self._actions.values() if running.is_running
        )

    def _migrations(self) -> Iterator[tuple[Migration, RunningAction]]:
        for running in self._running_actions():
            if isinstance(running.action, Migration):
                yield running.action, running

    def _actions_on(self, node: NodeId) -> tuple[RunningAction, ...]:
        return tuple(
            running for running in self._running_actions() if node in running.nodes
        )


def _is_moving(move: DiskMove, guests: Mapping[GuestId, Guest]) -> bool:
    """Return True if the disk is still there, and being moved."""
    guest = guests.get(move.guest)
    disk = None if guest is None else disk_named(guest, move.disk)
    return disk is not None and disk.moving_to == move.target_storage
