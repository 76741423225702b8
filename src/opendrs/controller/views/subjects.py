"""Pages about one node and one guest: facts, rules, moves, explanation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opendrs.controller.explanation import explain, explained_in_plan
from opendrs.controller.planned_steps import PlannedStep
from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.remedies import remedy
from opendrs.controller.views.rule_states import rules_of
from opendrs.model import GuestState, NodeState
from opendrs.ports import CycleRecord

Plain = Mapping[str, Any]
Document = dict[str, Any]
Fact = str | float | None


def node_page(
    cycle: CycleRecord,
    name: str,
    rules: Iterable[Document],
    planned: Sequence[PlannedStep] = (),
) -> Document | None:
    """Return the page about the node *name*; None if the cluster has none.

    Args:
        cycle: The cycle with its inputs.
        name: The node.
        rules: The documents of all rules.
        planned: Steps of open plans.

    Returns:
        `id`, `state`, `facts` (named values for display), `guests` on the node, those
        that migrate to it as `arriving`, `planned` (steps of open plans that concern
        it), `rules` and `explanation`.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle.run):
        document: Plain = cycle.document
        node = document["snapshot"]["nodes"].get(name)
        if node is None:
            return None
        guests: Mapping[str, Plain] = document["snapshot"]["guests"]
        return {
            "id": name,
            "state": node.get("state", NodeState.UNKNOWN.value),
            "facts": _node_facts(node),
            "guests": [key for key, each in guests.items() if each["node"] == name],
            "arriving": [
                key for key, each in guests.items() if each.get("migrating_to") == name
            ],
            "planned": _planned(planned, name),
            "rules": rules_of(rules, node=name),
            "explanation": explanation_document(cycle, name),
        }


def guest_page(
    cycle: CycleRecord,
    name: str,
    rules: Iterable[Document],
    planned: Sequence[PlannedStep] = (),
) -> Document | None:
    """Return the page about the guest *name*; None if the cluster has none.

    Args:
        cycle: The cycle with its inputs.
        name: The guest.
        rules: The documents of all rules.
        planned: Steps of open plans.

    Returns:
        `id`, `node`, `migrating_to`, `state`, `facts` (named values for display),
        `planned` (steps of open plans that concern it), `rules` and `explanation`.

    Raises:
        StoreError: The record is damaged.
    """
    with reading_record(cycle.run):
        document: Plain = cycle.document
        guest = document["snapshot"]["guests"].get(name)
        if guest is None:
            return None
        return {
            "id": name,
            "node": guest["node"],
            "migrating_to": guest.get("migrating_to"),
            "state": guest.get("state", GuestState.UNKNOWN.value),
            "facts": _guest_facts(guest),
            "planned": _planned(planned, name),
            "rules": rules_of(rules, guest=name),
            "explanation": explanation_document(cycle, name, planned),
        }


def _planned(planned: Iterable[PlannedStep], name: str) -> list[Document]:
    return [each.document for each in planned if each.concerns(name)]


def explanation_document(
    cycle: CycleRecord, subject: str | None, planned: Sequence[PlannedStep] = ()
) -> Document | None:
    """Return the explanation of *subject*, and what would have to change.

    Args:
        cycle: The cycle with its inputs.
        subject: A guest, a node or a step of the plan; None for the decision.
        planned: Steps of open plans.

    Raises:
        StoreError: The record is damaged.
    """
    found = explain(cycle, subject)
    if found is None:
        return None
    found = explained_in_plan(found, planned)
    return {**asdict(found), "change": remedy(found.code)}


def _node_facts(node: Plain) -> dict[str, Fact]:
    usage, capacity = node.get("usage", {}), node.get("capacity", {})
    return {
        "cpu": usage.get("cpu"),
        "cpu_capacity": capacity.get("cpu"),
        "memory": usage.get("memory"),
        "memory_capacity": capacity.get("memory"),
        **_pressures(node),
        **_texts(node, "architecture", "cpu_model", "failure_domain", "powered_on_at"),
        "load_average": node.get("load_average"),
        "ksm_shared": node.get("ksm_shared"),
        **_lists(node, "labels", "groups", "jobs"),
    }


def _guest_facts(guest: Plain) -> dict[str, Fact]:
    usage, limit = guest.get("usage", {}), guest.get("limit", {})
    return {
        "cpu": usage.get("cpu"),
        "cpu_limit": limit.get("cpu") or None,
        "memory": usage.get("memory"),
        "memory_limit": limit.get("memory") or None,
        **_pressures(guest),
        **_texts(guest, "kind", "mobility", "mobility_detail", "managed_by", "lock"),
        **_texts(guest, "cpu_model", "migrated_at"),
        "uptime": guest.get("uptime"),
        "dirty_rate": guest.get("dirty_rate"),
        **_lists(guest, "tags"),
    }


def _pressures(part: Plain) -> dict[str, Fact]:
    """Return the stalled fraction of time of each resource."""
    pressure = part.get("pressure", {})
    return {
        f"{name}_pressure": pressure.get(name, {}).get("some")
        for name in ("cpu", "memory", "io")
    }


def _texts(part: Plain, *names: str) -> dict[str, Fact]:
    return {name: part.get(name) for name in names}


def _lists(part: Plain, *names: str) -> dict[str, Fact]:
    """Return lists of names as text; None if unknown or empty."""
    return {name: ", ".join(part.get(name) or ()) or None for name in names}
