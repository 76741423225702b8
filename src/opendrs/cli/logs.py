"""The log on standard error: one line for each event."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from opendrs.cli.options import JSON
from opendrs.controller.events import LOGGER, MaskFilter
from opendrs.escapes import escape_line, escape_text

TEXT = "text"
LEVELS = ("debug", "info", "warning", "error")

log_format_option = click.option(
    "--format",
    "output_format",
    type=click.Choice([TEXT, JSON]),
    default=TEXT,
    help="Log as text (default), or as JSON, one object for each event.",
)
level_option = click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="info",
    help="Lowest severity to log (default info).",
)


@contextmanager
def log_to_stderr(output_format: str, level: str) -> Iterator[None]:
    """Write the log to standard error in a `with` block.

    Args:
        output_format: `text` for lines of text, `json` for JSON objects.
        level: One of `LEVELS`; less severe events are omitted. Other libraries log
            only warnings.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(MaskFilter())
    handler.setLevel(level.upper())  # notifications may need less severe events
    handler.setFormatter(JsonFormatter() if output_format == JSON else TextFormatter())
    root, before = logging.getLogger(), LOGGER.level
    root.addHandler(handler)
    LOGGER.setLevel(level.upper())
    try:
        yield
    finally:
        LOGGER.setLevel(before)
        root.removeHandler(handler)


class TextFormatter(logging.Formatter):
    """Log lines as text: time, level, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* on one line, with control characters escaped."""
        text = super().format(record)
        return escape_line(f"{_timestamp(record)} {record.levelname:<8} {text}")


class JsonFormatter(logging.Formatter):
    """Log lines as JSON objects, one per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as a JSON object with the fields of the event."""
        document = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.name),
            "message": super().format(record),
        }
        fields: dict[str, object] = getattr(record, "about", {})
        return escape_text(json.dumps({**document, **fields, **document}, default=str))


def _timestamp(record: logging.LogRecord) -> str:
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
