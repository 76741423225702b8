"""The command `opendrs top`: the overview of a platform in a terminal, live."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.live import Live

from opendrs.api.state_reader import StateReader
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console
from opendrs.cli.options import QuantityRange, config_option
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.progress import disable_echo
from opendrs.cli.top_screen import Overview, overview_text
from opendrs.config.settings import Settings
from opendrs.controller import SystemClock
from opendrs.controller.views.state import StateInputs, state_document
from opendrs.errors import StoreError
from opendrs.model import TIME
from opendrs.ports import Clock, EventRecord
from opendrs.store import (
    DatabaseEventLog,
    DatabasePlanStore,
    DatabaseStore,
    History,
    PostgresqlStore,
    SqliteStore,
)

MAX_EVENTS = 5
MIN_COLUMNS = 40  # of a terminal; a narrower one cuts lines


@click.command(name="top")
@click.argument("platform", metavar="PLATFORM")
@click.option("--once", is_flag=True, help="Print the overview once, and end.")
@click.option(
    "--interval",
    type=QuantityRange(TIME, 0.5, 3600),
    default=1.0,
    metavar="SECONDS",
    help="Time between two updates (default 1 s).",
)
@config_option
def command(*, platform: str, once: bool, interval: float, config: Path | None) -> None:
    """Show the overview of PLATFORM in the terminal, until Ctrl-C.

    It shows the controller with its mode and its last cycle, what needs attention, the
    most loaded nodes, the plan that waits or is executed (or why nothing is planned),
    and the last events. Nodes are marked: > guests leave, < guests arrive, in the plan.
    It reads the database of the controller; nothing is changed.

    Without a terminal, it prints the overview once.

    \b
      opendrs top lab
      opendrs top lab --once

    Exit status: 0 = done; 2 = invalid input, 3 = the database cannot be read.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    clock = SystemClock()
    with ExitStack() as stack:
        store = stack.enter_context(open_to_read(platform, settings))
        reader = OverviewReader(platform, settings, clock, store)
        screen = console(MIN_COLUMNS)
        if once or not sys.stdout.isatty():
            height = screen.size.height if sys.stdout.isatty() else None
            overview = reader.read()
            screen.print(overview_text(overview, screen.width, height), end="")
            return
        stack.enter_context(disable_echo(screen.file))
        live = Live(console=screen, screen=True, auto_refresh=False)
        stack.enter_context(live)
        stack.enter_context(suppress(KeyboardInterrupt))
        while True:
            size = screen.size
            text = overview_text(reader.read(), size.width, size.height)
            live.update(text, refresh=True)
            clock.sleep(interval)


class OverviewReader:
    """Reader of the overview. A store that fails is shown, with what was read before.

    Args:
        platform: Name of the platform.
        settings: The configuration.
        clock: The time.
        store: The store, open for reading.
    """

    def __init__(
        self,
        platform: str,
        settings: Settings,
        clock: Clock,
        store: SqliteStore | PostgresqlStore,
    ) -> None:
        self._clock = clock
        self._events = DatabaseEventLog(store)
        self._reader = StateReader(
            platform,
            settings,
            clock,
            store=store,
            history=History(store),
            plans=DatabasePlanStore(store),
            events=self._events,
        )
        self._store: DatabaseStore = store
        self._inputs: StateInputs | None = None
        self._last: tuple[EventRecord, ...] = ()

    def read(self) -> Overview:
        """Return the overview now.

        Raises:
            StoreError: The store cannot be read the first time.
        """
        now = self._clock.now()
        try:
            self._inputs = self._reader.read()
            self._last = self._events.newest(MAX_EVENTS)
        except StoreError as error:
            if self._inputs is None:
                raise
            self._inputs = replace(self._inputs, now=now, store_error=str(error))
        state: dict[str, Any] = state_document(self._inputs)
        plan = self._inputs.plan
        records = {
            each.step: each
            for each in self._inputs.steps
            if plan is not None and each.run == plan.run
        }
        return Overview(
            now=now, state=state, plan=plan, records=records, events=self._last
        )
