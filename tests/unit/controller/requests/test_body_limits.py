"""Bodies: one of each node, few in all, and one that is parsed at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from opendrs.controller.requests.body_limits import (
    MOST_BYTES,
    SMALL_BODY,
    BodyLimits,
    MemoryBusyError,
    NodeBusyError,
)
from opendrs.controller.requests.wire import LARGEST_BODY
from opendrs.model import NodeId

H1, H2 = NodeId("h1"), NodeId("h2")


def test_a_node_has_one_body_at_a_time() -> None:
    limits = BodyLimits()

    with limits.reserved(H1, 10), limits.reserved(H2, 10):
        with pytest.raises(NodeBusyError), limits.reserved(H1, 10):
            pass
        with pytest.raises(NodeBusyError), limits.reserved(H1, 10):
            pass  # neither did the first attempt end what is there
    with limits.reserved(H1, 10):
        pass


def test_large_bodies_fill_the_memory_for_them_and_small_ones_are_taken() -> None:
    limits = BodyLimits()
    nodes = [NodeId(f"n{number}") for number in range(MOST_BYTES // LARGEST_BODY)]
    large = [limits.reserved(node, LARGEST_BODY) for node in nodes]
    for each in large:
        each.__enter__()

    with pytest.raises(MemoryBusyError), limits.reserved(H1, SMALL_BODY + 1):
        pass
    with limits.reserved(H1, SMALL_BODY):
        pass
    large[0].__exit__(None, None, None)
    with limits.reserved(H1, LARGEST_BODY):
        pass


def test_one_large_body_is_processed_at_a_time_in_the_order_in_which_they_came() -> (
    None
):
    limits = BodyLimits()
    order: list[int] = []
    inside = threading.Semaphore(1)

    def process(body: bytearray) -> int:
        assert inside.acquire(blocking=False)
        order.append(len(body))
        inside.release()
        return len(body)

    async def all_of_them() -> list[int]:
        large = [bytearray(SMALL_BODY + number) for number in range(1, 21)]
        return await asyncio.gather(*(limits.run(process, each) for each in large))

    assert asyncio.run(all_of_them()) == order == sorted(order)


def test_a_small_body_does_not_wait_for_a_large_one() -> None:
    limits = BodyLimits()
    processed = threading.Event()

    def process(body: bytearray) -> bool:
        if len(body) > SMALL_BODY:
            return processed.wait(20)
        processed.set()
        return True

    async def both() -> list[bool]:
        bodies = (bytearray(LARGEST_BODY), bytearray(SMALL_BODY))
        return await asyncio.gather(*(limits.run(process, each) for each in bodies))

    assert asyncio.run(both()) == [True, True]
