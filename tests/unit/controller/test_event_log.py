"""Log events about steps."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.cli.logs import JsonFormatter
from opendrs.controller import CancellationToken, NullObserver, RecordedDecision
from opendrs.controller.event_log import CycleLogger, LoggingObserver
from opendrs.controller.events import LogEventCode
from opendrs.controller.repair_advice import RepairCommand
from opendrs.model import (
    AntiAffinity,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
)
from opendrs.policies import (
    AutoRebalance,
    Balance,
    Decision,
    DecisionReason,
    Drain,
    Policy,
    decide,
)
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.optimize.objective import Goal
from opendrs.ports import Outcome, StepRecord, TaskState, TaskStatus
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import SHORT_LIMITS, migration, step

FIRST = step("1", migration("vm", "a", "b"))
SECOND = step("2", PowerOff(NodeId("a")))


@pytest.fixture(autouse=True)
def _capture_all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def ended(of: Step, outcome: Outcome, detail: str = "") -> StepRecord:
    record = StepRecord(run="run", step=of.id, action=of.action, intended_at=NOON)
    return replace(record, outcome=outcome, detail=detail)


def test_observer_logs_start_and_end_of_step(caplog: pytest.LogCaptureFixture) -> None:
    log = LoggingObserver(CancellationToken())

    log.step_started(FIRST)
    log.step_progressed(FIRST, TaskStatus(TaskState.RUNNING))
    log.step_finished(FIRST, ended(FIRST, Outcome.DONE))

    assert messages(caplog) == [
        ("INFO", "step 1 (vm: a → b): started"),
        ("INFO", "step 1 (vm: a → b): done"),
    ]
    about = vars(caplog.records[0])["about"]
    assert about["guest"] == "vm"
    assert (about["source"], about["target"], about["state"]) == ("a", "b", "started")


def test_observer_logs_start_with_detail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    LoggingObserver(CancellationToken()).step_started(
        replace(FIRST, detail="imbalance 0.947 to 0.854")
    )

    assert messages(caplog) == [
        (
            "INFO",
            (
                "step 1 (vm: a → b): started; reason when planned: "
                "imbalance 0.947 to 0.854"
            ),
        )
    ]
    assert vars(caplog.records[0])["about"]["detail"] == "imbalance 0.947 to 0.854"


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.LOST, Outcome.ABORTED])
def test_observer_logs_failure_as_warning(
    caplog: pytest.LogCaptureFixture, outcome: Outcome
) -> None:
    LoggingObserver(CancellationToken()).step_finished(
        SECOND, ended(SECOND, outcome, "no power")
    )

    assert messages(caplog) == [
        ("WARNING", f"step 2 (power off a): {outcome}: no power")
    ]


def test_observer_logs_blocking_detail_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LoggingObserver(CancellationToken())
    for detail in ("b is full", "b is full", "b is away"):
        log.step_waiting(FIRST, detail)

    assert messages(caplog) == [
        ("INFO", "step 1 (vm: a → b): waits: b is full"),
        ("DEBUG", "step 1 (vm: a → b): waits: b is full"),
        ("INFO", "step 1 (vm: a → b): waits: b is away"),
    ]


def test_observer_logs_waiting_for_steps_as_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = LoggingObserver(CancellationToken())
    power_on = step("3", PowerOn(NodeId("c")))
    log.step_started(power_on)
    log.step_waiting(FIRST, "c is offline")

    assert messages(caplog) == [
        ("INFO", "step 3 (power on c): started"),
        ("DEBUG", "step 1 (vm: a → b): waits: c is offline"),
    ]


def test_observer_logs_each_cancellation_once(caplog: pytest.LogCaptureFixture) -> None:
    cancellation = CancellationToken()
    log = LoggingObserver(cancellation)
    for pulls in (0, 1, 0, 1, 1):
        for _ in range(pulls):
            cancellation.cancel()
        log.step_progressed(FIRST, TaskStatus(TaskState.RUNNING))

    assert [(each.levelname, each.event) for each in caplog.records] == [  # type: ignore[attr-defined]
        ("INFO", LogEventCode.STOP_REQUESTED),
        ("WARNING", LogEventCode.ABORT_REQUESTED),
    ]


APART = AntiAffinity(guests=guest_ids("vm1", "vm2"), name="web apart")
BALANCE = Balance(limits=SHORT_LIMITS)
REPAIR = RepairCommand(
    policy=Repair(limits=SHORT_LIMITS), line="opendrs apply lab --config lab.toml"
)


def level(*rules: AntiAffinity | Pin) -> Snapshot:
    """Return two nodes in balance, with two guests on the first."""
    guests = {"vm1": ("a", 0.1), "vm2": ("a", 0.1), "vm3": ("b", 0.2)}
    return cluster({"a": 0.2, "b": 0.2}, guests, rules)


@pytest.fixture(autouse=True)
def _capture_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "opendrs")


def logged(
    caplog: pytest.LogCaptureFixture, *events: str, least: int = logging.INFO
) -> list[str]:
    """Return the messages of such events at that level or above."""
    return [
        record.getMessage()
        for record in caplog.records
        if getattr(record, "event", "") in events and record.levelno >= least
    ]


def recorded(
    policy: Policy[Any], decision: Decision[Any], snapshot: Snapshot
) -> RecordedDecision:
    return RecordedDecision(
        run="run", recovered=(), snapshot=snapshot, policy=policy, decision=decision
    )


def idle(reason: DecisionReason, detail: str, *notes: str) -> Decision[None]:
    return Decision(reason, None, detail=detail, notes=notes)


def test_empty_decision_is_logged_when_reason_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLogger(NullObserver())
    details = [
        (DecisionReason.BALANCED, "imbalance 0.053; below 0.1: enough"),
        (DecisionReason.BALANCED, "imbalance 0.061; below 0.1: enough"),
        (DecisionReason.MIGRATION_IN_PROGRESS, "migration in progress: vm1"),
        (DecisionReason.MIGRATION_IN_PROGRESS, "migration in progress: vm2"),
        (DecisionReason.BALANCED, "imbalance 0.053; below 0.1: enough"),
    ]

    for reason, detail in details:
        log.decision_recorded(recorded(BALANCE, idle(reason, detail), level()))

    assert logged(caplog, "decision-made") == [
        "balance: no steps planned: balanced: imbalance 0.053; below 0.1: enough",
        "balance: no steps planned: waiting: migration in progress: vm1",
        "balance: no steps planned: waiting: migration in progress: vm2",
        "balance: no steps planned: balanced: imbalance 0.053; below 0.1: enough",
    ]
    assert len(logged(caplog, "decision-made", least=logging.DEBUG)) == 5


def test_state_of_a_node_is_logged_when_it_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log, name = CycleLogger(NullObserver()), NodeId("b")
    online = level()
    silent = replace(online.nodes[name], state=NodeState.UNKNOWN)
    unknown = replace(online, nodes={**online.nodes, name: silent})
    decision = idle(DecisionReason.BALANCED, "")

    for snapshot in (online, unknown, unknown, online):
        log.decision_recorded(recorded(BALANCE, decision, snapshot))

    events = [
        (record.levelname, record.about)  # type: ignore[attr-defined]
        for record in caplog.records
        if getattr(record, "event", "") == "node-state-changed"
    ]
    assert events == [
        ("WARNING", {"node": "b", "state": "unknown"}),
        ("INFO", {"node": "b", "state": "online"}),
    ]


def test_plan_is_logged_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    log = CycleLogger(NullObserver())
    there, back = migration("vm1", "a", "b"), migration("vm2", "a", "b")
    plans = [Plan((step("1", each),)) for each in (there, there, back)]
    decisions = [
        Decision(DecisionReason.IMPROVES_BALANCE, None, plan, f"imbalance 0.{number}")
        for number, plan in enumerate(plans)
    ]
    resting = idle(DecisionReason.BALANCED, "enough")

    for decision in (*decisions, resting, decisions[0], resting):
        log.decision_recorded(recorded(BALANCE, decision, level()))

    assert logged(caplog, "decision-made") == [
        "balance: 1 step planned: improves the balance: imbalance 0.0",
        "balance: 1 step planned: improves the balance: imbalance 0.2",
        "balance: no steps planned: balanced: enough",
        "balance: 1 step planned: improves the balance: imbalance 0.0",
        "balance: no steps planned: balanced: enough",
    ]
    assert len(logged(caplog, "decision-made", least=logging.DEBUG)) == 6


def test_decisions_of_unchanged_cycles_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLogger(NullObserver())
    plan = Plan((step("1", migration("vm1", "a", "b")),))
    repair = Decision(DecisionReason.REPAIRS_RULES, None, plan)
    resting = idle(DecisionReason.BALANCED, "enough")

    for minute in range(3):
        taken_at = NOON + timedelta(minutes=minute)
        snapshot = replace(level(APART), taken_at=taken_at)
        for decision in (repair, resting):  # a repair in mode observe, and the policy
            log.decision_recorded(recorded(BALANCE, decision, snapshot))

    assert len(logged(caplog, "decision-made")) == 2
    assert len(logged(caplog, "rules-broken")) == 2


def test_notes_are_logged_with_empty_plan(caplog: pytest.LogCaptureFixture) -> None:
    notes = [f"skipped: vm{number}: it is pinned" for number in range(1, 6)]

    CycleLogger(NullObserver()).decision_recorded(
        recorded(
            BALANCE, idle(DecisionReason.NO_CANDIDATE, "no move helps", *notes), level()
        )
    )

    (message,) = logged(caplog, "decision-made")
    assert message.startswith(
        "balance: no steps planned: no feasible move: no move helps; "
    )
    assert message.endswith("; skipped: vm3: it is pinned; and 2 more notes")
    assert vars(caplog.records[-1])["about"]["notes"] == notes


def test_strict_violations_are_logged_on_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = CycleLogger(NullObserver(), REPAIR)
    resting = idle(DecisionReason.BALANCED, "enough")
    policy = replace(BALANCE, repair_first=False)

    for rules in ((), (APART,), (APART,), (), ()):
        log.decision_recorded(recorded(policy, resting, level(*rules)))

    (broken,) = logged(caplog, "rules-broken")
    assert "vm1, vm2" in broken
    assert broken.endswith(
        "; to repair, configure the policy repair; or stop this controller and run: "
        "opendrs apply lab --config lab.toml"
    )
    assert len(logged(caplog, "rules-kept")) == 1


def test_plan_repairing_all_rules_logs_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan = Plan((step("1", migration("vm1", "a", "b")),))
    repairing = Decision(DecisionReason.REPAIRS_RULES, None, plan)

    CycleLogger(NullObserver()).decision_recorded(
        recorded(Optimize(limits=SHORT_LIMITS), repairing, level(APART))
    )

    (message,) = logged(caplog, "rules-broken")
    assert re.findall(r"\d+", message) == ["1", "0"]
    assert logged(caplog, "rules-broken", least=logging.WARNING) == []


def half_repairable() -> Snapshot:
    """Return a cluster in which any repair leaves one of two rules violated.

    x and y belong on b, which has room for one of them.
    """
    rules = [
        NodeAffinity(guests=guest_ids(name), nodes={NodeId("b"): 0}, name=name)
        for name in ("x", "y")
    ]
    guests = {"x": ("a", 0.3), "y": ("a", 0.3), "z": ("b", 0.5), "w": ("a", 0.2)}
    snapshot = cluster({"a": 0.8, "b": 0.5}, guests, rules)
    fixed = {
        name: guest if name in ("x", "y") else replace(guest, mobility=Mobility.NONE)
        for name, guest in snapshot.guests.items()
    }
    return replace(snapshot, guests=fixed)


@pytest.mark.parametrize(
    ("policy", "advice"),
    [
        (BALANCE, None),
        (AutoRebalance(limits=SHORT_LIMITS), None),
        (Optimize(limits=SHORT_LIMITS), None),
        (Repair(limits=SHORT_LIMITS), None),
        (Drain(limits=SHORT_LIMITS), None),
        (Optimize(limits=SHORT_LIMITS, budget="1 GiB"), "to try to repair, "),
        (Repair(limits=SHORT_LIMITS, budget="1 GiB"), "to try to repair, "),
        (Optimize(limits=SHORT_LIMITS, priorities=(Goal.BALANCE,)), "to repair, "),
        (replace(BALANCE, repair_first=False), "to repair, "),
    ],
    ids=lambda each: f"{each:.20}" if isinstance(each, str) else None,
)
@pytest.mark.parametrize("command", [None, REPAIR], ids=["no command", "command"])
def test_repair_is_advised_where_it_repairs_more(
    caplog: pytest.LogCaptureFixture,
    policy: Policy[Any],
    advice: str | None,
    command: RepairCommand | None,
) -> None:
    snapshot = half_repairable()
    decision = decide(policy, snapshot, policy.initial_memory())

    CycleLogger(NullObserver(), command).decision_recorded(
        recorded(policy, decision, snapshot)
    )

    (message,) = logged(caplog, "rules-broken", least=logging.WARNING)
    if advice is None:
        assert "configure the policy" not in message
        assert "opendrs apply" not in message
    else:
        assert f"; {advice}configure the policy repair" in message
        assert (REPAIR.line in message) is (command is not None)


def test_unrepairable_violation_suggests_no_repair(
    caplog: pytest.LogCaptureFixture,
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2", "vm3"), name="three apart")

    CycleLogger(NullObserver()).decision_recorded(
        recorded(BALANCE, idle(DecisionReason.BALANCED, "enough"), level(apart))
    )

    (message,) = logged(caplog, "rules-broken")
    assert "configure the policy" not in message


def test_drain_is_logged_as_guests_that_leave_and_cannot_leave(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pinned = Pin(guests=guest_ids("vm2"), name="stay")
    snapshot = level(APART, pinned)
    node = replace(snapshot.nodes[NodeId("a")], state=NodeState.MAINTENANCE)
    drained = replace(snapshot, nodes={**snapshot.nodes, node.id: node})
    repairing = Decision(
        DecisionReason.REPAIRS_RULES,
        None,
        Plan((step("1", migration("vm1", "a", "b")),)),
    )

    CycleLogger(NullObserver()).decision_recorded(
        recorded(Optimize(limits=SHORT_LIMITS), repairing, drained)
    )

    (message,) = logged(caplog, "rules-broken", least=logging.WARNING)
    parts = message.split("; ")
    assert parts[0] == "drain: guests on nodes in maintenance: 2"
    assert parts[1] == "after this plan: 1"
    assert parts[2].startswith("maintenance of a: 1 guest cannot leave: vm2: ")
    assert parts[3:] == ["rules: violated strict rules: 1", "after this plan: 0"]
    assert "cannot be repaired" not in message


def test_soft_rules_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    soft = replace(APART, strict=False)

    CycleLogger(NullObserver()).decision_recorded(
        recorded(BALANCE, idle(DecisionReason.BALANCED, "enough"), level(soft))
    )

    assert logged(caplog, "rules-broken", "rules-kept") == []


def test_json_log_has_same_fields(caplog: pytest.LogCaptureFixture) -> None:
    CycleLogger(NullObserver()).decision_recorded(
        recorded(BALANCE, idle(DecisionReason.BALANCED, "enough"), level(APART))
    )

    lines = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    rules, decided = lines
    assert (rules["event"], rules["level"]) == ("rules-broken", "warning")
    assert rules["broken"] == rules["remaining"]
    assert rules["broken"][0]["guests"] == ["vm1", "vm2"]
    assert decided["event"] == "decision-made"
    assert decided["reason"] == "balanced"
