"""The present state, encoded once, and the messages about its changes.

One thread reads the store once a second. Each change is encoded once and sent to all
clients: 200 open pages cost the store as much as one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from opendrs.api.encoded_state import (
    EncodedState,
    Message,
    content,
    encode_message,
    encode_state,
    event_document,
    mode_message,
    plan_message,
    state_message,
)
from opendrs.api.problems import ProblemError
from opendrs.api.schema.common import ApiProblem
from opendrs.api.state_delta import delta_document
from opendrs.api.state_reader import StateReader
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.views.state import StateInputs, state_document
from opendrs.errors import StoreError
from opendrs.ports import Clock, EventRecord

POLL_INTERVAL = 1.0  # seconds between two reads of the store
MAX_STREAMS = 1_000  # clients that follow the events
MAX_MESSAGES = 1_000  # that a slow client can be behind
MAX_EVENTS = 500  # log events that are read at once, and that a client can resume


class StateFeed:
    """The present state and the messages about its changes.

    `poll` is called by one thread; the other methods by any.

    Args:
        reader: Reads the records of the store.
        clock: The time.

    Attributes:
        is_closed: True if the server ends.
    """

    def __init__(self, reader: StateReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._lock = threading.Lock()
        self._messages: deque[Message] = deque(maxlen=MAX_MESSAGES)
        self._state: EncodedState | None = None
        self._inputs: StateInputs | None = None
        self._sequence: int | None = None
        self._changed = asyncio.Event()
        self.is_closed = False
        self._has_failed = False
        self._streams = 0

    @property
    def sequence(self) -> int:
        """Return the number of the last event that was read."""
        return self._sequence or 0

    @property
    def has_state(self) -> bool:
        """Return True if the store was read."""
        return self._state is not None

    def poll(self) -> bool:
        """Read the store; return True if there are new messages.

        A store that cannot be read is an exception of the state.

        Raises:
            StoreError: The store cannot be read, and was not before.
        """
        before = self._last_number()
        try:
            inputs = self._reader.read()
            events = self._new_events()
            document = state_document(inputs)
        except StoreError as error:
            if self._inputs is None:
                raise
            now = self._clock.now()
            inputs = replace(self._inputs, now=now, store_error=str(error))
            events, document = (), state_document(inputs)
        for event in events:
            self._send("log", event_document(event))
        self._update(inputs, document)
        return self._last_number() != before

    def current(self) -> EncodedState:
        """Return the present state.

        Raises:
            ProblemError: The store could not be read yet.
        """
        if self._state is None:
            raise ProblemError(
                ApiProblem.STORE_UNAVAILABLE,
                "the store could not be read yet; retry",
                headers={"Retry-After": "1"},
            )
        return self._state

    def inputs(self) -> StateInputs:
        """Return the records that determine the present state.

        Raises:
            ProblemError: The store could not be read yet.
        """
        self.current()
        assert self._inputs is not None  # noqa: S101 - set before the state
        return self._inputs

    def greeting(self) -> tuple[int, bytes]:
        """Return the present state as messages, and the number of the last message.

        A client that connects compares the ETag with that of its state.
        """
        with self._lock:
            number = self._last_number()
            if self._state is None or self._inputs is None:
                return number, b""
            document, inputs = self._state.document, self._inputs
            parts = [
                ("state", state_message(self._state, None, None)),
                ("mode", mode_message(document)),
                ("plan", plan_message(inputs)),
                ("progress", list(inputs.progress)),
            ]
        return number, b"".join(
            encode_message(name, self.sequence, data) for name, data in parts
        )

    def messages_after(self, number: int) -> Sequence[Message] | None:
        """Return the messages after *number*; None if some are not kept any more."""
        with self._lock:
            last = self._last_number()
            missing = last - number
            if missing > len(self._messages):
                return None
            return list(self._messages)[len(self._messages) - missing :]

    @property
    def stream_count(self) -> int:
        """Return the number of clients that follow the events."""
        return self._streams

    @contextmanager
    def counted_stream(self) -> Iterator[None]:
        """Count a stream of events in a `with` block, which is in the event loop."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def require_stream(self) -> None:
        """Check that one more client can follow the events.

        Raises:
            ProblemError: There are too many.
        """
        if self._streams >= MAX_STREAMS:
            raise ProblemError(
                ApiProblem.TOO_MANY_CLIENTS,
                f"{MAX_STREAMS} clients follow the events; retry later",
                headers={"Retry-After": "30"},
            )

    def close(self) -> None:
        """End all streams; called by the event loop that serves them."""
        self.is_closed = True
        self._changed.set()

    async def run(self) -> None:
        """Read the store repeatedly, until cancelled."""
        while True:
            if await asyncio.to_thread(self._poll_and_log):
                changed, self._changed = self._changed, asyncio.Event()
                changed.set()
            await asyncio.sleep(POLL_INTERVAL)

    def _poll_and_log(self) -> bool:
        """Return the result of `poll`; a failure is logged once until it succeeds.

        A defect must not end the reading: the pages would show an old state for ever.
        """
        try:
            result = self.poll()
        except Exception as error:  # noqa: BLE001 - a defect, or a store that fails
            if not self._has_failed:
                detail = str(error) if isinstance(error, StoreError) else repr(error)
                log_event(
                    LogEventCode.WEB_STORE_FAILED,
                    f"web: the state could not be read: {detail}",
                    level=logging.ERROR,
                )
            self._has_failed = True
            return False
        self._has_failed = False
        return result

    async def wait(self, number: int, seconds: float) -> bool:
        """Wait for messages after *number*; return False if there are none in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # `_changed` may be set for messages that this client has already.
                while self._last_number() <= number and not self.is_closed:
                    await self._changed.wait()
                return True
        return False

    def _last_number(self) -> int:
        return self._messages[-1].number if self._messages else 0

    def _new_events(self) -> tuple[EventRecord, ...]:
        events = self._reader.events
        if self._sequence is None:
            self._sequence = events.last_sequence()
            return ()
        last = events.last_sequence()
        if last < self._sequence:  # the store was replaced by an older one
            self._sequence = last
            self._send("reset", {"because": "the events begin again"})
            return ()
        if last == self._sequence:
            return ()
        found = events.after(self._sequence, MAX_EVENTS)
        self._sequence = found[-1].sequence if found else last
        return found

    def _send(self, event: str, data: object) -> None:
        content = encode_message(event, self.sequence, data)
        with self._lock:
            number = self._last_number() + 1
            self._messages.append(Message(number, content))

    def _update(self, inputs: StateInputs, document: dict[str, Any]) -> None:
        """Encode *document*, the state of *inputs*, and send what has changed."""
        former_inputs, former = self._inputs, self._state
        progress = document.pop("progress")
        if former is not None and content(document) == content(former.document):
            self._update_progress(inputs, former)
            return
        state = encode_state(document, progress, self.sequence, inputs.now)
        with self._lock:
            self._inputs, self._state = inputs, state
        if former is None or former_inputs is None:
            return
        delta = delta_document(former.document, document)
        if delta is None:
            self._send("reset", {"because": "nodes or guests were added or removed"})
        else:
            self._send("state", state_message(state, former.etag, delta))
        self._send_changes(document, former.document, inputs, former_inputs)

    def _update_progress(self, inputs: StateInputs, state: EncodedState) -> None:
        """Send the progress if nothing else has changed."""
        former, self._inputs = self._inputs, inputs
        if former is not None and list(former.progress) != list(inputs.progress):
            self._state = state.with_progress(inputs.progress)
            self._send("progress", list(inputs.progress))

    def _send_changes(
        self,
        document: Mapping[str, Any],
        former: Mapping[str, Any],
        inputs: StateInputs,
        former_inputs: StateInputs,
    ) -> None:
        parts: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
            (
                "mode",
                lambda: mode_message(document),
                lambda: mode_message(former),
            ),
            (
                "plan",
                lambda: plan_message(inputs),
                lambda: plan_message(former_inputs),
            ),
            (
                "progress",
                lambda: list(inputs.progress),
                lambda: list(former_inputs.progress),
            ),
        ]
        for name, now, before in parts:
            data = now()
            if data != before():
                self._send(name, data)
