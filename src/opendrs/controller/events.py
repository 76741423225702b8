"""Log events: one line per event, with secrets masked and repeated warnings limited."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

LOGGER = logging.getLogger("opendrs")


class LogEventCode(StrEnum):
    """Code of a log event. The values are stable."""

    CLUSTER_UNREACHABLE = "cluster-unreachable"
    """The platform did not respond. The controller retries with a backoff."""
    CLUSTER_REACHABLE = "cluster-reachable"
    """The platform responds again."""
    RECOVERY_STARTED = "recovery-started"
    """Unfinished steps of a previous run are followed to their end."""
    DECISION_MADE = "decision-made"
    """The policy was evaluated. At level debug if the decision did not change."""
    PLAN_EXECUTED = "plan-executed"
    """All steps of a plan have an outcome."""
    PLAN_PROPOSED = "plan-proposed"
    """A plan waits for the approval of an operator (mode advise)."""
    PLAN_KEPT = "plan-kept"
    """A proposed plan stays open, although a newer decision has other steps."""
    PLAN_STATE_CHANGED = "plan-state-changed"
    """The state of a plan has changed. A warning if it failed, debug if it runs."""
    MODE_CHANGED = "mode-changed"
    """The mode that applies has changed, for example by a pause."""
    SCHEDULE_CHANGED = "schedule-changed"
    """Other entries of the schedule are open than before; `entries` has the times."""
    STEP_STARTED = "step-started"
    """A step was started on the platform."""
    STEP_WAITING = "step-waiting"
    """A step is delayed, for example by a limit or an unreachable node."""
    STEP_FINISHED = "step-finished"
    """A step has an outcome. A warning if it failed, was lost or aborted."""
    STOP_REQUESTED = "stop-requested"
    """The operator requested a stop. No new step starts."""
    ABORT_REQUESTED = "abort-requested"
    """The operator requested an abort. Running steps are aborted."""
    RULES_BROKEN = "rules-broken"
    """Rules are violated, or drained nodes have guests. A warning if some remain."""
    RULES_KEPT = "rules-kept"
    """All strict rules hold, and nodes in maintenance are empty."""
    RULE_MISMATCH = "rule-mismatch"
    """A rule names a guest or node that does not exist any more."""
    TIMES_IN_FUTURE = "times-in-future"
    """Recorded times are in the future. They are treated as now."""
    CONTROLLER_STARTED = "controller-started"
    """The controller started."""
    CONTROLLER_STANDBY = "controller-standby"
    """Another controller holds the lease. This one waits until it can take over."""
    CONTROLLER_STOPPED = "controller-stopped"
    """The controller stopped. `unfinished` steps are left to the next start."""
    CONFIGURATION_LOADED = "configuration-loaded"
    """The configuration was read again and is in use; `changed` names its tables."""
    CONFIGURATION_REJECTED = "configuration-rejected"
    """The configuration was read again and is not used; `problems` has the reasons."""
    NOTIFICATION_LOST = "notification-lost"
    """Notifications are not delivered. Logged once until one is delivered again."""
    REPORT = "report"
    """A report of `opendrs report --send`; only notifications have this event."""
    METRICS_LISTENING = "metrics-listening"
    """The port for metrics and health checks accepts connections."""
    OBSERVER_FAILED = "observer-failed"
    """A part that reports about the controller failed and is no longer used."""
    COMPILED_CODE = "compiled-code"
    """State of the compiled search of the policy optimize."""
    FILE_EXPOSED = "file-exposed"
    """Other users can read or change a secret or the store."""
    PASSWORD_INLINE = "password-inline"  # noqa: S105 - a code
    """The configuration contains a password."""
    BREAKER_OPENED = "breaker-opened"
    """Too many steps failed. Plans need approval until an operator resets it."""
    API_BREAKER_OPENED = "api-breaker-opened"
    """Too many requests to the platform failed. No step starts until it answers."""
    API_BREAKER_CLOSED = "api-breaker-closed"
    """The platform has answered for a while. Steps may start again."""
    NODE_STATE_CHANGED = "node-state-changed"
    """A node does not respond any more, responds again, or is drained."""
    NODE_JOBS_RUNNING = "node-jobs-running"
    """Nodes receive no guests while jobs of the platform run on them."""
    NODE_JOBS_ENDED = "node-jobs-ended"
    """No such job runs any more."""
    API_LISTENING = "api-listening"
    """The API accepts connections."""
    API_SERVER_FAILED = "api-server-failed"
    """The server of the API ended with an error."""
    WEB_LISTENING = "web-listening"
    """The HTTP API and the dashboard accept connections."""
    SIGN_IN_FAILED = "sign-in-failed"
    """A sign-in by OpenID Connect failed: the issuer, its response, or no role."""
    WEB_STORE_FAILED = "web-store-failed"
    """A request could not be answered because the store failed."""
    JOB_FAILED = "job-failed"
    """A job of the HTTP API, such as what-if, ended without a result."""
    WEB_ENDED = "web-ended"
    """The process of the HTTP API and the dashboard ended; it is started again."""
    EVENTS_LOST = "events-lost"
    """Events were not recorded because the store did not respond; `count` of them."""
    AGENTS_UNRESPONSIVE = "agents-unresponsive"
    """Nodes have no agent request within the agent timeout."""
    AGENTS_RECOVERED = "agents-recovered"
    """Every online node has a current agent request."""
    INTERVAL_MISMATCH = "interval-mismatch"
    """The interval of an agent differs from that of the controller."""
    REQUEST_ACCEPTED = "request-accepted"
    """A request was accepted. At level debug for the load state normal."""
    REQUEST_REJECTED = "request-rejected"
    """A request was rejected; logged by the controller and by the agent."""
    REQUEST_COMPLETED = "request-completed"
    """A request was closed. At level debug for the load state normal."""
    REQUEST_STORE_FAILED = "request-store-failed"
    """A request could not be recorded."""
    REQUEST_UNAUTHORIZED = "request-unauthorized"
    """A client sent no token or an unknown token."""
    CONNECTION_REJECTED = "connection-rejected"
    """A connection was closed because too many are open."""
    CONNECTION_DROPPED = "connection-dropped"
    """A connection without a token was closed to accept another one."""
    SAMPLE_FAILED = "sample-failed"
    """The agent could not take a sample."""
    SAMPLE_GAP = "sample-gap"
    """The last sample of the agent is too old. Histories start again."""
    SAMPLES_TRUNCATED = "samples-truncated"
    """The agent sends shorter histories because a request is too large."""
    NEW_GUESTS = "new-guests"
    """The agent could not get the histories of new guests."""
    REQUEST_SENT = "request-sent"
    """The controller accepted the request of the agent."""
    REQUEST_STATUS = "request-status"
    """State of the last request of the agent."""
    SEQUENCE_RESET = "sequence-reset"
    """The agent continues after the last sequence that was accepted."""


def log_event(
    event: LogEventCode,
    message: str,
    *,
    level: int = logging.INFO,
    **fields: object,
) -> None:
    """Log one event.

    Args:
        event: Code of the event, for programs.
        message: Description of the event, for the operator.
        level: Level of the `logging` module.
        fields: Values of the event, for programs; must be serializable as JSON.
    """
    LOGGER.log(level, "%s", message, extra={"event": str(event), "about": fields})


MASK = "[a secret]"
Mask = Callable[[str], str]
_FORMATTER = logging.Formatter()
_masks: tuple[Mask, ...] = ()


@contextmanager
def mask_logs(mask: Mask) -> Iterator[None]:
    """Apply *mask* to all log messages inside the `with` statement.

    Args:
        mask: Function that returns a text with secrets replaced.
    """
    global _masks  # noqa: PLW0603 - there is one log in a process
    _masks = (*_masks, mask)
    try:
        yield
    finally:
        remaining = list(_masks)
        remaining.remove(mask)
        _masks = tuple(remaining)


class MaskFilter(logging.Filter):
    """Filter for log handlers that masks secrets in the records of all loggers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask secrets in message, fields and traceback of *record*; return True."""
        if _masks:
            record.msg, record.args = _apply_masks(record.getMessage()), None
            if hasattr(record, "about"):
                record.about = _apply_masks(record.about)
            if record.exc_info and not record.exc_text:
                record.exc_text = _FORMATTER.formatException(record.exc_info)
            record.exc_text = _apply_masks(record.exc_text)
        return True


def _apply_masks(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    if isinstance(value, str):
        for mask in _masks:
            value = mask(value)
        return value
    if isinstance(value, Mapping):
        return {_apply_masks(key): _apply_masks(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_apply_masks(each) for each in value]
    return value


REPEAT_INTERVAL = 60.0  # seconds in which the same message is logged once
MAX_MESSAGES = 100  # different messages within that time


class LogRateLimiter:
    """Rate limit for log messages: each once in `REPEAT_INTERVAL`.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def allows(self, message: str) -> bool:
        """Return True if *message* should be logged now."""
        now = time.monotonic()
        self._logged_at = {
            each: moment
            for each, moment in self._logged_at.items()
            if now - moment < REPEAT_INTERVAL
        }
        if message in self._logged_at or len(self._logged_at) >= MAX_MESSAGES:
            return False
        self._logged_at[message] = now
        return True


class RepeatedWarningFilter(logging.Filter):
    """Filter that limits repeated messages below the level error."""

    def __init__(self) -> None:
        super().__init__()
        self._rate_limiter = LogRateLimiter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if *record* should be logged."""
        if record.levelno >= logging.ERROR:
            return True
        return self._rate_limiter.allows(record.getMessage())
