"""Where requests are taken: written down before they are answered."""

from __future__ import annotations

import json
import logging
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from http import HTTPStatus

from opendrs.controller.requests.cases import MOST_NAMED
from opendrs.controller.requests.settings import Freshness
from opendrs.controller.requests.standing import standing
from opendrs.controller.requests.wire import (
    GuestSamples,
    Problem,
    Request,
    Standing,
    Verdict,
)
from opendrs.controller.telling import tell
from opendrs.model import GuestId, NodeId
from opendrs.model.listing import first_few
from opendrs.ports import Clock, GuestHistory, Inbox, RequestRecord, Store

KEPT = 100  # of the newest requests of each node, so that none fills the disk
AnswerBody = Standing | GuestSamples | Problem


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered.

    Attributes:
        status: As HTTP has it.
        body: What is said.
    """

    status: HTTPStatus
    body: AnswerBody


class Desk:
    """Takes requests, and tells how they stand; several threads may ask at once.

    Every method may raise `StoreError`: then nothing was taken.

    Args:
        inbox: Where requests are written down.
        store: Where it is recorded what came of them.
        clock: The time.
        freshness: How old what is said may be.
        ring: Called when a request asks for something.
    """

    def __init__(
        self,
        inbox: Inbox,
        store: Store,
        clock: Clock,
        freshness: Freshness,
        ring: Callable[[], None],
    ) -> None:
        self._inbox = inbox
        self._store = store
        self._clock = clock
        self._freshness = freshness
        self._ring = ring
        self._intervals: dict[NodeId, float] = {}  # as told last; ours if never
        self._lock = threading.Lock()  # what is accepted is judged one by one

    def take(self, request: Request, node: NodeId) -> Answer:
        """Take *request*, which the agent of *node* has sent.

        The same request again changes nothing, and is told how it stands.
        """
        if request.node != node:
            return _problem(
                HTTPStatus.FORBIDDEN, f"this is the token of {node}, not {request.node}"
            )
        digest = _digest(request)
        with self._lock:
            known = self._inbox.request(str(request.id))
            if known is not None:
                return self._known(known, digest)
            refused = self._stale(request)
            if refused is None:
                taken = self._accept(request, digest)
        if refused is not None:
            return refused
        self._announce(taken)
        self._compare_intervals(taken)
        return Answer(HTTPStatus.ACCEPTED, standing(taken, ()))

    def look_up(self, name: str, node: NodeId) -> Answer:
        """Return how the request of that id stands, if it is of *node*."""
        found = self._inbox.request(name)
        if found is None:
            return _problem(HTTPStatus.NOT_FOUND, "no such request is known any more")
        if found.node != node:
            return _problem(
                HTTPStatus.FORBIDDEN, f"this is the token of {node}, not {found.node}"
            )
        return Answer(HTTPStatus.OK, self._standing(found))

    def samples(self, guest: GuestId) -> Answer:
        """Return the newest history of *guest* that counts."""
        found = self._inbox.history(guest)
        if found is None:
            return _problem(HTTPStatus.NOT_FOUND, "nothing is known of such a guest")
        body = GuestSamples(
            interval=found.interval,
            taken_at=found.taken_at,
            samples=list(found.samples),
        )
        return Answer(HTTPStatus.OK, body)

    def _known(self, known: RequestRecord, digest: str) -> Answer:
        if known.digest != digest:
            return _problem(
                HTTPStatus.CONFLICT, "a request of this id said something else"
            )
        return Answer(HTTPStatus.OK, self._standing(known))

    def _standing(self, request: RequestRecord) -> Standing:
        records = () if request.run is None else self._store.of_run(request.run)
        return standing(request, records)

    def _stale(self, request: Request) -> Answer | None:
        """Return why *request* is not accepted for its age, or None."""
        latest = self._inbox.latest(NodeId(request.node))
        if latest is not None and request.sequence <= latest.sequence:
            why = f"not above {latest.sequence}, the last accepted of {request.node}"
            return _problem(
                HTTPStatus.PRECONDITION_FAILED,
                f"sequence {request.sequence} is {why}",
                last_sequence=latest.sequence,
            )
        age = (self._clock.now() - request.taken_at).total_seconds()
        if age > self._freshness.max_age:
            most = f"at most {self._freshness.max_age:g} s are accepted"
            why = f"its samples are {age:.0f} s old; {most}"
        elif age < -self._freshness.max_skew:
            most = f"at most {self._freshness.max_skew:g} s are accepted"
            why = (
                f"its samples are {-age:.0f} s ahead of the controller's clock; {most}"
            )
        else:
            return None
        return _problem(HTTPStatus.PRECONDITION_FAILED, why)

    def _accept(self, request: Request, digest: str) -> RequestRecord:
        now = self._clock.now()
        # What has come was taken before, whatever the agent's clock says.
        taken_at = min(request.taken_at, now)
        record = _record(request, digest, taken_at, now)
        self._inbox.accept(record, _histories(request, taken_at), keep=KEPT)
        return record

    def _announce(self, taken: RequestRecord) -> None:
        calm = taken.verdict == Verdict.CALM
        named = first_few(taken.leaving, MOST_NAMED)
        who = f": {named} should leave" if named else ""
        tell(
            "request-accepted",
            f"{taken.node}: {taken.verdict}{who}",
            level=logging.DEBUG if calm else logging.INFO,
            node=taken.node,
            id=taken.id,
            verdict=taken.verdict,
            leaving=list(taken.leaving[:MOST_NAMED]),
            leaving_count=len(taken.leaving),
        )
        if not calm:
            self._ring()

    def _compare_intervals(self, taken: RequestRecord) -> None:
        """Tell once when an agent samples at another interval than cycles have."""
        ours, theirs = self._freshness.interval, taken.interval
        before = self._intervals.get(taken.node, ours)
        self._intervals[taken.node] = theirs
        if theirs in (ours, before):
            return
        tell(
            "intervals-differ",
            f"{taken.node} samples each {theirs:g} s, and a cycle comes each "
            f"{ours:g} s: its samples are left out, and it is unknown when nothing "
            f"came for {self._freshness.silence:g} s; the two should be the same",
            level=logging.WARNING,
            node=taken.node,
            interval=theirs,
        )


def _problem(
    status: HTTPStatus, detail: str, last_sequence: int | None = None
) -> Answer:
    return Answer(status, Problem(detail=detail, last_sequence=last_sequence))


def _digest(request: Request) -> str:
    """Return what tells whether another request says the same.

    Histories are hashed one by one, as they are in memory: the text of all of them
    would take much memory and time.
    """
    rest = request.model_dump(mode="json", exclude={"samples": {"guests"}})
    digest = sha256(json.dumps(rest, sort_keys=True).encode())
    for guest, samples in sorted(request.samples.guests.items()):
        digest.update(json.dumps([guest, len(samples)]).encode())
        digest.update(struct.pack(f"<{len(samples)}d", *samples))
    return digest.hexdigest()


def _record(
    request: Request, digest: str, taken_at: datetime, now: datetime
) -> RequestRecord:
    return RequestRecord(
        id=str(request.id),
        node=NodeId(request.node),
        sequence=request.sequence,
        taken_at=taken_at,
        received_at=now,
        interval=request.samples.interval,
        digest=digest,
        verdict=request.verdict.value,
        leaving=tuple(map(GuestId, request.leaving)),
        own=tuple(request.samples.own),
    )


def _histories(request: Request, taken_at: datetime) -> list[GuestHistory]:
    return [
        GuestHistory(
            guest=GuestId(guest),
            node=NodeId(request.node),
            taken_at=taken_at,
            interval=request.samples.interval,
            samples=tuple(samples),
        )
        for guest, samples in request.samples.guests.items()
        if samples
    ]


def is_silent(request: RequestRecord, now: datetime, freshness: Freshness) -> bool:
    """Return whether too long has passed since *request*, the newest of its node."""
    return now - request.received_at > timedelta(seconds=freshness.silence)
