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

LEVELS = ("debug", "info", "warning", "error")

level_option = click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="info",
    help="What matters less is not told.",
)


@contextmanager
def log_to_stderr(output_format: str, level: str) -> Iterator[None]:
    """Write the log to standard error inside the `with` statement.

    Args:
        output_format: Lines for people, or for programs as JSON.
        level: One of `LEVELS`: what matters less is left out. Of other libraries
            only warnings are told.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(MaskFilter())
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
    """Lines for people: time, level, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* on one line, with nothing that a terminal would obey."""
        text = super().format(record)
        return escape_line(f"{_timestamp(record)} {record.levelname:<8} {text}")


class JsonFormatter(logging.Formatter):
    """Lines for programs: one JSON object each."""

    def format(self, record: logging.LogRecord) -> str:
        """Return *record* as a JSON object: what it is about, and what it says."""
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
