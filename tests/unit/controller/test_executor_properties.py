"""Properties of execution: rules are kept, and no node is overcommitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.model import (
    DOMAIN_ORIGIN,
    GIB,
    Affinity,
    DomainAffinity,
    LiveMigration,
    Plan,
    Snapshot,
    Step,
    StepId,
)
from opendrs.policies import Balance
from opendrs.ports import Outcome
from opendrs.rules import new_violations
from opendrs.simulation import demo_cluster
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster, outcomes
from support.strategies import snapshots

# No deadline: some plans take long, in steps of a second.
FEW = settings(max_examples=60, deadline=None)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Snapshot, Plan]:
    """Draw a cluster, and arbitrary moves."""
    origin = draw(snapshots(measured=True, settled=True))
    nodes = sorted(origin.nodes)
    steps: list[Step] = []
    for number, guest in enumerate(origin.guests.values()):
        target = draw(st.sampled_from(nodes))
        earlier = draw(st.lists(st.sampled_from(steps), max_size=1)) if steps else []
        if target != guest.node:
            move = LiveMigration(guest.id, guest.node, target)
            after = tuple(step.id for step in earlier)
            steps.append(Step(StepId(str(number)), move, after))
    return origin, Plan(tuple(steps))


def left_domains(origin: Snapshot, seen: Snapshot) -> list[DomainAffinity]:
    """Return the rules whose guests were in one domain, and are no longer in it."""

    def domains(rule: DomainAffinity, snapshot: Snapshot) -> set[str | None]:
        nodes, guests = snapshot.nodes, snapshot.guests
        there = (guests[name] for name in rule.guests if name in guests)
        return {nodes[x.node].domain(rule.domain) for x in there if x.is_active}

    return [
        rule
        for rule in origin.rules
        if isinstance(rule, DomainAffinity)
        and rule.strict
        and len(before := domains(rule, origin)) == 1
        and None not in before
        and domains(rule, seen) != before
    ]


def watched(simulation: SimulatedCluster, origin: Snapshot) -> None:
    """Check the cluster at every call that is made."""

    @contextmanager
    def checking(_: str) -> Iterator[None]:
        yield
        seen = simulation.simulated_platform.observe()
        assert not [
            each
            for each in new_violations(origin, seen)
            if each.rule.origin != DOMAIN_ORIGIN  # guests may gather in any domain
        ]
        assert not left_domains(origin, seen)
        for name, node in seen.nodes.items():
            assert node.capacity is not None
            before = origin.nodes[name].usage.memory or 0
            most = max(before, 0.95 * node.capacity.memory)
            assert (node.usage.memory or 0) <= most

    simulation.intercept(checking)


@FEW
@given(plans())
def test_execution_never_breaks_rules_or_memory(
    drawn: tuple[Snapshot, Plan],
) -> None:
    origin, plan = drawn
    simulation = SimulatedCluster(origin)
    watched(simulation, origin)
    report = simulation.execute(*plan.steps)
    for outcome in set(outcomes(report)):
        event(str(outcome))

    assert len(report.records) == len(plan.steps)
    assert simulation.store.unfinished() == ()


@FEW
@given(plans())
def test_guest_is_on_target_iff_step_done(
    drawn: tuple[Snapshot, Plan],
) -> None:
    origin, plan = drawn
    simulation = SimulatedCluster(origin)
    report = simulation.execute(*plan.steps)

    for record in report.records:
        assert isinstance(record.action, LiveMigration)
        place = simulation.node_of(record.action.guest)
        done = record.outcome is Outcome.DONE
        assert place == (record.action.target if done else record.action.source)


@FEW
@given(plans())
def test_execution_without_faults_never_fails(drawn: tuple[Snapshot, Plan]) -> None:
    origin, plan = drawn

    report = SimulatedCluster(origin).execute(*plan.steps)

    assert set(outcomes(report)) <= {Outcome.DONE, Outcome.REJECTED, Outcome.SKIPPED}


@FEW
@given(plans(), st.integers(1, 3))
def test_non_converging_guests_break_no_rule(
    drawn: tuple[Snapshot, Plan], which: int
) -> None:
    # Affinity is left out: who stays behind is reported, and cannot be helped.
    origin, plan = drawn
    bound = [rule for rule in origin.rules if not isinstance(rule, Affinity)]
    origin = replace(origin, rules=tuple(bound))
    simulation = SimulatedCluster(
        origin, limits=replace(SHORT_LIMITS, migration_timeout=25)
    )
    for guest in sorted(origin.guests)[::which]:
        simulation.simulated_platform.make_non_converging(guest)
    watched(simulation, origin)

    report = simulation.execute(*plan.steps)

    assert simulation.store.unfinished() == ()
    assert Outcome.LOST not in outcomes(report)


def test_demo_plan_is_executed_completely() -> None:
    origin = demo_cluster(1)
    plan = Balance().decide(origin, None).plan
    simulation = SimulatedCluster(origin, limits=SHORT_LIMITS, bandwidth=GIB)
    watched(simulation, origin)

    report = simulation.execute(*plan.steps)

    assert report.all_done
    assert len(report.records) >= 8
