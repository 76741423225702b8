"""What the routes of the HTTP API use, and links that sign a browser in."""

from __future__ import annotations

from pathlib import Path

from opendrs.api.access_control import LOGIN_TIME, AccessControl, create_token
from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.state_feed import StateFeed
from opendrs.api.state_reader import StateReader
from opendrs.config.settings import Settings
from opendrs.controller.operator_commands import Actor
from opendrs.ports import AccessStore, Clock, Role


def create_context(
    platform: str,
    settings: Settings,
    config_path: Path | None,
    clock: Clock,
    stores: ApiStores,
) -> ApiContext:
    """Return what the routes use.

    Args:
        platform: Name of the platform.
        settings: The configuration.
        config_path: Its file; None without one.
        clock: The time.
        stores: The store of the platform.
    """
    reader = StateReader(
        platform,
        settings,
        clock,
        store=stores.store,
        history=stores.history,
        plans=stores.plans,
        events=stores.events,
    )
    return ApiContext(
        platform=platform,
        settings=settings,
        config_path=config_path,
        clock=clock,
        stores=stores,
        states=StateFeed(reader, clock),
        access=AccessControl(stores.access, clock, settings.web.session_time),
    )


def sign_in_link(access: AccessStore, clock: Clock, actor: Actor, address: str) -> str:
    """Return a link to *address* that signs a browser in once, as an admin.

    The code is in the fragment of the address, which a browser sends to no server.

    Raises:
        StoreError: The store cannot be written.
    """
    created = create_token(
        access,
        clock,
        actor,
        name=actor.user,
        role=Role.ADMIN,
        seconds=LOGIN_TIME,
        single_use=True,
    )
    return f"{address}#login={created.secret}"
