"""The operator API over the store of a controller on the simulated cluster."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from opendrs.api.access_control import AccessControl
from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.principal import PRINCIPAL_KEY, Principal
from opendrs.api.state_feed import StateFeed
from opendrs.api.state_reader import StateReader
from opendrs.api.web_app import create_web_app
from opendrs.config.settings import NO_SETTINGS, Settings
from opendrs.ports import Clock, Role
from opendrs.store import (
    DatabaseAccessStore,
    DatabaseEventLog,
    DatabasePlanStore,
    DatabaseStore,
    History,
    OperatorStore,
)
from support.builders import NOON


class AuthenticatedApp:
    """Application whose requests all come from one client.

    Args:
        app: The application.
        role: Role of the client.
    """

    def __init__(self, app: ASGIApp, role: Role) -> None:
        self._app = app
        self._principal = Principal(
            user="ada",
            role=role,
            token="t1",  # noqa: S106 - its public part
            address="127.0.0.1",
            expires_at=NOON + timedelta(days=1),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        scope[PRINCIPAL_KEY] = self._principal
        await self._app(scope, receive, send)


def api_context(
    store: DatabaseStore,
    clock: Clock,
    settings: Settings = NO_SETTINGS,
    config_path: Path | None = None,
    **parts: Any,  # noqa: ANN401 - those of the context
) -> ApiContext:
    """Return the context of the API over *store*, which a controller may use."""
    history, plans = History(store), DatabasePlanStore(store)
    events, operators = DatabaseEventLog(store), OperatorStore(store)
    reader = StateReader(
        "lab",
        settings,
        clock,
        store=store,  # type: ignore[arg-type]  # its subclasses have a lease
        history=history,
        plans=plans,
        events=events,
    )
    access = DatabaseAccessStore(store)
    return ApiContext(
        platform="lab",
        settings=settings,
        config_path=config_path,
        clock=clock,
        stores=ApiStores(
            store=store,  # type: ignore[arg-type]
            history=history,
            events=events,
            plans=plans,
            operators=operators,
            access=access,
        ),
        states=StateFeed(reader, clock),
        access=AccessControl(access, clock, session_time=3600),
        **parts,
    )


def api_client(context: ApiContext, role: Role = Role.VIEWER) -> TestClient:
    """Return a client of the API, with the prefix of its paths."""
    app = AuthenticatedApp(create_web_app(context), role)
    return TestClient(app, base_url="http://testserver/api/v1")
