"""A cycle goes one way: platform, snapshot, plan, guard, platform, record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from builders import NOON, cluster
from opendrs.controller import Cycle, run_cycle
from opendrs.model import DEFAULT_LIMITS, Limits, Plan, Snapshot, Step
from opendrs.policies import Decision, Reason
from opendrs.ports import Outcome
from stage import Stage, migration, step

LOPSIDED = cluster({"a": 0.9, "b": 0.1}, {"vm1": ("a", 0.3)})
MOVE = step("1", migration("vm1", "a", "b"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A policy that always wants the same, and counts its cycles."""

    name: ClassVar[str] = "fixed"
    steps: tuple[Step, ...] = ()
    limits: Limits = DEFAULT_LIMITS

    def initial_memory(self) -> int:
        return 0

    def decide(self, snapshot: Snapshot, memory: int) -> Decision[int]:
        reason = Reason.IMPROVES_BALANCE if self.steps else Reason.BALANCED
        return Decision(reason, memory + len(snapshot.nodes), Plan(self.steps))


def cycle(stage: Stage, policy: Fixed, *, agreed: bool) -> Cycle[int]:
    """Run one cycle of *policy*; the operator agrees or does not."""
    return run_cycle(
        stage.platform,
        policy,
        5,
        consent=lambda _, decision: agreed and bool(decision.plan.steps),
        clock=stage.clock,
        store=stage.store,
        run="run",
        watcher=stage.diary,
        brake=stage.brake,
    )


def test_a_plan_that_finds_consent_is_carried_out() -> None:
    stage = Stage(LOPSIDED)

    found = cycle(stage, Fixed(steps=(MOVE,)), agreed=True)

    assert found.report is not None
    assert found.report.count(Outcome.DONE) == 1
    assert found.decision.memory == 7
    assert found.snapshot.taken_at == NOON
    assert stage.node_of("vm1") == "b"


def test_without_consent_nothing_is_done_or_recorded() -> None:
    stage = Stage(LOPSIDED)

    found = cycle(stage, Fixed(steps=(MOVE,)), agreed=False)

    assert found.report is None
    assert stage.node_of("vm1") == "a"
    assert stage.store.recent(NOON) == ()


def test_nobody_is_asked_about_an_empty_plan() -> None:
    stage = Stage(LOPSIDED)

    found = cycle(stage, Fixed(), agreed=True)

    assert found.report is None
    assert found.decision.reason is Reason.BALANCED


def test_the_limits_of_the_policy_bind_the_execution() -> None:
    stage = Stage(LOPSIDED)
    strict = Limits(memory_headroom=0.7)

    found = cycle(stage, Fixed(steps=(MOVE,), limits=strict), agreed=True)

    assert found.report is not None
    assert found.report.count(Outcome.REFUSED) == 1
