"""Plans of a controller in the modes observe, advise and automatic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.controller import execute
from opendrs.controller.events import LogEventCode
from opendrs.controller.modes import BREAKER_KEY, MODE_KEY, Entries, ModeChange
from opendrs.controller.plan_records import plan_id
from opendrs.controller.plan_states import PlanStates
from opendrs.model import Action, Plan, plan_as_text, time_as_text
from opendrs.policies import AutoRebalance
from opendrs.ports import (
    OperatorAction,
    Outcome,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
    StepRecord,
    TaskId,
)
from opendrs.store import SqliteStore
from opendrs.store.tables import PLANS
from support.advised_controller import LOPSIDED, AdvisedController
from support.builders import NOON, cluster
from support.simulated_cluster import SHORT_LIMITS, migration, step

HOUR = 3600.0
ADVISE_ENTRY = ModeChange(mode=Mode.ADVISE, user="ada", at=NOON).entry()
BREAKER_ENTRY = {"opened_at": time_as_text(NOON), "detail": "3 failed steps"}


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with SqliteStore(None) as opened:
        yield opened


def test_observe_starts_and_proposes_nothing(store: SqliteStore) -> None:
    advised = AdvisedController(store)

    assert advised.cycle() == 0
    assert advised.plans.plans() == ()
    assert len(list(store.cycles())) == 1


def test_automatic_starts_its_plan_and_records_it(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)

    assert advised.cycle() == 2
    plan = advised.last()
    assert plan.state is PlanState.DONE
    assert plan.approval is not None
    assert plan.approval.user is None
    assert store.records_of(plan.run)
    assert next(store.cycles()).run == plan.run


def test_end_of_a_plan_is_logged_with_its_id(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)

    with caplog.at_level("INFO"):
        advised.cycle()

    ends = [
        (getattr(record, "event", ""), getattr(record, "about", {}).get("plan"))
        for record in caplog.records
    ][-2:]
    events = (LogEventCode.PLAN_EXECUTED, LogEventCode.PLAN_STATE_CHANGED)
    assert ends == [(event, advised.last().id) for event in events]


def test_advise_proposes_once_and_starts_what_is_approved(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)

    assert [advised.cycle(), advised.cycle()] == [0, 0]
    assert advised.states() == ["proposed"]
    advised.approve(advised.last())
    assert advised.cycle() == 2
    assert advised.states() == ["done"]


def test_only_the_approved_steps_are_started(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()

    advised.approve(plan, plan.steps[0].id)

    advised.cycle()
    assert [record.step for record in store.records_of(plan.run)] == [plan.steps[0].id]
    found = advised.plans.plan(plan.id)
    assert found is not None
    assert found.state is PlanState.DONE


def test_plan_with_another_digest_is_not_started(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()

    advised.approve(advised.last(), digest="another")

    assert advised.cycle() == 0
    assert "failed" in advised.states()


def test_plan_with_changed_recorded_steps_is_not_started(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()
    advised.approve(plan)
    shortened = plan_as_text(Plan(plan.steps[:1]))
    assert len(plan.steps) > 1
    with store.transaction() as connection:
        connection.execute(update(PLANS).values(steps=shortened))

    assert advised.cycle() == 0
    assert "failed" in advised.states()


def test_proposed_plan_expires_and_is_proposed_again(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    advised.cycle()
    advised.simulation.clock.sleep(HOUR)

    advised.cycle()

    assert advised.states() == ["expired", "proposed"]


def test_plan_with_the_steps_of_each_decision_is_proposed_once_and_stays(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    with caplog.at_level("INFO"):
        advised.cycle()
        plan = advised.last()
        for _ in range(20):
            advised.simulation.clock.sleep(HOUR / 2)
            advised.cycle()

    (renewed,) = advised.plans.plans()
    now = advised.simulation.clock.now()
    assert renewed == replace(plan, lifetime=11 * HOUR)
    assert renewed.expires_at == now + timedelta(seconds=HOUR)
    proposed = [
        record
        for record in caplog.records
        if getattr(record, "event", "") == LogEventCode.PLAN_PROPOSED
    ]
    assert len(proposed) == 1
    advised.approve(plan)
    assert advised.cycle() == 2


def test_plan_that_no_decision_confirms_expires(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    advised.cycle()
    advised.simulation.clock.sleep(HOUR / 2)
    advised.cycle()
    advised.simulation.clock.sleep(HOUR)

    advised.approvals.reconcile()

    assert advised.states() == ["expired"]


def test_approved_plan_is_not_renewed(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    advised.cycle()
    plan = advised.last()
    advised.approve(plan)

    assert not advised.plans.renew(plan.id, 2 * HOUR)
    assert advised.last().expires_at == plan.expires_at


def test_approved_plan_that_waited_too_long_is_not_started(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    advised.cycle()
    advised.approve(advised.last())
    advised.set_mode(Mode.OBSERVE)
    advised.simulation.clock.sleep(HOUR)
    advised.set_mode(Mode.ADVISE)

    assert advised.cycle() == 0
    assert advised.states() == ["expired", "proposed"]


def test_declined_steps_are_proposed_again_after_the_time(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, approval_time=HOUR)
    advised.cycle()
    advised.decide(advised.last(), PlanState.REJECTED)

    advised.cycle()
    assert advised.states() == ["rejected"]
    advised.simulation.clock.sleep(HOUR)
    advised.cycle()
    assert advised.states() == ["rejected", "proposed"]


def test_plan_that_a_pause_has_cancelled_is_proposed_again(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    advised.approve(advised.last())
    started = advised.approvals.next_approved()
    assert started is not None
    advised.set_mode(Mode.OBSERVE)
    report = execute(
        started.plan,
        replace(advised.simulation.context(), stop_reason=started.stop_reason),
        run=started.run,
    )
    started.ended(report)
    assert advised.states() == ["cancelled"]
    advised.set_mode(Mode.ADVISE)

    advised.cycle()

    assert advised.states().count("proposed") == 1


def test_other_decision_supersedes_the_proposed_plan(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    (first, *_) = advised.last().steps
    advised.simulation.simulated_platform.start(first.action)
    advised.simulation.clock.sleep(HOUR / 2)

    advised.cycle()

    assert advised.states()[0] == "superseded"


def test_proposed_plan_keeps_its_id_and_expiry_while_loads_move(
    store: SqliteStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()
    newer = cluster(
        nodes={"a": 0.8, "b": 0.0},
        guests={"one": ("a", 0.15), "two": ("a", 0.2), "three": ("a", 0.25)},
    )
    monkeypatch.setattr(advised.simulation.platform, "observe", lambda: newer)
    advised.restart()

    with caplog.at_level("INFO"):
        advised.cycle()
        advised.cycle()

    (_, _, decided) = sorted(store.cycles(), key=lambda cycle: cycle.decided_at)
    newest = [each["guest"] for each in decided.document["decision"]["steps"]]  # type: ignore[index]
    assert newest != [each.action.guest for each in plan.steps]  # type: ignore[union-attr]
    assert advised.plans.plans() == (plan,)
    kept = [
        getattr(record, "about", {}).get("plan")
        for record in caplog.records
        if getattr(record, "event", "") == LogEventCode.PLAN_KEPT
    ]
    assert kept == [plan.id]


def test_plan_that_is_approved_meanwhile_is_not_superseded(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    proposed = advised.last()
    states = PlanStates(advised.plans, store, advised.simulation.clock)
    advised.approve(proposed)

    assert not states.change(proposed, PlanState.SUPERSEDED, "newer decision")

    assert advised.states() == ["approved"]


def test_policy_that_waits_does_not_supersede_the_proposed_plan(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(
        store, policy=AutoRebalance(hold=2, limits=SHORT_LIMITS), mode=Mode.ADVISE
    )
    advised.cycle()
    advised.cycle()
    assert advised.states() == ["proposed"]

    advised.cycle()  # the hold begins again

    assert advised.states() == ["proposed"]


def test_approved_step_that_no_longer_fits_fails_the_plan(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()
    advised.simulation.simulated_platform.start(plan.steps[0].action)
    advised.simulation.clock.sleep(HOUR / 2)
    advised.approve(plan, plan.steps[0].id)

    starts = advised.cycle()

    found = advised.plans.plan(plan.id)
    assert found is not None
    assert (starts, found.state) == (0, PlanState.FAILED)
    (record,) = store.records_of(plan.run)
    assert record.outcome is Outcome.REJECTED
    assert record.detail in found.detail


def test_guest_that_needs_approval_does_not_block_the_others(
    store: SqliteStore,
) -> None:
    reference = AdvisedController(store, LOPSIDED, mode=Mode.ADVISE)
    reference.cycle()
    moved = [each.action.guest for each in reference.last().steps]  # type: ignore[union-attr]
    reference.decide(reference.last(), PlanState.REJECTED)
    tagged = replace(LOPSIDED.guests[moved[0]], tags=frozenset({"prod"}))
    origin = replace(LOPSIDED, guests={**LOPSIDED.guests, moved[0]: tagged})

    advised = AdvisedController(
        store, origin, mode=Mode.AUTOMATIC, advise_tags=("prod",)
    )
    started = advised.cycle()

    assert started == len(moved) - 1
    assert advised.simulation.node_of(moved[0]) == "a"
    assert "done" in advised.states()


def test_automatic_supersedes_the_proposal_with_the_same_steps(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    advised.simulation.clock.sleep(60)
    advised.set_mode(Mode.AUTOMATIC)

    assert advised.cycle() == 2

    assert advised.states() == ["superseded", "done"]


@pytest.mark.parametrize(
    ("settings", "state"),
    [({}, "superseded"), ({"advise_guests": ("one", "two", "three")}, "proposed")],
)
def test_plan_of_mode_advise_is_superseded_in_mode_automatic_while_the_policy_waits(
    store: SqliteStore, settings: dict[str, Any], state: str
) -> None:
    policy = AutoRebalance(hold=2, limits=SHORT_LIMITS)
    advised = AdvisedController(store, policy=policy, mode=Mode.ADVISE, **settings)
    advised.cycle()
    advised.cycle()
    assert advised.states() == ["proposed"]
    advised.set_mode(Mode.AUTOMATIC)

    assert advised.cycle() == 0  # the hold begins again

    assert advised.states() == [state]
    assert ("mode automatic" in advised.last().detail) == (state == "superseded")


def test_steps_that_wait_for_approval_are_proposed_beside_those_that_start(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC, advise_guests=("one",))

    assert advised.cycle() == 1

    started, proposed = sorted(advised.plans.plans(), key=lambda plan: plan.state)
    assert [each.action.guest for each in proposed.steps] == ["one"]  # type: ignore[union-attr]
    assert (started.state, proposed.state) == (PlanState.DONE, PlanState.PROPOSED)
    assert proposed.steps[0].depends_on == ()
    advised.simulation.clock.sleep(60)
    advised.cycle()
    found = advised.plans.plan(proposed.id)  # was decided with other ids of its steps
    assert found is not None
    assert replace(found, lifetime=proposed.lifetime) == proposed
    assert found.lifetime > proposed.lifetime
    advised.approve(proposed)
    assert advised.cycle() == 1
    assert advised.simulation.node_of("one") == "b"


def test_guest_that_needs_no_approval_is_migrated_in_mode_advise(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE, automatic_guests=("one",))

    assert advised.cycle() == 1

    assert advised.simulation.node_of("one") == "b"
    assert sorted(advised.states()) == ["done", "proposed"]
    (proposed,) = advised.plans.plans([PlanState.PROPOSED])
    advised.approve(proposed)
    assert advised.cycle() == len(proposed.steps)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ADVISE])
def test_open_breaker_and_observe_stop_guests_that_need_no_approval(
    store: SqliteStore, mode: Mode
) -> None:
    advised = AdvisedController(store, mode=mode, automatic_guests=("one",))
    if mode is Mode.ADVISE:
        store.save(BREAKER_KEY, BREAKER_ENTRY)

    assert advised.cycle() == 0


@pytest.mark.parametrize(
    ("configured", "change", "started"),
    [
        (Mode.ADVISE, {BREAKER_KEY: BREAKER_ENTRY}, 1),
        (Mode.ADVISE, {}, 2),
        (Mode.AUTOMATIC, {MODE_KEY: ADVISE_ENTRY}, 1),
    ],
)
def test_change_of_the_mode_stops_unattended_steps_of_a_running_plan(
    store: SqliteStore,
    monkeypatch: pytest.MonkeyPatch,
    configured: Mode,
    change: Entries,
    started: int,
) -> None:
    advised = AdvisedController(
        store, mode=configured, automatic_guests=("one", "two", "three")
    )
    platform = advised.simulation.simulated_platform
    start = platform.start

    def start_and_change(action: Action) -> TaskId:
        for key, entry in change.items():
            store.save(key, dict(entry))
        return start(action)

    monkeypatch.setattr(platform, "start", start_and_change)

    assert advised.cycle() == started


def test_declined_steps_are_not_proposed_again_beside_those_that_start(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC, advise_guests=("one",))
    advised.cycle()
    (proposed,) = advised.plans.plans([PlanState.PROPOSED])
    advised.decide(proposed, PlanState.REJECTED)

    advised.cycle()

    assert advised.plans.plans([PlanState.PROPOSED]) == ()


def test_automatic_plan_of_a_killed_controller_is_not_started_later(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)
    change = advised.plans.change

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt  # between approved and running

    monkeypatch.setattr(advised.plans, "change", killed)
    with pytest.raises(KeyboardInterrupt):
        advised.cycle()
    monkeypatch.setattr(advised.plans, "change", change)
    assert advised.states() == ["approved"]
    advised.simulation.clock.sleep(HOUR / 2)
    advised.restart()

    assert advised.approvals.next_approved() is None
    assert advised.states() == ["failed"]
    assert advised.cycle() == 2


def plan_changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged messages about changes of plans, and forget them."""
    found = [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") == LogEventCode.PLAN_STATE_CHANGED
    ]
    caplog.clear()
    return found


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        ("reject", {"because": "a test"}, "rejected by ada: a test"),
        ("cancel", {}, "cancelled by ada"),
    ],
)
def test_plan_that_an_operator_declines_is_logged_once_also_after_a_restart(
    store: SqliteStore,
    caplog: pytest.LogCaptureFixture,
    command: str,
    arguments: dict[str, object],
    expected: str,
) -> None:
    caplog.set_level("INFO")
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()
    now = advised.simulation.clock.now()
    state = PlanState.REJECTED
    if command == "cancel":
        advised.approve(plan)
        state = PlanState.CANCELLED
    action = OperatorAction(
        at=now, user="ada", command=command, arguments={"plan": plan.id, **arguments}
    )
    advised.restart()
    assert plan_changes(caplog) == []
    advised.plans.change(plan.id, PlanChange(state=state, at=now, action=action))

    advised.cycle()
    assert plan_changes(caplog) == [f"plan {plan.id}: {expected}"]
    advised.cycle()
    advised.restart()
    advised.cycle()
    assert plan_changes(caplog) == []


