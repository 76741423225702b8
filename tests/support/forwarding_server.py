"""HTTP server that forwards requests to another one, and reports each of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpx2

from support.nova_double import AFTER, BEFORE, ignore

_HOP_HEADERS = {"connection", "content-length", "transfer-encoding"}
_TIMEOUT = 60.0  # seconds


@dataclass
class ForwardingServer:
    """A running server.

    Attributes:
        url: Its address.
        on_request: Called with the number of each counted request, from 1, before it is
            forwarded and before its response is returned.
        requests: Method and path of the counted requests so far.
    """

    url: str
    on_request: Callable[[str, int], None]
    requests: list[str] = field(default_factory=list)


@contextmanager
def forwarding(
    target: str, is_counted: Callable[[str], bool]
) -> Iterator[ForwardingServer]:
    """Forward requests to the server at the URL *target*.

    Args:
        target: The URL.
        is_counted: Whether a request, as method and path, is reported.
    """
    with httpx2.Client(base_url=target, timeout=_TIMEOUT, trust_env=False) as client:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _forward(self) -> None:
                request = f"{self.command} {urlsplit(self.path).path}"
                content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                number = 0
                if is_counted(request):
                    running.requests.append(request)
                    number = len(running.requests)
                    running.on_request(BEFORE, number)
                # Nova builds its links with the header Host, which stays the same.
                response = client.request(
                    self.command,
                    self.path,
                    headers=dict(self.headers.items()),
                    content=content,
                )
                if number:
                    running.on_request(AFTER, number)
                self.send_response(response.status_code)
                for name, value in response.headers.items():
                    if name.lower() not in _HOP_HEADERS | {"content-encoding"}:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(response.content)))
                self.end_headers()
                self.wfile.write(response.content)

            do_GET = do_POST = do_DELETE = _forward  # noqa: N815 - of http.server

            def handle(self) -> None:
                with suppress(OSError):  # the client has gone
                    super().handle()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        url = f"http://127.0.0.1:{server.server_address[1]}"
        running = ForwardingServer(url, ignore)
        thread = threading.Thread(
            target=server.serve_forever, args=(0.02,), daemon=True
        )
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
