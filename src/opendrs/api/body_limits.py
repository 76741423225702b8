"""Limits on the request bodies that are received and parsed at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from opendrs.api.problems import closing_response
from opendrs.api.schema.common import ApiProblem
from opendrs.config.api_schema import MAX_BODY_BYTES
from opendrs.model import NodeId

MAX_TOTAL_BYTES = 32 * 2**20  # of all bodies that are being received or waiting
SMALL_BODY_BYTES = 2**18  # bytes: some 250 guests of 50 samples each
ResultT = TypeVar("ResultT")


class NodeBusyError(Exception):
    """Error: another request of this node is being processed."""


class MemoryBusyError(Exception):
    """Error: other requests use all the memory for bodies."""


class BodyLimits:
    """Limits: one body per node at a time, few large bodies, one being processed.

    Used by the thread of the event loop. Another thread parses large bodies and
    records the requests, so that the memory for this is required only once. Small
    bodies have a thread of their own and do not wait for large ones.
    """

    def __init__(self) -> None:
        self._nodes: set[NodeId] = set()
        self._bytes = 0
        self._small_executor = ThreadPoolExecutor(1, "small-requests")
        self._large_executor = ThreadPoolExecutor(1, "large-requests")

    @contextmanager
    def reserve(self, node: NodeId, size: int) -> Iterator[None]:
        """Reserve *size* bytes for a body of *node* inside the `with` statement.

        Raises:
            NodeBusyError: The node has a reservation already.
            MemoryBusyError: The memory for bodies is exhausted.
        """
        if node in self._nodes:
            raise NodeBusyError
        counted = size if size > SMALL_BODY_BYTES else 0
        if self._bytes + counted > MAX_TOTAL_BYTES:
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
        """Return the result of *work* for *body*, in order of arrival."""
        small = len(body) <= SMALL_BODY_BYTES
        executor = self._small_executor if small else self._large_executor
        return await asyncio.get_running_loop().run_in_executor(executor, work, body)


BODY_TIMEOUT = 20.0  # seconds to receive a body


def check_headers(request: Request) -> Response | None:
    """Return the response to a body that is rejected by its headers, or None."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        return closing_response(
            ApiProblem.ENCODING_NOT_SUPPORTED,
            "Content-Encoding: not supported; send plain JSON",
            {"Accept-Encoding": "identity"},
        )
    return _too_large_response() if declared_size(request) > MAX_BODY_BYTES else None


def declared_size(request: Request) -> int:
    """Return the declared size of the body in bytes, or the largest allowed size."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else MAX_BODY_BYTES


def _too_large_response() -> Response:
    detail = f"request too large: at most {MAX_BODY_BYTES} bytes"
    return closing_response(ApiProblem.BODY_TOO_LARGE, detail)


async def read_body(request: Request) -> bytearray | Response:
    """Return the body of *request*, or the response if it is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    return _too_large_response()
    except TimeoutError:
        detail = "timeout: request body not received in time"
        return closing_response(ApiProblem.BODY_TIMEOUT, detail)
    except ClientDisconnect:
        detail = "request incomplete: connection closed by the client"
        return closing_response(ApiProblem.BODY_INCOMPLETE, detail)
    return body
