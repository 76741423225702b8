"""Log events: one line per event, with secrets masked and repeated warnings limited."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

LOGGER = logging.getLogger("opendrs")


def log_event(
    event: str, message: str, *, level: int = logging.INFO, **fields: object
) -> None:
    """Log one event.

    Args:
        event: What kind of event, for programs; never renamed.
        message: What happened, in words for the operator.
        level: How much it matters, as `logging` has it.
        fields: What it is about, for programs; can be written as JSON.
    """
    LOGGER.log(level, "%s", message, extra={"event": event, "about": fields})


MASK = "[a secret]"
Mask = Callable[[str], str]
_FORMATTER = logging.Formatter()
_masks: tuple[Mask, ...] = ()


@contextmanager
def mask_logs(mask: Mask) -> Iterator[None]:
    """Apply *mask* to what is logged inside the `with` statement.

    Args:
        mask: Returns a text without the secrets that it knows.
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
    """Masks secrets in records of all loggers; it belongs on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let *record* pass, without secrets in message, fields and traceback."""
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


REPEAT_INTERVAL = 60.0  # seconds for which the same is not told again
MAX_MESSAGES = 100  # different things that are told in that time


class LogRateLimiter:
    """Says whether something is told now, or was just before.

    It is asked by one thread.
    """

    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def allows(self, message: str) -> bool:
        """Return whether *message* is told now."""
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
    """Lets the same warning through once in a while, and all that is worse always."""

    def __init__(self) -> None:
        super().__init__()
        self._rate_limiter = LogRateLimiter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether *record* is logged."""
        if record.levelno >= logging.ERROR:
            return True
        return self._rate_limiter.allows(record.getMessage())
