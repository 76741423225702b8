"""One decision: a look at the cluster, what is remembered, and the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from opendrs.controller.history import past, recalled
from opendrs.controller.in_flight import InFlight, with_in_flight
from opendrs.controller.memories import keep, recall
from opendrs.controller.nodes import keep_nodes, with_known_nodes
from opendrs.controller.switches import without_the_unsure
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import Platform, Store

MemoryT = TypeVar("MemoryT")


def remembered(snapshot: Snapshot, policy: Policy[MemoryT], store: Store) -> Snapshot:
    """Return *snapshot* with what the record knows.

    That is who was moved when, what was woken when, what the nodes are that sleep,
    which are left alone because lately they were switched in vain, and which
    migrations may still be running although they are not seen.

    Raises:
        StoreError: The record cannot be read.
    """
    known = past(store, policy.limits, snapshot.taken_at)
    counted = with_in_flight(with_known_nodes(snapshot, store), store)
    return recalled(without_the_unsure(counted, store), known)


def settle_in_flight(seen: Snapshot, store: Store, platform: Platform) -> None:
    """Forget the lost migrations of which *seen* shows that they have ended.

    Raises:
        StoreError: The record cannot be read or kept.
    """
    InFlight(store).settle(with_known_nodes(seen, store), platform)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[MemoryT]):
    """What was decided, and by which memory.

    Attributes:
        memory: What the policy remembered before.
        decision: What it decided.
    """

    memory: MemoryT
    decision: Decision[MemoryT]


def judge(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Judgement[MemoryT]:
    """Return what *policy* decides, and keep for the next time what it remembers.

    What can be seen of the nodes is kept as well.

    Args:
        snapshot: The cluster, with what the record knows.
        policy: What decides.
        store: Where its memory is kept; each call is one cycle.

    Raises:
        StoreError: The memory cannot be read or kept, or is none of that policy.
    """
    keep_nodes(snapshot, store)
    memory = recall(policy, store)
    decision = policy.decide(snapshot, memory)
    keep(policy, decision.memory, store)
    return Judgement(memory, decision)


def decide(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Decision[MemoryT]:
    """Return the decision of `judge` alone."""
    return judge(snapshot, policy, store).decision
