"""Bounds on the bodies that are received and parsed at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from opendrs.api.auth import closing_response
from opendrs.api.schema import MAX_BODY_BYTES
from opendrs.model import NodeId

MAX_TOTAL_BYTES = 32 * 2**20  # of all bodies that are being received, or wait
SMALL_BODY_BYTES = 2**18  # bytes: some 250 guests of 50 samples each
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
        self._small_executor = ThreadPoolExecutor(1, "small-requests")
        self._large_executor = ThreadPoolExecutor(1, "large-requests")

    @contextmanager
    def reserve(self, node: NodeId, size: int) -> Iterator[None]:
        """Keep place for a body of *node* inside the `with` statement.

        Raises:
            NodeBusyError: The node has a body there already.
            MemoryBusyError: There is no place for it now.
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
        """Return what *work* makes of *body*, after those that came before."""
        small = len(body) <= SMALL_BODY_BYTES
        executor = self._small_executor if small else self._large_executor
        return await asyncio.get_running_loop().run_in_executor(executor, work, body)


BODY_TIMEOUT = 20.0  # seconds in which the body has to be there


def check_headers(request: Request) -> JSONResponse | None:
    """Return the answer to a body that need not be received, or None."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        response = closing_response(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "Content-Encoding: not supported; send plain JSON",
        )
        response.headers["Accept-Encoding"] = "identity"
        return response
    return _too_large_response() if declared_size(request) > MAX_BODY_BYTES else None


def declared_size(request: Request) -> int:
    """Return the size of the body that *request* announces, or the largest one."""
    declared = request.headers.get("content-length", "")
    return int(declared) if declared.isdecimal() else MAX_BODY_BYTES


def _too_large_response() -> JSONResponse:
    detail = f"a request has at most {MAX_BODY_BYTES} bytes"
    return closing_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)


async def read_body(request: Request) -> bytearray | JSONResponse:
    """Return the body of *request*, or the answer when it is too large or too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    return _too_large_response()
    except TimeoutError:
        detail = "the request did not come in time"
        return closing_response(HTTPStatus.REQUEST_TIMEOUT, detail)
    except ClientDisconnect:
        return closing_response(HTTPStatus.BAD_REQUEST, "the request ended too early")
    return body