def test_approval_is_logged_when_the_execution_begins(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    advised = AdvisedController(store, mode=Mode.ADVISE)
    advised.cycle()
    plan = advised.last()
    advised.approve(plan, plan.steps[0].id)

    advised.cycle()

    approved, done, *_ = plan_changes(caplog)
    assert approved == f"plan {plan.id}: approved by ada: 1 of 2 steps"
    assert "done" in done


def test_unattended_plan_is_not_logged_as_approved(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)
    advised.cycle()

    (done,) = plan_changes(caplog)
    assert "done" in done


def test_mode_of_a_new_configuration_is_logged(
    store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    advised = AdvisedController(store, mode=Mode.OBSERVE)
    advised.cycle()

    changed = advised.approvals.with_settings(ControllerSettings(mode=Mode.ADVISE))
    advised.restart(changed)
    advised.cycle()

    events = [getattr(record, "event", "") for record in caplog.records]
    assert events.count(LogEventCode.MODE_CHANGED) == 1


def test_plans_wait_for_approval_while_the_breaker_is_open(
    store: SqliteStore,
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)
    store.save(BREAKER_KEY, BREAKER_ENTRY)

    assert advised.cycle() == 0
    assert advised.states() == ["proposed"]
    advised.approve(advised.last())
    assert advised.cycle() == 2


def test_breaker_stops_a_plan_that_no_operator_has_approved(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised = AdvisedController(store, mode=Mode.AUTOMATIC)
    platform = advised.simulation.simulated_platform
    start = platform.start

    def start_and_open(action: Action) -> TaskId:
        store.save(BREAKER_KEY, BREAKER_ENTRY)
        return start(action)

    monkeypatch.setattr(platform, "start", start_and_open)

    assert advised.cycle() == 1
    plan = advised.last()
    assert plan.state is PlanState.CANCELLED
    assert "circuit breaker" in plan.detail


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([Outcome.DONE, Outcome.DONE], PlanState.DONE),
        ([Outcome.DONE, Outcome.FAILED], PlanState.FAILED),
        ([Outcome.DONE], PlanState.FAILED),
        ([], PlanState.FAILED),
    ],
)
def test_interrupted_plan_is_settled_from_its_step_records(
    store: SqliteStore, outcomes: list[Outcome], state: PlanState
) -> None:
    advised = AdvisedController(store)
    steps = tuple(step(str(n), migration(f"vm{n}", "a", "b")) for n in (1, 2))
    approval = PlanApproval(
        user=None, at=NOON, steps=tuple(each.id for each in steps), digest="d"
    )
    plan = PlanRecord(
        id="a",
        run="run a",
        created_at=NOON,
        lifetime=HOUR,
        policy="balance",
        reason="improves-balance",
        reason_detail="",
        steps=steps,
        groups=(),
        digest="d",
        snapshot="s",
        state=PlanState.APPROVED,
        changed_at=NOON,
        approval=approval,
    )
    advised.plans.add(plan)
    advised.plans.change("a", PlanChange(state=PlanState.RUNNING, at=NOON))
    for each, outcome in zip(steps, outcomes, strict=False):
        store.write(
            StepRecord(
                run="run a",
                step=each.id,
                action=each.action,
                intended_at=NOON,
                ended_at=NOON + timedelta(seconds=1),
                outcome=outcome,
            )
        )

    advised.cycle()

    found = advised.plans.plan("a")
    assert found is not None
    assert found.state is state


def test_loop_starts_an_approved_plan_between_two_cycles(store: SqliteStore) -> None:
    advised = AdvisedController(store, mode=Mode.ADVISE)

    def act() -> None:
        if advised.simulation.elapsed > 250:
            advised.simulation.cancellation.cancel()
        elif advised.simulation.elapsed > 100 and advised.states() == ["proposed"]:
            advised.approve(advised.last())

    advised.alive = act

    advised.controller.run_forever()

    assert advised.states() == ["done"]
    assert len(list(store.cycles())) == 1


def test_ids_are_short_and_differ() -> None:
    names = {plan_id("run", attempt) for attempt in range(100)}

    assert len(names) == 100
    assert {len(name) for name in names} == {5}
