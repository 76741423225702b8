"""Operations that this process follows to their end.

Incus forgets an operation 5 s after its end, so a thread waits for the end of each
migration and keeps its result.
"""

from __future__ import annotations

from threading import Event, Lock

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.platforms.incus.client import MAX_WAIT, IncusClient, IncusNotFoundError
from opendrs.platforms.incus.queries import read_operation, wait_for_operation
from opendrs.platforms.incus.responses import Operation
from opendrs.transport.threads import start_thread

_RETRY_DELAY = 1.0  # seconds
_MAX_RETRIES = 60


class FollowedOperation:
    """Operation of Incus that a thread waits for.

    Args:
        client: The client.
        operation: The operation as it was last seen.
    """

    def __init__(self, client: IncusClient, operation: Operation) -> None:
        self._client = client
        self._lock = Lock()
        self._latest: Operation | None = operation
        self._retry = Event()
        start_thread(self._follow)

    @property
    def latest(self) -> Operation | None:
        """Return the operation as last seen; None if Incus forgot it before its end."""
        with self._lock:
            return self._latest

    def refresh(self) -> Operation | None:
        """Return the operation as it is now; None as for `latest`.

        Raises:
            PlatformError: It cannot be read.
        """
        latest = self.latest
        if latest is None or not latest.is_running:
            return latest
        try:
            self._record(read_operation(self._client, latest.id))
        except IncusNotFoundError:
            self._record(None)
        return self.latest

    def _record(self, operation: Operation | None) -> None:
        """Keep *operation*, unless an end is known that Incus has forgotten since."""
        with self._lock:
            known = self._latest
            if known is None or known.is_running:
                self._latest = operation

    def _follow(self) -> None:
        failures = 0
        while (latest := self.latest) is not None and latest.is_running:
            try:
                self._record(wait_for_operation(self._client, latest.id, MAX_WAIT))
                failures = 0
            except IncusNotFoundError:
                self._record(None)
            except PlatformUnavailableError:
                failures += 1
                if failures > _MAX_RETRIES:
                    return  # status() then reads it itself
                self._retry.wait(_RETRY_DELAY)
            except PlatformError:
                return
