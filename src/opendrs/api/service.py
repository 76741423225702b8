"""Service that accepts agent requests, records them, and reports their status."""

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

from opendrs.api.problems import STATUS, ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.config.api_schema import (
    ActionBody,
    GuestSamples,
    RequestBody,
    RequestStatus,
    StepOutcome,
)
from opendrs.config.settings import StalenessLimits
from opendrs.controller.agent_requests import MAX_NAMED, NEVER_STARTED
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.step_serialization import action_document
from opendrs.model import GuestId, LoadState, NodeId, Step, format_list
from opendrs.ports import (
    Clock,
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
    """Return the status of *request* as a response body.

    Args:
        request: The request.
        records: Step records of the execution of its steps.
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


MAX_KEPT_REQUESTS = 100  # of each node, so that no node fills the disk

ResponseBody = RequestStatus | GuestSamples | ProblemError


@dataclass(frozen=True, slots=True)
class ServiceResponse:
    """Response of the service.

    Attributes:
        status: HTTP status.
        body: Response body, or the problem.
    """

    status: HTTPStatus
    body: ResponseBody


class RequestService:
    """Service that accepts requests and reports their status; thread-safe.

    Every method may raise `StoreError`; nothing was accepted then.

    Args:
        request_store: Records the requests.
        store: Contains the step records.
        clock: The time.
        limits: Validity of requests and samples.
        notify: Function that is called for each load state other than normal.
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
        self._intervals: dict[NodeId, float] = {}  # last one of each agent
        self._lock = threading.Lock()  # requests are checked and accepted one by one

    def submit(self, request: RequestBody, node: NodeId) -> ServiceResponse:
        """Accept *request* of the agent of *node*.

        A repeated request has no effect and returns the status.
        """
        if request.node != node:
            return _wrong_token_problem(node, NodeId(request.node))
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
        """Return the status of the request with the id *name*, if it is of *node*."""
        record = self._request_store.request(name)
        if record is None:
            return _problem(ApiProblem.NOT_FOUND, f"unknown request: {name}")
        if record.node != node:
            return _wrong_token_problem(node, record.node)
        return ServiceResponse(HTTPStatus.OK, self._status(record))

    def get_samples(self, guest: GuestId) -> ServiceResponse:
        """Return the current sample history of *guest*."""
        history = self._request_store.history(guest)
        if history is None:
            return _problem(ApiProblem.NOT_FOUND, "no samples of this guest")
        body = GuestSamples(
            interval=history.interval,
            taken_at=history.taken_at,
            samples=list(history.samples),
        )
        return ServiceResponse(HTTPStatus.OK, body)

    def _repeat_response(self, existing: RequestRecord, digest: str) -> ServiceResponse:
        if existing.digest != digest:
            detail = "id: already used by a request with other content"
            return _problem(ApiProblem.ID_CONFLICT, detail)
        return ServiceResponse(HTTPStatus.OK, self._status(existing))

    def _status(self, request: RequestRecord) -> RequestStatus:
        records = () if request.run is None else self._store.records_of(request.run)
        return request_status(request, records)

    def _stale_problem(self, request: RequestBody) -> ServiceResponse | None:
        """Return the problem of a stale *request*, or None."""
        latest = self._request_store.latest(NodeId(request.node))
        if latest is not None and request.sequence <= latest.sequence:
            return _problem(
                ApiProblem.REQUEST_STALE,
                f"sequence: expected above {latest.sequence}, the last accepted of "
                f"{request.node}, got {request.sequence}",
                last_sequence=latest.sequence,
            )
        age = (self._clock.now() - request.taken_at).total_seconds()
        if age > self._limits.max_sample_age:
            code = ApiProblem.SAMPLES_TOO_OLD
            detail = (
                "taken_at: expected samples of at most "
                f"{self._limits.max_sample_age:g} s before now, got {age:.0f} s"
            )
        elif age < -self._limits.max_clock_skew:
            code = ApiProblem.CLOCK_AHEAD
            detail = (
                f"taken_at: expected at most {self._limits.max_clock_skew:g} s ahead "
                f"of the clock of the controller, got {-age:.0f} s"
            )
        else:
            return None
        return _problem(code, detail)

    def _accept(self, request: RequestBody, digest: str) -> RequestRecord:
        now = self._clock.now()
        # The samples cannot be newer than now, even if the agent's clock is ahead.
        taken_at = min(request.taken_at, now)
        record = _record(request, digest, taken_at, now)
        self._request_store.accept(
            record, _histories(request, taken_at), keep=MAX_KEPT_REQUESTS
        )
        return record

    def _log_accepted(self, record: RequestRecord) -> None:
        is_normal = record.load_state == LoadState.NORMAL
        named = format_list(record.evict, MAX_NAMED)
        suffix = f"; evict {named}" if named else ""
        log_event(
            LogEventCode.REQUEST_ACCEPTED,
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
        """Log once if an agent samples at another interval than that of the cycles."""
        ours, theirs = self._limits.interval, record.interval
        previous = self._intervals.get(record.node, ours)
        self._intervals[record.node] = theirs
        if theirs in (ours, previous):
            return
        log_event(
            LogEventCode.INTERVAL_MISMATCH,
            f"{record.node}: agent.interval: expected {ours:g} s, the interval of the "
            f"controller, got {theirs:g} s; its samples are ignored, and the agent is "
            f"unresponsive after {self._limits.agent_timeout:g} s without a request",
            level=logging.WARNING,
            node=record.node,
            interval=theirs,
        )


def _problem(
    code: ApiProblem, detail: str, last_sequence: int | None = None
) -> ServiceResponse:
    problem = ProblemError(code, detail, last_sequence=last_sequence)
    return ServiceResponse(STATUS[code], problem)


def _wrong_token_problem(node: NodeId, expected: NodeId) -> ServiceResponse:
    detail = f"token: expected that of {expected}, got {node}"
    return _problem(ApiProblem.TOKEN_MISMATCH, detail)


def _digest(request: RequestBody) -> str:
    """Return a hash of the content, to detect another request with the same id.

    Histories are hashed one by one in binary form: the text of all histories would
    take too much memory and time.
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
