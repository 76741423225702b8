"""Requests of agents, and plans that wait for the approval of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.controller.approvals import PlanApprovals
from opendrs.model import LoadState, StepId
from opendrs.ports import (
    Outcome,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
    RequestState,
)
from opendrs.store import DatabasePlanStore
from support.agent_cluster import AgentCluster
from support.builders import cluster

CROWDED = cluster(
    {"h1": 0.95, "h2": 0.2, "h3": 0.2},
    {
        "vm1": ("h1", 0.3),
        "vm2": ("h1", 0.3),
        "vm3": ("h1", 0.3),
        "vm4": ("h2", 0.1),
        "vm5": ("h3", 0.1),
    },
)


class AdvisedAgents(AgentCluster):
    """A cluster with agents, whose controller needs approvals."""

    def use(self, **settings: Any) -> None:  # noqa: ANN401 - of the controller
        self.plans = DatabasePlanStore(self.store)
        self.approval = PlanApprovals(
            self.plans,
            self.store,
            self.simulation.clock,
            ControllerSettings(**settings),
            self.simulation.cancellation,
            target="lab",
        )
        self.restart()

    def approve(self, plan: PlanRecord, *steps: StepId) -> None:
        now = self.simulation.clock.now()
        chosen = steps or tuple(step.id for step in plan.steps)
        approval = PlanApproval(user="ada", at=now, steps=chosen, digest=plan.digest)
        change = PlanChange(state=PlanState.APPROVED, at=now, approval=approval)
        assert self.plans.change(plan.id, change)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[AdvisedAgents]:
    with AdvisedAgents(tmp_path, CROWDED) as opened:
        opened.use(mode=Mode.ADVISE)
        for name in ("h2", "h3"):
            opened.submit(name)
        yield opened


def test_approved_plan_is_linked_to_the_request_that_it_answers(
    agents: AdvisedAgents,
) -> None:
    request = agents.submit("h1", LoadState.OVERLOADED, ["vm1", "vm2"])
    agents.run_cycle()
    (plan,) = agents.plans.plans()
    assert agents.get_status(request).state is RequestState.QUEUED
    agents.approve(plan)

    agents.run_cycle()
    agents.run_cycle()

    status = agents.get_status(request)
    assert status.state is RequestState.DONE
    assert [step.outcome for step in status.steps] == [Outcome.DONE] * 2


def test_partly_approved_plan_names_the_guests_that_stay(
    agents: AdvisedAgents,
) -> None:
    request = agents.submit("h1", LoadState.OVERLOADED, ["vm1", "vm2"])
    agents.run_cycle()
    (plan,) = agents.plans.plans()
    agents.approve(plan, plan.steps[0].id)

    agents.run_cycle()
    agents.run_cycle()

    status = agents.get_status(request)
    assert status.state is RequestState.DONE
    assert len(status.steps) == 1
    assert "not in the approved plan" in status.detail


def test_request_of_a_node_that_recovered_is_not_linked(
    agents: AdvisedAgents,
) -> None:
    agents.submit("h1", LoadState.OVERLOADED, ["vm1"])
    agents.run_cycle()
    (plan,) = agents.plans.plans()
    newer = agents.submit("h1")
    agents.approve(plan)

    agents.run_cycle()

    assert agents.record(newer).run is None


def test_request_with_waiting_steps_stays_queued(
    agents: AdvisedAgents,
) -> None:
    agents.use(mode=Mode.AUTOMATIC, advise_guests=("vm4",))
    # vm4 waits for an approval, vm1 does not.
    waiting = agents.submit("h2", LoadState.OVERLOADED, ["vm4"])
    started = agents.submit("h1", LoadState.OVERLOADED, ["vm1"])

    agents.run_cycle()

    assert agents.get_status(started).state is RequestState.DONE
    assert agents.get_status(waiting).state is RequestState.QUEUED
    (proposed,) = agents.plans.plans([PlanState.PROPOSED])
    assert proposed.steps[0].action.guest == "vm4"  # type: ignore[union-attr]
