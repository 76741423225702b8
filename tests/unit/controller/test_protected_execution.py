"""Protection during executions, and over a simulated month."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import ClassVar

import pytest

from opendrs.controller import (
    CancellationToken,
    CycleContext,
    ExecutionContext,
    NullObserver,
    execute,
    run_cycle,
)
from opendrs.controller.consent import ApprovedPlan, ConsentApproval
from opendrs.controller.cycle import Evaluation, PolicyDecisionSource
from opendrs.controller.event_log import CycleLogger
from opendrs.controller.modes import BREAKER_KEY
from opendrs.controller.reservations import Reservation
from opendrs.model import (
    GIB,
    Limits,
    LiveMigration,
    MigrationBudget,
    NodeId,
    Plan,
    Protection,
    Resources,
    Snapshot,
)
from opendrs.policies import Balance, Decision, DecisionReason, guests_on
from opendrs.ports import Outcome, StepRecord
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from opendrs.store import MemoryStore
from support.builders import CAPACITY, NOON, cluster
from support.simulated_cluster import SimulatedCluster, migration, outcomes, step

STEPS = [step(str(n), migration(f"vm{n}", "a", "b")) for n in range(1, 5)]
DONE, FAILED, REJECTED = Outcome.DONE, Outcome.FAILED, Outcome.REJECTED


def four_guests() -> SimulatedCluster:
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    origin = cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests)
    return SimulatedCluster(origin, Limits(max_parallel_migrations=1, cooldown=0.0))


def executed(
    simulation: SimulatedCluster, protection: Protection, run: str = "run"
) -> list[Outcome | None]:
    context = replace(simulation.context(), protection=protection)
    return outcomes(execute(Plan(tuple(STEPS)), context, run=run))


def test_budget_stops_a_plan_and_the_next_one() -> None:
    simulation = four_guests()
    protection = Protection(budgets=(MigrationBudget(window=3600, migrations=2),))

    assert executed(simulation, protection) == [DONE, DONE, REJECTED, REJECTED]
    assert executed(simulation, protection, "again") == [REJECTED] * 4
    simulation.clock.sleep(3600)
    assert executed(simulation, protection, "later")[2:] == [DONE, DONE]


def test_cycle_limit_counts_one_plan() -> None:
    protection = Protection(max_migrations_per_cycle=3)

    assert executed(four_guests(), protection) == [DONE, DONE, DONE, REJECTED]


def test_cycle_limit_counts_all_plans_of_a_cycle() -> None:
    simulation = four_guests()
    context = replace(
        simulation.context(), protection=Protection(max_migrations_per_cycle=3)
    )
    policy = Balance(limits=simulation.limits)

    class OneApproved(ConsentApproval):
        """Approval with a plan of an earlier cycle."""

        plans: ClassVar = [Plan(tuple(STEPS[:2]))]

        def next_approved(self) -> ApprovedPlan | None:
            if not self.plans:
                return None
            plan = self.plans.pop()
            return ApprovedPlan(run="approved", plan=plan, policy="balance", reason="")

    cycle = CycleContext(
        command="run",
        execution=context,
        observe=simulation.simulated_platform.observe,
        decision_source=FixedDecisions(policy, simulation.store),
        approval=OneApproved(lambda _: True),
        observer=CycleLogger(NullObserver()),
    )

    first, second = run_cycle(cycle), run_cycle(cycle)

    assert outcomes(first.approved[0][1]) == [DONE, DONE]
    assert first.report is not None
    assert outcomes(first.report) == [DONE, REJECTED]
    assert second.report is not None
    assert outcomes(second.report) == [DONE]


class FixedDecisions(PolicyDecisionSource):
    """Decisions to migrate the third and the fourth guest, if they are on a."""

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[None]]:
        on_a = guests_on(snapshot, {NodeId("a")})
        plan = Plan(tuple(each for each in STEPS[2:] if each.action.guest in on_a))  # type: ignore[union-attr]
        yield Evaluation(None, Decision(DecisionReason.IMPROVES_BALANCE, None, plan))


def test_breaker_stops_the_rest_of_a_plan() -> None:
    simulation = four_guests()
    for each in STEPS:
        simulation.simulated_platform.make_non_converging(each.action.guest)  # type: ignore[union-attr]
    simulation.limits = replace(simulation.limits, migration_timeout=60.0)

    found = executed(simulation, Protection(max_failures=2))

    assert found == [Outcome.ABORTED, Outcome.ABORTED, REJECTED, REJECTED]
    assert simulation.store.load(BREAKER_KEY) is not None


def test_guard_counts_reservations() -> None:
    simulation = four_guests()
    reservation = Reservation(
        name="web",
        limit=Resources(1.0, 75 * GIB),
        nodes=(NodeId("b"),),
        until=NOON + timedelta(minutes=30),
    )
    simulation.store.save(reservation.key, reservation.document())

    assert executed(simulation, Protection()) == [DONE, REJECTED, REJECTED, REJECTED]
    simulation.clock.sleep(1800)
    assert executed(simulation, Protection(), "later")[1:] == [DONE, DONE, DONE]


def test_load_before_each_migration_is_recorded() -> None:
    simulation = four_guests()
    before = simulation.platform.observe()

    executed(simulation, Protection())

    first, second, *_ = simulation.store.records_of("run")
    assert first.load is not None
    assert second.load is not None
    assert first.load.source == before.nodes[NodeId("a")].usage
    assert second.load.source.memory == first.load.source.memory - 10 * 2**30  # type: ignore[operator]


HORIZON = 4 * 3600.0
NOISE = 0.1


def moves_of_a_month(protection: Protection, store: MemoryStore) -> list[StepRecord]:
    """Return the migrations of a cluster with noisy load, balanced too eagerly."""
    clock = SimulatedClock(NOON)
    guests = {f"vm{n}": (f"n{n % 4}", 0.07) for n in range(20)}
    origin = cluster({f"n{n}": 0.35 + 0.02 * n for n in range(4)}, guests)
    platform = SimulatedPlatform(origin, clock, seed=3, load_variation=0.5)
    policy = Balance(threshold=0.05, limits=Limits(cooldown=0.0))
    cancellation = CancellationToken()
    context = CycleContext(
        command="run",
        execution=ExecutionContext(
            platform=platform,
            clock=clock,
            store=store,
            limits=policy.limits,
            observer=NullObserver(),
            cancellation=cancellation,
            protection=protection,
        ),
        observe=platform.observe,
        decision_source=PolicyDecisionSource(policy, store),
        approval=ConsentApproval(lambda _: True),
        observer=CycleLogger(NullObserver()),
    )
    while clock.now() < NOON + timedelta(days=30):
        run_cycle(context)
        clock.sleep(1800)
    return [each for each in store.recent(NOON) if each.outcome is DONE]


def undone(moves: list[StepRecord]) -> list[tuple[StepRecord, StepRecord]]:
    """Return the moves that a later one undoes within the horizon."""
    pairs = []
    for place, later in enumerate(moves):
        back = later.action
        assert isinstance(back, LiveMigration)
        for earlier in moves[:place]:
            there = earlier.action
            assert isinstance(there, LiveMigration)
            elapsed = (later.intended_at - earlier.intended_at).total_seconds()
            same = there == LiveMigration(back.guest, back.target, back.source)
            if same and elapsed < HORIZON:
                pairs.append((earlier, later))
    return pairs


def load_changed(earlier: StepRecord, later: StepRecord) -> bool:
    """Return True if the node that is left became busier by more than the noise."""
    assert earlier.load is not None
    assert later.load is not None
    for name in ("cpu", "memory"):
        size = getattr(CAPACITY, name)
        guest, source, target = (
            getattr(use, name)
            for use in (earlier.load.guest, earlier.load.source, earlier.load.target)
        )
        before = (target + guest - (source - guest)) / size
        now = (
            getattr(later.load.source, name) - getattr(later.load.target, name)
        ) / size
        if now - before > NOISE:
            return True
    return False


@pytest.mark.slow
def test_no_move_of_a_month_is_undone_without_a_change_of_load() -> None:
    free = Protection(undo_horizon=0.0)
    protected = Protection(undo_horizon=HORIZON, noise=NOISE)

    without = undone(moves_of_a_month(free, MemoryStore()))
    with_protection = moves_of_a_month(protected, MemoryStore())

    assert sum(not load_changed(*pair) for pair in without) > 10
    assert len(with_protection) > 10
    assert [pair for pair in undone(with_protection) if not load_changed(*pair)] == []
