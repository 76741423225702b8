"""The operator API as a server on a socket, on the store of a simulated controller."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2

from opendrs.api import rate_limits
from opendrs.api.access_control import create_token
from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.web_server import WebServer
from opendrs.cli.web_context import create_context
from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.config.settings import Settings
from opendrs.config.web_settings import WebSettings
from opendrs.controller import SystemClock
from opendrs.controller.operator_commands import Actor
from opendrs.ports import Role
from opendrs.store import (
    Access,
    DatabaseAccessStore,
    DatabaseEventLog,
    DatabasePlanStore,
    History,
    OperatorStore,
    PostgresqlStore,
    SqliteStore,
)
from support.advised_controller import AdvisedController
from support.builders import NOON

PLATFORM = "lab"
MANY = 1e9  # requests a second: no limit
TIMEOUT = 120.0  # seconds in which the server does something, on a busy machine
# For clients without TLS: reading the system trust store takes longer than a request.
NO_TRUST = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class OffsetClock(SystemClock):
    """The system clock, whose time begins at noon of a certain day and can be set."""

    def __init__(self) -> None:
        self.offset = NOON - super().now()

    def now(self) -> datetime:
        return super().now() + self.offset

    def advance(self, seconds: float) -> None:
        self.offset += timedelta(seconds=seconds)


class OperatorApi:
    """A server with a controller, in a `with` statement.

    Args:
        place: File of the store, or address of its PostgreSQL database.
        rate: Requests per second that are allowed.
        burst: Requests at once that are allowed.
        web: Settings of the server.
    """

    def __init__(
        self,
        place: Path | str,
        *,
        rate: float = MANY,
        burst: float = MANY,
        web: WebSettings | None = None,
    ) -> None:
        self._place = place
        self.clock = OffsetClock()
        self.settings = Settings(
            controller=ControllerSettings(mode=Mode.ADVISE),
            web=web or WebSettings(listen="127.0.0.1:0"),
        )
        self._limits = rate, burst
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.control = self._opened(self._stack, Access.CONTROL)
        self.controller = AdvisedController(self.control, mode=Mode.ADVISE)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._stack.close()

    def _opened(
        self, stack: ExitStack, access: Access
    ) -> SqliteStore | PostgresqlStore:
        if isinstance(self._place, Path):
            return stack.enter_context(SqliteStore(self._place, access))
        store = PostgresqlStore(self._place, PLATFORM, access=access)
        return stack.enter_context(store)

    def start(self) -> None:
        """Start the server."""
        self._serving = ExitStack()
        written = self._opened(self._serving, Access.OPERATE)
        read = self._opened(self._serving, Access.READ)
        self.stores = ApiStores(
            store=read,
            history=History(read),
            events=DatabaseEventLog(read),
            plans=DatabasePlanStore(written, reader=read),
            operators=OperatorStore(written, reader=read),
            access=DatabaseAccessStore(written, reader=read),
        )
        self._serving.enter_context(allowed_rate(*self._limits))
        self.server = WebServer(self.settings.web, self._context)
        self.address = self.server.address.rstrip("/")
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        self.wait_for_state()

    def stop(self) -> None:
        """Stop the server."""
        self.server.stop()
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()
        self._serving.close()

    def _context(self) -> ApiContext:
        self.context = create_context(
            PLATFORM, self.settings, None, self.clock, self.stores
        )
        return self.context

    def wait_for_state(self) -> None:
        """Wait until the server accepts connections and has read the store."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self.context.states.has_state:
                return
            threading.Event().wait(0.02)
        raise AssertionError("no state was read")

    def token(self, role: Role = Role.ADMIN, **options: Any) -> str:  # noqa: ANN401 - those of create_token
        """Return a new token."""
        values = {"name": f"a {role}", "role": role, "seconds": 3600, **options}
        access = self.stores.access
        return create_token(access, self.clock, Actor(user="root"), **values).secret

    def client(self, role: Role | None = Role.ADMIN, **headers: str) -> httpx2.Client:
        """Return a client with a new token of *role*; None for no token."""
        if role is not None:
            headers["Authorization"] = f"Bearer {self.token(role)}"
        return httpx2.Client(
            base_url=f"{self.address}/api/v1/",
            headers=headers,
            timeout=TIMEOUT,
            verify=NO_TRUST,
        )

    def propose(self) -> str:
        """Let the controller propose a plan, and return its id."""
        self.controller.controller.run_once()
        (plan,) = self.controller.plans.plans()[-1:]
        return plan.id


@contextmanager
def allowed_rate(rate: float, burst: float) -> Iterator[None]:
    """Allow *rate* requests per second, *burst* at once, in a `with` statement."""
    before = rate_limits.RATE, rate_limits.BURST
    rate_limits.RATE, rate_limits.BURST = rate, burst
    try:
        yield
    finally:
        rate_limits.RATE, rate_limits.BURST = before


class EventReader:
    """Server-sent events of a response.

    Args:
        response: The response, of which nothing was read.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = response.iter_lines()

    def next(self) -> dict[str, Any]:
        """Return the next event: its fields, with `data` decoded."""
        fields: dict[str, Any] = {}
        for line in self._lines:
            if line.startswith(":"):
                continue
            if not line:
                if "event" in fields:
                    fields["data"] = json.loads(fields["data"])
                    return fields
                fields = {}
                continue
            name, _, value = line.partition(": ")
            fields[name] = value
        raise EOFError

    def until(self, event: str) -> dict[str, Any]:
        """Return the next event called *event*; skip others."""
        while True:
            found = self.next()
            if found["event"] == event:
                return found
