"""Short histories do not look idle, and steady load reaches a fixed point."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from opendrs.model import (
    GIB,
    Action,
    Affinity,
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.agent_requests import AgentInput, AgentRequest
from opendrs.policies.consolidation.memory import ConsolidationMemory
from support.builders import NOON, cluster

INTERVAL = timedelta(seconds=300)
WITH_POWER = Consolidate(manage_power=True)
Guests = Mapping[str, tuple[str, float]]


def snapshot_of_cycle(
    guests: Guests, nodes: Mapping[str, float | None], cycle: int, *together: str
) -> Snapshot:
    """Return the cluster in *cycle*; some guests may have affinity."""
    bound = frozenset(map(GuestId, together))
    rules = [Affinity(guests=bound, strict=True)] if bound else []
    found = with_little_memory(cluster(nodes, {**guests}, rules))
    return replace(found, taken_at=NOON + cycle * INTERVAL)


def with_little_memory(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with guests of little memory, so that CPU decides."""
    guests = {
        name: replace(
            guest, limit=Resources(10, GIB), usage=replace(guest.usage, memory=GIB)
        )
        for name, guest in snapshot.guests.items()
    }
    nodes = {
        name: replace(node, usage=replace(node.usage, memory=len(guests) * GIB))
        if node.usage.resources
        else node
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def with_started_guest(snapshot: Snapshot, name: str) -> Snapshot:
    """Return *snapshot* with that guest just started."""
    fresh = replace(snapshot.guests[GuestId(name)], uptime=30.0)
    return replace(snapshot, guests={**snapshot.guests, fresh.id: fresh})


def test_started_guest_counts_with_full_usage() -> None:
    before: Guests = {"old": ("a", 0.2), "vm": ("b", 0.4)}
    memory = WITH_POWER.initial_memory()
    for cycle in range(20):
        snapshot = snapshot_of_cycle(before, {"a": 0.2, "b": 0.4}, cycle)
        moved = {g: replace(v, migrated_at=NOON) for g, v in snapshot.guests.items()}
        resting = replace(snapshot, guests=moved, taken_at=NOON)
        memory = WITH_POWER.decide(resting, memory).memory

    now = snapshot_of_cycle({**before, "new": ("a", 0.75)}, {"a": 0.95, "b": 0.4}, 20)
    plan = WITH_POWER.decide(with_started_guest(now, "new"), memory).plan

    assert "a" not in {
        step.action.target
        for step in plan.steps
        if isinstance(step.action, LiveMigration | ColdMigration)
    }


def test_node_with_missing_metrics_is_not_treated_as_idle() -> None:
    guests: Guests = {"vm": ("a", 0.3), "other": ("b", 0.3)}
    pressed = {"a": 0.9, "b": 0.3}  # most of what a uses is its own
    memory = WITH_POWER.initial_memory()
    for cycle in range(20):
        loads = {**pressed, "a": None} if cycle == 18 else pressed
        memory = WITH_POWER.decide(
            snapshot_of_cycle(guests, loads, cycle), memory
        ).memory

    now = with_started_guest(snapshot_of_cycle(guests, pressed, 20), "vm")
    plan = WITH_POWER.decide(now, memory).plan

    assert not any(
        isinstance(step.action, LiveMigration) and step.action.target == "a"
        for step in plan.steps
    )


def test_started_guest_of_move_group_counts_with_full_usage() -> None:
    before: Guests = {"old": ("a", 0.03), "vm": ("b", 0.5)}
    memory = WITH_POWER.initial_memory()
    for cycle in range(30):
        snapshot = snapshot_of_cycle(before, {"a": 0.04, "b": 0.51}, cycle)
        memory = WITH_POWER.decide(snapshot, memory).memory

    both: Guests = {**before, "new": ("a", 0.75)}
    now = snapshot_of_cycle(both, {"a": 0.79, "b": 0.51}, 30, "old", "new")

    assert WITH_POWER.decide(now, memory).plan.steps == ()


@dataclass
class SimulatedHosts:
    """Cluster with random loads to which decisions are applied.

    Attributes:
        placement: Node of each guest.
        load: Returns the load of a guest in a cycle, as a fraction of a node.
        powered_off: Nodes that are powered off.
        migrations: Number of migrations in each cycle.
        power_ons: Number of power-ons.
    """

    nodes: int
    placement: dict[str, str]
    load: Callable[[str, int], float]
    powered_off: set[str] = field(default_factory=set)
    migrations: list[int] = field(default_factory=list)
    power_ons: int = 0

    def run(self, decide: Callable[[Snapshot], Plan], cycles: int) -> None:
        """Apply the decision of each of *cycles* at once."""
        for cycle in range(cycles):
            steps = decide(self._snapshot(cycle)).steps
            self.migrations.append(
                sum(isinstance(s.action, LiveMigration) for s in steps)
            )
            for step in steps:
                self._do(step.action)

    def _snapshot(self, cycle: int) -> Snapshot:
        demands = {name: self.load(name, cycle) for name in self.placement}
        nodes = {f"n{n}": 0.02 for n in range(self.nodes)}
        for name, node in self.placement.items():
            nodes[node] += demands[name]
        guests = {
            name: (node, demands[name] / max(1.0, nodes[node]))
            for name, node in self.placement.items()
        }
        found = snapshot_of_cycle(
            guests, {n: min(1.0, load) for n, load in nodes.items()}, cycle
        )
        observed_nodes = {
            name: replace(node, state=NodeState.OFFLINE, usage=Usage())
            if name in self.powered_off
            else node
            for name, node in found.nodes.items()
        }
        return replace(found, nodes=observed_nodes)

    def _do(self, action: Action) -> None:
        if isinstance(action, PowerOff):
            assert action.node not in self.placement.values()
            self.powered_off.add(action.node)
        elif isinstance(action, PowerOn):
            self.powered_off.remove(action.node)
            self.power_ons += 1
        else:
            self.placement[action.guest] = action.target


def centrally(policy: Consolidate) -> Callable[[Snapshot], Plan]:
    """Decide by one policy with all samples."""
    memory: ConsolidationMemory = policy.initial_memory()

    def decide(snapshot: Snapshot) -> Plan:
        nonlocal memory
        decision = policy.decide(snapshot, memory)
        memory = json.loads(json.dumps(decision.memory))
        return decision.plan

    return decide


def by_agents(policy: Consolidate) -> Callable[[Snapshot], Plan]:
    """Decide on the requests of all agents."""
    memories: dict[NodeId, ConsolidationMemory] = {}

    def agent_requests(snapshot: Snapshot) -> Iterator[tuple[NodeId, AgentRequest]]:
        for name in [n.id for n in snapshot.nodes.values() if n.online]:
            here = {g.id: g for g in snapshot.guests.values() if g.node == name}
            own = replace(snapshot, nodes={name: snapshot.nodes[name]}, guests=here)
            past = memories.get(name, policy.initial_memory())
            request, memories[name] = policy.agent_request(own, past, name)
            if request is not None:
                yield name, request

    def decide(snapshot: Snapshot) -> Plan:
        requests = dict(agent_requests(snapshot))
        pool: AgentInput = {
            "guests": {
                g: h for n in requests for g, h in memories[n]["guests"].items()
            },
            "nodes": {n: memories[n]["nodes"][n] for n in requests},
            "requests": {str(name): request for name, request in requests.items()},
        }
        return policy.decide_requests(snapshot, pool).plan

    return decide


def noisy(guest: str, cycle: int) -> float:
    """Return a load with a constant mean that varies all the time."""
    random = Random(f"{guest} {cycle}")  # noqa: S311 - nothing is kept secret by it
    mean = 0.03 + 0.2 * Random(guest).random()  # noqa: S311
    return min(2 * mean, max(0.0, mean * (1 + 0.5 * random.gauss(0, 1))))


@pytest.mark.parametrize("by", [centrally, by_agents])
def test_stationary_load_reaches_a_fixed_point(
    by: Callable[[Consolidate], Callable[[Snapshot], Plan]],
) -> None:
    place = {f"vm{each}": f"n{each % 6}" for each in range(20)}
    hosts = SimulatedHosts(6, place, noisy)

    hosts.run(by(WITH_POWER), 150)

    assert hosts.powered_off
    assert hosts.power_ons <= 1
    assert sum(hosts.migrations[:30]) > 0
    assert sum(hosts.migrations[30:]) < len(place)


def test_single_guest_on_full_node_is_not_moved() -> None:
    def load(guest: str, _: int) -> float:
        return {"big": 0.95, "small": 0.1}[guest]

    hosts = SimulatedHosts(3, {"big": "n0", "small": "n1"}, load)

    hosts.run(centrally(WITH_POWER), 30)

    assert hosts.powered_off == {"n2"}
    assert (sum(hosts.migrations), hosts.power_ons) == (0, 0)
