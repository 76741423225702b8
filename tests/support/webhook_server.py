"""HTTP server that receives notifications."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebhookServer:
    """HTTP server that records what it receives.

    Attributes:
        statuses: Status of the next responses; 204 if empty.
        received: Headers and body of each request.
        released: Responses are sent while it is set.
    """

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.released = threading.Event()
        self.released.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.released.wait(120)
                outer.received.append((dict(self.headers), body))
                self.send_response(outer.statuses.pop(0) if outer.statuses else 204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/token-in-path"
        threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        ).start()

    @property
    def events(self) -> list[str]:
        return [json.loads(body)["event"] for _, body in self.received]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
