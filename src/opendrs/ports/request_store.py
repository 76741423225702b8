"""Requests of host agents, and the protocol of their store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opendrs.model import GuestId, NodeId, Step


class RequestState(StrEnum):
    """State of a request. The values are stable."""

    QUEUED = "queued"
    """The request is recorded and waits for the next cycle."""
    EVALUATING = "evaluating"
    """The request is being evaluated."""
    EXECUTING = "executing"
    """Steps that result from the request are running."""
    DONE = "done"
    """All resulting steps are done, or none was necessary."""
    REJECTED = "rejected"
    """The request is not, or not completely, possible."""
    SUPERSEDED = "superseded"
    """A newer request of the node arrived before the evaluation."""
    FAILED = "failed"
    """A resulting step failed, was aborted or lost."""

    @property
    def closed(self) -> bool:
        """Return whether the request is finished."""
        return self not in OPEN_STATES


OPEN_STATES = (RequestState.QUEUED, RequestState.EVALUATING, RequestState.EXECUTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """Record of one request of the agent on a node.

    Attributes:
        id: Id, chosen by the agent.
        node: Node of the agent.
        sequence: Sequence number; it increases with each request of the node.
        taken_at: Time of its newest samples, by the clock of the agent; not after
            `received_at`.
        received_at: Time at which it was accepted.
        interval: Seconds between two samples.
        digest: Digest of its content, to detect a different request of the same id.
        load_state: Load state of the node: normal, underloaded or overloaded.
        evict: Guests to evict, in order of preference.
        host_overhead: CPU used by the node outside its guests, in cores, the oldest
            sample first.
        state: State of the request.
        detail: Reason of the state, for the operator.
        run: Execution that follows from it; None if there is none.
        steps: Steps of that execution that belong to it.
    """

    id: str
    node: NodeId
    sequence: int
    taken_at: datetime
    received_at: datetime
    interval: float
    digest: str
    load_state: str
    evict: tuple[GuestId, ...] = ()
    host_overhead: tuple[float, ...] = ()
    state: RequestState = RequestState.QUEUED
    detail: str = ""
    run: str | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageHistory:
    """Usage history of a guest, as last measured by the agent of a node.

    Attributes:
        guest: The guest.
        node: Node of the agent.
        taken_at: Time of the newest sample.
        interval: Seconds between two samples.
        samples: CPU used, in cores; the oldest sample first.
    """

    guest: GuestId
    node: NodeId
    taken_at: datetime
    interval: float
    samples: tuple[float, ...]


class RequestStore(Protocol):
    """Store of the requests of agents. Methods may raise `StoreError`.

    Data is safe from a crash before the method returns. Several threads may use the
    store at the same time.
    """

    def request(self, name: str) -> RequestRecord | None:
        """Return the request with id *name*, or None."""

    def latest(self, node: NodeId) -> RequestRecord | None:
        """Return the request of *node* with the highest sequence number, or None."""

    def latest_per_node(self) -> tuple[RequestRecord, ...]:
        """Return the request with the highest sequence number of each node."""

    def open_requests(self) -> tuple[RequestRecord, ...]:
        """Return the requests that are not finished, the oldest first."""

    def history(self, guest: GuestId) -> UsageHistory | None:
        """Return the valid history of *guest*, or None."""

    def histories(self, since: datetime) -> tuple[UsageHistory, ...]:
        """Return the valid histories that were taken at or after *since*."""

    def record_placements(
        self, placements: Mapping[GuestId, NodeId], since: datetime
    ) -> None:
        """Record the nodes of guests, which determine the valid histories.

        The history that a node reports for a guest is valid once the guest was observed
        on that node. It stays valid until the guest is observed on another node that
        reports it. No node can report histories for the guests of others.

        Args:
            placements: Node of each guest.
            since: Histories that were taken earlier are ignored.
        """

    def accept(
        self,
        request: RequestRecord,
        histories: Collection[UsageHistory],
        *,
        keep: int,
    ) -> None:
        """Store a new request and its histories, all or nothing.

        It supersedes the queued requests of its node, and replaces the histories that
        the node reported for the same guests. Histories of guests that were never
        observed on the node are deleted. Of its closed requests only the newest are
        kept, so that no node fills the disk.

        Args:
            request: The request.
            histories: Histories that it reports; all of its node.
            keep: Number of the newest requests of its node that are kept; at least 1.
        """

    def claim(self, names: Collection[str]) -> tuple[RequestRecord, ...]:
        """Set those of the requests *names* that are queued to evaluating; return them.

        All or nothing. Claimed requests cannot be superseded.
        """

    def update(self, requests: Collection[RequestRecord]) -> None:
        """Replace these requests by their new versions, all or nothing."""

    def prune(self, before: datetime) -> None:
        """Delete the histories that were taken before that time."""
