"""Delivery of log events as notifications, without delaying the controller."""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from opendrs.config.notification_settings import NotificationSettings
from opendrs.controller.events import LOGGER, LogEventCode, MaskFilter, log_event
from opendrs.errors import ConfigurationError, DiagnosticCode, OpenDRSError
from opendrs.escapes import repr_value
from opendrs.monitoring.notification_senders import (
    Notification,
    PermanentDeliveryError,
    Sender,
    TemporaryDeliveryError,
    create_sender,
)

QUEUE_SIZE = 100  # notifications that wait; further ones are lost
ATTEMPTS = 4
MAX_WAIT = 10.0  # seconds between two attempts
END_TIMEOUT = 5.0  # seconds to deliver what waits when the controller ends
_OWN_EVENTS = (LogEventCode.NOTIFICATION_LOST,)


class Notifier(logging.Handler):
    """Handler of log events that one thread sends; used in a `with` statement.

    The controller only puts an event into a queue of limited size. If the queue is full
    or the delivery fails, the notification is lost, which is logged once until one is
    delivered again.

    Args:
        sender: Sends the notifications.
        settings: Selects the events.
        platform: Name of the platform.
        max_wait: Largest number of seconds between two attempts.
    """

    def __init__(
        self,
        sender: Sender,
        settings: NotificationSettings,
        platform: str,
        max_wait: float = MAX_WAIT,
    ) -> None:
        super().__init__(settings.level.upper())
        self.addFilter(MaskFilter())
        self._sender = sender
        self._settings = settings
        self._platform = platform
        self._host = socket.gethostname()
        self._queue: queue.Queue[Notification | None] = queue.Queue(QUEUE_SIZE)
        self._is_losing = False
        self._has_overflowed = False
        self._ended = threading.Event()
        self._max_wait = max_wait
        self._thread = threading.Thread(
            target=self._deliver_all, name="notifications", daemon=True
        )

    def __enter__(self) -> Self:
        self._level_before = LOGGER.level
        LOGGER.setLevel(min(self.level, LOGGER.level or self.level))
        LOGGER.addHandler(self)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        LOGGER.removeHandler(self)
        with suppress(queue.Full):
            self._queue.put(None, timeout=END_TIMEOUT)
            self._thread.join(END_TIMEOUT)
        self._ended.set()  # no further waits between attempts
        LOGGER.setLevel(self._level_before)

    def emit(self, record: logging.LogRecord) -> None:
        """Put the event of *record* into the queue if it is selected."""
        event = str(getattr(record, "event", ""))
        if not event or event in _OWN_EVENTS:
            return
        if not _selects(self._settings, event):
            return
        notification = Notification(
            event=event,
            level=record.levelname.lower(),
            time=record.created,
            message=record.getMessage(),
            platform=self._platform,
            host=self._host,
            fields=getattr(record, "about", {}),
        )
        try:
            self._queue.put_nowait(notification)
        except queue.Full:
            self._has_overflowed = True  # logged by the thread: here, a lock is held

    def _wait(self, seconds: float) -> None:
        """Wait between two attempts, unless the controller has ended."""
        self._ended.wait(seconds)

    def _deliver_all(self) -> None:
        while (notification := self._queue.get()) is not None:
            try:
                deliver(self._sender, notification, self._wait, self._max_wait)
            except DeliveryError as error:
                self._record_loss(str(error))
            except Exception as error:  # noqa: BLE001 - a defect must not end the thread
                self._record_loss(repr(error))
            else:
                self._is_losing = False
            if self._has_overflowed:
                self._has_overflowed = False
                self._record_loss(f"more than {QUEUE_SIZE} wait")

    def _record_loss(self, detail: str) -> None:
        if self._is_losing:
            return
        self._is_losing = True
        log_event(
            LogEventCode.NOTIFICATION_LOST,
            f"{self._sender.name}: notifications are lost: {detail}",
            level=logging.WARNING,
        )


def create_notifiers(
    settings: Sequence[NotificationSettings], platform: str
) -> list[Notifier]:
    """Return the notifiers for the tables `[[notifications]]`.

    Raises:
        ConfigurationError: An event does not exist, or a secret cannot be read.
    """
    _check_events(settings)
    return [
        Notifier(create_sender(_prefix(index), table), table, platform)
        for index, table in enumerate(settings)
    ]


def create_senders(
    settings: Sequence[NotificationSettings], event: LogEventCode, level: int
) -> list[Sender]:
    """Return the senders of the tables `[[notifications]]` that select an event.

    Args:
        settings: The tables.
        event: The event.
        level: Its level of the `logging` module.

    Raises:
        ConfigurationError: No table selects it, an event does not exist, or a secret
            cannot be read.
    """
    _check_events(settings)
    name = logging.getLevelName(level).lower()
    senders = [
        create_sender(_prefix(index), table)
        for index, table in enumerate(settings)
        if logging.getLevelNamesMapping()[table.level.upper()] <= level
        and _selects(table, event)
    ]
    if not senders:
        raise ConfigurationError(
            f'[[notifications]]: no table selects "{event}"; expected one with level '
            f'"{name}", and events absent or with "{event}"',
            code=DiagnosticCode.INCONSISTENT,
        )
    return senders


def deliver(
    sender: Sender,
    notification: Notification,
    sleep: Callable[[float], None],
    max_wait: float = MAX_WAIT,
) -> None:
    """Send *notification*, with retries.

    Args:
        sender: Sends it.
        notification: The notification.
        sleep: Function that waits a number of seconds between two attempts.
        max_wait: Largest number of seconds between two attempts.

    Raises:
        DeliveryError: It was not delivered; with the reason of the last attempt.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(TemporaryDeliveryError),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=1, max=max_wait),
        sleep=sleep,
        reraise=True,
    )
    try:
        attempts(sender.send, notification)
    except (TemporaryDeliveryError, PermanentDeliveryError) as error:
        raise DeliveryError(str(error)) from None


class DeliveryError(OpenDRSError):
    """Notification that was not delivered."""


def _selects(table: NotificationSettings, event: str) -> bool:
    return not table.events or event in table.events


def _prefix(index: int) -> str:
    return f"notifications[{index}]."


def _check_events(settings: Sequence[NotificationSettings]) -> None:
    """Raise ConfigurationError if an event does not exist."""
    known = set(LogEventCode)
    for index, table in enumerate(settings):
        for event in table.events:
            if event not in known:
                raise ConfigurationError(
                    f"notifications[{index}].events: unknown event "
                    f"{repr_value(event)}; see the list of codes of log events",
                    code=DiagnosticCode.UNKNOWN_VALUE,
                )
