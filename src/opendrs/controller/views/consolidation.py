"""Consolidation: nodes that are off, power actions, and the power of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.figures import POWER
from opendrs.model import NodeState, PowerOff, PowerOn, format_timestamp
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import CycleRecord, StepRecord

Plain = Mapping[str, Any]
Document = dict[str, Any]


def consolidation_document(
    cycle: CycleRecord, records: Iterable[StepRecord]
) -> Document:
    """Return what is known about power and nodes that are off.

    Args:
        cycle: The newest cycle with its inputs.
        records: Recent steps, the newest first.

    Returns:
        `policy`; `consolidates`, false for other policies; the power that the policy
        estimates now and after its plan, in watts; None if it does not estimate it;
        the numbers of nodes; `sleeping`, the nodes that are off, with the time of
        their last power-off if known; and `actions`, the recent power actions.

    Raises:
        StoreError: The record is damaged.
    """
    actions = [each for each in records if isinstance(each.action, PowerOn | PowerOff)]
    with reading_record(cycle.run):
        document: Plain = cycle.document
        decision, nodes = document["decision"], document["snapshot"]["nodes"]
        states = [node.get("state", NodeState.UNKNOWN.value) for node in nodes.values()]
        occupied = {guest["node"] for guest in document["snapshot"]["guests"].values()}
        return {
            "policy": decision["policy"],
            "consolidates": decision["policy"] == Consolidate.name,
            "power": decision["before"].get(POWER),
            "power_after": decision["after"].get(POWER),
            "online_nodes": states.count(NodeState.ONLINE.value),
            "states": dict(sorted(Counter(states).items())),
            "empty_nodes": [
                name
                for name, node in nodes.items()
                if node.get("state") == NodeState.ONLINE.value and name not in occupied
            ],
            "sleeping": [
                {"node": name, "since": _powered_off_at(name, actions)}
                for name, node in nodes.items()
                if node.get("state") == NodeState.OFFLINE.value
            ],
            "actions": [_action(each) for each in actions],
        }


def _powered_off_at(node: str, actions: Iterable[StepRecord]) -> str | None:
    """Return the time of the last power-off of *node*, unless it was powered on."""
    last = next((each for each in actions if _node(each) == node), None)
    if last is None or last.ended_at is None or isinstance(last.action, PowerOn):
        return None
    return format_timestamp(last.ended_at)


def _node(record: StepRecord) -> str:
    assert isinstance(record.action, PowerOn | PowerOff)  # noqa: S101 - selected before
    return record.action.node


def _action(record: StepRecord) -> Document:
    ended = record.ended_at
    return {
        "node": _node(record),
        "kind": "power-on" if isinstance(record.action, PowerOn) else "power-off",
        "run": record.run,
        "started_at": format_timestamp(record.intended_at),
        "ended_at": None if ended is None else format_timestamp(ended),
        "outcome": None if record.outcome is None else record.outcome.value,
        "detail": record.detail,
    }
