"""Ctrl-C while steps run: it pulls the brake instead of ending the process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from opendrs.controller import Brake

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def pulled_by_signals(brake: Brake) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM pull *brake* inside the `with` statement."""

    def pull(number: int, frame: FrameType | None) -> None:
        del number, frame
        brake.pull()

    before = {number: signal.signal(number, pull) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
