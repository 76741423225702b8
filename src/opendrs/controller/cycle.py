"""One cycle of the controller: enrich the snapshot, evaluate the policy, ask the decision source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from opendrs.controller.history import add_recent_actions, recent_actions
from opendrs.controller.in_flight import OpenMigrations, add_open_migrations
from opendrs.controller.node_inventory import fill_known_nodes, record_nodes
from opendrs.controller.policy_memory import load_memory, save_memory
from opendrs.controller.power_failures import exclude_failed_power_nodes
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import Platform, Store

MemoryT = TypeVar("MemoryT")


def enrich_snapshot(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Snapshot:
    """Return *snapshot* with what the record knows.

    That is who was moved when, what was woken when, what the nodes are that sleep,
    which are left alone because lately they were switched in vain, and which
    migrations may still be running although they are not seen.

    Raises:
        StoreError: The record cannot be read.
    """
    recent = recent_actions(store, policy.limits, snapshot.taken_at)
    counted = add_open_migrations(fill_known_nodes(snapshot, store), store)
    return add_recent_actions(exclude_failed_power_nodes(counted, store), recent)


def forget_ended_migrations(
    snapshot: Snapshot, store: Store, platform: Platform
) -> None:
    """Forget the lost migrations of which *snapshot* shows that they have ended.

    Raises:
        StoreError: The record cannot be read or kept.
    """
    OpenMigrations(store).forget_ended(fill_known_nodes(snapshot, store), platform)


@dataclass(frozen=True, slots=True)
class Evaluation(Generic[MemoryT]):
    """What was decided, and by which memory.

    Attributes:
        memory: What the policy remembered before.
        decision: What it decided.
    """

    memory: MemoryT
    decision: Decision[MemoryT]


def evaluate(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Evaluation[MemoryT]:
    """Return what *policy* decides, and keep for the next time what it remembers.

    What can be seen of the nodes is kept as well.

    Args:
        snapshot: The cluster, with what the record knows.
        policy: What decides.
        store: Where its memory is kept; each call is one cycle.

    Raises:
        StoreError: The memory cannot be read or kept, or is none of that policy.
    """
    record_nodes(snapshot, store)
    memory = load_memory(policy, store)
    decision = policy.decide(snapshot, memory)
    save_memory(policy, decision.memory, store)
    return Evaluation(memory, decision)


def decide(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Decision[MemoryT]:
    """Return the decision of `judge` alone."""
    return evaluate(snapshot, policy, store).decision


class DecisionSource(Protocol):
    """Decides in each cycle. Every method may raise `StoreError`."""

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that decides."""

    def reconcile(self) -> None:
        """Bring to an end what is open, now that nothing runs any more."""

    def evaluate(self, snapshot: Snapshot) -> Evaluation[Any]:
        """Return what to do about *snapshot*."""

    def record_decision(
        self, snapshot: Snapshot, decision: Decision[Any], run: str
    ) -> None:
        """Take note that *decision* is about to be carried out as *run*."""


class PolicyDecisionSource:
    """A policy that goes by what is seen, and by its own memory.

    Args:
        policy: The policy.
        store: Where its memory is kept.
    """

    def __init__(self, policy: Policy[Any], store: Store) -> None:
        self._policy = policy
        self._store = store

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that decides."""
        return self._policy

    def reconcile(self) -> None:
        """Do nothing: nobody waits for an answer."""

    def evaluate(self, snapshot: Snapshot) -> Evaluation[Any]:
        """Return what to do about *snapshot*."""
        return evaluate(snapshot, self._policy, self._store)

    def record_decision(
        self, snapshot: Snapshot, decision: Decision[Any], run: str
    ) -> None:
        """Do nothing, as above."""
