"""Steps of one cycle: enrich the snapshot, evaluate the policy, keep its memory."""

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
    """Return *snapshot* completed with information from the store.

    Added are the times of recent migrations and power-ons, the capacity of nodes
    that are powered off, and migrations that may be running without being visible.
    Nodes that recently failed to power on or off are excluded.

    Raises:
        StoreError: The store cannot be read.
    """
    recent = recent_actions(store, policy.limits, snapshot.taken_at)
    counted = add_open_migrations(fill_known_nodes(snapshot, store), store)
    return add_recent_actions(exclude_failed_power_nodes(counted, store), recent)


def forget_ended_migrations(
    snapshot: Snapshot, store: Store, platform: Platform
) -> None:
    """Remove lost migrations from the store if *snapshot* shows that they ended.

    Raises:
        StoreError: The store cannot be read or written.
    """
    OpenMigrations(store).forget_ended(fill_known_nodes(snapshot, store), platform)


@dataclass(frozen=True, slots=True)
class Evaluation(Generic[MemoryT]):
    """A decision with the memory it was based on.

    Attributes:
        memory: Memory of the policy before the decision.
        decision: The decision.
    """

    memory: MemoryT
    decision: Decision[MemoryT]


def evaluate(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Evaluation[MemoryT]:
    """Evaluate *policy* for one cycle and save its memory.

    The visible nodes are saved in the node inventory as well.

    Args:
        snapshot: The cluster, as returned by `enrich_snapshot`.
        policy: The policy.
        store: Contains the memory of the policy; each call is one cycle.

    Raises:
        StoreError: The memory cannot be read or written, or does not fit the policy.
    """
    record_nodes(snapshot, store)
    memory = load_memory(policy, store)
    decision = policy.decide(snapshot, memory)
    save_memory(policy, decision.memory, store)
    return Evaluation(memory, decision)


def decide(
    snapshot: Snapshot, policy: Policy[MemoryT], store: Store
) -> Decision[MemoryT]:
    """Return only the decision of `evaluate`."""
    return evaluate(snapshot, policy, store).decision


class DecisionSource(Protocol):
    """Source of the decision in each cycle. Every method may raise `StoreError`."""

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that is evaluated."""

    def reconcile(self) -> None:
        """Settle open requests; called while no step is running."""

    def evaluate(self, snapshot: Snapshot) -> Evaluation[Any]:
        """Return the decision about *snapshot*."""

    def record_decision(
        self, snapshot: Snapshot, decision: Decision[Any], run: str
    ) -> None:
        """Record that *decision* is about to be executed as *run*."""


class PolicyDecisionSource:
    """Decision source that evaluates a policy without agent requests.

    Args:
        policy: The policy.
        store: Contains the memory of the policy.
    """

    def __init__(self, policy: Policy[Any], store: Store) -> None:
        self._policy = policy
        self._store = store

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that is evaluated."""
        return self._policy

    def reconcile(self) -> None:
        """Do nothing: there are no requests to settle."""

    def evaluate(self, snapshot: Snapshot) -> Evaluation[Any]:
        """Return the decision about *snapshot*."""
        return evaluate(snapshot, self._policy, self._store)

    def record_decision(
        self, snapshot: Snapshot, decision: Decision[Any], run: str
    ) -> None:
        """Do nothing: there are no requests to update."""
