"""Server-sent events of one client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opendrs.api.principal import Principal
from opendrs.api.state_feed import MAX_EVENTS, encode_message, event_document
from opendrs.errors import StoreError

if TYPE_CHECKING:
    from opendrs.api.context import ApiContext

KEEPALIVE = 15.0  # seconds between two comments
RETRY = 3_000  # milliseconds after which a client connects again
SEND_TIMEOUT = 30.0  # seconds in which a client must read
_OPENING = f"retry: {RETRY}\n\n".encode()
_COMMENT = b": still here\n\n"


class EventStream(Response):
    """Server-sent events until the client disconnects or its access ends.

    Args:
        context: The state and the events.
        principal: The client.
        last: Number of the last event that the client has; None for a new client.
    """

    media_type = "text/event-stream"

    def __init__(
        self, context: ApiContext, principal: Principal, last: int | None
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._context = context
        self._principal = principal
        self._last = last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        del scope
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        sender = asyncio.create_task(self._send_all(send))
        listener = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sender, listener}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sender, listener):
                task.cancel()
            for task in (sender, listener):
                with suppress(asyncio.CancelledError, TimeoutError, OSError):
                    await task

    async def _send_all(self, send: Send) -> None:
        async for content in self._contents():
            async with asyncio.timeout(SEND_TIMEOUT):
                await send(_chunk(content, more=True))
        await send(_chunk(b"", more=False))

    async def _contents(self) -> AsyncIterator[bytes]:
        states = self._context.states
        number, greeting = states.greeting()
        missed = await run_in_threadpool(self._missed)
        yield _OPENING + missed + greeting
        while not states.is_closed:
            is_changed = await states.wait(number, KEEPALIVE)
            if states.is_closed:
                return
            if not is_changed:
                if not await run_in_threadpool(self._has_access):
                    return
                yield _COMMENT
                continue
            messages = states.messages_after(number)
            if messages is None:
                number, greeting = states.greeting()
                data = {"because": "this client was too slow"}
                yield encode_message("reset", states.sequence, data) + greeting
                continue
            number = messages[-1].number
            yield b"".join(message.content for message in messages)

    def _has_access(self) -> bool:
        """Return False if the access of the client has ended; True if unknown."""
        with suppress(StoreError):
            return self._context.access.is_current(self._principal)
        return True

    def _missed(self) -> bytes:
        """Return the log events that the client has missed, or that it has to reset."""
        last, sequence = self._last, self._context.states.sequence
        if last is None or last == sequence:
            return b""
        events = self._context.stores.events
        with suppress(StoreError):
            is_kept = events.first_sequence() - 1 <= last <= sequence
            if is_kept and sequence - last <= MAX_EVENTS:
                return b"".join(
                    encode_message("log", each.sequence, event_document(each))
                    for each in events.after(last, MAX_EVENTS)
                    if each.sequence <= sequence
                )
        data = {"because": "the events since then are not kept"}
        return encode_message("reset", sequence, data)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _chunk(content: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": content, "more_body": more}
