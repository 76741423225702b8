"""The state of a platform as one document: the overview of an operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from opendrs.config.settings import Settings
from opendrs.controller.drained_nodes import DRAIN_PREFIX
from opendrs.controller.modes import (
    BREAKER_KEY,
    MODE_TEXTS,
    EffectiveMode,
    Entries,
    current_pause,
    open_api_breaker,
    overall_mode,
)
from opendrs.controller.planned_steps import planned_steps
from opendrs.controller.scheduling import next_due
from opendrs.controller.status import (
    FAILED,
    ControllerProcess,
    LastCycle,
    is_recent,
    is_running,
)
from opendrs.controller.step_serialization import step_document
from opendrs.controller.views.attention import (
    ExceptionCode,
    ExceptionEntry,
    draining_nodes,
    exception_entry,
    failed_steps,
    full_storages,
    node_exceptions,
    shortened,
    violated_rules,
)
from opendrs.controller.views.cluster_columns import ClusterColumns
from opendrs.model import (
    GuestId,
    Migration,
    NodeId,
    format_count,
    format_timestamp,
    time_from_text,
)
from opendrs.policies import DecisionReason, reason_text
from opendrs.ports import LeaseHolder, Outcome, PlanRecord, PlanState, StepRecord

FAILURE_AGE = timedelta(days=1)  # of the failed steps that are exceptions


@dataclass(frozen=True, slots=True, kw_only=True)
class StateInputs:
    """Records that determine the state.

    Attributes:
        platform: Name of the platform.
        settings: The configuration.
        now: Time of the query.
        entries: The entries of the store that operators set, by key.
        holder: Process that holds the lease; None if none does.
        process: The controller that last held the lease; None if there was none.
        cycle: The last cycle that ended; None if there was none.
        run: Run of the newest recorded cycle; None without one.
        decision: Its decision as plain values; empty without one.
        cluster: Its nodes and guests.
        plans: Plans that have not ended, the oldest first.
        steps: Steps of the last day, and those since the snapshot of the cycle.
        progress: Running migrations as plain values.
        cycle_starts: Start of the last cycle of entries of the schedule, by name.
        store_error: Why the store cannot be read now; empty if it can.
    """

    platform: str
    settings: Settings
    now: datetime
    entries: Entries
    holder: LeaseHolder | None
    process: ControllerProcess | None
    cycle: LastCycle | None
    run: str | None
    decision: Mapping[str, Any]
    cluster: ClusterColumns
    plans: tuple[PlanRecord, ...]
    steps: tuple[StepRecord, ...]
    progress: Sequence[Mapping[str, Any]]
    cycle_starts: Mapping[str, datetime] = field(default_factory=dict)
    store_error: str = ""

    @property
    def open_steps(self) -> tuple[StepRecord, ...]:
        """Return the steps without an outcome."""
        return tuple(each for each in self.steps if each.outcome is None)

    @property
    def plan(self) -> PlanRecord | None:
        """Return the plan that is shown: the running one, or the first that waits."""
        running = [each for each in self.plans if each.state is PlanState.RUNNING]
        return next(iter([*running, *self.plans]), None)

    @property
    def drained(self) -> frozenset[str]:
        """Return the nodes that operators drain."""
        return frozenset(
            key.removeprefix(DRAIN_PREFIX)
            for key in self.entries
            if key.startswith(DRAIN_PREFIX)
        )

    @property
    def mode(self) -> EffectiveMode:
        """Return the mode that applies now.

        Raises:
            StoreError: An entry cannot be read.
        """
        return overall_mode(self.settings, self.entries, self.now)


def state_document(inputs: StateInputs) -> dict[str, Any]:
    """Return the state without the fields `sequence`, `etag` and `generated_at`.

    Raises:
        StoreError: A record is damaged.
    """
    cluster = inputs.cluster.with_moves(_moves(inputs))
    plan, drained = inputs.plan, inputs.drained
    steps = [] if plan is None else [step_document(step) for step in plan.steps]
    return {
        "observed_at": cluster.observed_at,
        "platform": inputs.platform,
        "controller": controller_document(inputs),
        "mode": mode_document(inputs.mode, inputs.settings),
        "pause": pause_document(inputs.entries, inputs.now),
        "breaker": breaker_document(inputs.entries.get(BREAKER_KEY)),
        "api_breaker": breaker_document(open_api_breaker(inputs.entries)),
        "exceptions": list(_exceptions(inputs, cluster)),
        "metrics": dict(inputs.decision.get("before", {})),
        "nodes": {
            **cluster.nodes,
            "role": cluster.roles(steps),
            "drained": [name in drained for name in cluster.nodes["id"]],
        },
        "guests": cluster.guests,
        "plan": None if plan is None else plan_summary(plan),
        "open_plans": [each.id for each in inputs.plans],
        "nothing": _nothing(inputs),
        "progress": list(inputs.progress),
    }


def controller_document(inputs: StateInputs) -> dict[str, Any]:
    """Return the controller and its last cycle as plain values."""
    process, cycle, due = inputs.process, inputs.cycle, next_cycle_at(inputs)
    return {
        "running": is_running(inputs.holder, process),
        "late": not is_recent(process, cycle, inputs.now, inputs.steps),
        "host": None if process is None else process.host,
        "pid": None if process is None else process.pid,
        "version": None if process is None else process.version,
        "started_at": None if process is None else format_timestamp(process.started_at),
        "interval": None if process is None else process.interval,
        "policy": None if process is None else process.policy,
        "next_cycle_at": None if due is None else format_timestamp(due),
        "last_cycle": None
        if cycle is None
        else {
            "run": inputs.run,
            "ended_at": format_timestamp(cycle.ended_at),
            "age": max(0.0, (inputs.now - cycle.ended_at).total_seconds()),
            "seconds": cycle.seconds,
            "reason": cycle.reason,
            "detail": cycle.detail,
            "steps": cycle.steps,
        },
    }


def next_cycle_at(inputs: StateInputs) -> datetime | None:
    """Return the expected start of the next cycle, which an operator may expedite.

    None if it is not known: no controller runs, the last cycle failed, or a plan is
    executed, whose end the next cycle awaits.
    """
    process, cycle = inputs.process, inputs.cycle
    is_executing = any(each.state is PlanState.RUNNING for each in inputs.plans)
    if process is None or cycle is None or not is_running(inputs.holder, process):
        return None
    if cycle.reason == FAILED or is_executing:
        return None
    started_at = cycle.ended_at - timedelta(seconds=cycle.seconds)
    due = started_at + timedelta(seconds=process.interval)
    entries = inputs.settings.schedule
    found = (
        next_due(each, inputs.cycle_starts.get(each.name), inputs.now)
        for each in entries
    )
    return min([due, *(each for each in found if each is not None)])


def mode_document(mode: EffectiveMode, settings: Settings) -> dict[str, Any]:
    """Return the mode that applies, and what it means, as plain values."""
    return {
        "mode": mode.mode.value,
        "source": mode.source.value,
        "detail": mode.detail,
        "text": MODE_TEXTS[mode.mode],
        "configured": settings.controller.mode.value,
        "repair": settings.controller.repair.value,
    }


def pause_document(entries: Entries, now: datetime) -> dict[str, Any] | None:
    """Return the pause that has not ended as plain values, or None.

    Raises:
        StoreError: The entry cannot be read.
    """
    paused = current_pause(entries, now)
    if paused is None:
        return None
    return {
        "until": format_timestamp(paused.until),
        "because": paused.because,
        "user": paused.user,
        "at": format_timestamp(paused.at),
    }


def breaker_document(entry: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Return the *entry* of an open circuit breaker as plain values, or None.

    Raises:
        StoreError: The entry cannot be read.
    """
    if entry is None:
        return None
    opened_at = time_from_text(str(entry.get("opened_at")))
    return {
        "opened_at": format_timestamp(opened_at),
        "detail": entry.get("detail", ""),
    }


