"""Record of the log events of a controller, for other processes.

A log handler collects the events; they are written when the loop or the steps are
polled, and so never inside another transaction.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Self

from opendrs.controller.cycle import CycleResult
from opendrs.controller.events import LOGGER, LogEventCode, MaskFilter
from opendrs.controller.observers import NullControllerObserver
from opendrs.controller.step_serialization import plain
from opendrs.errors import PlatformError, StoreError
from opendrs.ports import Clock, EventLog, EventRecord, Store

MAX_WAITING = 10_000  # events that wait while the store does not respond
BATCH = 500  # events in one transaction
RETRY_TIME = 5.0  # seconds after a failure until the store is used again


class EventRecorder(NullControllerObserver):
    """Controller observer that records the log events; used in a `with` statement.

    A store that does not respond never stops the controller: the events wait. If there
    are too many, the oldest are dropped, and their number is recorded.

    Args:
        clock: The time.
        open_log: Function that returns the event log in a store; None if it has none.
    """

    def __init__(
        self, clock: Clock, open_log: Callable[[Store], EventLog | None]
    ) -> None:
        self._clock = clock
        self._open_log = open_log
        self._log: EventLog | None = None
        self._waiting: deque[EventRecord] = deque()
        self._dropped = 0
        self._retry_at = float("-inf")
        self._lock = threading.Lock()
        self._handler = _CollectingHandler(self)
        self._former_level = logging.NOTSET

    def __enter__(self) -> Self:
        self._former_level = LOGGER.level
        LOGGER.setLevel(min(LOGGER.getEffectiveLevel(), logging.INFO))
        LOGGER.addHandler(self._handler)
        return self

    def __exit__(self, *error: object) -> None:
        LOGGER.removeHandler(self._handler)
        LOGGER.setLevel(self._former_level)

    def lease_acquired(self, store: Store) -> None:
        """Keep the event log of the store."""
        self._log = self._open_log(store)

    def loop_polled(self) -> None:
        """Record the events that wait."""
        self.flush()

    def steps_polled(self) -> None:
        """Record the events that wait."""
        self.flush()

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Record the events that wait."""
        del result, seconds
        self.flush()

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Record the events that wait."""
        del error, seconds
        self.flush()

    def collect(self, record: logging.LogRecord) -> None:
        """Keep the event of *record* until it can be recorded; of any thread."""
        event = EventRecord(
            at=self._clock.now(),
            level=record.levelname.lower(),
            code=str(getattr(record, "event", "")),
            message=record.getMessage(),
            facts=plain(getattr(record, "about", {})),
        )
        with self._lock:
            if len(self._waiting) >= MAX_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(event)

    def flush(self) -> None:
        """Record the events that wait, unless the store failed a moment ago."""
        now = self._clock.monotonic()
        if self._log is None or now < self._retry_at:
            return
        while self._waiting or self._dropped:
            with self._lock:
                events = list(islice(self._waiting, BATCH))
                dropped = self._dropped
            try:
                self._log.add([*self._lost(dropped), *events])
            except StoreError:
                self._retry_at = now + RETRY_TIME
                return
            with self._lock:
                self._dropped -= dropped
                self._remove(events)

    def _remove(self, recorded: list[EventRecord]) -> None:
        """Remove *recorded*, of which another thread may have dropped some."""
        known = set(map(id, recorded))
        while self._waiting and id(self._waiting[0]) in known:
            self._waiting.popleft()

    def _lost(self, count: int) -> list[EventRecord]:
        if not count:
            return []
        return [
            EventRecord(
                at=self._clock.now(),
                level="warning",
                code=LogEventCode.EVENTS_LOST.value,
                message=f"{count} events were not recorded: the store did not respond",
                facts={"count": count},
            )
        ]


class _CollectingHandler(logging.Handler):
    """Log handler that passes events on, with secrets masked.

    Args:
        recorder: Receives the events.
    """

    def __init__(self, recorder: EventRecorder) -> None:
        super().__init__(logging.INFO)
        self._recorder = recorder
        self.addFilter(MaskFilter())

    def emit(self, record: logging.LogRecord) -> None:
        """Collect *record*, if it is an event."""
        if getattr(record, "event", None):
            self._recorder.collect(record)
