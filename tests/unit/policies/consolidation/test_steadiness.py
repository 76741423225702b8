"""Little that is known does not make hosts look idle, and steady load comes to rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

import pytest

from builders import NOON, cluster
from opendrs.model import (
    GIB,
    Action,
    Affinity,
    GuestId,
    Migration,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Relocation,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.memories import Memory
from opendrs.policies.consolidation.petitions import Petition, Petitions

INTERVAL = timedelta(seconds=300)
POWERED = Consolidate(power=True)
Guests = Mapping[str, tuple[str, float]]


def seen(
    guests: Guests, nodes: Mapping[str, float | None], cycle: int, *together: str
) -> Snapshot:
    """Return a cluster as it is in *cycle*; some guests may have to stay together."""
    bound = frozenset(map(GuestId, together))
    rules = [Affinity(guests=bound, strict=True)] if bound else []
    found = light(cluster(nodes, {**guests}, rules))
    return replace(found, taken_at=NOON + cycle * INTERVAL)


def light(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with guests that hardly need memory, so that CPU decides."""
    guests = {
        name: replace(
            guest, limit=Resources(10, GIB), usage=replace(guest.usage, memory=GIB)
        )
        for name, guest in snapshot.guests.items()
    }
    nodes = {
        name: replace(node, usage=replace(node.usage, memory=len(guests) * GIB))
        if node.usage.known
        else node
        for name, node in snapshot.nodes.items()
    }
    return replace(snapshot, nodes=nodes, guests=guests)


def with_fresh(snapshot: Snapshot, name: str) -> Snapshot:
    """Return *snapshot* in which that guest has just started."""
    fresh = replace(snapshot.guests[GuestId(name)], uptime=30.0)
    return replace(snapshot, guests={**snapshot.guests, fresh.id: fresh})


def test_a_guest_that_has_just_started_counts_with_all_it_uses() -> None:
    before: Guests = {"old": ("a", 0.2), "vm": ("b", 0.4)}
    memory = POWERED.initial_memory()
    for cycle in range(20):
        snapshot = seen(before, {"a": 0.2, "b": 0.4}, cycle)
        moved = {g: replace(v, moved_at=NOON) for g, v in snapshot.guests.items()}
        resting = replace(snapshot, guests=moved, taken_at=NOON)
        memory = POWERED.decide(resting, memory).memory

    now = seen({**before, "new": ("a", 0.75)}, {"a": 0.95, "b": 0.4}, 20)
    plan = POWERED.decide(with_fresh(now, "new"), memory).plan

    assert "a" not in {
        step.action.target
        for step in plan.steps
        if isinstance(step.action, Migration | Relocation)
    }


def test_a_node_that_was_not_measured_for_a_while_is_not_taken_for_idle() -> None:
    guests: Guests = {"vm": ("a", 0.3), "other": ("b", 0.3)}
    pressed = {"a": 0.9, "b": 0.3}  # most of what a uses is its own
    memory = POWERED.initial_memory()
    for cycle in range(20):
        loads = {**pressed, "a": None} if cycle == 18 else pressed
        memory = POWERED.decide(seen(guests, loads, cycle), memory).memory

    now = with_fresh(seen(guests, pressed, 20), "vm")
    plan = POWERED.decide(now, memory).plan

    assert not any(
        isinstance(step.action, Migration) and step.action.target == "a"
        for step in plan.steps
    )


def test_of_guests_that_stay_together_the_newest_counts_with_all_it_uses() -> None:
    before: Guests = {"old": ("a", 0.03), "vm": ("b", 0.5)}
    memory = POWERED.initial_memory()
    for cycle in range(30):
        snapshot = seen(before, {"a": 0.04, "b": 0.51}, cycle)
        memory = POWERED.decide(snapshot, memory).memory

    both: Guests = {**before, "new": ("a", 0.75)}
    now = seen(both, {"a": 0.79, "b": 0.51}, 30, "old", "new")

    assert POWERED.decide(now, memory).plan.steps == ()


