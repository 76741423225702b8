"""Secrets that no line of the log may contain, whatever it is about.

Names come from requests and platforms, and a name can be a secret that was written
into the wrong field.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

MASK = "[a secret]"
Mask = Callable[[str], str]

_FORMATTER = logging.Formatter()
_masks: tuple[Mask, ...] = ()


@contextmanager
def masked_in_logs(mask: Mask) -> Iterator[None]:
    """Apply *mask* to what is logged inside the `with` statement.

    Args:
        mask: Returns a text without the secrets that it knows.
    """
    global _masks  # noqa: PLW0603 - there is one log in a process
    _masks = (*_masks, mask)
    try:
        yield
    finally:
        kept = list(_masks)
        kept.remove(mask)
        _masks = tuple(kept)


class MaskFilter(logging.Filter):
    """Masks secrets in records of all loggers; it belongs on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let *record* pass, without secrets in message, fields and traceback."""
        if _masks:
            record.msg, record.args = _masked(record.getMessage()), None
            if hasattr(record, "about"):
                record.about = _masked(record.about)
            if record.exc_info and not record.exc_text:
                record.exc_text = _FORMATTER.formatException(record.exc_info)
            record.exc_text = _masked(record.exc_text)
        return True


def _masked(value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
    if isinstance(value, str):
        for mask in _masks:
            value = mask(value)
        return value
    if isinstance(value, Mapping):
        return {_masked(key): _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(each) for each in value]
    return value
