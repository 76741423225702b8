"""The store of a platform as the HTTP API uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from opendrs.api.context import ApiStores
from opendrs.cli.platform_store import open_to_operate, open_to_read
from opendrs.config.settings import Settings
from opendrs.store import (
    DatabaseAccessStore,
    DatabaseEventLog,
    DatabasePlanStore,
    History,
    OperatorStore,
)


@contextmanager
def open_api_stores(name: str, settings: Settings) -> Iterator[ApiStores]:
    """Yield the store of the platform *name*; a controller may be running.

    It is created if absent. Reading and writing use connections of their own, so that
    a reader does not wait for the controller to commit.

    Raises:
        UnknownPlatformError: The platform is not configured.
        ConfigurationError: The store belongs to another platform.
        StoreError: The store cannot be opened.
    """
    with ExitStack() as stack:
        written = stack.enter_context(open_to_operate(name, settings))
        read = stack.enter_context(open_to_read(name, settings))
        yield ApiStores(
            store=read,
            history=History(read),
            events=DatabaseEventLog(read),
            plans=DatabasePlanStore(written, reader=read),
            operators=OperatorStore(written, reader=read),
            access=DatabaseAccessStore(written, reader=read),
        )