def plan_summary(plan: PlanRecord) -> dict[str, Any]:
    """Return *plan* without its steps as plain values."""
    return {
        "id": plan.id,
        "state": plan.state.value,
        "policy": plan.policy,
        "reason": plan.reason,
        "reason_detail": plan.reason_detail,
        "step_count": len(plan.steps),
        "approved_count": None if plan.approval is None else len(plan.approval.steps),
        "created_at": format_timestamp(plan.created_at),
        "expires_at": format_timestamp(plan.expires_at),
        "digest": plan.digest,
    }


def plan_reference(plan: PlanRecord) -> dict[str, Any]:
    """Return the state of *plan*, and by which user it was approved."""
    approval = plan.approval
    return {
        "id": plan.id,
        "state": plan.state.value,
        "step_count": len(plan.steps),
        "approved_count": None if approval is None else len(approval.steps),
        "approved_by": None if approval is None else approval.user,
    }


def _moves(inputs: StateInputs) -> dict[GuestId, NodeId]:
    """Return the nodes of guests that arrived there since the snapshot."""
    observed = inputs.cluster.observed_at
    if observed is None:
        return {}
    since = datetime.fromisoformat(observed)
    ended = [
        each
        for each in inputs.steps
        if each.outcome is Outcome.DONE
        and each.ended_at is not None
        and each.ended_at > since
    ]
    return {
        each.action.guest: each.action.target
        for each in sorted(ended, key=lambda each: each.ended_at or since)
        if isinstance(each.action, Migration)
    }


