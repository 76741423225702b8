"""States that a plan can pass through, enumerated plainly, and their defects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from typing import Self

from opendrs.model import (
    GIB,
    Affinity,
    ColdMigration,
    Guest,
    GuestId,
    Limits,
    LiveMigration,
    Node,
    NodeId,
    Plan,
    Snapshot,
    Step,
)
from support.oracles.further_loads import load_defects
from support.oracles.placement import (
    Placement,
    RuleViolation,
    current_placement,
    violated_rules,
)

NOT_STARTED, RUNNING, DONE = range(3)
MAX_EXHAUSTIVE = 6  # units up to which all states are enumerated; above, a sample

State = tuple[int, ...]


@dataclass(frozen=True)
class StepUnit:
    """Steps that start together."""

    steps: tuple[Step, ...]
    depends_on: frozenset[int]


def unsafe_states(snapshot: Snapshot, plan: Plan, limits: Limits) -> list[str]:
    """Return the defects of all states that *plan* can pass through."""
    found: list[str] = []
    parts = step_units(snapshot, plan)
    placement = current_placement(snapshot)
    before = violated_rules(snapshot, placement)
    usage = _MemoryUsage.before_plan(snapshot, limits)
    moved = {migration_of(step).guest for step in plan.steps}
    has_disks = any(snapshot.guests[name].disks for name in moved)
    for state in dict.fromkeys(states(parts)):
        found += _violations(snapshot, placement, parts, state, before)
        found += _overfull_nodes(usage.copy(), parts, state)
        if has_disks:
            found += _storage_defects(snapshot, parts, state, limits)
        if limits.loads:
            found += _further_load_defects(snapshot, parts, state, limits)
    return found


def _further_load_defects(
    snapshot: Snapshot, parts: Sequence[StepUnit], state: State, limits: Limits
) -> list[str]:
    """Return the nodes that exceed a threshold of a further load."""
    stages = [*zip(parts, state, strict=True)]
    started = [s for part, stage in stages if stage != NOT_STARTED for s in part.steps]
    done = [step for part, stage in stages if stage == DONE for step in part.steps]
    defects = load_defects(snapshot, started, done, limits)
    return [f"{defect} in {state}" for defect in defects]


def step_units(snapshot: Snapshot, plan: Plan) -> list[StepUnit]:
    """Return the steps of *plan*, with those of a move group as one unit."""
    groups: list[list[Step]] = []
    for step in plan.steps:
        friends = [
            g for g in groups if any(_start_together(snapshot, step, s) for s in g)
        ]
        others = [g for g in groups if g not in friends]
        groups = [*others, [*(s for g in friends for s in g), step]]
    groups.sort(key=lambda group: plan.steps.index(group[0]))
    position = {step.id: i for i, group in enumerate(groups) for step in group}
    return [
        StepUnit(
            tuple(group),
            frozenset(position[name] for step in group for name in step.depends_on),
        )
        for group in groups
    ]


def states(parts: Sequence[StepUnit]) -> Iterator[State]:
    """Yield the states in which every started step has its dependencies done."""
    if len(parts) <= MAX_EXHAUSTIVE:
        for state in product(range(3), repeat=len(parts)):
            if _reachable(parts, state):
                yield state
        return
    random = Random(len(parts))  # noqa: S311 - a sample, not a secret
    for _ in range(30):
        yield from _random_execution(parts, random)


def _random_execution(parts: Sequence[StepUnit], random: Random) -> Iterator[State]:
    """Yield the states of one random execution with much parallelism."""
    state = [NOT_STARTED] * len(parts)
    while set(state) != {DONE}:
        starts = [
            i
            for i, part in enumerate(parts)
            if state[i] == NOT_STARTED
            and all(state[j] == DONE for j in part.depends_on)
        ]
        ends = [i for i, stage in enumerate(state) if stage == RUNNING]
        eager = bool(starts) and (not ends or random.randrange(5) > 0)
        state[random.choice(starts if eager else ends)] += 1
        yield tuple(state)


def _reachable(parts: Sequence[StepUnit], state: State) -> bool:
    return all(
        state[i] == NOT_STARTED or all(state[j] == DONE for j in part.depends_on)
        for i, part in enumerate(parts)
    )


def _start_together(snapshot: Snapshot, one: Step, other: Step) -> bool:
    """Return True if the guests have a strict affinity and the same endpoints."""
    pair = {migration_of(one).guest, migration_of(other).guest}
    endpoints = {
        (migration_of(step).source, migration_of(step).target) for step in (one, other)
    }
    return len(endpoints) == 1 and any(
        isinstance(rule, Affinity) and rule.strict and pair <= rule.guests
        for rule in snapshot.rules
    )


def migration_of(step: Step) -> LiveMigration | ColdMigration:
    assert isinstance(step.action, LiveMigration | ColdMigration)
    return step.action


def _violations(
    snapshot: Snapshot,
    before_plan: Placement,
    parts: Sequence[StepUnit],
    state: State,
    before: set[RuleViolation],
) -> list[str]:
    places = dict(before_plan)
    for part, stage in zip(parts, state, strict=True):
        for step in part.steps:
            action = migration_of(step)
            if stage == RUNNING:
                places[action.guest] = frozenset({action.source, action.target})
            elif stage == DONE:
                places[action.guest] = frozenset({action.target})
    return [
        f"{sorted(guests)} break rule {position} in {state}"
        for position, guests in violated_rules(snapshot, places) - before
    ]


def _overfull_nodes(
    usage: _MemoryUsage, parts: Sequence[StepUnit], state: State
) -> list[str]:
    """Return the nodes that received guests and exceed their memory.

    A migrating guest counts on both nodes. A departure frees at most the measured
    memory of the node. A second departure of a guest follows its arrival there.

    Args:
        usage: The usage before the plan, which changes to that in the state.
        parts: The units of the plan.
        state: The state of each.
    """
    stages = [
        (step, stage)
        for part, stage in zip(parts, state, strict=True)
        for step in part.steps
    ]
    done = [step for step, stage in stages if stage == DONE]
    initial = {step.id for step in done if usage.is_on_initial_node(step)}
    for step in done:
        if step.id in initial:
            usage.leave(step)
    for step, stage in stages:
        if stage != NOT_STARTED:
            usage.arrive(step)
    for step in done:
        if step.id not in initial:
            usage.leave(step)
    return [f"{name} is overfilled in {state}" for name in usage.overfull()]


def _storage_defects(
    snapshot: Snapshot, parts: Sequence[StepUnit], state: State, limits: Limits
) -> list[str]:
    """Return the steps that lack a storage, copy what they must not, or fill one up.

    A copy occupies its space from its start, and the original until its end. What the
    unit tests of the model say about storages is not used here.
    """
    free = {
        (name, each.id): each.free
        for name, node in snapshot.nodes.items()
        for each in node.storages or ()
    }
    local = {
        (name, each.id)
        for name, node in snapshot.nodes.items()
        for each in node.storages or ()
        if each.shared is False
    }
    lists = {name: node.storages is not None for name, node in snapshot.nodes.items()}
    found, occupied = [], dict.fromkeys(free, 0)
    on = {name: list(guest.disks or ()) for name, guest in snapshot.guests.items()}
    for part, stage in zip(parts, state, strict=True):
        for step in part.steps if stage != NOT_STARTED else ():
            action = migration_of(step)
            arrived = []
            for disk in on[action.guest]:
                place, size = (action.source, disk.storage), disk.size
                there = (action.target, disk.storage)
                if place in local:
                    there = (action.target, disk.target_storage or disk.storage)
                    if not limits.migrate_local_disks or size is None:
                        found.append(f"{step.id} must not copy {disk} in {state}")
                        continue
                    occupied[there] = occupied.get(there, 0) + size
                    if stage == DONE:
                        occupied[place] -= size
                if lists[action.target] and there not in free and place in free:
                    found.append(f"{step.id} finds no {there} in {state}")
                arrived.append(replace(disk, storage=there[1]))
            on[action.guest] = arrived
    return found + [
        f"{place} is overfilled in {state}"
        for place, size in occupied.items()
        if size > 0 and size > (free.get(place) or 0)
    ]


@dataclass
class _MemoryUsage:
    """Used and committed memory, and committed cores, of each node.

    The nodes that received guests, and the allowed amounts, are known as well.
    """

    snapshot: Snapshot
    allowed: Mapping[NodeId, tuple[float, float, float]]
    used: dict[NodeId, int | None]
    committed: dict[NodeId, int]
    cores: dict[NodeId, float]
    targets: set[NodeId] = field(default_factory=set)

    @classmethod
    def before_plan(cls, snapshot: Snapshot, limits: Limits) -> Self:
        committed = dict.fromkeys(snapshot.nodes, 0)
        cores = dict.fromkeys(snapshot.nodes, 0.0)
        for guest in snapshot.guests.values():
            for name in guest.occupied_nodes:
                committed[name] += _committed_memory(snapshot, guest.id)
                cores[name] += _committed_cores(guest)
        nodes = snapshot.nodes.items()
        allowed = {
            name: allowed_amounts(node, limits)
            for name, node in nodes
            if node.capacity is not None
        }
        used = {name: node.usage.memory for name, node in nodes}
        return cls(snapshot, allowed, used, committed, cores)

    def copy(self) -> Self:
        """Return the same usage, which changes on its own."""
        return replace(
            self,
            used=dict(self.used),
            committed=dict(self.committed),
            cores=dict(self.cores),
            targets=set(self.targets),
        )

    def is_on_initial_node(self, step: Step) -> bool:
        return (
            migration_of(step).source
            == self.snapshot.guests[migration_of(step).guest].node
        )

    def leave(self, step: Step) -> None:
        source, guest = (
            migration_of(step).source,
            self.snapshot.guests[migration_of(step).guest],
        )
        left = (self.used[source] or 0) - (guest.usage.memory or 0)
        self.used[source] = max(0, left)
        self.committed[source] -= _committed_memory(self.snapshot, guest.id)
        self.cores[source] -= _committed_cores(guest)

    def arrive(self, step: Step) -> None:
        target, guest = (
            migration_of(step).target,
            self.snapshot.guests[migration_of(step).guest],
        )
        self.targets.add(target)
        assert self.used[target] is not None
        assert guest.usage.memory is not None
        self.used[target] = (self.used[target] or 0) + guest.usage.memory
        self.committed[target] += _committed_memory(self.snapshot, guest.id)
        self.cores[target] += _committed_cores(guest)

    def overfull(self) -> Iterator[NodeId]:
        for name in self.targets:
            if name not in self.allowed:
                yield name
                continue
            memory, committed, cores = self.allowed[name]
            if (
                (self.used[name] or 0) > memory
                or self.committed[name] > committed
                or self.cores[name] > cores + 1e-6
            ):
                yield name


def allowed_amounts(node: Node, limits: Limits) -> tuple[float, float, float]:
    """Return the memory, the committed memory and the cores that *node* may give.

    It is calculated from the description of the settings, not by the model.
    """
    assert node.capacity is not None
    total, cores = node.capacity.memory, node.capacity.cpu
    chosen = {
        "memory_headroom": limits.memory_headroom,
        "memory_overcommit": limits.memory_overcommit,
        "cpu_overcommit": limits.cpu_overcommit,
        "reserved_cpu": limits.reserved_cpu,
        "reserved_memory": limits.reserved_memory,
    }
    for entry in limits.overrides:
        named = node.id in entry.nodes
        if named or node.groups & {*entry.groups} or node.labels & {*entry.labels}:
            for key in chosen:
                if getattr(entry, key) is not None:
                    chosen[key] = getattr(entry, key)
    free_memory = _reserve(chosen["reserved_memory"], total)
    memory = min(
        total * (1 - float(chosen["memory_headroom"] or 0)), total - free_memory
    )
    committed = [(total - free_memory) * float(chosen["memory_overcommit"] or 0)]
    allowed_cores = [math.inf]
    if chosen["cpu_overcommit"] is not None:
        left = cores - _reserve(chosen["reserved_cpu"], cores)
        allowed_cores.append(left * float(chosen["cpu_overcommit"]))
    platform = node.allocation
    if platform.memory_ratio is not None:
        left = total - (platform.reserved_memory or 0)
        committed.append(left * platform.memory_ratio)
    if platform.cpu_ratio is not None:
        left = cores - (platform.reserved_cpu or 0)
        allowed_cores.append(left * platform.cpu_ratio)
    return memory, min(committed), min(allowed_cores)


def _reserve(value: float | str | None, total: float) -> float:
    """Return the reserve of *total*; texts are percentages or GiB in tests."""
    if isinstance(value, str):
        number, unit = value.split()
        return float(number) * (total / 100 if unit == "%" else GIB)
    return value or 0.0


def _committed_cores(guest: Guest) -> float:
    if guest.limit is not None and guest.limit.cpu > 0:
        return guest.limit.cpu
    return guest.usage.cpu or 0.0


def _committed_memory(snapshot: Snapshot, name: GuestId) -> int:
    guest = snapshot.guests[name]
    if guest.limit is not None and guest.limit.memory > 0:
        return guest.limit.memory
    return guest.usage.memory or 0
