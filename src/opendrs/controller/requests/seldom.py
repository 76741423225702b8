"""Telling seldom what anybody can bring about, so that nobody fills the log."""

from __future__ import annotations

import logging
import time

PAUSE = 60.0  # seconds for which the same is not told again
MOST = 100  # different things that are told in that time


class Seldom:
    """Says whether something is told now, or was just before.

    It is asked by one thread.
    """

    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def may(self, what: str) -> bool:
        """Return whether *what* is told now."""
        now = time.monotonic()
        self._told = {
            each: moment for each, moment in self._told.items() if now - moment < PAUSE
        }
        if what in self._told or len(self._told) >= MOST:
            return False
        self._told[what] = now
        return True


class SeldomWarned(logging.Filter):
    """Lets the same warning through once in a while, and all that is worse always."""

    def __init__(self) -> None:
        super().__init__()
        self._seldom = Seldom()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether *record* is logged."""
        if record.levelno >= logging.ERROR:
            return True
        return self._seldom.may(record.getMessage())
