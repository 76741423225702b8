"""Background threads, which a caller may abandon after a timeout."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

from opendrs.errors import OpenDRSError

T = TypeVar("T")


def start_thread(work: Callable[[], T]) -> Future[T]:
    """Run *work* in a daemon thread and return its future."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 -- raised by result()
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


def error_text(work: Callable[[], None]) -> str | None:
    """Run *work* and return its error message; None if it succeeds."""
    try:
        work()
    except OpenDRSError as error:
        return str(error)
    return None
