"""Figures, loads, reasons and remedies of recorded cycles."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from opendrs.arrays import SkipReason
from opendrs.config.schedule_settings import ScheduleSettings
from opendrs.config.settings import Settings
from opendrs.controller.consent import RecordedDecision
from opendrs.controller.plan_records import plan_record
from opendrs.controller.planned_steps import planned_steps
from opendrs.controller.status import FAILED, ControllerProcess, LastCycle
from opendrs.controller.views.attention import (
    ExceptionCode,
    draining_nodes,
    failed_steps,
    full_storages,
    node_exceptions,
    violated_rules,
)
from opendrs.controller.views.cluster_columns import EMPTY_COLUMNS, cluster_columns
from opendrs.controller.views.consolidation import consolidation_document
from opendrs.controller.views.figures import cluster_figures
from opendrs.controller.views.load_points import (
    cluster_series,
    load_point,
    node_series,
)
from opendrs.controller.views.reasons import NodeReason, reason_documents
from opendrs.controller.views.remedies import remedy
from opendrs.controller.views.rule_states import rule_documents
from opendrs.controller.views.state import StateInputs, next_cycle_at, state_document
from opendrs.errors import StoreError
from opendrs.metrics import ImbalanceMetric
from opendrs.model import (
    Action,
    Affinity,
    AntiAffinity,
    GuestState,
    Limits,
    MutualAntiAffinity,
    Node,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Snapshot,
    Stall,
    StepId,
    Storage,
    StorageGroup,
    TagExclusion,
)
from opendrs.policies import Balance
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import (
    CycleRecord,
    LeaseHolder,
    Outcome,
    PlanState,
    StepRecord,
)
from support.builders import NOON, cluster, guest, guest_ids, node
from support.open_plans import open_plan
from support.recorded_cycles import decided
from support.simulated_cluster import migration, step

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)


def with_nodes(snapshot: Snapshot, *nodes: Node) -> Snapshot:
    return replace(snapshot, nodes={**snapshot.nodes, **{n.id: n for n in nodes}})


@pytest.mark.parametrize("reason", SkipReason)
def test_each_reason_of_a_skipped_guest_has_a_remedy(reason: SkipReason) -> None:
    assert remedy(reason.value)


def test_figures_of_a_cluster() -> None:
    snapshot = cluster(
        nodes={"a": 0.9, "b": 0.3},
        guests={"one": ("a", 0.1), "two": ("a", 0.1), "three": ("b", 0.1)},
        rules=[AntiAffinity(guests=guest_ids("one", "two"))],
    )

    found = cluster_figures(decided(snapshot))

    # The loads 0.9 and 0.3: mean 0.6, deviation 0.3, bound sqrt(2 - 1).
    assert found.imbalance == pytest.approx(0.5)
    assert found.worst_node == "a"
    assert (found.highest_cpu, found.highest_memory) == pytest.approx((0.9, 0.9))
    assert (found.suffering_guests, found.violated_rules) == (0, 1)
    assert (found.online_nodes, found.power) == (2, None)


def test_figures_have_the_power_that_consolidate_estimates() -> None:
    snapshot = cluster(nodes={"a": 0.5, "b": 0.0}, guests={"one": ("a", 0.5)})
    record = decided(snapshot, Consolidate())
    decision: Any = record.document["decision"]

    found = cluster_figures(record)
    series = cluster_series([load_point(record)])

    assert found.power == decision["before"]["power_watts"] > 0
    assert series["power"] == [found.power]
    assert series["online_nodes"] == [2]


def test_suffering_guests_are_stalled_or_on_a_full_node() -> None:
    snapshot = cluster(
        nodes={"a": 0.2, "b": 0.97},
        guests={"two": ("a", 0.1), "three": ("b", 0.1), "four": ("b", 0.1)},
    )
    stalled = guest("one", "a", 0.1, pressure=Pressure(cpu=Stall(some=0.8)))
    stopped = guest("five", "b", 0.1, state=GuestState.STOPPED)
    guests = {**snapshot.guests, stalled.id: stalled, stopped.id: stopped}

    found = cluster_figures(decided(replace(snapshot, guests=guests)))

    assert found.suffering_guests == 3


def test_unknown_loads_are_unknown_figures() -> None:
    snapshot = cluster({"a": None, "b": None}, {})
    record = decided(snapshot)

    found = cluster_figures(record)

    assert (found.imbalance, found.worst_node, found.highest_cpu) == (None, None, None)
    assert node_series([load_point(record)], "a")["cpu"] == [None]
    assert node_series([load_point(record)], "zz")["cpu"] == [None]


def test_points_with_the_same_names_share_them() -> None:
    first = load_point(decided(LOPSIDED))

    second = load_point(decided(LOPSIDED, run="next"), first)

    assert second.guests.positions is first.guests.positions
    assert second.nodes.of("a") == pytest.approx((0.8, 0.8))


def test_damaged_record_is_an_error_of_the_store() -> None:
    record = CycleRecord(run="run", decided_at=NOON, document={"snapshot": {}})

    with pytest.raises(StoreError, match="cycle run"):
        cluster_figures(record)


def test_nodes_that_receive_no_guests_have_a_reason() -> None:
    snapshot = with_nodes(
        LOPSIDED,
        Node(id=NodeId("c")),
        node("d", 0.1, state=NodeState.OFFLINE),
        node("e", 0.1, state=NodeState.MAINTENANCE),
        node("f", 0.1, state=NodeState.EXCLUDED),
        node("g", None),
        node("h", 0.96),
    )

    documents = reason_documents(decided(snapshot), snapshot)

    found = {each["code"]: each["nodes"] for each in documents if each["nodes"]}
    assert found == {
        NodeReason.NODE_UNREACHABLE: ["c"],
        NodeReason.NODE_OFFLINE: ["d"],
        NodeReason.NODE_IN_MAINTENANCE: ["e"],
        NodeReason.NODE_EXCLUDED: ["f"],
        NodeReason.NODE_NOT_MEASURED: ["g"],
        NodeReason.NODE_FULL: ["h"],
    }
    assert all(each["change"] for each in documents)


def test_failed_step_begins_with_the_guest_and_the_nodes() -> None:
    moved = StepRecord(
        run="run 1",
        step=StepId("2"),
        action=migration("vm1", "a", "b"),
        intended_at=NOON,
        outcome=Outcome.ABORTED,
        detail="timeout",
    )
    powered = replace(moved, action=PowerOn(NodeId("c")), outcome=Outcome.FAILED)
    done = replace(moved, outcome=Outcome.DONE)

    found = list(failed_steps([moved, powered, done]))

    assert [each["detail"] for each in found] == [
        "vm1: a → b: aborted: timeout (step 2 of run 1)",
        "power-on of c: failed: timeout (step 2 of run 1)",
    ]
    assert {each["code"] for each in found} == {ExceptionCode.STEP_FAILED}


def test_drained_nodes_are_one_exception_each() -> None:
    closed = {"a": NodeState.MAINTENANCE, "b": NodeState.MAINTENANCE}
    nodes = [node(name, 0.4, state=state) for name, state in closed.items()]
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    snapshot = replace(LOPSIDED, rules=(apart,))
    snapshot = with_nodes(snapshot, *nodes, node("c", 0.1))
    document: Any = decided(snapshot).document

    drains = list(draining_nodes(cluster_columns(document), set(), []))

    assert [(each["code"], each["subject"]) for each in drains] == [
        (ExceptionCode.NODE_DRAINING, "a")
    ]
    (violated,) = violated_rules(document["decision"])
    assert violated["subject"] == "apart"
    assert violated["detail"] == "apart: one, two (strict rule)"


def test_drained_node_counts_the_guests_that_leave_cannot_and_wait() -> None:
    snapshot = with_nodes(LOPSIDED, node("a", 0.8, state=NodeState.MAINTENANCE))
    pinned = {"reason": "pinned", "detail": "a rule", "guests": ["two"]}
    drain = {"nodes": ["a"], "remaining": [pinned]}
    columns = cluster_columns({**decided(snapshot).document, "drain": drain})
    planned = planned_steps([open_plan(step("1", migration("one", "a", "b")))], ())

    (drained,) = draining_nodes(columns, {"a"}, planned)

    text = "a: 1 of 3 guests leaves; 1 cannot: pinned (1); 1 waits for a plan"
    assert drained["detail"] == text
    assert columns.guests["stays"][columns.guests["id"].index("two")] == "pinned"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("mobility-none", "cannot be migrated (1)"),
        ("mobility-cold", "migrated only while stopped (1)"),
        ("local-disks", "local disks (1)"),
        ("from-a-later-version", "from a later version (1)"),
    ],
)
def test_reason_of_a_guest_that_cannot_leave_is_in_words(code: str, text: str) -> None:
    document = dict(decided(LOPSIDED).document)
    document["drain"] = {
        "nodes": ["a"],
        "remaining": [{"reason": code, "detail": "", "guests": ["one"]}],
    }

    (drained,) = draining_nodes(cluster_columns(document), {"a"}, ())

    assert f"1 cannot: {text}" in (drained["detail"] or "")


def test_full_storages_are_exceptions_and_unknown_ones_are_not() -> None:
    def storages(*amounts: tuple[str, bool, int | None, int | None]) -> Any:  # noqa: ANN401
        return tuple(
            Storage(id=name, shared=shared, capacity=capacity, free=free)
            for name, shared, capacity, free in amounts
        )

    ssd = [("ssd1", False, 100, 15), ("ssd2", False, 100, 20)]  # threshold 80 %
    unknown = [
        ("size", False, None, 0),
        ("free", False, 100, None),
        ("zero", False, 0, 0),
    ]
    nearly = ("local", False, 100, 5)
    snapshot = with_nodes(
        LOPSIDED,
        node(
            "a", 0.5, storages=storages(*ssd, *unknown, nearly, ("nfs", True, 100, 2))
        ),
        node(
            "b", 0.5, storages=storages(("local", False, 100, 4), ("nfs", True, 100, 1))
        ),
        node("c", 0.5, storages=None),
    )
    limits = Limits(
        storage_groups=(StorageGroup(name="ssd", storages=("ssd1", "ssd2")),)
    )

    found = list(full_storages(cluster_columns(decided(snapshot).document), limits))

    assert {each["code"] for each in found} == {ExceptionCode.STORAGE_FULL}
    assert [each["subject"] for each in found] == ["nfs", "local of b", "ssd1 of a"]
    assert [re.findall(r"\d+%", each["detail"] or "") for each in found] == [
        ["99%", "95%"],
        ["96%", "95%"],
        ["85%", "80%"],
    ]
    assert not list(full_storages(EMPTY_COLUMNS, limits))


def test_drain_that_ended_is_no_exception_before_the_next_cycle() -> None:
    snapshot = with_nodes(LOPSIDED, node("a", 0.8, state=NodeState.MAINTENANCE))
    drain = {"nodes": ["a"], "remaining": []}
    columns = cluster_columns({**decided(snapshot).document, "drain": drain})

    assert list(draining_nodes(columns, set(), ())) == []


def test_drain_that_has_begun_is_an_exception_before_the_next_cycle() -> None:
    columns = cluster_columns(decided(LOPSIDED).document)

    (drained,) = draining_nodes(columns, {"a"}, ())

    assert drained["detail"] == "a: 0 of 3 guests leave; 3 wait for a plan"


@pytest.mark.parametrize(
    ("metric", "expected"),
    [(ImbalanceMetric.CV, 2**0.5), (ImbalanceMetric.NORMALIZED_CV, 1)],
)
def test_imbalance_has_the_given_metric(
    metric: ImbalanceMetric, expected: float
) -> None:
    snapshot = cluster(nodes={"a": 0.9, "b": 0.0, "c": 0.0}, guests={})

    found = cluster_figures(decided(snapshot), metric)

    assert found.imbalance == pytest.approx(expected)


def inputs(seconds: float = 20.0, **changes: Any) -> StateInputs:  # noqa: ANN401
    """Return records of a controller whose last cycle took *seconds*, until noon."""
    values: dict[str, Any] = {
        "platform": "lab",
        "settings": Settings(),
        "now": NOON,
        "entries": {},
        "holder": LeaseHolder(host="here", pid=1),
        "process": ControllerProcess(
            host="here",
            pid=1,
            version="1",
            started_at=NOON,
            policy="balance",
            interval=60.0,
        ),
        "cycle": LastCycle(
            ended_at=NOON, seconds=seconds, reason="balanced", detail="", steps=0
        ),
        "run": None,
        "decision": {},
        "cluster": EMPTY_COLUMNS,
        "plans": (),
        "steps": (),
        "progress": (),
    }
    return StateInputs(**{**values, **changes})


def test_next_cycle_starts_an_interval_after_the_start_of_the_last_one() -> None:
    assert next_cycle_at(inputs()) == NOON + timedelta(seconds=40)


def test_next_cycle_of_a_schedule_is_that_of_the_entry_that_is_due_first() -> None:
    entry = ScheduleSettings(name="often", policy="balance", interval=30.0)
    started = {"often": NOON - timedelta(seconds=20)}
    settings = Settings(schedule=(entry,))

    found = next_cycle_at(inputs(settings=settings, cycle_starts=started))

    assert found == NOON + timedelta(seconds=10)


def test_next_cycle_is_unknown_while_a_plan_runs_and_without_a_controller() -> None:
    decision = RecordedDecision(
        run="run",
        recovered=(),
        snapshot=LOPSIDED,
        policy=Balance(),
        decision=Balance().decide(LOPSIDED, None),
    )
    plan = plan_record(decision, decision.decision.plan.steps, NOON, 60.0)
    running = replace(plan, state=PlanState.RUNNING)
    failed = LastCycle(ended_at=NOON, seconds=1, reason=FAILED, detail="", steps=0)

    assert next_cycle_at(inputs(plans=(plan,))) is not None
    assert next_cycle_at(inputs(plans=(running,))) is None
    assert next_cycle_at(inputs(holder=None)) is None
    assert next_cycle_at(inputs(cycle=failed)) is None


def test_rules_that_contradict_each_other_are_marked() -> None:
    both = guest_ids("one", "two")
    rules = (
        Affinity(guests=both, name="near"),
        AntiAffinity(guests=both, name="apart"),
        AntiAffinity(guests=guest_ids("x", "y"), name="gone"),
        TagExclusion(tags=frozenset({"db"}), name="tag"),
    )
    snapshot = replace(LOPSIDED, rules=rules)
    tagged = guest("four", "b", 0.1, tags=frozenset({"db"}))
    snapshot = replace(snapshot, guests={**snapshot.guests, tagged.id: tagged})
    document = decided(snapshot).document

    found = rule_documents(snapshot, document["decision"])  # type: ignore[arg-type]

    states = {each["name"]: each["state"] for each in found}
    assert states == {
        "near": "contradictory",
        "apart": "contradictory",
        "gone": "unmatched",
        "tag": "kept",
    }
    assert found[-1]["guests"] == ["four"]


def test_rule_between_two_groups_lists_the_guests_of_both() -> None:
    rule = MutualAntiAffinity(
        guests=guest_ids("one"), other_guests=guest_ids("two", "elsewhere")
    )
    snapshot = replace(LOPSIDED, rules=(rule,))
    document = decided(snapshot).document

    (found,) = rule_documents(snapshot, document["decision"])  # type: ignore[arg-type]

    assert found["rule"] == "anti-affinity of one to elsewhere, two"
    assert (found["kind"], found["state"]) == ("anti-affinity", "violated")
    assert found["guests"] == found["violating_guests"] == ["one", "two"]


def test_drained_node_is_a_rule_that_its_guests_violate() -> None:
    snapshot = with_nodes(LOPSIDED, node("a", 0.8, state=NodeState.MAINTENANCE))
    document = decided(snapshot).document

    (found,) = rule_documents(snapshot, document["decision"])  # type: ignore[arg-type]

    assert (found["state"], found["violating_nodes"]) == ("violated", ["a"])
    assert found["guests"] == ["one", "three", "two"]


def test_sleeping_node_has_the_time_of_its_last_power_off() -> None:
    snapshot = with_nodes(
        LOPSIDED,
        node("c", 0.0, state=NodeState.OFFLINE),
        node("d", 0.0, state=NodeState.OFFLINE),
    )
    actions: list[Action] = [
        PowerOn(NodeId("d")),
        PowerOff(NodeId("d")),
        PowerOff(NodeId("c")),
    ]
    records = [
        StepRecord(
            run="run",
            step=StepId(str(number)),
            action=action,
            intended_at=NOON,
            ended_at=NOON,
            outcome=Outcome.DONE,
        )
        for number, action in enumerate(actions)
    ]

    found = consolidation_document(decided(snapshot), records)

    since = {each["node"]: each["since"] is not None for each in found["sleeping"]}
    assert since == {"c": True, "d": False}
    assert (found["online_nodes"], found["empty_nodes"]) == (2, ["b"])
    assert [each["kind"] for each in found["actions"]] == [
        "power-on",
        "power-off",
        "power-off",
    ]


@pytest.mark.parametrize(
    ("node", "group"),
    [
        ({"failure_domain": "rack7", "groups": ["ssd"], "labels": ["rack-3"]}, "rack7"),
        ({"groups": ["ssd"], "labels": ["rack-3"]}, "ssd"),
        ({"labels": ["ssd", "zone-1", "rack-3"]}, "rack-3"),
        ({"labels": ["ssd", "zone-1"]}, "zone-1"),
        ({"labels": ["ssd"]}, None),
        ({}, None),
    ],
)
def test_nodes_are_grouped_by_what_fails_together(
    node: dict[str, object], group: str | None
) -> None:
    snapshot = {"taken_at": "2026-11-21T12:00:00Z", "nodes": {"a": node}, "guests": {}}

    columns = cluster_columns({"snapshot": snapshot})

    assert columns.nodes["group"] == [group]


LAST_CYCLE = LastCycle(
    ended_at=NOON, seconds=20.0, reason="balanced", detail="", steps=0
)


def exceptions_of(**changes: Any) -> list[tuple[str, str | None]]:  # noqa: ANN401
    """Return the code and the severity of each exception of a state."""
    found = state_document(inputs(**changes))["exceptions"]
    return [(each["code"], each["severity"]) for each in found]


def test_state_of_a_running_controller_has_no_exceptions() -> None:
    assert exceptions_of() == []


def test_state_without_a_controller_has_an_exception() -> None:
    assert ("controller-not-running", "error") in exceptions_of(holder=None)


def test_late_controller_is_an_exception() -> None:
    found = exceptions_of(now=NOON + timedelta(hours=1))

    assert ("controller-late", "error") in found


def test_failed_cycle_is_an_exception() -> None:
    cycle = replace(LAST_CYCLE, reason=FAILED, detail="no response")

    assert ("cycle-failed", "error") in exceptions_of(cycle=cycle)


def test_nodes_over_a_limit_unmeasured_or_unreachable_are_exceptions() -> None:
    snapshot = with_nodes(
        LOPSIDED,
        node("a", 0.99),
        node("b", None),
        node("c", 0.1, state=NodeState.UNKNOWN),
    )
    columns = cluster_columns(decided(snapshot).document)

    found = [
        (each["code"], each["subject"])
        for each in node_exceptions(columns, Limits(), ())
    ]

    assert found == [
        (ExceptionCode.NODE_CPU_HIGH, "a"),
        (ExceptionCode.NODE_MEMORY_HIGH, "a"),
        (ExceptionCode.METRICS_MISSING, "b"),
        (ExceptionCode.NODE_UNREACHABLE, "c"),
    ]


def test_node_with_a_job_receives_no_guests() -> None:
    snapshot = with_nodes(LOPSIDED, node("a", 0.5, jobs=("backup", "scan")))
    columns = cluster_columns(decided(snapshot).document)

    (found,) = node_exceptions(columns, Limits(), ("backup",))

    assert (found["code"], found["subject"]) == (ExceptionCode.STOOD_BACK, "a")
    assert "backup" in (found["detail"] or "")
    assert "scan" not in (found["detail"] or "")


@pytest.mark.parametrize(
    ("reason", "steps", "sentence"),
    [
        ("balanced", 0, "balanced: enough"),
        ("a-later-reason", 0, "enough"),
        ("improves-balance", 2, "2 steps would help, but the mode is observe"),
    ],
)
def test_decision_without_a_plan_has_one_sentence(
    reason: str, steps: int, sentence: str
) -> None:
    cycle = replace(LAST_CYCLE, reason=reason, detail="enough", steps=steps)

    nothing = state_document(inputs(cycle=cycle))["nothing"]

    assert nothing["reason"] == reason
    assert nothing["sentence"].startswith(sentence)


def test_waiting_plan_has_no_such_sentence() -> None:
    document = state_document(
        inputs(plans=(open_plan(step("1", migration("one", "a", "b"))),))
    )

    assert document["nothing"] is None
