"""The controller, as an agent sees it."""

from __future__ import annotations

from typing import Protocol

from opendrs.controller.requests.wire import GuestSamples, Request, Standing
from opendrs.errors import PlatformError, PlatformUnavailableError


class RefusedError(PlatformError):
    """The controller does not take this request; another may do.

    Attributes:
        last_sequence: Of the last request that it took, where this one had to come
            after that and does not; else None.
    """

    def __init__(self, told: str, last_sequence: int | None = None) -> None:
        super().__init__(told)
        self.last_sequence = last_sequence


class BusyError(PlatformUnavailableError):
    """The controller processes other requests first.

    Attributes:
        retry_after: Seconds after which it expects the request again.
    """

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Controller(Protocol):
    """Who takes requests; may raise `PlatformError`."""

    def deliver(self, request: Request, patience: float) -> Standing:
        """Send *request*, and for up to *patience* seconds again."""

    def standing(self, request: Request) -> Standing | None:
        """Return what became of *request*; None if there is no trace of it."""

    def samples(self, guest: str) -> GuestSamples | None:
        """Return what *guest* used where it was before; None if nobody knows."""
