"""Default simulation model: one run of a policy over a workload.

Unlike in CloudSim 3.0.3, guests never vanish, and memory and rules are respected at
every decision. A decision uses only complete samples. Migrations are serialized on the
link of a host and cost CPU on both sides. Hosts take time and energy to power on and
off. `consolidate` decides over arrays, by the same code as on a platform; the other
policies decide on snapshots.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opendrs.policies import Policy
from opendrs.policies.consolidation import Consolidate, OverloadCounters
from opendrs.policies.consolidation.algorithm import plan_moves
from opendrs.policies.consolidation.assignment import NodeMove
from opendrs.simulation.hardware import GuestSpecs, HostSpecs, SimulationBehavior
from opendrs.simulation.metrics import (
    CumulativeMetrics,
    IntervalObserver,
    MetricsRecorder,
    SimulationMetrics,
)
from opendrs.simulation.placement import (
    ExclusionGroups,
    InFlightMigration,
    initial_placement,
)
from opendrs.simulation.policy_input import PolicyInput
from opendrs.simulation.snapshot_policy import SimulatedState, SnapshotPolicy
from opendrs.simulation.workload import Floats, Integers, Workload

Progress = Callable[[int, int], None]  # intervals done, total intervals


def run_simulation(  # noqa: PLR0913 - all inputs of a run
    workload: Workload,
    policy: Policy[Any] | None,
    hosts: HostSpecs,
    *,
    guests: GuestSpecs | None = None,
    behavior: SimulationBehavior | None = None,
    progress: Progress | None = None,
    observer: IntervalObserver | None = None,
) -> SimulationMetrics:
    """Return the metrics of serving *workload*.

    Args:
        workload: CPU requested by the guests.
        policy: Policy that decides after each interval; None to migrate nothing and
            to power off only hosts without guests.
        hosts: The hosts.
        guests: The guests; None for the sizes given by *workload*, or the default
            sizes.
        behavior: Duration and cost of power actions and migrations; None for the
            defaults.
        progress: Called after each interval.
        observer: Called with the result of each interval.

    Raises:
        ConfigurationError: The guests do not fit on the hosts at the start.
    """
    guest_specs = guests or GuestSpecs.for_workload(workload, hosts)
    engine = _SimulationRun(
        workload, policy, hosts, guest_specs, behavior or SimulationBehavior()
    )
    return engine.run(progress, observer)


class _SimulationRun:
    def __init__(
        self,
        workload: Workload,
        policy: Policy[Any] | None,
        hosts: HostSpecs,
        guests: GuestSpecs,
        behavior: SimulationBehavior,
    ) -> None:
        self._workload, self._policy, self._hosts = workload, policy, hosts
        self._guests, self._behavior = guests, behavior
        self._metrics = MetricsRecorder(hosts)
        self._exclusion_groups = ExclusionGroups(
            guests.anti_affinity_group, len(hosts.cpu)
        )
        self.host = initial_placement(hosts, guests, self._exclusion_groups)
        self._migrations: list[InFlightMigration] = []
        # Migrations to each host that have not arrived.
        self._incoming = np.zeros(len(hosts.cpu), np.int64)
        self._migrated_at = np.full(len(self.host), -np.inf)
        count = len(hosts.cpu)
        self._powered_on = np.bincount(self.host, minlength=count) > 0
        self._ready_at = np.zeros(count)
        self._counters = OverloadCounters.zeros(count)
        self._snapshot_policy = (
            None
            if policy is None or isinstance(policy, Consolidate)
            else SnapshotPolicy(policy, workload, hosts, guests)
        )
        self._durations: list[float] = []
        self._shutdowns = self._power_ons = 0

    def run(
        self, progress: Progress | None, observer: IntervalObserver | None
    ) -> SimulationMetrics:
        """Run the simulation and return its metrics."""
        count = self._workload.cpu.shape[1]
        for step in range(count):
            if step and self._snapshot_policy is not None:
                self._decide_on_snapshot(self._snapshot_policy, step)
            elif step and self._policy is not None:
                self._decide(step)
            interval = self._run_interval(step)
            if observer is not None:
                observer(
                    self._cumulative_metrics((step + 1) * self._workload.interval),
                    self._load(interval),
                )
            if progress is not None:
                progress(step + 1, count)
        return self._metrics.result(
            seconds=count * self._workload.interval,
            guests=len(self.host),
            durations=self._durations,
            in_flight=len(self._migrations),
            power_actions=(self._shutdowns, self._power_ons),
        )

    # One interval

    def _run_interval(self, step: int) -> IntervalState:
        """Simulate one interval with its migrations; return the state at its end."""
        seconds = self._workload.interval
        start, end = step * seconds, (step + 1) * seconds
        requested = self._workload.cpu[:, step] * self._guests.cpu
        self._metrics.requested += seconds * float(requested.sum())
        interval = IntervalState(
            self._metrics,
            self.host,
            requested,
            self._guests.cores,
            self._behavior.migration_cpu_overhead,
        )
        self._metrics.add_interval(
            seconds, interval.load, interval.unserved, interval.count > 0
        )
        self._record_idle_hosts(interval.count, seconds)
        for when, starts, migration in self._events(start, end):
            if starts:
                interval.start_migration(migration, end - when)
            else:
                interval.complete_migration(migration, end - when)
                self._complete(migration, when, end)
        self._metrics.missing_migrations += self._behavior.migration_cpu_overhead * sum(
            float(requested[in_flight.guest])
            * max(0.0, min(in_flight.end, end) - max(in_flight.start, start))
            for in_flight in self._migrations
        )
        self._migrations = [
            in_flight for in_flight in self._migrations if in_flight.end > end
        ]
        return interval

    def _record_idle_hosts(self, count: Integers, seconds: float) -> None:
        """Account for hosts without guests, powered on or off."""
        idle = np.flatnonzero(self._powered_on & (count == 0))
        for host in idle.tolist():
            self._metrics.add_idle(host, seconds, self._hosts.watts_at(host, 0.0))
        powered_off = int((~self._powered_on).sum())
        self._metrics.joules += seconds * powered_off * self._behavior.powered_off_watts

    def _events(
        self, start: float, end: float
    ) -> list[tuple[float, bool, InFlightMigration]]:
        """Return the starts and ends of migrations in an interval, in order."""
        events = [
            (migration.end, False, migration)
            for migration in self._migrations
            if start < migration.end <= end
        ]
        events += [
            (max(migration.start, start), True, migration)
            for migration in self._migrations
            if migration.start < end
        ]
        return sorted(
            events, key=lambda event: (event[0], not event[1], event[2].guest)
        )

    def _complete(self, migration: InFlightMigration, when: float, end: float) -> None:
        source = int(self.host[migration.guest])
        self.host[migration.guest] = migration.target
        self._migrated_at[migration.guest] = when
        self._durations.append(migration.end - migration.start)
        self._incoming[migration.target] -= 1
        if not self._incoming[source] and not (self.host == source).any():
            self._power_off(source, end - when)

    def _power_off(self, host: int, remaining: float) -> None:
        """Power *host* off, *remaining* seconds before the end of the interval."""
        self._powered_on[host] = False
        self._shutdowns += 1
        idle = self._hosts.watts_at(host, 0.0)
        self._metrics.add_idle(host, -remaining, idle)
        self._metrics.joules += self._behavior.power_off_time * idle
        powered_off = max(0.0, remaining - self._behavior.power_off_time)
        self._metrics.joules += powered_off * self._behavior.powered_off_watts

    def _cumulative_metrics(self, seconds: float) -> CumulativeMetrics:
        metrics = self._metrics
        return CumulativeMetrics(
            seconds=seconds,
            joules=metrics.joules,
            powered_on=float(metrics.powered_on.sum()),
            active=float(metrics.active.sum()),
            overloaded=float(metrics.overloaded.sum()),
            requested=metrics.requested,
            capacity=float(metrics.active @ self._hosts.cpu),
            migrations=len(self._durations) + len(self._migrations),
        )

    def _load(self, interval: IntervalState) -> Floats:
        load: Floats = np.where(
            self._powered_on, interval.load / self._hosts.cpu, np.nan
        )
        return load

    # Decisions

    def _decide(self, step: int) -> None:
        """Start the migrations that the policy decides after *step* intervals."""
        policy = self._policy
        assert isinstance(policy, Consolidate)  # noqa: S101 - for the type checker
        policy_input = PolicyInput(
            policy=policy,
            workload=self._workload,
            hosts=self._hosts,
            guests=self._guests,
            host=self.host,
            migrations=self._migrations,
            migrated_at=self._migrated_at,
            powered_on=self._powered_on,
            step=step,
        )
        guests, nodes = policy_input.guest_arrays(), policy_input.node_arrays()
        hosts = len(self._hosts.cpu)
        guest_count = np.maximum(np.bincount(guests.node_of, minlength=hosts), 1)
        memory = np.bincount(guests.node_of, guests.memory, hosts) / guest_count
        migration_intervals = (
            memory / self._behavior.bandwidth / self._workload.interval
        )
        self._exclusion_groups.begin(self.host, self._migrations)
        moves = plan_moves(
            policy.algorithm_settings(step),
            nodes,
            guests,
            self._exclusion_groups,
            (self._counters, migration_intervals),
        )
        self._counters = moves.counters
        now = step * self._workload.interval
        for host in np.flatnonzero(moves.assignment.powered_on).tolist():
            self._power_on(host, now)
        node_moves = [
            *moves.relief,
            *(move for drained in moves.drains for move in drained),
        ]
        self._schedule(node_moves, guests.memory, now)

    def _decide_on_snapshot(self, policy: SnapshotPolicy, step: int) -> None:
        """Start the migrations that *policy* decides after *step* intervals."""
        state = SimulatedState(
            step=step,
            host=self.host,
            migrations=self._migrations,
            migrated_at=self._migrated_at,
            powered_on=self._powered_on,
        )
        memory = self._guests.memory
        if self._workload.memory is not None:
            memory = memory * self._workload.memory[:, step - 1]
        self._schedule(policy.decide(state), memory, step * self._workload.interval)

    def _power_on(self, host: int, now: float) -> None:
        self._powered_on[host] = True
        self._power_ons += 1
        self._ready_at[host] = now + self._behavior.power_on_time
        extra = self._hosts.watts_at(host, 1.0) - self._hosts.watts_at(host, 0.0)
        # The idle power is accounted for with the hosts without guests.
        self._metrics.joules += self._behavior.power_on_time * extra

    def _schedule(self, moves: list[NodeMove], memory: Floats, now: float) -> None:
        """Schedule migrations as the links of both hosts become free."""
        free_at = np.maximum(self._ready_at, now)
        for migration in self._migrations:
            for host in (int(self.host[migration.guest]), migration.target):
                free_at[host] = max(free_at[host], migration.end)
        guests = [move.guest for move in moves]
        seconds = memory[guests] / self._behavior.bandwidth
        migrations = schedule_migrations(moves, seconds, free_at)
        for migration in migrations:
            self._incoming[migration.target] += 1
        self._migrations += migrations


class IntervalState:
    """Load of each host at one instant of an interval.

    Args:
        metrics: Recorder that is corrected with each change.
        host: Host of each guest; updated by the owner.
        requested: MIPS requested by each guest.
        cores: Number of cores of each guest.
        overhead: Fraction of its CPU that a migrating guest loses, and that the target
            spends.

    Attributes:
        load: MIPS requested on each host, as far as its cores are fast enough.
        unserved: MIPS requested beyond that.
        count: Number of guests on each host.
    """

    def __init__(
        self,
        metrics: MetricsRecorder,
        host: Integers,
        requested: Floats,
        cores: Floats,
        overhead: float,
    ) -> None:
        self._metrics, self._host, self._requested = metrics, host, requested
        self._cores, self._overhead = cores, overhead
        core, hosts = metrics.hosts.core_mips, len(metrics.hosts.cpu)
        served = np.minimum(requested, cores * core[host])
        self.load: Floats = np.bincount(host, served, hosts).astype(np.float64)
        self.unserved: Floats = np.bincount(host, requested - served, hosts).astype(
            np.float64
        )
        self.count = np.bincount(host, minlength=hosts)

    def start_migration(self, migration: InFlightMigration, remaining: float) -> None:
        """Record that a migration starts *remaining* seconds before the end."""
        extra = self._requested[migration.guest] * self._overhead
        self._change(migration.target, remaining, extra, 0.0, 0)

    def complete_migration(
        self, migration: InFlightMigration, remaining: float
    ) -> None:
        """Record that a migration ends *remaining* seconds before the end."""
        source = int(self._host[migration.guest])
        requested = float(self._requested[migration.guest])
        core, cores = self._metrics.hosts.core_mips, self._cores[migration.guest]
        removed = min(requested, cores * core[source])
        added = min(requested, cores * core[migration.target])
        extra = requested * self._overhead
        self._change(source, remaining, -removed, removed - requested, -1)
        self._change(migration.target, remaining, added - extra, requested - added, 1)

    def _change(
        self,
        host: int,
        remaining: float,
        requested: float,
        unserved: float,
        guest_change: int,
    ) -> None:
        """Change the load of *host* for the *remaining* seconds of the interval."""
        metrics = self._metrics
        before = self._state(host)
        self.load[host] = max(0.0, self.load[host] + requested)
        self.unserved[host] = max(0.0, self.unserved[host] + unserved)
        self.count[host] += guest_change
        after = self._state(host)
        metrics.correct_host(host, remaining, before, after)
        if before[2] != after[2]:
            idle = self._metrics.hosts.watts_at(host, 0.0)
            metrics.add_idle(host, remaining if before[2] else -remaining, idle)

    def _state(self, host: int) -> tuple[float, float, bool]:
        return float(self.load[host]), float(self.unserved[host]), self.count[host] > 0


def schedule_migrations(
    moves: Sequence[NodeMove], seconds: Floats, free_at: Floats
) -> list[InFlightMigration]:
    """Return the start and end of each migration.

    The first migration that can start does, and of several that can, the first in
    order. So no link waits while another migration could use it. A guest whose target
    is the source of earlier *moves* waits until those have ended, because the target
    may lack capacity until then.

    Args:
        moves: Moves in the order in which they were selected.
        seconds: Duration of each; shape (moves,).
        free_at: Time at which the link of each host is free; shape (hosts,).
    """
    free_at = free_at.copy()
    pending, dependents = _dependencies(moves)
    ready_at = [0.0] * len(moves)  # end of all moves on which a move depends
    migrations: list[InFlightMigration] = []

    def earliest_start(index: int) -> float:
        move = moves[index]
        return float(max(free_at[move.source], free_at[move.target], ready_at[index]))

    queue = [
        (earliest_start(index), index)
        for index, count in enumerate(pending)
        if not count
    ]
    heapq.heapify(queue)
    while queue:
        start, index = queue[0]
        if (now := earliest_start(index)) > start:
            heapq.heapreplace(queue, (now, index))
            continue
        heapq.heappop(queue)
        move, end = moves[index], start + float(seconds[index])
        free_at[move.source] = free_at[move.target] = end
        migrations.append(InFlightMigration(move.guest, move.target, start, end))
        for dependent in dependents[index]:
            pending[dependent] -= 1
            ready_at[dependent] = max(ready_at[dependent], end)
            if not pending[dependent]:
                heapq.heappush(queue, (earliest_start(dependent), dependent))
    return migrations


def _dependencies(moves: Sequence[NodeMove]) -> tuple[list[int], list[list[int]]]:
    """Return the number of moves each move waits for, and those that wait for it."""
    departures: defaultdict[int, list[int]] = defaultdict(list)  # moves by source
    pending = [0] * len(moves)
    dependents: list[list[int]] = [[] for _ in moves]
    for index, move in enumerate(moves):
        before = departures[move.target]
        pending[index] = len(before)
        for earlier in before:
            dependents[earlier].append(index)
        departures[move.source].append(index)
    return pending, dependents
