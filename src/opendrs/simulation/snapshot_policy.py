"""Policies that decide on snapshots, in the simulation of arrays.

`consolidate` decides on arrays. The other policies get a snapshot of the simulated
hosts and guests, with the measurements that a platform would have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from opendrs.controller.usage_history import HourlyUsage
from opendrs.model import (
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    LiveMigration,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Plan,
    Pressure,
    Resources,
    Snapshot,
    Stall,
    StepId,
    Usage,
)
from opendrs.policies import Policy, forecast_horizon_of
from opendrs.policies.consolidation.assignment import NodeMove
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.observation import stall_at_load
from opendrs.simulation.placement import InFlightMigration
from opendrs.simulation.workload import Floats, Integers, Mask, Workload

START = datetime(2011, 3, 3, tzinfo=UTC)  # any time: no policy depends on it
MIPS_PER_CORE = 1000.0  # a core of a snapshot
MEBIBYTE = 1 << 20
NO_STALL = Stall(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedState:
    """State of the simulated cluster after some intervals.

    Attributes:
        step: Number of completed intervals; the load is that of the last one.
        host: Host of each guest.
        migrations: Migrations in progress.
        migrated_at: End of each guest's last migration, in seconds.
        powered_on: True for hosts that are on.
    """

    step: int
    host: Integers
    migrations: Sequence[InFlightMigration]
    migrated_at: Floats
    powered_on: Mask


class SnapshotPolicy:
    """Decisions of a policy about the snapshots of a simulated cluster.

    Args:
        policy: The policy; it does not power hosts on or off.
        workload: CPU requested by the guests.
        hosts: The hosts.
        guests: The guests.
    """

    def __init__(
        self,
        policy: Policy[Any],
        workload: Workload,
        hosts: HostSpecs,
        guests: GuestSpecs,
    ) -> None:
        self._policy, self._workload = policy, workload
        self._hosts, self._guests = hosts, guests
        self._memory = policy.initial_memory()
        self._history = HourlyUsage()
        self._node_ids = [*map(NodeId, _numbered("host", len(hosts.cpu)))]
        self._guest_ids = [*map(GuestId, _numbered("guest", len(guests.cpu)))]
        self._node_index = {name: index for index, name in enumerate(self._node_ids)}
        self._guest_index = {name: index for index, name in enumerate(self._guest_ids)}
        self._rules = self._exclusion_rules()

    def decide(self, state: SimulatedState) -> list[NodeMove]:
        """Return the moves that the policy decides, in the order of its plan."""
        snapshot = self.snapshot(state)
        horizon = forecast_horizon_of(self._policy)
        if horizon:
            self._history.add(snapshot)
            snapshot = self._history.add_forecasts(snapshot, horizon)
        decision = self._policy.decide(snapshot, self._memory)
        self._memory = decision.memory
        return [
            NodeMove(
                self._guest_index[action.guest],
                self._node_index[action.source],
                self._node_index[action.target],
            )
            for action in first_migrations(decision.plan)
        ]

    def snapshot(self, state: SimulatedState) -> Snapshot:
        """Return the snapshot of *state*."""
        cpu = self._workload.cpu[:, state.step - 1] * self._guests.cpu
        memory = self._guests.memory
        if self._workload.memory is not None:
            memory = memory * self._workload.memory[:, state.step - 1]
        count = len(self._node_ids)
        used_cpu = np.bincount(state.host, cpu, count)
        used_memory = np.bincount(state.host, memory, count).astype(np.float64)
        stalls = [
            Stall(stall_at_load(load), 0.0)
            for load in (used_cpu / self._hosts.cpu).tolist()
        ]
        return Snapshot(
            taken_at=self._time(state.step * self._workload.interval),
            nodes=self._nodes(
                state, np.minimum(used_cpu, self._hosts.cpu), used_memory, stalls
            ),
            guests=self._snapshot_guests(state, cpu, memory, stalls),
            rules=self._rules,
        )

    def _nodes(
        self,
        state: SimulatedState,
        cpu: Floats,
        memory: Floats,
        stalls: Sequence[Stall],
    ) -> Mapping[NodeId, Node]:
        """Return the hosts; those that are off without measurements."""
        columns = zip(
            self._node_ids,
            self._hosts.cpu.tolist(),
            self._hosts.memory.tolist(),
            cpu.tolist(),
            memory.tolist(),
            stalls,
            state.powered_on.tolist(),
            strict=True,
        )
        nodes = {}
        for name, max_cpu, max_memory, used_cpu, used_memory, stall, is_on in columns:
            node = Node(
                id=name,
                capacity=Resources(max_cpu / MIPS_PER_CORE, int(max_memory * MEBIBYTE)),
                state=NodeState.OFFLINE,
            )
            if is_on:
                node = replace(
                    node,
                    state=NodeState.ONLINE,
                    usage=Usage(used_cpu / MIPS_PER_CORE, int(used_memory * MEBIBYTE)),
                    pressure=Pressure(cpu=stall, memory=NO_STALL, io=NO_STALL),
                )
            nodes[name] = node
        return nodes

    def _snapshot_guests(
        self,
        state: SimulatedState,
        cpu: Floats,
        memory: Floats,
        stalls: Sequence[Stall],
    ) -> Mapping[GuestId, Guest]:
        targets = {
            self._guest_ids[each.guest]: self._node_ids[each.target]
            for each in state.migrations
        }
        columns = zip(
            self._guest_ids,
            state.host.tolist(),
            cpu.tolist(),
            memory.tolist(),
            self._guests.cpu.tolist(),
            self._guests.memory.tolist(),
            state.migrated_at.tolist(),
            strict=True,
        )
        return {
            name: Guest(
                id=name,
                node=self._node_ids[host],
                kind=GuestKind.VM,
                state=GuestState.RUNNING,
                limit=Resources(max_cpu / MIPS_PER_CORE, int(max_memory * MEBIBYTE)),
                usage=Usage(used_cpu / MIPS_PER_CORE, int(used_memory * MEBIBYTE)),
                pressure=Pressure(cpu=stalls[host], memory=NO_STALL, io=NO_STALL),
                mobility=Mobility.LIVE,
                migrating_to=targets.get(name),
                migrated_at=self._time(moved_at) if moved_at >= 0 else None,
            )
            for name, host, used_cpu, used_memory, max_cpu, max_memory, moved_at in (
                columns
            )
        }

    def _time(self, seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    def _exclusion_rules(self) -> tuple[AntiAffinity, ...]:
        """Return a rule for each anti-affinity group of several guests."""
        members: dict[int, list[GuestId]] = {}
        groups = self._guests.anti_affinity_group.tolist()
        for name, group in zip(self._guest_ids, groups, strict=True):
            if group >= 0:
                members.setdefault(group, []).append(name)
        return tuple(
            AntiAffinity(guests=frozenset(names), name=f"group {group}")
            for group, names in members.items()
            if len(names) > 1
        )


def _numbered(noun: str, count: int) -> Iterator[str]:
    """Return names that sort like their numbers."""
    width = len(str(count))
    return (f"{noun}-{number:0{width}}" for number in range(count))


def first_migrations(plan: Plan) -> Iterator[LiveMigration]:
    """Yield the first migration of each guest, in the order of *plan*.

    A guest that makes a detour stays on its staging node until the next decision. Steps
    that depend on its second migration are omitted.
    """
    moved: set[GuestId] = set()
    omitted: set[StepId] = set()
    for step in plan.steps:
        action = step.action
        if (
            not isinstance(action, LiveMigration)
            or action.guest in moved
            or omitted.intersection(step.depends_on)
        ):
            omitted.add(step.id)
        else:
            moved.add(action.guest)
            yield action
