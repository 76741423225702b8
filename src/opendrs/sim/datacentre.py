"""Nodes, guests, and what is under way between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from opendrs.model import (
    Action,
    GuestId,
    GuestState,
    Migration,
    Move,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Relocation,
    Snapshot,
    Usage,
)
from opendrs.ports import TaskState
from opendrs.sim.admission import require_possible
from opendrs.sim.journey import Journey, work_for
from opendrs.sim.observation import Instruments
from opendrs.sim.temper import temper_of

NETWORK = 1.25e9  # bytes/s: 10 Gbit/s


class Datacentre:
    """A cluster in which things take time.

    Its time passes in `advance`. Migrations share the link of each node they
    leave or enter; loads swing a little. All of it follows from the snapshot,
    the seed, and what is asked of it when.

    Args:
        origin: The cluster in the beginning.
        seed: Draws how guests behave.
        bandwidth: Bytes a second over the link of one node.
        swing: Part of its cpu use, in [0, 0.5], by which a guest's load varies.
    """

    def __init__(
        self, origin: Snapshot, *, seed: int, bandwidth: float, swing: float
    ) -> None:
        self._elapsed = 0.0
        self._advancing = False
        self._bandwidth = bandwidth
        self._swing = swing
        self._instruments = Instruments(origin)
        self._nodes = dict(origin.nodes)
        self._guests = dict(origin.guests)
        self._tempers = {g.id: temper_of(g, seed) for g in origin.guests.values()}
        self._restarted: dict[GuestId, float] = {}
        self._cut: set[NodeId] = set()
        self._journeys: dict[Action, Journey] = {}
        self._faults: list[tuple[float, Callable[[], None]]] = []
        for guest in origin.guests.values():
            if guest.migrating_to is not None:
                self._set_out(Migration(guest.id, guest.node, guest.migrating_to))

    def advance(self, until: float) -> None:
        """Let time pass until so many seconds after the beginning.

        A fault that happens meanwhile sees its own time.
        """
        if self._advancing:
            return
        self._advancing = True
        while self._elapsed < until:
            self._pass(min(until - self._elapsed, self._quiet_time()), until)
            self._strike()
            self._attend()
        self._advancing = False

    def observe(self, now: datetime) -> Snapshot:
        """Return what can be measured; the clock says that it is *now*."""
        guests = [
            self._instruments.guest(
                guest,
                self._elapsed - self._restarted.get(guest.id, 0.0),
                1 + self._swing * self._tempers[guest.id].swing(self._elapsed),
            )
            for guest in self._guests.values()
        ]
        arrived = {move.guest: j.work.arrived for move, j in self._moves()}
        nodes = [
            self._instruments.node(node, guests, arrived)
            for node in self._nodes.values()
        ]
        return self._instruments.snapshot(now, nodes, guests)

    def begin(self, action: Action) -> None:
        """Begin *action*.

        Raises:
            PlatformError: It is not possible as things are.
            UnsupportedError: The guest cannot be moved in this way.
        """
        require_possible(action, self._nodes, self._guests)
        self._set_out(action)

    def journey(self, action: Action) -> Journey | None:
        """Return what became of *action*, or None if it is not known."""
        return self._journeys.get(action)

    def bandwidth_of(self, journey: Journey) -> float:
        """Return the bytes a second it has: its share of the fuller link."""
        return self._bandwidth / max(self._links()[node] for node in journey.nodes)

    def give_up(self, action: Action, why: str) -> None:
        """End *action*, if it is under way; its guest stays where it is."""
        journey = self._journeys.get(action)
        if journey is None or not journey.running:
            return
        journey.end(TaskState.FAILED, why)
        if isinstance(action, Migration | Relocation):
            guest = self._guests[action.guest]
            self._guests[guest.id] = replace(guest, migrating_to=None)

    def forget(self, action: Action) -> None:
        """Lose the memory of *action*, as a service does that starts anew."""
        self._journeys.pop(action, None)

    def kill(self, node: NodeId) -> None:
        """Let *node* die, and the guests on it."""
        for journey in self._on(node):
            self.give_up(journey.action, f"{node} died")
        self._nodes[node] = replace(self._nodes[node], state=NodeState.OFFLINE)
        for guest in self._guests.values():
            if guest.node == node:
                self._guests[guest.id] = replace(
                    guest, state=GuestState.UNKNOWN, usage=Usage(), pressure=Pressure()
                )

    def cut(self, node: NodeId) -> None:
        """Cut the link of *node*: its guests run on, and none comes or goes."""
        self._cut.add(node)
        self._attend()

    def mend(self, node: NodeId) -> None:
        """Mend the link of *node*."""
        self._cut.discard(node)

    def agitate(self, guest: GuestId) -> None:
        """Let *guest* write more than can be sent, so that it never converges.

        It takes effect at its next migration.
        """
        memory = self._guests[guest].usage.memory or 1
        self._tempers[guest] = replace(
            self._tempers[guest],
            dirty_rate=2 * self._bandwidth,
            working_set=max(1.0, self._bandwidth / memory),
        )

    def later(self, seconds: float, fault: Callable[[], None]) -> None:
        """Let *fault* happen *seconds* from now."""
        self._faults.append((self._elapsed + seconds, fault))

    def _pass(self, seconds: float, until: float) -> None:
        for journey in self._under_way():
            journey.work.run(seconds, self.bandwidth_of(journey))
        passed = self._elapsed + seconds
        # Adding up seconds must not stop short of the end by a rounding.
        self._elapsed = until if abs(passed - until) < 1e-9 else passed

    def _quiet_time(self) -> float:
        """Return the seconds in which nothing happens by itself."""
        events = [
            journey.work.attention_in(self.bandwidth_of(journey))
            for journey in self._under_way()
        ]
        events += [at - self._elapsed for at, _ in self._faults]
        return max(0.0, min(events, default=math.inf))

    def _strike(self) -> None:
        """Let the faults happen that are due, the earliest first."""
        due = [entry for entry in self._faults if entry[0] <= self._elapsed + 1e-9]
        self._faults = [entry for entry in self._faults if entry not in due]
        for _, fault in sorted(due, key=lambda entry: entry[0]):
            fault()

    def _attend(self) -> None:
        for journey in self._under_way():
            broken = self._cut & set(journey.nodes)
            if broken and journey.over_the_network:
                why = f"the connection to {min(broken)} broke"
                self.give_up(journey.action, why)
            elif journey.work.attend(self.bandwidth_of(journey)):
                journey.end(TaskState.DONE, "")
                self._arrive(journey.action)

    def _arrive(self, action: Action) -> None:
        if isinstance(action, PowerOn | PowerOff):
            on = isinstance(action, PowerOn)
            state = NodeState.ONLINE if on else NodeState.OFFLINE
            self._nodes[action.node] = replace(self._nodes[action.node], state=state)
            return
        guest = replace(
            self._guests[action.guest], node=action.target, migrating_to=None
        )
        if isinstance(action, Relocation) and guest.uptime is not None:
            guest = replace(guest, uptime=0.0)
            self._restarted[guest.id] = self._elapsed
        self._guests[guest.id] = guest

    def _set_out(self, action: Action) -> None:
        memory, temper = None, None
        if isinstance(action, Migration | Relocation):
            guest = replace(self._guests[action.guest], migrating_to=action.target)
            self._guests[guest.id] = guest
            memory, temper = guest.usage.memory, self._tempers[guest.id]
        self._journeys[action] = Journey(action, work_for(action, memory, temper))
        self._attend()

    def _links(self) -> Counter[NodeId]:
        """Return how many transfers share the link of each node, at least one."""
        users = Counter(
            node
            for journey in self._under_way()
            if journey.over_the_network
            for node in journey.nodes
        )
        return Counter({node: max(1, users[node]) for node in self._nodes})

    def _under_way(self) -> tuple[Journey, ...]:
        return tuple(j for j in self._journeys.values() if j.running)

    def _moves(self) -> Iterator[tuple[Move, Journey]]:
        for journey in self._under_way():
            if isinstance(journey.action, Migration | Relocation):
                yield journey.action, journey

    def _on(self, node: NodeId) -> tuple[Journey, ...]:
        return tuple(j for j in self._under_way() if node in j.nodes)
