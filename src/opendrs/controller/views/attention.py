"""Exceptions: what needs the attention of an operator, each with its cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from opendrs.arrays import SkipReason
from opendrs.controller.planned_steps import PlannedStep
from opendrs.controller.views.cluster_columns import ClusterColumns
from opendrs.model import (
    ACTION_KINDS,
    Action,
    Limits,
    NodeState,
    PowerOff,
    PowerOn,
    StepId,
    format_count,
    path_of,
)
from opendrs.ports import Outcome, StepRecord
from opendrs.rules.maintenance import NAME_START

HIGH_CPU = 0.9  # used fraction of the cores of a node
HIGH_STORAGE = 0.95  # used fraction of a storage that is in no group of the limits
MAX_SHOWN = 50  # exceptions with the same code
MAINTENANCE = NodeState.MAINTENANCE.value
_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


class ExceptionCode(StrEnum):
    """Code of an exception. The values are stable."""

    STORE_UNAVAILABLE = "store-unavailable"
    """The store cannot be read; the state is the last one that was read."""
    CONTROLLER_NOT_RUNNING = "controller-not-running"
    """No controller runs."""
    CONTROLLER_LATE = "controller-late"
    """The last cycle is older than three intervals, and no step is running."""
    CYCLE_FAILED = "cycle-failed"
    """The last cycle ended with an error of the platform."""
    BREAKER_OPEN = "breaker-open"
    """The circuit breaker is open: plans need an approval."""
    API_BREAKER_OPEN = "api-breaker-open"
    """The circuit breaker for the API of the platform is open: no step starts."""
    PAUSED = "paused"
    """An operator has paused the controller."""
    RULE_VIOLATED = "rule-violated"
    """A rule does not hold now; an error if it is strict."""
    NODE_DRAINING = "node-draining"
    """Guests are on a node in maintenance, and are to leave it."""
    NODE_UNREACHABLE = "node-unreachable"
    """A node does not respond."""
    NODE_CPU_HIGH = "node-cpu-high"
    """A node uses more than 90 % of its cores."""
    NODE_MEMORY_HIGH = "node-memory-high"
    """A node uses memory that `memory_headroom` keeps free."""
    STORAGE_FULL = "storage-full"
    """A storage is above the threshold of its group; without a group, above 95 %."""
    METRICS_MISSING = "metrics-missing"
    """The use of a node is unknown."""
    STEP_FAILED = "step-failed"
    """A step of the last day failed, was aborted, or is lost."""
    STOOD_BACK = "stood-back"
    """A node receives no guests while a job of the platform runs on it."""


SEVERITIES: Mapping[ExceptionCode, str] = {
    ExceptionCode.STORE_UNAVAILABLE: "error",
    ExceptionCode.CONTROLLER_NOT_RUNNING: "error",
    ExceptionCode.CONTROLLER_LATE: "error",
    ExceptionCode.CYCLE_FAILED: "error",
    ExceptionCode.BREAKER_OPEN: "error",
    ExceptionCode.API_BREAKER_OPEN: "error",
    ExceptionCode.PAUSED: "info",
    ExceptionCode.RULE_VIOLATED: "warning",
    ExceptionCode.NODE_DRAINING: "info",
    ExceptionCode.NODE_UNREACHABLE: "warning",
    ExceptionCode.NODE_CPU_HIGH: "warning",
    ExceptionCode.NODE_MEMORY_HIGH: "warning",
    ExceptionCode.STORAGE_FULL: "warning",
    ExceptionCode.METRICS_MISSING: "warning",
    ExceptionCode.STEP_FAILED: "warning",
    ExceptionCode.STOOD_BACK: "info",
}
ExceptionEntry = dict[str, str | None]


def exception_entry(
    code: ExceptionCode,
    subject: str | None,
    detail: str,
    severity: str | None = None,
) -> ExceptionEntry:
    """Return an exception as plain values."""
    return {
        "code": code.value,
        "severity": severity or SEVERITIES[code],
        "subject": subject,
        "detail": detail,
    }


def shortened(entries: Sequence[ExceptionEntry]) -> list[ExceptionEntry]:
    """Return *entries*; beyond `MAX_SHOWN` only their number."""
    if len(entries) <= MAX_SHOWN:
        return list(entries)
    more = dict(entries[MAX_SHOWN])
    count = format_count(len(entries) - MAX_SHOWN, "more of them")
    return [*entries[:MAX_SHOWN], {**more, "subject": None, "detail": f"and {count}"}]


def draining_nodes(
    cluster: ClusterColumns, drained: Collection[str], planned: Iterable[PlannedStep]
) -> Iterator[ExceptionEntry]:
    """Yield the nodes in maintenance that have guests, with those that (cannot) leave.

    Args:
        cluster: The cluster with the moves since its cycle.
        drained: Nodes that operators drain now. Others are in maintenance if the
            cluster says so, unless operators drained them at the time of its cycle.
        planned: Steps of open plans.
    """
    ended = set(cluster.drain.get("nodes", ())).difference(drained)
    states = zip(cluster.nodes["id"], cluster.nodes["state"], strict=True)
    closed = [
        name in drained or (state == MAINTENANCE and name not in ended)
        for name, state in states
    ]
    guests: dict[int, list[str]] = {}
    if any(closed):
        for name, index in zip(
            cluster.guests["id"], cluster.guests["node"], strict=True
        ):
            if closed[index]:
                guests.setdefault(index, []).append(name)
    migrated = {each.migrated_guest for each in planned}
    for index, names in guests.items():
        node = cluster.nodes["id"][index]
        detail = f"{node}: {_drain_text(names, migrated, cluster.drain)}"
        yield exception_entry(ExceptionCode.NODE_DRAINING, node, detail)


def _drain_text(
    guests: Sequence[str], migrated: Collection[str | None], drain: Mapping[str, Any]
) -> str:
    """Return how many of *guests* leave, cannot leave, and wait, as a sentence."""
    left = [name for name in guests if name in migrated]
    others = set(guests).difference(left)
    reasons = Counter[str]()
    for group in drain.get("remaining", ()):
        reasons[group["reason"]] += len(others.intersection(group["guests"]))
    stuck = sum(reasons.values())
    total = format_count(len(guests), "guest")
    parts = [f"{len(left)} of {total} {'leaves' if len(left) == 1 else 'leave'}"]
    if stuck:
        causes = (
            f"{_reason_text(reason)} ({number})"
            for reason, number in reasons.most_common()
            if number
        )
        parts.append(f"{stuck} cannot: {', '.join(causes)}")
    if waiting := len(others) - stuck:
        parts.append(f"{waiting} wait{'s' if waiting == 1 else ''} for a plan")
    return "; ".join(parts)


def _reason_text(code: str) -> str:
    """Return a recorded reason in words; another version may have further ones."""
    known = code in set(SkipReason)
    return SkipReason(code).text if known else code.replace("-", " ")


def violated_rules(decision: Mapping[str, Any]) -> Iterator[ExceptionEntry]:
    """Yield the rules that the snapshot of *decision* violates, drains aside."""
    for each in decision.get("violations", {}).get("before", ()):
        if each["rule"].startswith(NAME_START):
            continue
        guests = ", ".join(each["guests"])
        strictness = "strict" if each["strict"] else "soft"
        yield exception_entry(
            ExceptionCode.RULE_VIOLATED,
            each["rule"],
            f"{each['rule']}: {guests} ({strictness} rule)",
            "error" if each["strict"] else None,
        )


def node_exceptions(
    cluster: ClusterColumns, limits: Limits, stand_back_jobs: Iterable[str]
) -> Iterator[ExceptionEntry]:
    """Yield the nodes that do not respond, are overloaded, or are not measured."""
    nodes, jobs = cluster.nodes, set(stand_back_jobs)
    for index, name in enumerate(nodes["id"]):
        state = nodes["state"][index]
        if state == "unknown":
            detail = f"{name}: does not respond"
            yield exception_entry(ExceptionCode.NODE_UNREACHABLE, name, detail)
        elif state in ("online", "maintenance"):
            yield from _load_exceptions(cluster, index, limits)
        if busy := jobs.intersection(nodes["jobs"][index]):
            detail = f"{name}: {', '.join(sorted(busy))} is running"
            yield exception_entry(ExceptionCode.STOOD_BACK, name, detail)


def _load_exceptions(
    cluster: ClusterColumns, index: int, limits: Limits
) -> Iterator[ExceptionEntry]:
    nodes = cluster.nodes
    name = nodes["id"][index]
    cpu, cores = nodes["cpu"][index], nodes["cpu_capacity"][index]
    memory, size = nodes["memory"][index], nodes["memory_capacity"][index]
    unknown = [
        text for text, value in (("CPU", cpu), ("memory", memory)) if value is None
    ]
    if unknown:
        detail = f"{name}: the use of {' and '.join(unknown)} is unknown"
        yield exception_entry(ExceptionCode.METRICS_MISSING, name, detail)
    if cpu is not None and cores and cpu > HIGH_CPU * cores:
        detail = f"{name}: {cpu:.1f} of {cores:g} cores are in use"
        yield exception_entry(ExceptionCode.NODE_CPU_HIGH, name, detail)
    allowed = 1 - limits.memory_headroom
    if memory is not None and size and memory > allowed * size:
        detail = f"{name}: {memory / size:.0%} of the memory is in use; "
        detail += f"{allowed:.0%} may be"
        yield exception_entry(ExceptionCode.NODE_MEMORY_HIGH, name, detail)


def full_storages(cluster: ClusterColumns, limits: Limits) -> Iterator[ExceptionEntry]:
    """Yield the storages that are full or nearly full, the fullest first.

    The limit is the threshold above which disks are moved away from a storage. Those of
    unknown size or free space are omitted. Of a shared one, the node that reports the
    least free space counts.
    """
    thresholds = {
        name: group.threshold
        for group in limits.storage_groups
        for name in group.storages
    }
    full: dict[str, tuple[float, float]] = {}
    for each in cluster.storages:
        name = str(each["id"])
        label = name if each.get("shared") else f"{name} of {each['node']}"
        fill = 1 - each["free"] / each["capacity"]
        allowed = thresholds.get(name, HIGH_STORAGE)
        if fill > allowed:
            full[label] = max((fill, allowed), full.get(label, (0.0, allowed)))
    for label, (fill, allowed) in sorted(
        full.items(), key=lambda item: (-item[1][0], item[0])
    ):
        detail = f"{label}: {fill:.0%} of the space is in use; {allowed:.0%} may be"
        yield exception_entry(ExceptionCode.STORAGE_FULL, label, detail)


def failed_steps(records: Iterable[StepRecord]) -> Iterator[ExceptionEntry]:
    """Yield the steps of *records* that failed, the newest first."""
    failed = [each for each in records if each.outcome in _FAILURES]
    for each in sorted(failed, key=lambda record: record.intended_at, reverse=True):
        step: StepId = each.step
        detail = f"{each.outcome}: {each.detail}" if each.detail else str(each.outcome)
        detail = f"{_action_text(each.action)}: {detail} (step {step} of {each.run})"
        yield exception_entry(ExceptionCode.STEP_FAILED, f"{each.run}/{step}", detail)


def _action_text(action: Action) -> str:
    if isinstance(action, PowerOn | PowerOff):
        return f"{ACTION_KINDS[type(action)]} of {action.node}"
    guest, source, target = path_of(action)
    return f"{guest}: {source} → {target}"
