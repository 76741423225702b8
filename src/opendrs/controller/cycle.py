"""One decision: a look at the cluster, what is remembered, and the policy."""

from __future__ import annotations

from typing import TypeVar

from opendrs.controller.history import last_moves, recalled
from opendrs.controller.nodes import keep_nodes, with_known_nodes
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import Store

MemoryT = TypeVar("MemoryT")


def remembered(snapshot: Snapshot, policy: Policy[MemoryT], store: Store) -> Snapshot:
    """Return *snapshot* with what the record knows.

    That is who was moved when, and what the nodes are that sleep.

    Raises:
        StoreError: The record cannot be read.
    """
    moves = last_moves(store, policy.limits, snapshot.taken_at)
    return recalled(with_known_nodes(snapshot, store), moves)


def decide(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Decision[MemoryT]:
    """Return what *policy* decides, and keep for the next time what it remembers.

    What can be seen of the nodes is kept as well.

    Args:
        snapshot: The cluster, with what the record knows.
        policy: What decides.
        store: Where its memory is kept; each call is one cycle.

    Raises:
        StoreError: The memory cannot be read or kept.
    """
    keep_nodes(snapshot, store)
    key = f"memory of {policy.name}"
    saved = store.load(key)
    memory = policy.initial_memory() if saved is None else saved["memory"]
    decision = policy.decide(snapshot, memory)  # type: ignore[arg-type]  # as it was saved
    if decision.memory is not None:
        store.save(key, {"memory": decision.memory})
    return decision
