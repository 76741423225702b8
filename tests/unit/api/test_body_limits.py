"""Bodies: one of each node, few in all, and one that is parsed at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from opendrs.api.body_limits import (
    MAX_TOTAL_BYTES,
    SMALL_BODY_BYTES,
    BodyLimits,
    MemoryBusyError,
    NodeBusyError,
)
from opendrs.config.api_schema import MAX_BODY_BYTES
from opendrs.model import NodeId

H1, H2 = NodeId("h1"), NodeId("h2")


def test_a_node_has_one_body_at_a_time() -> None:
    limits = BodyLimits()

    with limits.reserve(H1, 10), limits.reserve(H2, 10):
        with pytest.raises(NodeBusyError), limits.reserve(H1, 10):
            pass
        with pytest.raises(NodeBusyError), limits.reserve(H1, 10):
            pass  # neither did the first attempt end what is there
    with limits.reserve(H1, 10):
        pass


def test_large_bodies_over_limit_are_busy_and_small_accepted() -> None:
    limits = BodyLimits()
    nodes = [
        NodeId(f"n{number}") for number in range(MAX_TOTAL_BYTES // MAX_BODY_BYTES)
    ]
    large = [limits.reserve(node, MAX_BODY_BYTES) for node in nodes]
    for each in large:
        each.__enter__()

    with pytest.raises(MemoryBusyError), limits.reserve(H1, SMALL_BODY_BYTES + 1):
        pass
    with limits.reserve(H1, SMALL_BODY_BYTES):
        pass
    large[0].__exit__(None, None, None)
    with limits.reserve(H1, MAX_BODY_BYTES):
        pass


def test_large_bodies_are_processed_in_order() -> None:
    limits = BodyLimits()
    order: list[int] = []
    inside = threading.Semaphore(1)

    def process(body: bytearray) -> int:
        assert inside.acquire(blocking=False)
        order.append(len(body))
        inside.release()
        return len(body)

    async def all_of_them() -> list[int]:
        large = [bytearray(SMALL_BODY_BYTES + number) for number in range(1, 21)]
        return await asyncio.gather(*(limits.run(process, each) for each in large))

    assert asyncio.run(all_of_them()) == order == sorted(order)


def test_a_small_body_does_not_wait_for_a_large_one() -> None:
    limits = BodyLimits()
    processed = threading.Event()

    def process(body: bytearray) -> bool:
        if len(body) > SMALL_BODY_BYTES:
            return processed.wait(120)
        processed.set()
        return True

    async def both() -> list[bool]:
        bodies = (bytearray(MAX_BODY_BYTES), bytearray(SMALL_BODY_BYTES))
        return await asyncio.gather(*(limits.run(process, each) for each in bodies))

    assert asyncio.run(both()) == [True, True]
