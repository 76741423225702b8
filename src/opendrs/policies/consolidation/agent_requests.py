"""Requests of host agents, and the cluster-wide reports compiled from them.

The roles are those of OpenStack Neat: the agent of a host reports its load state and
the guests to evict, and their targets are decided for all hosts together. Unlike in
Neat, an overload has priority over an underload, a host whose agent is unresponsive is
unknown, and the requests of one cycle are decided together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict

import numpy as np

from opendrs.model import GuestId, LoadState, NodeId, NodeState, Snapshot
from opendrs.policies.consolidation.input import AgentReports, ConsolidationInput
from opendrs.policies.consolidation.memory import (
    ConsolidationMemory,
    append_sample,
    empty_memory,
)


class AgentRequest(TypedDict):
    """Request of one agent; JSON-able.

    Attributes:
        load_state: Value of a `LoadState`.
        evict: Ids of the guests to evict, in order of preference.
    """

    load_state: str
    evict: list[str]


class AgentInput(TypedDict):
    """Samples and requests of all agents that responded; JSON-able.

    Attributes:
        guests: CPU used by each guest, in cores, oldest sample first.
        nodes: CPU used by each node outside its guests, in cores.
        requests: Request of the agent of each node. A node without one is
            unknown.
    """

    guests: dict[str, list[float]]
    nodes: dict[str, list[float]]
    requests: dict[str, AgentRequest]


def exclude_unresponsive(
    snapshot: Snapshot, requests: Mapping[str, AgentRequest]
) -> Snapshot:
    """Return *snapshot* with the nodes of unresponsive agents in state unknown."""
    unresponsive = {
        name: replace(node, state=NodeState.UNKNOWN)
        for name, node in snapshot.nodes.items()
        if node.online and name not in requests
    }
    return replace(snapshot, nodes={**snapshot.nodes, **unresponsive})


def merge_samples(
    snapshot: Snapshot, memory: AgentInput, length: int
) -> ConsolidationMemory:
    """Return the memory of all nodes and guests, with at least one sample each.

    Where no agent reported a sample, the current measurement is the first one.

    Args:
        snapshot: Current state of the cluster.
        memory: Samples sent by the agents.
        length: Number of samples to keep.
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
    """Return the requests of the agents as arrays.

    Evictions of guests that left the node or may not migrate are ignored.
    """
    index = inputs.cluster.index
    load_states = [_load_state(requests, name) for name in index]
    return AgentReports(
        overloaded=np.array(
            [each is LoadState.OVERLOADED for each in load_states], bool
        ),
        underloaded=np.array(
            [each is LoadState.UNDERLOADED for each in load_states], bool
        ),
        evictions={
            index[NodeId(name)]: _eviction_rows(inputs, NodeId(name), request)
            for name, request in requests.items()
            if name in index
        },
    )


def _load_state(requests: Mapping[str, AgentRequest], node: NodeId) -> LoadState:
    request = requests.get(node)
    return LoadState.NORMAL if request is None else LoadState(request["load_state"])


def _eviction_rows(
    inputs: ConsolidationInput, node: NodeId, request: AgentRequest
) -> list[int]:
    node_row, group_of = inputs.cluster.index[node], inputs.cluster.group_of
    candidates = [group_of.get(GuestId(name)) for name in request["evict"]]
    rows = [row for row in candidates if row is not None]
    return [
        row
        for row in dict.fromkeys(rows)
        if inputs.guest_arrays.node_of[row] == node_row
    ]


def agent_request(
    inputs: ConsolidationInput, reports: AgentReports, node: NodeId
) -> AgentRequest:
    """Return the request of *node*, with the ids of the guests to evict."""
    cluster = inputs.cluster
    node_row = cluster.index[node]
    if reports.overloaded[node_row]:
        load_state = LoadState.OVERLOADED
    elif reports.underloaded[node_row]:
        load_state = LoadState.UNDERLOADED
    else:
        load_state = LoadState.NORMAL
    evict = [
        g.id
        for row in reports.evictions.get(node_row, ())
        for g in inputs.cluster.groups[row]
    ]
    return {"load_state": load_state.value, "evict": [*evict]}
