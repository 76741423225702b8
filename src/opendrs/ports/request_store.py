"""Requests of host agents, and the protocol of their store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from opendrs.model import GuestId, NodeId, Step


class RequestState(StrEnum):
    """How a request stands; shown to people and kept in records, so never renamed."""

    QUEUED = "queued"
    EVALUATING = "evaluating"
    EXECUTING = "executing"
    DONE = "done"
    REJECTED = "rejected"
    SUPERSEDED = "superseded"
    FAILED = "failed"

    @property
    def closed(self) -> bool:
        """Return whether nothing more will come of it."""
        return self not in OPEN_STATES


OPEN_STATES = (RequestState.QUEUED, RequestState.EVALUATING, RequestState.EXECUTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What is kept of one request of the agent on a node.

    Attributes:
        id: Chosen by the agent.
        node: The node.
        sequence: Grows from one request of the node to the next.
        taken_at: When its newest samples were taken, by the agent's clock; not after
            it was accepted.
        received_at: When it was accepted.
        interval: Seconds from one of its samples to the next.
        digest: Tells whether another of the same id says the same.
        load_state: What the agent finds: calm, underloaded or overloaded.
        evict: Who should leave, the first first.
        host_overhead: CPU that the node used outside its guests, the oldest sample first.
        state: How it stands.
        detail: Why, in words.
        run: The execution that follows from it; None while there is none.
        steps: What that execution is to do because of it.
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
    """What a guest has used, as the agent of a node measured it last.

    Attributes:
        guest: The guest.
        node: The node whose agent tells it.
        taken_at: When the newest sample was taken.
        interval: Seconds from one sample to the next.
        samples: CPU it used, in cores; the oldest first.
    """

    guest: GuestId
    node: NodeId
    taken_at: datetime
    interval: float
    samples: tuple[float, ...]


class RequestStore(Protocol):
    """The requests that agents have sent. May raise `StoreError`.

    What is kept is safe from a crash before the method returns. Several threads
    may use it at once.
    """

    def request(self, name: str) -> RequestRecord | None:
        """Return the request of that id, or None."""

    def latest(self, node: NodeId) -> RequestRecord | None:
        """Return the request of the highest sequence of *node*, or None."""

    def latest_per_node(self) -> tuple[RequestRecord, ...]:
        """Return the request of the highest sequence of each node."""

    def open_requests(self) -> tuple[RequestRecord, ...]:
        """Return the requests of which something may still come, the oldest first."""

    def history(self, guest: GuestId) -> UsageHistory | None:
        """Return the history of *guest* that counts, or None."""

    def histories(self, since: datetime) -> tuple[UsageHistory, ...]:
        """Return those histories that count, and were taken at or after *since*."""

    def record_placements(
        self, placements: Mapping[GuestId, NodeId], since: datetime
    ) -> None:
        """Take note of where guests are, by which it is told whose history counts.

        What a node tells of a guest counts once that guest was seen on it, and until
        the guest is seen on another that tells of it. Nobody can speak for guests of
        others.

        Args:
            placements: The node of each guest.
            since: A history that was taken before tells nothing.
        """

    def accept(
        self,
        request: RequestRecord,
        histories: Collection[UsageHistory],
        *,
        keep: int,
    ) -> None:
        """Keep a new request and its histories, all or nothing.

        Requests of its node that are still queued are superseded by it, and what its
        node told of the same guests before is replaced. The histories are of its node.
        What its node told of guests that were never seen on it is forgotten, and so
        are its closed requests but the newest, so that no node fills the disk.

        Args:
            request: The request.
            histories: What it tells of guests.
            keep: How many of the newest requests of its node are kept; at least 1.
        """

    def claim(self, names: Collection[str]) -> tuple[RequestRecord, ...]:
        """Return those of these requests that were still queued: deciding by now.

        All or nothing, so that none of them can be superseded any more.
        """

    def update(self, requests: Collection[RequestRecord]) -> None:
        """Replace these requests by what they are now, all or nothing."""

    def prune(self, before: datetime) -> None:
        """Forget the histories that were taken before that."""


class LoadState(StrEnum):
    """What a node's agent finds of its node."""

    NORMAL = "normal"
    UNDERLOADED = "underloaded"
    OVERLOADED = "overloaded"
