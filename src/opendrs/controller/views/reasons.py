"""Reasons why guests stay, why nodes receive none, and what would have to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from opendrs.config.policy_loading import recorded_limits
from opendrs.controller.explanation import IN_PLAN, decision_text
from opendrs.controller.planned_steps import PlannedStep
from opendrs.controller.stay_reasons import StayReason, StayReasons
from opendrs.controller.step_serialization import moves_disk, skipped_groups
from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.figures import known_load
from opendrs.controller.views.remedies import remedy
from opendrs.model import GuestId, NodeState, Snapshot
from opendrs.ports import CycleRecord

Plain = Mapping[str, Any]
Document = dict[str, Any]


class NodeReason(StrEnum):
    """Reason why a node receives no guests at all. The values are stable."""

    NODE_UNREACHABLE = "node-unreachable"
    """The node does not respond."""
    NODE_OFFLINE = "node-offline"
    """The node is off."""
    NODE_IN_MAINTENANCE = "node-in-maintenance"
    """The node is drained."""
    NODE_EXCLUDED = "node-excluded"
    """The node is excluded, for example while a job such as a backup runs on it."""
    NODE_NOT_MEASURED = "node-not-measured"
    """Its capacity or its use is unknown: it is never a target."""
    NODE_FULL = "node-full"
    """Its memory in use reaches the limit of `limits.memory_headroom`."""


_NODE_REMEDIES: Mapping[NodeReason, str] = {
    NodeReason.NODE_UNREACHABLE: "restore the connection to the node",
    NodeReason.NODE_OFFLINE: "power the node on",
    NodeReason.NODE_IN_MAINTENANCE: "end the drain, or the maintenance on the platform",
    NodeReason.NODE_EXCLUDED: "wait until the jobs on it have ended",
    NodeReason.NODE_NOT_MEASURED: "make the platform report its capacity and use",
    NodeReason.NODE_FULL: "move guests away, or lower limits.memory_headroom",
}
_STAY_DETAILS: Mapping[StayReason, str] = {
    StayReason.IMMOVABLE: "a rule excludes them from migration",
    StayReason.NOT_RUNNING: "only running guests are migrated",
    StayReason.NO_FEASIBLE_NODE: "strict rules, hardware or memory allow no other node",
    StayReason.SOFT_RULE: "a soft rule excludes the other nodes that could run them",
}
_NODE_STATES: Mapping[str, NodeReason] = {
    NodeState.UNKNOWN.value: NodeReason.NODE_UNREACHABLE,
    NodeState.OFFLINE.value: NodeReason.NODE_OFFLINE,
    NodeState.MAINTENANCE.value: NodeReason.NODE_IN_MAINTENANCE,
    NodeState.EXCLUDED.value: NodeReason.NODE_EXCLUDED,
}


def reason_documents(cycle: CycleRecord, snapshot: Snapshot) -> list[Document]:
    """Return the reasons of *cycle*, each with its guests or nodes.

    First are the reasons of guests that the policy skipped, then the `StayReason` of
    those that it considered and does not migrate, then those of nodes. Each has
    `code`, `detail`, `change` (what would have to change), `guests` and `nodes`. The
    code of a guest is that of its page.

    Args:
        cycle: The cycle with its inputs.
        snapshot: Its cluster.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle.run):
        document: Plain = cycle.document
        limits = recorded_limits(document["settings"])
        reasons = StayReasons(snapshot, limits)
        return [*_of_guests(document, reasons), *_of_nodes(document)]


def with_planned(
    documents: Iterable[Document], planned: Iterable[PlannedStep]
) -> list[Document]:
    """Return *documents* with the guests that open plans migrate as such, first.

    Args:
        documents: The reasons of a cycle, which may be later than the plans.
        planned: Steps of open plans.
    """
    texts: dict[str, str] = {}
    for each in planned:
        if (guest := each.migrated_guest) is not None:
            detail = f"plan {each.plan.id} ({each.plan.state}) migrates them"
            texts.setdefault(guest, detail)
    moved: dict[str, list[str]] = {}
    for guest, detail in texts.items():
        moved.setdefault(detail, []).append(guest)
    found = [_reason(IN_PLAN, text, guests=each) for text, each in moved.items()]
    for document in documents:
        guests = [name for name in document["guests"] if name not in texts]
        if guests or document["nodes"]:
            found.append({**document, "guests": guests})
    return found


def _of_guests(document: Plain, reasons: StayReasons) -> Iterator[Document]:
    decision = document["decision"]
    explained = {step["guest"] for step in decision["steps"] if not moves_disk(step)}
    for group in skipped_groups(document):
        explained.update(group["guests"])
        yield _reason(group["reason"], group["detail"], guests=list(group["guests"]))
    none_needed = decision_text(decision)
    others: dict[tuple[StayReason, str], list[str]] = {}
    for name in map(GuestId, document["snapshot"]["guests"]):
        if name in explained:
            continue
        reason = reasons.reason(name)
        detail = _STAY_DETAILS.get(reason, none_needed)
        if reason is StayReason.MIGRATION_FAILED:  # with the cause and the end
            detail = reasons.detail(name)
        others.setdefault((reason, detail), []).append(name)
    order = [*StayReason]
    for reason, detail in sorted(others, key=lambda each: order.index(each[0])):
        yield _reason(reason.value, detail, guests=others[reason, detail])


def _of_nodes(document: Plain) -> Iterator[Document]:
    full = 1 - document["settings"]["limits"]["memory_headroom"]
    found: dict[NodeReason, list[str]] = {}
    for name, node in document["snapshot"]["nodes"].items():
        reason = _node_reason(node, full)
        if reason is not None:
            found.setdefault(reason, []).append(name)
    for reason in NodeReason:
        if reason in found:
            detail = "receives no guests"
            yield _reason(reason.value, detail, nodes=found[reason])


def _node_reason(node: Plain, full: float) -> NodeReason | None:
    state = node.get("state", NodeState.UNKNOWN.value)
    if state in _NODE_STATES:
        return _NODE_STATES[state]
    load = known_load(node)
    if load is None:
        return NodeReason.NODE_NOT_MEASURED
    return NodeReason.NODE_FULL if load[1] >= full else None


def _reason(
    code: str,
    detail: str,
    *,
    guests: list[str] | None = None,
    nodes: list[str] | None = None,
) -> Document:
    change = remedy(code)
    if nodes is not None:
        change = _NODE_REMEDIES[NodeReason(code)]
    return {
        "code": code,
        "detail": detail,
        "change": change,
        "guests": guests or [],
        "nodes": nodes or [],
    }
