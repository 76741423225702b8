"""Work that goes on while its caller waits, or no longer waits, for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def start_thread(work: Callable[[], T]) -> Future[T]:
    """Start *work* in a thread that does not keep the process alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 -- raised where it is awaited
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future