def _nothing(inputs: StateInputs) -> dict[str, str] | None:
    """Return why nothing is to be done; None if a plan waits or is executed."""
    cycle = inputs.cycle
    if inputs.plans or cycle is None:
        return None
    if cycle.steps:
        mode = inputs.mode
        steps = format_count(cycle.steps, "step")
        sentence = f"{steps} would help, but the mode is {mode.mode}: {mode.detail}"
        return {"reason": cycle.reason, "sentence": sentence}
    known = set(DecisionReason)
    text = reason_text(DecisionReason(cycle.reason)) if cycle.reason in known else ""
    return {
        "reason": cycle.reason,
        "sentence": ": ".join(filter(None, [text, cycle.detail])),
    }


def _exceptions(
    inputs: StateInputs, cluster: ClusterColumns
) -> Iterator[ExceptionEntry]:
    planned = planned_steps(inputs.plans, inputs.steps)
    yield from _controller_exceptions(inputs)
    yield from shortened(list(violated_rules(inputs.decision)))
    yield from shortened(list(draining_nodes(cluster, inputs.drained, planned)))
    by_code: dict[str | None, list[ExceptionEntry]] = {}
    jobs = inputs.settings.protection.stand_back_jobs
    limits = inputs.settings.limits
    for each in node_exceptions(inputs.cluster, limits, jobs):
        by_code.setdefault(each["code"], []).append(each)
    for entries in by_code.values():
        yield from shortened(entries)
    yield from shortened(list(full_storages(inputs.cluster, limits)))
    yield from shortened(list(failed_steps(_recent(inputs))))


def _recent(inputs: StateInputs) -> Iterable[StepRecord]:
    oldest = inputs.now - FAILURE_AGE
    return (each for each in inputs.steps if (each.ended_at or inputs.now) >= oldest)


def _controller_exceptions(inputs: StateInputs) -> Iterator[ExceptionEntry]:
    found = controller_document(inputs)
    cycle, mode = inputs.cycle, inputs.mode
    if inputs.store_error:
        code = ExceptionCode.STORE_UNAVAILABLE
        yield exception_entry(code, None, inputs.store_error)
    if not found["running"]:
        detail = "no controller is running"
        yield exception_entry(ExceptionCode.CONTROLLER_NOT_RUNNING, None, detail)
    elif cycle is not None and cycle.reason == FAILED:
        yield exception_entry(ExceptionCode.CYCLE_FAILED, None, cycle.detail)
    elif found["late"]:
        detail = (
            "no cycle has ended since the controller started"
            if cycle is None
            else f"the last cycle ended at {cycle.ended_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        yield exception_entry(ExceptionCode.CONTROLLER_LATE, None, detail)
    breakers = (
        (ExceptionCode.BREAKER_OPEN, inputs.entries.get(BREAKER_KEY)),
        (ExceptionCode.API_BREAKER_OPEN, open_api_breaker(inputs.entries)),
    )
    for code, entry in breakers:
        if entry is not None:
            yield exception_entry(code, None, str(entry.get("detail", "")))
    if current_pause(inputs.entries, inputs.now) is not None:
        yield exception_entry(ExceptionCode.PAUSED, None, mode.detail)
