"""Telling what happens: one line of the log for each event."""

from __future__ import annotations

import logging

LOGGER = logging.getLogger("opendrs")


def tell(
    event: str, message: str, *, level: int = logging.INFO, **about: object
) -> None:
    """Log one event.

    Args:
        event: What kind of event, for programs; never renamed.
        message: What happened, in words for the operator.
        level: How much it matters, as `logging` has it.
        about: What it is about, for programs; can be written as JSON.
    """
    LOGGER.log(level, "%s", message, extra={"event": event, "about": about})
