"""Exceptions: what an operator has to know about a cluster and its controller now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from opendrs.config.diagnostics import Severity
from opendrs.controller.modes import Entries, open_api_breaker
from opendrs.controller.protection import BREAKER_KEY
from opendrs.controller.status import FAILED, LastCycle
from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.node_limits import exceeds_limits
from opendrs.model import NodeState, PowerOff, PowerOn, format_list, time_from_text
from opendrs.ports import CycleRecord, Outcome, StepRecord

Plain = Mapping[str, Any]
Document = dict[str, str]

MAX_MISSED_INTERVALS = 3  # cycles that may be missed before the metrics are stale
_FAILURES = frozenset({Outcome.FAILED, Outcome.LOST, Outcome.ABORTED})


class ExceptionCode(StrEnum):
    """Code of an exception. The values are stable."""

    CONTROLLER_NOT_RUNNING = "controller-not-running"
    """No controller holds the lease of the platform."""
    CYCLE_FAILED = "cycle-failed"
    """The platform was unreachable in the last cycle."""
    METRICS_STALE = "metrics-stale"
    """The last snapshot is older than three intervals."""
    BREAKER_OPEN = "breaker-open"
    """The circuit breaker is open: plans need an approval."""
    API_BREAKER_OPEN = "api-breaker-open"
    """The circuit breaker for the API of the platform is open: no plan starts."""
    RULE_VIOLATED = "rule-violated"
    """A rule is violated now."""
    NODE_UNREACHABLE = "node-unreachable"
    """A node does not respond."""
    NODE_OVER_LIMIT = "node-over-limit"
    """The load of a node exceeds a limit."""
    METRICS_MISSING = "metrics-missing"
    """A load of an online node is unknown."""
    MOVE_FAILED = "move-failed"
    """A step failed, or its outcome is unknown."""
    NODE_BUSY = "node-busy"
    """A job such as a backup runs on a node: it receives no guests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingState:
    """State of a controller that exceptions are derived from.

    Attributes:
        now: The time.
        is_running: True if a controller holds the lease.
        interval: Seconds between two cycles; None if unknown.
        cycle: The last cycle that ended; None if there was none.
        entries: Entries of the store that operators set, by key.
        open_steps: True if steps are in progress: a cycle may take long.
        recent_steps: Steps that ended lately, in any order.
        stand_back_jobs: Jobs during which a node receives no guests.
    """

    now: datetime
    is_running: bool
    interval: float | None = None
    cycle: LastCycle | None = None
    entries: Entries
    open_steps: bool = False
    recent_steps: Sequence[StepRecord] = ()
    stand_back_jobs: tuple[str, ...] = ()


def exception_documents(
    state: OperatingState, cycle: CycleRecord | None
) -> list[Document]:
    """Return the exceptions: those of the controller first, errors before warnings.

    Each has `code`, `severity`, `subject` (a rule, node, guest or step; empty for the
    controller) and `detail`.

    Args:
        state: State of the controller.
        cycle: The newest cycle with its inputs; None if there is none.

    Raises:
        StoreError: The record is damaged.
    """
    found = list(_of_controller(state, cycle))
    if cycle is not None:
        with reading_record(cycle):
            found += _of_cluster(cycle.document, state.stand_back_jobs)
    found += _of_steps(state.recent_steps)
    return sorted(found, key=lambda each: each["severity"] != Severity.ERROR.value)


def _of_controller(
    state: OperatingState, cycle: CycleRecord | None
) -> Iterator[Document]:
    if not state.is_running:
        yield _error(ExceptionCode.CONTROLLER_NOT_RUNNING, "", "no controller runs")
    if state.cycle is not None and state.cycle.reason == FAILED:
        yield _error(ExceptionCode.CYCLE_FAILED, "", state.cycle.detail)
    if cycle is not None and state.interval is not None and not state.open_steps:
        with reading_record(cycle):
            document: Plain = cycle.document
            taken_at = time_from_text(document["snapshot"]["taken_at"])
        age = (state.now - taken_at).total_seconds()
        if age > MAX_MISSED_INTERVALS * state.interval:
            detail = (
                f"the last snapshot is {age:.0f} s old, interval {state.interval:g} s"
            )
            yield _error(ExceptionCode.METRICS_STALE, "", detail)
    if (entry := state.entries.get(BREAKER_KEY)) is not None:
        detail = str(entry.get("detail", "the circuit breaker is open"))
        yield _error(ExceptionCode.BREAKER_OPEN, "", detail)
    if (entry := open_api_breaker(state.entries)) is not None:
        detail = str(entry.get("detail", "the API circuit breaker is open"))
        yield _error(ExceptionCode.API_BREAKER_OPEN, "", detail)


def _of_cluster(document: Plain, jobs: Iterable[str]) -> Iterator[Document]:
    for violation in document["decision"].get("violations", {}).get("before", ()):
        severity = Severity.ERROR if violation["strict"] else Severity.WARNING
        guests, nodes = (
            format_list(violation["guests"]),
            format_list(violation["nodes"]),
        )
        detail = f"{guests} on {nodes}"
        yield _exception(
            ExceptionCode.RULE_VIOLATED, severity, violation["rule"], detail
        )
    over, stood_back = exceeds_limits(document), set(jobs)
    for name, node in document["snapshot"]["nodes"].items():
        state = node.get("state", NodeState.UNKNOWN.value)
        if state == NodeState.UNKNOWN.value:
            yield _error(ExceptionCode.NODE_UNREACHABLE, name, "does not respond")
        if name in over:
            yield _warning(ExceptionCode.NODE_OVER_LIMIT, name, over[name])
        missing = _missing(node) if state == NodeState.ONLINE.value else []
        if missing:
            detail = f"unknown: {', '.join(missing)}"
            yield _warning(ExceptionCode.METRICS_MISSING, name, detail)
        if busy := sorted(stood_back.intersection(node.get("jobs") or ())):
            detail = f"receives no guests during: {', '.join(busy)}"
            yield _warning(ExceptionCode.NODE_BUSY, name, detail)


def _missing(node: Plain) -> list[str]:
    usage = node.get("usage", {})
    missing = [] if "capacity" in node else ["capacity"]
    return missing + [
        f"usage of {name}" for name in ("cpu", "memory") if name not in usage
    ]


def _of_steps(records: Iterable[StepRecord]) -> Iterator[Document]:
    for record in sorted(records, key=lambda each: each.intended_at, reverse=True):
        if record.outcome in _FAILURES:
            action = record.action
            if isinstance(action, PowerOn | PowerOff):
                subject: str = action.node
            else:
                subject = action.guest
            detail = f"{record.outcome}: {record.detail}".removesuffix(": ")
            yield _warning(ExceptionCode.MOVE_FAILED, subject, detail)


def _error(code: ExceptionCode, subject: str, detail: str) -> Document:
    return _exception(code, Severity.ERROR, subject, detail)


def _warning(code: ExceptionCode, subject: str, detail: str) -> Document:
    return _exception(code, Severity.WARNING, subject, detail)


def _exception(
    code: ExceptionCode, severity: Severity, subject: str, detail: str
) -> Document:
    return {
        "code": code.value,
        "severity": severity.value,
        "subject": subject,
        "detail": detail,
    }