@dataclass
class Hall:
    """Hosts with guests whose load is drawn, and what is done to them.

    Attributes:
        place: Where each guest is.
        load: Returns what a guest asks for in a cycle, as a part of a host.
        asleep: The hosts that sleep.
        moves: How many moves each cycle had.
        wakes: How often a host was woken.
    """

    nodes: int
    place: dict[str, str]
    load: Callable[[str, int], float]
    asleep: set[str] = field(default_factory=set)
    moves: list[int] = field(default_factory=list)
    wakes: int = 0

    def run(self, decide: Callable[[Snapshot], Plan], cycles: int) -> None:
        """Carry out at once what is decided in each of *cycles*."""
        for cycle in range(cycles):
            steps = decide(self._seen(cycle)).steps
            self.moves.append(sum(isinstance(s.action, Migration) for s in steps))
            for step in steps:
                self._do(step.action)

    def _seen(self, cycle: int) -> Snapshot:
        asked = {name: self.load(name, cycle) for name in self.place}
        nodes = {f"n{n}": 0.02 for n in range(self.nodes)}
        for name, node in self.place.items():
            nodes[node] += asked[name]
        guests = {
            name: (node, asked[name] / max(1.0, nodes[node]))
            for name, node in self.place.items()
        }
        found = seen(guests, {n: min(1.0, load) for n, load in nodes.items()}, cycle)
        sleeping = {
            name: replace(node, state=NodeState.OFFLINE, usage=Usage())
            if name in self.asleep
            else node
            for name, node in found.nodes.items()
        }
        return replace(found, nodes=sleeping)

    def _do(self, action: Action) -> None:
        if isinstance(action, PowerOff):
            assert action.node not in self.place.values()
            self.asleep.add(action.node)
        elif isinstance(action, PowerOn):
            self.asleep.remove(action.node)
            self.wakes += 1
        else:
            self.place[action.guest] = action.target


def centrally(policy: Consolidate) -> Callable[[Snapshot], Plan]:
    """Decide by one policy that sees everything."""
    memory: Memory = policy.initial_memory()

    def decide(snapshot: Snapshot) -> Plan:
        nonlocal memory
        decision = policy.decide(snapshot, memory)
        memory = json.loads(json.dumps(decision.memory))
        return decision.plan

    return decide


def by_agents(policy: Consolidate) -> Callable[[Snapshot], Plan]:
    """Decide about what the agents of the hosts ask for."""
    memories: dict[NodeId, Memory] = {}

    def told(snapshot: Snapshot) -> Iterator[tuple[NodeId, Petition]]:
        for name in [n.id for n in snapshot.nodes.values() if n.online]:
            here = {g.id: g for g in snapshot.guests.values() if g.node == name}
            own = replace(snapshot, nodes={name: snapshot.nodes[name]}, guests=here)
            past = memories.get(name, policy.initial_memory())
            asked, memories[name] = policy.petition(own, past, name)
            if asked is not None:
                yield name, asked

    def decide(snapshot: Snapshot) -> Plan:
        asked = dict(told(snapshot))
        pool: Petitions = {
            "guests": {g: h for n in asked for g, h in memories[n]["guests"].items()},
            "nodes": {n: memories[n]["nodes"][n] for n in asked},
            "petitions": {str(name): said for name, said in asked.items()},
        }
        return policy.answer(snapshot, pool).plan

    return decide


def noisy(guest: str, cycle: int) -> float:
    """Return a load that is the same on average, and never at rest."""
    random = Random(f"{guest} {cycle}")  # noqa: S311 - nothing is kept secret by it
    mean = 0.03 + 0.2 * Random(guest).random()  # noqa: S311
    return min(2 * mean, max(0.0, mean * (1 + 0.5 * random.gauss(0, 1))))


@pytest.mark.parametrize("by", [centrally, by_agents])
def test_load_that_is_steady_on_average_comes_to_rest(
    by: Callable[[Consolidate], Callable[[Snapshot], Plan]],
) -> None:
    place = {f"vm{each}": f"n{each % 6}" for each in range(20)}
    hall = Hall(6, place, noisy)

    hall.run(by(POWERED), 150)

    assert hall.asleep
    assert hall.wakes <= 1
    assert sum(hall.moves[:30]) > 0
    assert sum(hall.moves[30:]) < len(place)


def test_one_that_is_alone_on_a_full_host_is_not_carried_around() -> None:
    def load(guest: str, _: int) -> float:
        return {"big": 0.95, "small": 0.1}[guest]

    hall = Hall(3, {"big": "n0", "small": "n1"}, load)

    hall.run(centrally(POWERED), 30)

    assert hall.asleep == {"n2"}
    assert (sum(hall.moves), hall.wakes) == (0, 0)
