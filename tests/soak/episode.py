"""One cluster from a seed, and the controllers that work on it, each until it dies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from opendrs.model import Limits
from soak.cluster import Cluster
from soak.endpoint import Ending, Endpoint, draw_ending
from soak.faults import MINUTE, Faults
from soak.interface import model_rule
from soak.judge import Judge
from soak.process import CRASHED, KILLED, Setup, run_forked, run_here
from soak.scenario import HOUR, draw_scenario
from soak.truth import Promise, Terms, Violation

Event = tuple[float, str]  # true time, and what happened


@dataclass(frozen=True)
class Result:
    """What came of an episode.

    Attributes:
        seed: Its seed.
        about: The cluster, the policy and the limits, in a line.
        cycles: Cycles in which the controllers decided.
        kills: Controllers that were killed.
        crashes: Tracebacks of controllers that ended by an unexpected error.
        violations: Promises that were not kept.
        counts: How often each event happened, and each outcome was recorded.
        trace: The last events.
    """

    seed: int
    about: str
    cycles: int
    kills: int
    crashes: tuple[str, ...]
    violations: tuple[Violation, ...]
    counts: Counter[str]
    trace: tuple[Event, ...]

    @property
    def failed(self) -> bool:
        """Return whether anything was found."""
        return bool(self.crashes or self.violations)

    @property
    def broken(self) -> set[Promise]:
        """Return the promises that were not kept."""
        return {violation.promise for violation in self.violations}


@dataclass
class Episode:
    """One cluster, and the controllers that work on it, one after the other.

    Args:
        seed: Draws all of it.
        place: A directory for the record.
        cycles: Cycles after which it ends.
        forked: Whether controllers are processes of their own, killed by SIGKILL.
        policy: The policy; None to draw one.
        changed: Changes the limits for the controller, and not for the judge, which
            has to notice.
        rules: Whether the controller is shown the placement rules.
    """

    seed: int
    place: Path
    cycles: int = 40
    forked: bool = False
    policy: str | None = None
    changed: Callable[[Limits], Limits] = lambda limits: limits
    rules: bool = True
    _crashes: list[str] = field(default_factory=list)
    _kills: int = 0

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)  # noqa: S311 - no secret
        self._cluster = Cluster(self._source())
        self._scenario, self._interface = draw_scenario(
            self._source(), self._cluster, self.policy
        )
        database = self.place / f"{self.seed}.sqlite"
        database.unlink(missing_ok=True)  # of an episode that was played before
        rules = map(model_rule, self._cluster.rules if self.rules else ())
        self._setup = Setup(
            policy=self._scenario.build_policy(self.changed(self._scenario.limits)),
            interval=self._scenario.interval,
            database=database,
            rules=tuple(rules),
        )
        hosts = self._cluster.hosts.values()
        self._judge = Judge(
            terms=_terms(self._scenario.limits, self._interface.lag),
            database=database,
            hosts={host.name: (host.memory, host.own) for host in hosts},
            rules=self._cluster.rules,
        )
        self._cluster.report = self._judge.event
        for guest in self._cluster.guests.values():
            self._cluster.add(guest)
        self._endpoint = Endpoint(
            self._cluster, self._interface, self._judge, self._source()
        )
        self._faults = Faults(
            cluster=self._cluster,
            interface=self._interface,
            draw=self._source(),
            pause=self._scenario.pause,
        )

    def play(self) -> Result:
        """Run controllers until there were enough cycles, and then one in peace."""
        self._faults.begin()
        while self._endpoint.cycles < self.cycles and not self._found:
            self._run(draw_ending(self._draw, forked=self.forked))
            self._pass_time()
        if not self._found:
            self._faults.stop()
            self._run(Ending(stop_after=3))
        if not self._found:
            guests = self._cluster.guests.values()
            self._judge.finish({g.name: (g.host, g.running) for g in guests})
        return Result(
            self.seed,
            self._about(),
            self._endpoint.cycles,
            self._kills,
            tuple(self._crashes),
            tuple(self._judge.violations),
            self._judge.counts + self._endpoint.outcomes,
            tuple(self._judge.trace),
        )

    @property
    def _found(self) -> bool:
        return bool(self._judge.violations or self._crashes)

    def _about(self) -> str:
        limits, drawn = self._scenario.limits, self._scenario
        networks = [f"{n.moves} over {','.join(n.nodes)}" for n in limits.networks]
        death = "SIGKILL" if self.forked else "an exception"
        parts = (
            (
                f"{drawn.policy} every {drawn.interval:g} s on "
                f"{len(self._cluster.hosts)} hosts, killed by {death}"
            ),
            (
                f"migrations: {limits.moves_per_node} per node, "
                f"{limits.moves_at_once} in all{''.join(f', {n}' for n in networks)}"
            ),
            (
                f"cooldown {limits.cooldown:g} s, quiet time {limits.quiet_time:g} s, "
                f"timeout {limits.patience:g} s, headroom {limits.memory_headroom:g}, "
                f"overcommit {limits.memory_overbooking:g}"
            ),
            (
                f"guests of silent hosts are {self._interface.silent}, loads are "
                f"measured every {self._interface.period:g} s, "
                f"{self._interface.errors:.0%} of questions fail"
            ),
        )
        return "\n  ".join(parts)

    def _source(self) -> random.Random:
        """Return a source of its own, so that one does not change what others draw."""
        return random.Random(self._draw.random())  # noqa: S311 - no secret

    def _run(self, ending: Ending) -> None:
        self._interface.origin = self._draw.uniform(0, 1e6) - self._cluster.now
        self._cluster.note("process", ending=ending)
        self._endpoint.begin(ending)
        run = run_forked if self.forked else run_here
        how, detail = run(self._setup, self._endpoint)
        last = detail.strip().splitlines()[-1]
        self._cluster.note("process-end", how=how, detail=last)
        self._kills += how == KILLED
        if how == CRASHED:
            self._crashes.append(detail)

    def _pass_time(self) -> None:
        """Let time pass until the next process."""
        draw = self._draw
        (most,) = draw.choices([MINUTE, 10 * MINUTE, 2 * HOUR], [20, 5, 1])
        self._cluster.advance(draw.uniform(1, most))
        if draw.random() < 0.15:
            self._faults.jump()


def _terms(limits: Limits, lag: float) -> Terms:
    networks = {n.name: (n.nodes, n.moves) for n in limits.networks if n.moves}
    return Terms(
        headroom=limits.memory_headroom,
        overcommit=limits.memory_overbooking,
        per_node=limits.moves_per_node,
        per_cluster=limits.moves_at_once,
        networks=networks,
        cooldown=limits.cooldown,
        quiet_time=limits.quiet_time,
        timeout=limits.patience,
        lag=lag,
    )
