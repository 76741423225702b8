"""Soak test of one cluster from a seed, with controllers that crash in turn."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from opendrs.errors import LeaseLostError
from opendrs.model import Limits
from opendrs.store import Access, PostgresqlStore, SqliteStore
from soak.checker import InvariantChecker
from soak.cluster import Cluster
from soak.consent import ConfiguredConsent, ConsentJudge
from soak.endpoint import ControllerEnd, Endpoint, draw_end, draw_end_in_group
from soak.faults import MINUTE, Faults
from soak.group import DEPOSED, LEASE_TIME, ControllerGroup
from soak.invariants import CheckedLimits, Invariant, Violation
from soak.operators import Operator
from soak.platform import model_rule
from soak.process import CRASHED, KILLED, ControllerConfig, run_forked, run_here
from soak.record import PostgresqlDatabase, Record, SqliteDatabase
from soak.scenario import HOUR, draw_scenario
from soak.undo import UndoJudge
from support.postgresql_server import PostgresqlServer

MAX_TAKEOVERS = 10  # at the end, when nothing fails any more

Event = tuple[float, str]  # true time, and what happened


@dataclass(frozen=True)
class RunResult:
    """The result of an episode.

    Attributes:
        seed: Its seed.
        summary: The cluster, the policy and the limits, in a line.
        cycles: Cycles in which the controllers decided.
        kills: Controllers that were killed.
        crashes: Tracebacks of controllers that ended by an unexpected error.
        violations: Promises that were not kept.
        counts: How often each event happened, and each outcome was recorded.
        trace: The last events.
        takeovers: Real seconds from each loss of a leader to the next one.
    """

    seed: int
    summary: str
    cycles: int
    kills: int
    crashes: tuple[str, ...]
    violations: tuple[Violation, ...]
    counts: Counter[str]
    trace: tuple[Event, ...]
    takeovers: tuple[float, ...] = ()

    @property
    def failed(self) -> bool:
        """Return whether anything was found."""
        return bool(self.crashes or self.violations)

    @property
    def violated(self) -> set[Invariant]:
        """Return the promises that were not kept."""
        return {violation.invariant for violation in self.violations}


@dataclass
class SoakRun:
    """One cluster, and the controllers that work on it, one after the other.

    Args:
        seed: Draws all of it.
        directory: A directory for the record.
        cycles: Cycles after which it ends.
        forked: Whether controllers are processes of their own, killed by SIGKILL.
        policy: The policy; None to draw one.
        change_limits: Changes the limits for the controller only; the judge has to
            notice.
        rules: Whether the controller is shown the placement rules.
        operated: Whether operators act; otherwise the controller starts its plans.
        server: A server of PostgreSQL, for two or three controllers at once.
    """

    seed: int
    directory: Path
    cycles: int = 40
    forked: bool = False
    policy: str | None = None
    change_limits: Callable[[Limits], Limits] = lambda limits: limits
    rules: bool = True
    operated: bool = True
    server: PostgresqlServer | None = None
    _group: ControllerGroup | None = None
    _crashes: list[str] = field(default_factory=list)
    _kills: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)  # noqa: S311 - no secret
        self._cluster = Cluster(self._new_random())
        self._scenario, self._platform = draw_scenario(
            self._new_random(), self._cluster, self.policy, operated=self.operated
        )
        database = self.directory / f"{self.seed}.sqlite"
        database.unlink(missing_ok=True)  # of an episode that was played before
        rules = map(model_rule, self._cluster.rules if self.rules else ())
        self._setup = ControllerConfig(
            policy=self._scenario.build_policy(
                self.change_limits(self._scenario.limits)
            ),
            interval=self._scenario.interval,
            database=database,
            rules=tuple(rules),
            consent=self._scenario.consent,
            protection=self._scenario.protection,
            url="" if self.server is None else self.server.new_database(),
            lease_time=LEASE_TIME,
        )
        url = self._setup.url
        record = Record(PostgresqlDatabase(url) if url else SqliteDatabase(database))
        hosts = self._cluster.hosts.values()
        self._checker = InvariantChecker(
            limits=_checked_limits(self._scenario.limits, self._platform.lag),
            record=record,
            node_memory={host.name: (host.memory, host.own) for host in hosts},
            rules=self._cluster.rules,
        )
        self._add_judges(record)
        self._cluster.report = self._checker.event
        for guest in self._cluster.guests.values():
            self._cluster.add(guest)
        self._endpoint = Endpoint(
            self._cluster, self._platform, self._checker, self._new_random()
        )
        self._faults = Faults(
            cluster=self._cluster,
            platform=self._platform,
            draw=self._new_random(),
            pause=self._scenario.pause,
            endpoint=self._endpoint,
        )
        self._operator = Operator(
            self._cluster,
            self._platform,
            self._open_to_operate,
            self._new_random(),
            self._draw.choice([30.0, 90.0, 200.0]),
        )
        if self.server is not None:
            self._group = ControllerGroup(
                self._setup,
                self.server,
                self._endpoint,
                self._new_random(),
                size=self._draw.randint(2, 3),
                record=record,
            )

    def _open_to_operate(self) -> SqliteStore | PostgresqlStore:
        if self._setup.url:
            return PostgresqlStore(self._setup.url, "soak", access=Access.OPERATE)
        return SqliteStore(self._setup.database, Access.OPERATE)

    def _add_judges(self, record: Record) -> None:
        """Add judges of approvals and of undone moves."""
        scenario, report = self._scenario, self._checker.report
        consent, protection = scenario.consent, scenario.protection
        configured = ConfiguredConsent(
            mode=consent.mode,
            repair=consent.repair,
            policy_modes=consent.policy_modes,
            advise_tags=consent.advise_tags,
            advise_guests=consent.advise_guests,
            automatic_guests=consent.automatic_guests,
            lifetime=consent.approval_time,
            start_timeout=scenario.limits.migration_timeout + MINUTE,
        )
        self._checker.judges += [
            ConsentJudge(record, configured, report),
            UndoJudge(
                record,
                protection.undo_horizon,
                protection.noise,
                self._cluster.rules,
                report,
            ),
        ]

    def run(self) -> RunResult:
        """Run controllers until there were enough cycles, and then one in peace."""
        try:
            self._run_all()
        finally:
            if self._group is not None:
                self._group.close()
        return RunResult(
            self.seed,
            self._summary(),
            self._endpoint.cycles,
            self._kills,
            tuple(self._crashes),
            tuple(self._checker.violations),
            self._checker.counts + self._endpoint.outcomes,
            tuple(self._checker.trace),
            () if self._group is None else tuple(self._group.takeovers),
        )

    def _run_all(self) -> None:
        self._faults.begin()
        if self.operated:
            self._operator.begin()
        while self._endpoint.cycles < self.cycles and not self._has_failed:
            self._run(self._draw_end())
            self._pass_time()
        if not self._has_failed:
            self._faults.stop()
            self._operator.stop()
            self._run_in_peace()
        if not self._has_failed:
            guests = self._cluster.guests.values()
            self._checker.finish({g.name: (g.host, g.running) for g in guests})

    def _run_in_peace(self) -> None:
        """Run a controller until it is stopped after three cycles.

        On a busy machine it may lose its lease, and is followed by another one.
        """
        for _ in range(MAX_TAKEOVERS):
            how, detail = self._run(ControllerEnd(stop_after=3))
            if how != DEPOSED and LeaseLostError.__name__ not in detail:
                return

    @property
    def _has_failed(self) -> bool:
        return bool(self._checker.violations or self._crashes)

    def _summary(self) -> str:
        limits, drawn = self._scenario.limits, self._scenario
        networks = [
            f"{n.max_parallel_migrations} over {','.join(n.nodes)}"
            for n in limits.networks
        ]
        death = "SIGKILL" if self.forked else "an exception"
        if self._group is not None:
            death = f"SIGKILL, {self._group.size} or more over PostgreSQL"
        parts = (
            (
                f"{drawn.policy} every {drawn.interval:g} s on "
                f"{len(self._cluster.hosts)} hosts, killed by {death}"
            ),
            (
                f"migrations: {limits.max_migrations_per_node} per node, "
                f"{limits.max_parallel_migrations} in all"
                f"{''.join(f', {n}' for n in networks)}"
            ),
            (
                f"cooldown {limits.cooldown:g} s, quiet time {limits.min_uptime:g} s, "
                f"timeout {limits.migration_timeout:g} s, "
                f"headroom {limits.memory_headroom:g}, "
                f"overcommit {limits.memory_overcommit:g}"
            ),
            (
                f"guests of silent hosts are {self._platform.unreachable_guests}, "
                f"loads are measured every {self._platform.period:g} s, "
                f"{self._platform.errors:.0%} of questions fail"
            ),
        )
        return "\n  ".join(parts)

    def _new_random(self) -> random.Random:
        """Return a source of its own, so that one does not change what others draw."""
        return random.Random(self._draw.random())  # noqa: S311 - no secret

    def _draw_end(self) -> ControllerEnd:
        if self._group is not None:
            return draw_end_in_group(self._draw)
        return draw_end(self._draw, forked=self.forked)

    def _run(self, ending: ControllerEnd) -> tuple[str, str]:
        """Run a controller; return how it ended, and why."""
        self._platform.origin = self._draw.uniform(0, 1e6) - self._cluster.now
        self._cluster.report_event("process", ending=ending)
        self._endpoint.begin(ending)
        if self._group is not None:
            how, detail = self._group.run()
        else:
            run = run_forked if self.forked else run_here
            how, detail = run(self._setup, self._endpoint)
        last = detail.strip().splitlines()[-1]
        self._cluster.report_event("process-end", how=how, detail=last)
        self._kills += how == KILLED
        if how == CRASHED:
            self._crashes.append(detail)
        return how, detail

    def _pass_time(self) -> None:
        """Let time pass until the next process."""
        draw = self._draw
        (most,) = draw.choices([MINUTE, 10 * MINUTE, 2 * HOUR], [20, 5, 1])
        self._cluster.advance(draw.uniform(1, most))
        if draw.random() < 0.15:
            self._faults.jump()


def _checked_limits(limits: Limits, lag: float) -> CheckedLimits:
    networks = {
        n.name: (n.nodes, n.max_parallel_migrations)
        for n in limits.networks
        if n.max_parallel_migrations
    }
    return CheckedLimits(
        headroom=limits.memory_headroom,
        overcommit=limits.memory_overcommit,
        per_node=limits.max_migrations_per_node,
        per_cluster=limits.max_parallel_migrations,
        networks=networks,
        cooldown=limits.cooldown,
        min_uptime=limits.min_uptime,
        timeout=limits.migration_timeout,
        lag=lag,
    )
