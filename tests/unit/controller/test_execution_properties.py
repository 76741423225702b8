"""Whatever the cluster and the plan: rules are kept and nodes not overfilled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.model import GIB, Affinity, Migration, Plan, Snapshot, Step, StepId
from opendrs.policies.balance import Balance
from opendrs.ports import Outcome
from opendrs.rules import newly_broken
from opendrs.sim import draw_cluster
from stage import HASTY, Stage, outcomes
from strategies import snapshots

# No deadline: some plans take long, in steps of a second.
FEW = settings(max_examples=60, deadline=None)


@st.composite
def plans(draw: st.DrawFn) -> tuple[Snapshot, Plan]:
    """Draw a cluster, and moves that nobody has thought about."""
    origin = draw(snapshots(measured=True, settled=True))
    nodes = sorted(origin.nodes)
    steps: list[Step] = []
    for number, guest in enumerate(origin.guests.values()):
        target = draw(st.sampled_from(nodes))
        earlier = draw(st.lists(st.sampled_from(steps), max_size=1)) if steps else []
        if target != guest.node:
            move = Migration(guest.id, guest.node, target)
            after = tuple(step.id for step in earlier)
            steps.append(Step(StepId(str(number)), move, after))
    return origin, Plan(tuple(steps))


def watched(stage: Stage, origin: Snapshot) -> None:
    """Check the cluster at every call that is made."""

    @contextmanager
    def checking(_: str) -> Iterator[None]:
        yield
        seen = stage.world.observe()
        assert not newly_broken(origin, seen)
        for name, node in seen.nodes.items():
            assert node.capacity is not None
            before = origin.nodes[name].usage.memory or 0
            most = max(before, 0.95 * node.capacity.memory)
            assert (node.usage.memory or 0) <= most

    stage.tap(checking)


@FEW
@given(plans())
def test_no_rule_is_broken_and_no_node_overfilled_at_any_time(
    drawn: tuple[Snapshot, Plan],
) -> None:
    origin, plan = drawn
    stage = Stage(origin)
    watched(stage, origin)
    report = stage.play(*plan.steps)
    for outcome in set(outcomes(report)):
        event(str(outcome))

    assert len(report.records) == len(plan.steps)
    assert stage.store.unfinished() == ()


@FEW
@given(plans())
def test_a_guest_is_on_the_target_just_when_its_step_is_done(
    drawn: tuple[Snapshot, Plan],
) -> None:
    origin, plan = drawn
    stage = Stage(origin)
    report = stage.play(*plan.steps)

    for record in report.records:
        assert isinstance(record.action, Migration)
        place = stage.node_of(record.action.guest)
        done = record.outcome is Outcome.DONE
        assert place == (record.action.target if done else record.action.source)


@FEW
@given(plans())
def test_nothing_fails_in_a_world_without_faults(drawn: tuple[Snapshot, Plan]) -> None:
    origin, plan = drawn

    report = Stage(origin).play(*plan.steps)

    assert set(outcomes(report)) <= {Outcome.DONE, Outcome.REFUSED, Outcome.SKIPPED}


@FEW
@given(plans(), st.integers(1, 3))
def test_guests_that_do_not_converge_break_no_rule_about_nodes_or_keeping_apart(
    drawn: tuple[Snapshot, Plan], which: int
) -> None:
    # Affinity is left out: who stays behind is reported, and cannot be helped.
    origin, plan = drawn
    bound = [rule for rule in origin.rules if not isinstance(rule, Affinity)]
    origin = replace(origin, rules=tuple(bound))
    stage = Stage(origin, limits=replace(HASTY, patience=25))
    for guest in sorted(origin.guests)[::which]:
        stage.world.agitate(guest)
    watched(stage, origin)

    report = stage.play(*plan.steps)

    assert stage.store.unfinished() == ()
    assert Outcome.LOST not in outcomes(report)


def test_the_plan_for_the_demonstration_is_carried_out_to_the_last_step() -> None:
    origin = draw_cluster(1)
    plan = Balance().decide(origin, None).plan
    stage = Stage(origin, limits=HASTY, bandwidth=GIB)
    watched(stage, origin)

    report = stage.play(*plan.steps)

    assert report.complete
    assert len(report.records) >= 8
