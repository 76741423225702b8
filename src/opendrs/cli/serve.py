"""The command `opendrs serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from opendrs.cli.configuration import load_settings, only_platform
from opendrs.cli.logs import level_option, log_format_option, log_to_stderr
from opendrs.cli.platform_store import cli_actor
from opendrs.cli.web_stores import open_api_stores
from opendrs.controller import SystemClock
from opendrs.controller.events import LogEventCode, log_event


@click.command(name="serve")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option("--platform", metavar="NAME", help="The platform, if CONFIG has several.")
@click.option(
    "--with-parent",
    is_flag=True,
    help="End when standard input is closed: with the process that started it.",
)
@level_option
@log_format_option
def command(
    *,
    config: Path,
    platform: str | None,
    with_parent: bool,
    level: str,
    output_format: str,
) -> int:
    """Serve the dashboard and the HTTP API of a platform.

    opendrs run starts this command. Run it yourself to see a platform whose controller
    runs on another machine (with a PostgreSQL database), or to use another account for
    the server ([web] start = false). It reads the store of the platform, and writes
    what operators may write. It does not connect to the platform.

    The table [web] has the address (default 127.0.0.1:8470), and the certificate that
    other addresses require. Clients need a token: see opendrs access. On a terminal,
    the command prints a link that signs a browser in; it can be used once, within ten
    minutes.

    \b
      opendrs serve /etc/opendrs/opendrs.toml
      opendrs access create lab --name ada --role operator

    Exit status: 0 = stopped (Ctrl-C, SIGTERM), 2 = invalid input, 3 = the database
    cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    # The imports are slow.
    from opendrs.api.web_server import WebServer  # noqa: PLC0415
    from opendrs.cli.web_context import create_context, sign_in_link  # noqa: PLC0415

    settings = load_settings(config)
    name = platform or only_platform(settings, config)
    settings.connection(name)
    clock = SystemClock()
    with _stop_on_signals(), log_to_stderr(output_format, level), ExitStack() as stack:
        stores = stack.enter_context(open_api_stores(name, settings))
        context = create_context(name, settings, config, clock, stores)
        server = WebServer(settings.web, lambda: context)
        log_event(
            LogEventCode.WEB_LISTENING,
            f"{name}: dashboard and HTTP API: {server.address}",
            platform=name,
            address=server.address,
        )
        if sys.stdout.isatty():
            link = sign_in_link(stores.access, clock, cli_actor(), server.address)
            click.echo(f"open the dashboard (once, within 10 minutes): {link}")
        if with_parent:
            _stop_with_parent(server.stop)
        server.run()
    return 0


@contextmanager
def _stop_on_signals() -> Iterator[None]:
    """End the command with status 0 on Ctrl-C and SIGTERM in a `with` statement.

    The server has handlers of its own while it runs.
    """

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        sys.exit(0)

    numbers = signal.SIGINT, signal.SIGTERM
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_with_parent(stop: Callable[[], None]) -> None:
    """Call *stop* when standard input is closed."""

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        stop()

    threading.Thread(target=wait, name="parent", daemon=True).start()
