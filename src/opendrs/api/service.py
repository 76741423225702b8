"""Accept agent requests and report their status; a request is recorded before it is answered."""

from __future__ import annotations

import json
import logging
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from uuid import UUID

from opendrs.api.schema import (
    ActionBody,
    GuestSamples,
    ProblemDetails,
    RequestBody,
    RequestStatus,
    StepOutcome,
)
from opendrs.config.settings import StalenessLimits
from opendrs.controller.agent_requests import MAX_NAMED, NEVER_STARTED
from opendrs.controller.events import log_event
from opendrs.controller.serialization import action_document
from opendrs.model import GuestId, NodeId, Step, format_list
from opendrs.ports import (
    Clock,
    LoadState,
    Outcome,
    RequestRecord,
    RequestState,
    RequestStore,
    StepRecord,
    Store,
    UsageHistory,
)


def request_status(
    request: RequestRecord, records: Iterable[StepRecord]
) -> RequestStatus:
    """Return how *request* stands.

    Args:
        request: The request.
        records: What is recorded of the execution that follows from it.
    """
    of_step = {record.step: record for record in records}
    return RequestStatus(
        id=UUID(request.id),
        state=request.state,
        detail=request.detail,
        steps=[
            _step_outcome(step, of_step.get(step.id), request.state)
            for step in request.steps
        ],
    )


def _step_outcome(
    step: Step, record: StepRecord | None, state: RequestState
) -> StepOutcome:
    action = ActionBody.model_validate(action_document(step.action))
    if record is not None:
        outcome, detail = record.outcome, record.detail
    elif state.closed:
        outcome, detail = Outcome.SKIPPED, NEVER_STARTED
    else:
        outcome, detail = None, ""
    return StepOutcome(id=step.id, action=action, outcome=outcome, detail=detail)


MAX_KEPT_REQUESTS = (
    100  # of the newest requests of each node, so that none fills the disk
)

ResponseBody = RequestStatus | GuestSamples | ProblemDetails


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """What is answered.

    Attributes:
        status: As HTTP has it.
        body: What is said.
    """

    status: HTTPStatus
    body: ResponseBody


