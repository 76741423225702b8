"""Bounds on the bodies that are received and parsed at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from opendrs.model import NodeId

MOST_BYTES = 32 * 2**20  # of all bodies that are being received, or wait
SMALL_BODY = 2**18  # bytes: some 250 guests of 50 samples each

ResultT = TypeVar("ResultT")


class NodeBusyError(Exception):
    """Another request of this node is being processed."""


class MemoryBusyError(Exception):
    """The bodies of other requests take all the memory that there is for them."""


class BodyLimits:
    """One body of each node at a time, and few large ones, of which one is processed.

    It is used by the thread of the event loop. Another thread parses large bodies and
    writes the requests into the record, so that the memory for that is needed once.
    Small bodies have a thread of their own: they do not wait for large ones.
    """

    def __init__(self) -> None:
        self._nodes: set[NodeId] = set()
        self._bytes = 0
        self._for_small = ThreadPoolExecutor(1, "small-requests")
        self._for_large = ThreadPoolExecutor(1, "large-requests")

    @contextmanager
    def reserved(self, node: NodeId, size: int) -> Iterator[None]:
        """Keep place for a body of *node* inside the `with` statement.

        Raises:
            NodeBusyError: The node has a body there already.
            MemoryBusyError: There is no place for it now.
        """
        if node in self._nodes:
            raise NodeBusyError
        counted = size if size > SMALL_BODY else 0
        if self._bytes + counted > MOST_BYTES:
            raise MemoryBusyError
        self._nodes.add(node)
        self._bytes += counted
        try:
            yield
        finally:
            self._bytes -= counted
            self._nodes.remove(node)

    async def run(
        self, work: Callable[[bytearray], ResultT], body: bytearray
    ) -> ResultT:
        """Return what *work* makes of *body*, after those that came before."""
        small = len(body) <= SMALL_BODY
        thread = self._for_small if small else self._for_large
        return await asyncio.get_running_loop().run_in_executor(thread, work, body)
