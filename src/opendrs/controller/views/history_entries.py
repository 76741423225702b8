"""Entries of the history as plain values: cycles, plans and moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opendrs.controller.step_serialization import action_document
from opendrs.controller.views.cluster_columns import cluster_columns, reading_record
from opendrs.controller.views.state import plan_reference
from opendrs.model import NodeState, format_timestamp
from opendrs.ports import (
    CycleRecord,
    CycleSummary,
    HistoryReader,
    PlanRecord,
    PlanStore,
    StepRecord,
)

Entry = dict[str, Any]


def cycle_entry(cycle: CycleSummary) -> Entry:
    """Return a cycle: its decision with the code of the reason."""
    return {
        "run": cycle.run,
        "decided_at": format_timestamp(cycle.decided_at),
        "policy": cycle.policy,
        "reason": cycle.reason,
        "detail": cycle.detail,
        "steps": cycle.steps,
        "inputs": cycle.inputs,
    }


def plan_entry(history: HistoryReader, cycle: CycleSummary) -> Entry:
    """Return a cycle with its schedule, the steps of its plan and their outcomes.

    Raises:
        StoreError: The store cannot be read.
    """
    decision = history.decision(cycle)
    records = {str(each.step): each for each in history.records_of(cycle.run)}
    steps = [
        {**step, "outcome": None, "outcome_detail": ""}
        | _outcome(records.get(step["id"]))
        for step in decision.get("steps", ())
    ]
    metrics = {name: decision.get(name, {}) for name in ("before", "after")}
    schedule = decision.get("schedule")
    entry = cycle_entry(cycle)
    return {**entry, "schedule": schedule, "metrics": metrics, "steps": steps}


def recorded_cluster(
    history: HistoryReader, cycle: CycleSummary, record: CycleRecord
) -> Entry:
    """Return the cluster that *cycle* evaluated as columns, and its decision.

    Raises:
        StoreError: The store cannot be read, or the record is damaged.
    """
    entry = plan_entry(history, cycle)
    columns = cluster_columns(record.document)
    with reading_record(cycle.run):
        document: Mapping[str, Any] = record.document
        decision = document["decision"]
        states = columns.nodes["state"]
        return {
            "cycle": cycle_entry(cycle),
            "observed_at": columns.observed_at,
            "schedule": entry["schedule"],
            "before": decision["before"],
            "after": decision["after"],
            "violations": decision.get("violations", {}).get("before", []),
            "notes": decision["notes"],
            "steps": entry["steps"],
            "nodes": {
                **columns.nodes,
                "role": columns.roles(decision["steps"]),
                "drained": [each == NodeState.MAINTENANCE.value for each in states],
            },
            "guests": columns.guests,
        }


def _outcome(record: StepRecord | None) -> Entry:
    if record is None:
        return {}
    outcome = "in-progress" if record.outcome is None else record.outcome.value
    return {"outcome": outcome, "outcome_detail": record.detail}


def move_entry(history: HistoryReader, record: StepRecord) -> Entry:
    """Return a started step: its predicted and its real duration, and the loads.

    The loads are those of the cycle that decided it, and of the first cycle after it;
    None if a cycle has not kept its inputs, or has not been yet.

    Raises:
        StoreError: The store cannot be read.
    """
    action = action_document(record.action)
    decided = history.cycle_of(record.run)
    predicted = None
    if decided is not None:
        predicted = history.estimates(decided).get(str(record.step))
    after = None
    if record.ended_at is not None:
        after = history.next_with_inputs(record.ended_at)
    ended = record.ended_at
    seconds = None if ended is None else (ended - record.intended_at).total_seconds()
    return {
        "run": record.run,
        "step": record.step,
        **action,
        "intended_at": format_timestamp(record.intended_at),
        "ended_at": None if ended is None else format_timestamp(ended),
        "outcome": None if record.outcome is None else record.outcome.value,
        "detail": record.detail,
        "predicted_seconds": predicted,
        "seconds": seconds,
        "load": {
            "before": _loads(history, decided, action),
            "after": _loads(history, after, action),
        },
    }


def with_plans(entries: Iterable[Entry], plans: PlanStore) -> list[Entry]:
    """Return entries of cycles with the plans that each has proposed or executed.

    Raises:
        StoreError: The store cannot be read.
    """
    found = list(entries)
    known = _plans_by_run(found, plans)
    return [
        {**each, "plans": [plan_reference(plan) for plan in known[each["run"]]]}
        for each in found
    ]


def with_plan(
    entries: Iterable[Entry], plans: PlanStore, history: HistoryReader
) -> list[Entry]:
    """Return entries of moves with the plan of each, and the reason of its decision.

    The plan is None if it is not stored, or if the command `apply` has executed it.

    Raises:
        StoreError: The store cannot be read.
    """
    found = list(entries)
    known = _plans_by_run(found, plans)
    cycles = {each["run"]: history.cycle_of(each["run"]) for each in found}
    moves = []
    for each in found:
        cycle = cycles[each["run"]]
        plan = next((p for p in known[each["run"]] if _has_step(p, each["step"])), None)
        moves.append(
            {
                **each,
                "reason": None if cycle is None else cycle.reason,
                "plan": None if plan is None else plan_reference(plan),
            }
        )
    return moves


def _plans_by_run(
    entries: Iterable[Entry], plans: PlanStore
) -> Mapping[str, list[PlanRecord]]:
    runs = {each["run"] for each in entries}
    by_run: dict[str, list[PlanRecord]] = {run: [] for run in runs}
    for plan in plans.plans_of(runs):
        by_run[plan.run].append(plan)
    return by_run


def _has_step(plan: PlanRecord, step: str) -> bool:
    return any(each.id == step for each in plan.steps)


def _loads(history: HistoryReader, cycle: CycleSummary | None, action: Entry) -> Entry:
    """Return the loads of the source and the target in *cycle*."""
    nodes = {} if cycle is None else history.nodes(cycle)
    return {end: _load(nodes.get(action[end])) for end in ("source", "target")}


def _load(node: Mapping[str, Any] | None) -> Entry | None:
    """Return the used shares of a node; None for what is not known."""
    if node is None:
        return None
    usage, capacity = node.get("usage", {}), node["capacity"]
    return {
        name: usage[name] / capacity[name]
        if name in usage and capacity.get(name)
        else None
        for name in ("cpu", "memory")
    }
