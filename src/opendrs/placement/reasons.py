"""Reasons why a node is infeasible for guests that start, and why guests stay down."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

import numpy as np

from opendrs.model import Node, NodeState, format_count, format_list, format_memory
from opendrs.placement.arrays import COMMITTED, COMMITTED_CPU, MEASURED, DisplacedGroup
from opendrs.placement.state import PlacementState
from opendrs.rules import MILLICORES


class InfeasibleReason(StrEnum):
    """Reason why a guest cannot start on a node. The values are stable."""

    NODE_OFFLINE = "node-offline"
    """The node is off or fenced."""
    NODE_MAINTENANCE = "node-maintenance"
    """The node is in maintenance."""
    NODE_EXCLUDED = "node-excluded"
    """The node is excluded: it receives no guests."""
    NODE_UNREACHABLE = "node-unreachable"
    """The node does not respond; its state is unknown."""
    METRICS_MISSING = "metrics-missing"
    """The capacity or usage of the node, or the memory of a guest, is unknown."""
    CPU_INCOMPATIBLE = "cpu-incompatible"
    """The node has another architecture or CPU model than the guest requires."""
    INSUFFICIENT_CORES = "insufficient-cores"
    """The guest has more virtual cores than the node has cores."""
    RULE_VIOLATED = "rule-violated"
    """A strict rule would be violated."""
    INSUFFICIENT_MEMORY = "insufficient-memory"
    """The measured use would exceed the memory less headroom."""
    MEMORY_OVERCOMMITTED = "memory-overcommitted"
    """The committed memory would exceed its limit."""
    CPU_OVERCOMMITTED = "cpu-overcommitted"
    """The committed CPU would exceed its limit."""
    LOAD_EXCEEDED = "load-exceeded"
    """A further load is, or would be, above its threshold."""
    FAILURE_NOT_TOLERATED = "failure-not-tolerated"
    """After the start, a failure that the limits name would not be tolerated."""


class UnplacedReason(StrEnum):
    """Reason why a guest has no node after a change. The values are stable."""

    NO_FEASIBLE_NODE = "no-feasible-node"
    """No node is feasible, or not together with the other guests."""
    BOUND_TO_NODE = "bound-to-node"
    """The guest cannot start on another node: not migratable, or a local disk."""
    MIGRATION_NOT_ALLOWED = "migration-not-allowed"
    """The guest must not migrate off a node that is removed."""


_STATE_REASONS = {
    NodeState.OFFLINE: InfeasibleReason.NODE_OFFLINE,
    NodeState.MAINTENANCE: InfeasibleReason.NODE_MAINTENANCE,
    NodeState.EXCLUDED: InfeasibleReason.NODE_EXCLUDED,
    NodeState.UNKNOWN: InfeasibleReason.NODE_UNREACHABLE,
}


def infeasible_reasons(
    state: PlacementState, group: DisplacedGroup
) -> tuple[InfeasibleReason | None, ...]:
    """Return why each node is infeasible for *group*; None for feasible nodes.

    The first failing check is the reason, in the order of `InfeasibleReason`. Further
    loads, and failures that the limits want tolerated, are not checked.
    """
    arrays, n = state.arrays, len(state.is_open)
    is_unknown = np.full(
        n, not np.isfinite(group.required[list(state.resources)]).all()
    )
    keeps_rules = arrays.permitted(group.part) & state.keeps_rules(group)
    short = group.required[:, None] > state.available
    hidden = np.isneginf(state.available[list(state.resources)]).any(axis=0)
    checks = (
        (~arrays.is_measured | hidden | is_unknown, InfeasibleReason.METRICS_MISSING),
        (~arrays.suited(group.part), InfeasibleReason.CPU_INCOMPATIBLE),
        (~arrays.has_cores(group.part), InfeasibleReason.INSUFFICIENT_CORES),
        (~keeps_rules, InfeasibleReason.RULE_VIOLATED),
        (short[MEASURED], InfeasibleReason.INSUFFICIENT_MEMORY),
        (short[COMMITTED], InfeasibleReason.MEMORY_OVERCOMMITTED),
        (short[COMMITTED_CPU], InfeasibleReason.CPU_OVERCOMMITTED),
    )
    first = np.argmax([*(failed for failed, _ in checks), np.ones(n, np.bool_)], axis=0)
    codes = (*(reason for _, reason in checks), None)
    return tuple(
        _STATE_REASONS.get(arrays.snapshot.nodes[name].state)
        or (codes[check] if is_open else InfeasibleReason.NODE_OFFLINE)
        for name, check, is_open in zip(
            arrays.node_ids,
            first.tolist(),
            (state.is_open | ~arrays.is_measured).tolist(),
            strict=True,
        )
    )


def describe_infeasible(
    state: PlacementState, group: DisplacedGroup, node: int, reason: InfeasibleReason
) -> str:
    """Return *reason* as a sentence, with names and numbers."""
    if reason in _RESOURCE_ROWS:
        return _describe_shortage(state, group, node, _RESOURCE_ROWS[reason])
    if reason is InfeasibleReason.RULE_VIOLATED:
        return _describe_rule(state, group, node)
    arrays = state.arrays
    value = arrays.snapshot.nodes[arrays.node_ids[node]]
    if reason is InfeasibleReason.METRICS_MISSING:
        return _describe_missing(value, is_measured=bool(arrays.is_measured[node]))
    if reason is InfeasibleReason.CPU_INCOMPATIBLE:
        return f"architecture {value.architecture}, CPU model {value.cpu_model}"
    if reason is InfeasibleReason.INSUFFICIENT_CORES:
        return f"{arrays.capacity[node, 0]:g} cores"
    return f"node state {value.state}"


def _describe_shortage(
    state: PlacementState, group: DisplacedGroup, node: int, row: int
) -> str:
    required, available = group.required[row], max(0.0, state.available[row, node])
    if row == COMMITTED_CPU:
        needed, left = required / MILLICORES, available / MILLICORES
        return f"{needed:g} cores required, {left:g} cores left to commit"
    suffix = "left to commit" if row == COMMITTED else "available"
    return f"{format_memory(required)} required, {format_memory(available)} {suffix}"


def _describe_missing(node: Node, *, is_measured: bool) -> str:
    if node.capacity is None:
        return "capacity unknown"
    if not is_measured:
        return "usage unknown"
    return "memory of the guest, or of a guest on the node, unknown"


_RESOURCE_ROWS = {
    InfeasibleReason.INSUFFICIENT_MEMORY: MEASURED,
    InfeasibleReason.MEMORY_OVERCOMMITTED: COMMITTED,
    InfeasibleReason.CPU_OVERCOMMITTED: COMMITTED_CPU,
}


def describe_reasons(state: PlacementState, group: DisplacedGroup) -> str:
    """Return how many nodes are infeasible for each reason, most frequent first."""
    reasons = Counter(
        reason.value
        for reason in infeasible_reasons(state, group)
        if reason is not None
    )
    return ", ".join(
        f"{reason} ({format_count(count, 'node')})"
        for reason, count in reasons.most_common()
    )


def _describe_rule(state: PlacementState, group: DisplacedGroup, node: int) -> str:
    arrays = state.arrays
    apart = [
        guest.id
        for part in group.apart
        if node in (state.node_of[part], arrays.target_of[part])
        for guest in arrays.parts[part]
    ]
    if apart:
        return f"anti-affinity to {format_list(sorted(apart), separator=' and ')}"
    for limit in group.limits:
        if limit.limit.rule.strict and state.exceeds(limit, group)[node]:
            return f'limit of the rule "{limit.limit.rule}"'
    if not arrays.permitted(group.part)[node]:
        return "node affinity to other nodes"
    mates = sorted(guest.id for part in group.mates for guest in arrays.parts[part])
    return f"affinity to {format_list(mates, separator=' and ')}"
