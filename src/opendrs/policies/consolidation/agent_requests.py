"""Requests of host agents, and the reports that follow from them for the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TypedDict

import numpy as np

from opendrs.model import GuestId, NodeId, NodeState, Snapshot
from opendrs.policies.consolidation.input import AgentReports, ConsolidationInput
from opendrs.policies.consolidation.memory import (
    ConsolidationMemory,
    append_sample,
    empty_memory,
)


class HostLoadState(StrEnum):
    """What an agent finds of its host."""

    NORMAL = "normal"
    UNDERLOADED = "underloaded"
    OVERLOADED = "overloaded"


class AgentRequest(TypedDict):
    """What an agent asks for; JSON-able.

    Attributes:
        load_state: A `Verdict`.
        evict: Who should leave an overloaded host, the first first.
    """

    load_state: str
    evict: list[str]


class AgentInput(TypedDict):
    """What all agents that can be heard have sent; JSON-able.

    Attributes:
        guests: The CPU each guest used, in cores, the oldest sample first.
        nodes: The CPU each node used outside its guests.
        requests: What the agent of each node asks for. A node without one is
            unknown.
    """

    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    requests: dict[str, AgentRequest]


def exclude_unresponsive(
    snapshot: Snapshot, requests: Mapping[str, AgentRequest]
) -> Snapshot:
    """Return *snapshot* with the nodes unknown whose agents are silent."""
    unresponsive = {
        name: replace(node, state=NodeState.UNKNOWN)
        for name, node in snapshot.nodes.items()
        if node.online and name not in requests
    }
    return replace(snapshot, nodes={**snapshot.nodes, **unresponsive})


def merge_samples(
    snapshot: Snapshot, memory: AgentInput, length: int
) -> ConsolidationMemory:
    """Return what is known of all hosts and guests, each with one sample at least.

    Of whom no agent has told, what is measured now is the first sample.

    Args:
        snapshot: The cluster now.
        memory: What the agents have told.
        length: How many samples are kept.
    """
    now = append_sample(empty_memory(), snapshot, 1)
    return {
        **now,
        "guests": _recent_samples(memory["guests"], now["guests"], length),
        "nodes": _recent_samples(memory["nodes"], now["nodes"], length),
    }


def _recent_samples(
    reported: Mapping[str, list[float]], now: Mapping[str, list[float]], length: int
) -> dict[str, list[float]]:
    return {name: (reported.get(name) or here)[-length:] for name, here in now.items()}


def agent_reports(
    inputs: ConsolidationInput, requests: Mapping[str, AgentRequest]
) -> AgentReports:
    """Return what the agents ask for as columns.

    Who should leave and is not on that host any more, or may not be moved, is
    passed over.
    """
    load_states = [_load_state(requests, name) for name in inputs.node_ids]
    group_rows = {
        guest.id: row for row, group in enumerate(inputs.groups) for guest in group
    }
    return AgentReports(
        overloaded=np.array(
            [each is HostLoadState.OVERLOADED for each in load_states], bool
        ),
        underloaded=np.array(
            [each is HostLoadState.UNDERLOADED for each in load_states], bool
        ),
        evictions={
            inputs.node_index[NodeId(name)]: _eviction_rows(
                inputs, group_rows, NodeId(name), request
            )
            for name, request in requests.items()
            if name in inputs.node_index
        },
    )


def _load_state(requests: Mapping[str, AgentRequest], node: NodeId) -> HostLoadState:
    request = requests.get(node)
    return (
        HostLoadState.NORMAL
        if request is None
        else HostLoadState(request["load_state"])
    )


def _eviction_rows(
    inputs: ConsolidationInput,
    group_rows: Mapping[GuestId, int],
    node: NodeId,
    request: AgentRequest,
) -> list[int]:
    node_row = inputs.node_index[node]
    candidates = [group_rows.get(GuestId(name)) for name in request["evict"]]
    rows = [row for row in candidates if row is not None]
    return [
        row
        for row in dict.fromkeys(rows)
        if inputs.guest_arrays.node_of[row] == node_row
    ]


def agent_request(
    inputs: ConsolidationInput, reports: AgentReports, node: NodeId
) -> AgentRequest:
    """Return what *node* says of itself, with the names of its guests."""
    node_row = inputs.node_index[node]
    if reports.overloaded[node_row]:
        load_state = HostLoadState.OVERLOADED
    elif reports.underloaded[node_row]:
        load_state = HostLoadState.UNDERLOADED
    else:
        load_state = HostLoadState.NORMAL
    evict = [
        g.id for row in reports.evictions.get(node_row, ()) for g in inputs.groups[row]
    ]
    return {"load_state": load_state.value, "evict": [*evict]}