class RequestService:
    """Takes requests, and tells how they stand; several threads may ask at once.

    Every method may raise `StoreError`: then nothing was taken.

    Args:
        request_store: Where requests are written down.
        store: Where it is recorded what came of them.
        clock: The time.
        limits: How old what is said may be.
        notify: Called when a request asks for something.
    """

    def __init__(
        self,
        request_store: RequestStore,
        store: Store,
        clock: Clock,
        limits: StalenessLimits,
        notify: Callable[[], None],
    ) -> None:
        self._request_store = request_store
        self._store = store
        self._clock = clock
        self._limits = limits
        self._notify = notify
        self._intervals: dict[NodeId, float] = {}  # as told last; ours if never
        self._lock = threading.Lock()  # what is accepted is judged one by one

    def submit(self, request: RequestBody, node: NodeId) -> ServiceResponse:
        """Take *request*, which the agent of *node* has sent.

        The same request again changes nothing, and is told how it stands.
        """
        if request.node != node:
            return _problem(
                HTTPStatus.FORBIDDEN, f"this is the token of {node}, not {request.node}"
            )
        digest = _digest(request)
        with self._lock:
            existing = self._request_store.request(str(request.id))
            if existing is not None:
                return self._repeat_response(existing, digest)
            problem = self._stale_problem(request)
            if problem is None:
                record = self._accept(request, digest)
        if problem is not None:
            return problem
        self._log_accepted(record)
        self._compare_intervals(record)
        return ServiceResponse(HTTPStatus.ACCEPTED, request_status(record, ()))

    def get_status(self, name: str, node: NodeId) -> ServiceResponse:
        """Return how the request of that id stands, if it is of *node*."""
        record = self._request_store.request(name)
        if record is None:
            return _problem(HTTPStatus.NOT_FOUND, "no such request is known any more")
        if record.node != node:
            return _problem(
                HTTPStatus.FORBIDDEN, f"this is the token of {node}, not {record.node}"
            )
        return ServiceResponse(HTTPStatus.OK, self._status(record))

    def get_samples(self, guest: GuestId) -> ServiceResponse:
        """Return the newest history of *guest* that counts."""
        history = self._request_store.history(guest)
        if history is None:
            return _problem(HTTPStatus.NOT_FOUND, "nothing is known of such a guest")
        body = GuestSamples(
            interval=history.interval,
            taken_at=history.taken_at,
            samples=list(history.samples),
        )
        return ServiceResponse(HTTPStatus.OK, body)

    def _repeat_response(self, existing: RequestRecord, digest: str) -> ServiceResponse:
        if existing.digest != digest:
            return _problem(
                HTTPStatus.CONFLICT, "a request of this id said something else"
            )
        return ServiceResponse(HTTPStatus.OK, self._status(existing))

    def _status(self, request: RequestRecord) -> RequestStatus:
        records = () if request.run is None else self._store.records_of(request.run)
        return request_status(request, records)

    def _stale_problem(self, request: RequestBody) -> ServiceResponse | None:
        """Return why *request* is not accepted for its age, or None."""
        latest = self._request_store.latest(NodeId(request.node))
        if latest is not None and request.sequence <= latest.sequence:
            detail = f"not above {latest.sequence}, the last accepted of {request.node}"
            return _problem(
                HTTPStatus.PRECONDITION_FAILED,
                f"sequence {request.sequence} is {detail}",
                last_sequence=latest.sequence,
            )
        age = (self._clock.now() - request.taken_at).total_seconds()
        if age > self._limits.max_sample_age:
            limit = f"at most {self._limits.max_sample_age:g} s are accepted"
            detail = f"its samples are {age:.0f} s old; {limit}"
        elif age < -self._limits.max_clock_skew:
            limit = f"at most {self._limits.max_clock_skew:g} s are accepted"
            detail = (
                f"its samples are {-age:.0f} s ahead of the controller's clock; {limit}"
            )
        else:
            return None
        return _problem(HTTPStatus.PRECONDITION_FAILED, detail)

    def _accept(self, request: RequestBody, digest: str) -> RequestRecord:
        now = self._clock.now()
        # What has come was taken before, whatever the agent's clock says.
        taken_at = min(request.taken_at, now)
        record = _record(request, digest, taken_at, now)
        self._request_store.accept(
            record, _histories(request, taken_at), keep=MAX_KEPT_REQUESTS
        )
        return record

    def _log_accepted(self, record: RequestRecord) -> None:
        is_normal = record.load_state == LoadState.NORMAL
        named = format_list(record.evict, MAX_NAMED)
        suffix = f": {named} should leave" if named else ""
        log_event(
            "request-accepted",
            f"{record.node}: {record.load_state}{suffix}",
            level=logging.DEBUG if is_normal else logging.INFO,
            node=record.node,
            id=record.id,
            load_state=record.load_state,
            evict=list(record.evict[:MAX_NAMED]),
            evict_count=len(record.evict),
        )
        if not is_normal:
            self._notify()

    def _compare_intervals(self, record: RequestRecord) -> None:
        """Tell once when an agent samples at another interval than cycles have."""
        ours, theirs = self._limits.interval, record.interval
        previous = self._intervals.get(record.node, ours)
        self._intervals[record.node] = theirs
        if theirs in (ours, previous):
            return
        log_event(
            "interval-mismatch",
            f"{record.node} samples each {theirs:g} s, and a cycle comes each "
            f"{ours:g} s: its samples are left out, and it is unknown when nothing "
            f"came for {self._limits.agent_timeout:g} s; the two should be the same",
            level=logging.WARNING,
            node=record.node,
            interval=theirs,
        )


def _problem(
    status: HTTPStatus, detail: str, last_sequence: int | None = None
) -> ServiceResponse:
    return ServiceResponse(
        status, ProblemDetails(detail=detail, last_sequence=last_sequence)
    )


def _digest(request: RequestBody) -> str:
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
    request: RequestBody, digest: str, taken_at: datetime, now: datetime
) -> RequestRecord:
    return RequestRecord(
        id=str(request.id),
        node=NodeId(request.node),
        sequence=request.sequence,
        taken_at=taken_at,
        received_at=now,
        interval=request.samples.interval,
        digest=digest,
        load_state=request.load_state.value,
        evict=tuple(map(GuestId, request.evict)),
        host_overhead=tuple(request.samples.host_overhead),
    )


def _histories(request: RequestBody, taken_at: datetime) -> list[UsageHistory]:
    return [
        UsageHistory(
            guest=GuestId(guest),
            node=NodeId(request.node),
            taken_at=taken_at,
            interval=request.samples.interval,
            samples=tuple(samples),
        )
        for guest, samples in request.samples.guests.items()
        if samples
    ]
