"""Messages about changes of the state, and waiting for them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from opendrs.controller import SystemClock
from opendrs.store import SqliteStore
from support.api_client import api_context


def test_wait_when_all_messages_are_read_is_false(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of a reading can be read by a client before it is notified."""

    async def waits_after_reading_all() -> bool:
        reading = asyncio.create_task(states.run())
        try:
            return await states.wait(number, 0.2)
        finally:
            reading.cancel()

    with SqliteStore(tmp_path / "store.sqlite") as store:
        states = api_context(store, SystemClock()).states
        states.poll()
        number, _ = states.greeting()
        monkeypatch.setattr(states, "poll", lambda: True)

        assert not asyncio.run(waits_after_reading_all())
