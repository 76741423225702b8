"""Contract of the plan store, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path
from threading import Barrier, Thread

import pytest

from opendrs.model import StepId
from opendrs.ports import (
    PLAN_TRANSITIONS,
    OperatorAction,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
)
from opendrs.store import (
    Access,
    DatabasePlanStore,
    OperatorStore,
    PostgresqlStore,
    SqliteStore,
)
from opendrs.store.plans import MAX_ENDED_PLANS
from support.builders import NOON
from support.simulated_cluster import migration, step

Open = Callable[[Access], AbstractContextManager[SqliteStore | PostgresqlStore]]
LATER = NOON + timedelta(minutes=5)
APPROVAL = PlanApproval(user="ada", at=LATER, steps=(StepId("1"),), digest="d")
REJECTION = OperatorAction(
    at=LATER, user="ada", command="reject", arguments={"plan": "a"}
)
PATHS = {  # how each state is reached from the initial ones
    PlanState.PROPOSED: (PlanState.PROPOSED,),
    PlanState.APPROVED: (PlanState.PROPOSED, PlanState.APPROVED),
    PlanState.RUNNING: (PlanState.APPROVED, PlanState.RUNNING),
    PlanState.DONE: (PlanState.APPROVED, PlanState.RUNNING, PlanState.DONE),
    PlanState.FAILED: (PlanState.APPROVED, PlanState.RUNNING, PlanState.FAILED),
    PlanState.CANCELLED: (PlanState.APPROVED, PlanState.CANCELLED),
    PlanState.REJECTED: (PlanState.PROPOSED, PlanState.REJECTED),
    PlanState.EXPIRED: (PlanState.PROPOSED, PlanState.EXPIRED),
    PlanState.SUPERSEDED: (PlanState.PROPOSED, PlanState.SUPERSEDED),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def open_as(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    if request.param == "sqlite":
        return lambda access: SqliteStore(tmp_path / "record.db", access)
    url = request.getfixturevalue("postgresql_url")
    return lambda access: PostgresqlStore(url, "lab", access=access)


def plan(name: str = "a", minute: int = 0) -> PlanRecord:
    return PlanRecord(
        id=name,
        run=f"run {name}",
        created_at=NOON + timedelta(minutes=minute),
        lifetime=3600.0,
        policy="balance",
        reason="improves-balance",
        reason_detail="0.5 to 0.1",
        steps=(
            step("1", migration("vm1", "h1", "h2")),
            step("2", migration("vm2", "h1", "h2"), "1"),
        ),
        groups=((StepId("1"), StepId("2")),),
        digest="d",
        snapshot="s",
        state=PlanState.PROPOSED,
        changed_at=NOON,
    )


def to(state: PlanState) -> PlanChange:
    return PlanChange(state=state, at=LATER, detail="why")


def test_plan_is_stored_with_its_approval(open_as: Open) -> None:
    change = PlanChange(
        state=PlanState.APPROVED, at=LATER, detail="yes", approval=APPROVAL
    )
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)

        assert plans.add(plan())
        assert plans.plan("a") == plan()
        assert plans.change("a", change)
        expected = replace(
            plan(),
            state=PlanState.APPROVED,
            changed_at=LATER,
            detail="yes",
            approval=APPROVAL,
        )
        assert plans.plan("a") == expected
        assert plans.plans([PlanState.APPROVED]) == (expected,)
        assert plans.plans([PlanState.PROPOSED]) == ()
        assert plans.plan("b") is None


@pytest.mark.parametrize("state", list(PlanState))
def test_only_a_proposed_plan_is_renewed(open_as: Open, state: PlanState) -> None:
    first, *following = PATHS[state]
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        approval = None if first is PlanState.PROPOSED else APPROVAL
        plans.add(replace(plan(), state=first, approval=approval))
        for each in following:
            assert plans.change("a", to(each))

        assert plans.renew("a", 7200.0) is (state is PlanState.PROPOSED)

        found = plans.plan("a")
        assert found is not None
        assert found.lifetime == (7200.0 if state is PlanState.PROPOSED else 3600.0)
        assert not plans.renew("b", 7200.0)


def test_plans_are_ordered_by_time(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        for name, minute in (("c", 1), ("a", 2), ("b", 0)):
            plans.add(plan(name, minute))

        assert [each.id for each in plans.plans()] == ["b", "c", "a"]
        assert plans.counts() == {PlanState.PROPOSED: 3}


def test_id_in_use_is_not_replaced(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        plans.add(plan())

        assert not plans.add(replace(plan("b"), id="a"))
        assert plans.plans() == (plan(),)


def test_only_listed_transitions_are_possible(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        for number, (before, after) in enumerate(product(PlanState, PlanState)):
            first, *path = PATHS[before]
            plans.add(replace(plan(f"p{number}"), state=first))
            for state in path:
                assert plans.change(f"p{number}", to(state))

            is_changed = plans.change(f"p{number}", to(after))

            found = plans.plan(f"p{number}")
            assert found is not None
            assert is_changed == (after in PLAN_TRANSITIONS[before])
            assert found.state is (after if is_changed else before)


def test_change_from_another_state_is_rejected(open_as: Open) -> None:
    change = replace(to(PlanState.SUPERSEDED), only_from=PlanState.PROPOSED)
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        for name in ("a", "b"):
            plans.add(plan(name))
        assert plans.change("a", to(PlanState.APPROVED))

        assert not plans.change("a", change)
        assert plans.change("b", change)

        states = {each.id: each.state for each in plans.plans()}
        assert states == {"a": PlanState.APPROVED, "b": PlanState.SUPERSEDED}


@pytest.mark.parametrize(
    "state", [state for state in PlanState if state not in ("proposed", "approved")]
)
def test_plan_begins_in_an_initial_state(open_as: Open, state: PlanState) -> None:
    with (
        open_as(Access.CONTROL) as store,
        pytest.raises(ValueError, match="initial state"),
    ):
        DatabasePlanStore(store).add(replace(plan(), state=state))


def test_operator_decides_beside_the_controller_with_an_audit(open_as: Open) -> None:
    change = PlanChange(state=PlanState.REJECTED, at=LATER, action=REJECTION)
    with open_as(Access.CONTROL) as controller, open_as(Access.OPERATE) as operator:
        DatabasePlanStore(controller).add(plan())

        assert DatabasePlanStore(operator).change("a", change)
        assert not DatabasePlanStore(operator).change("a", change)
        assert not DatabasePlanStore(controller).change("a", to(PlanState.APPROVED))
        assert OperatorStore(operator).actions() == (REJECTION,)


def test_one_of_many_concurrent_changes_succeeds(open_as: Open) -> None:
    with open_as(Access.CONTROL) as controller:
        DatabasePlanStore(controller).add(plan())
        wanted = [PlanState.APPROVED, PlanState.REJECTED] * 4
        start = Barrier(len(wanted))
        successes: list[PlanState] = []

        def decide(state: PlanState) -> None:
            with open_as(Access.OPERATE) as store:
                start.wait(60)
                if DatabasePlanStore(store).change("a", to(state)):
                    successes.append(state)

        threads = [Thread(target=decide, args=(state,)) for state in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        (winner,) = successes
        found = DatabasePlanStore(controller).plan("a")
        assert found is not None
        assert found.state is winner


def test_oldest_ended_plans_are_deleted(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        for number in range(MAX_ENDED_PLANS + 2):
            plans.add(plan(f"p{number}", number))
            if number:
                plans.change(f"p{number}", to(PlanState.SUPERSEDED))
        plans.add(plan("last", MAX_ENDED_PLANS + 2))

        kept = {each.id for each in plans.plans()}
        assert len(kept) == MAX_ENDED_PLANS + 2
        assert {"p0", "p2", "last"} <= kept
        assert "p1" not in kept


def test_times_of_the_future_are_corrected(open_as: Open) -> None:
    with open_as(Access.CONTROL) as store:
        plans = DatabasePlanStore(store)
        plans.add(plan(minute=30))

        assert store.correct_times(NOON) == 1
        assert plans.plan("a") == plan()
