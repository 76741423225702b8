"""Circuit breaker for the API of the platform: no step starts while requests fail.

A platform that fails now and then would start a migration, and then not answer what
became of it. The breaker closes by itself once the platform has answered for a while.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.modes import API_BREAKER_KEY, open_api_breaker
from opendrs.errors import PlatformUnavailableError
from opendrs.model import Action, Protection, Snapshot, format_count, time_as_text
from opendrs.ports import Clock, Platform, Store, TaskId, TaskStatus


class ApiBreaker:
    """Circuit breaker that counts the failed requests to the platform.

    While it is open, its entry in the store makes the mode observe, also after a
    restart.

    Args:
        store: Contains its state.
        clock: The time.
        protection: Number of failed requests, their window, and the time to recover.

    Source:
        Nygard, Release It!, second edition, section "Circuit Breaker".
    """

    def __init__(self, store: Store, clock: Clock, protection: Protection) -> None:
        self._store = store
        self._clock = clock
        self.protection = protection
        self._errors: deque[float] = deque()
        self._last_error = clock.monotonic()
        self._is_open = self._open_entry() is not None

    def record_error(self, error: PlatformUnavailableError) -> None:
        """Count a failed request; open the breaker if there are too many.

        Raises:
            StoreError: The store cannot be read or written.
        """
        now, window = self._clock.monotonic(), self.protection.api_error_window
        self._last_error = now
        self._errors.append(now)
        while self._errors[0] < now - window:
            self._errors.popleft()
        if len(self._errors) < self.protection.max_api_errors:
            return
        self._is_open = True
        if self._open_entry() is not None:
            return
        detail = (
            f"{format_count(len(self._errors), 'failed request')} to the platform "
            f"within {window:.0f} s, last: {error}"
        )
        at = time_as_text(self._clock.now())
        self._store.save(API_BREAKER_KEY, {"opened_at": at, "detail": detail})
        log_event(
            LogEventCode.API_BREAKER_OPENED,
            f"API circuit breaker opened: {detail}; no step starts until the platform "
            f"has answered for {self.protection.api_recovery_time:.0f} s",
            level=logging.ERROR,
            failures=len(self._errors),
        )

    def record_success(self) -> None:
        """Close the breaker if the platform has answered for long enough.

        Raises:
            StoreError: The store cannot be written.
        """
        if not self._is_open:
            return
        seconds = self._clock.monotonic() - self._last_error
        if seconds < self.protection.api_recovery_time:
            return
        self._is_open = False
        self._errors.clear()
        entry = self._open_entry()
        if entry is None:  # an operator was faster
            return
        closed = {**entry, "closed_at": time_as_text(self._clock.now())}
        self._store.replace(API_BREAKER_KEY, entry, closed)
        log_event(
            LogEventCode.API_BREAKER_CLOSED,
            "API circuit breaker closed: the platform has answered for "
            f"{seconds:.0f} s",
        )

    def _open_entry(self) -> Mapping[str, object] | None:
        """Return the entry in the store if the breaker is open, otherwise None."""
        return open_api_breaker(self._store.load_all(API_BREAKER_KEY))


class MonitoredPlatform:
    """Platform whose failed requests are counted by a circuit breaker.

    Args:
        platform: The platform.
        breaker: Counts the requests.
    """

    def __init__(self, platform: Platform, breaker: ApiBreaker) -> None:
        self._platform = platform
        self._breaker = breaker

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._platform.name

    def observe(self) -> Snapshot:
        """Return the current state of the cluster."""
        with self._request():
            return self._platform.observe()

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once."""
        with self._request():
            return self._platform.start(action)

    def find(self, action: Action) -> TaskId:
        """Return the task id of *action*; start nothing."""
        with self._request():
            return self._platform.find(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""
        with self._request():
            return self._platform.status(task)

    def abort(self, task: TaskId) -> None:
        """Request to abort *task*."""
        with self._request():
            self._platform.abort(task)

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Count a request in a `with` block as failed, or as answered."""
        try:
            yield
        except PlatformUnavailableError as error:
            self._breaker.record_error(error)
            raise
        self._breaker.record_success()
