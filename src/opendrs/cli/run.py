"""opendrs run: the controller, until told to stop."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from opendrs.cli.apply_cycle import exit_status
from opendrs.cli.file_permissions import log_exposures
from opendrs.cli.logs import level_option, log_to_stderr
from opendrs.cli.options import format_option
from opendrs.cli.sources import open_source, require_writable
from opendrs.cli.wiring import ControllerFactory, cancel_on_signals
from opendrs.config import display_path
from opendrs.config.settings import Settings
from opendrs.config.settings_reading import read_settings
from opendrs.controller import CancellationToken
from opendrs.errors import UnknownPlatformError


@click.command(name="run")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option(
    "--platform",
    metavar="NAME",
    help="Which platform of CONFIG, if there are several; demo for a simulated one.",
)
@click.option("--once", is_flag=True, help="One cycle, and an end.")
@level_option
@format_option
def command(
    *, config: Path, platform: str | None, once: bool, level: str, output_format: str
) -> int:
    """Look after a platform, until told to stop.

    Each interval ([controller] interval, 300 seconds): look at the cluster, let the
    policy decide, and do it step by step. With a table [api] the agents of the
    nodes are heard, and what they ask for is decided about together.

    The log is on standard error, a line for each event: each started step with its
    reason, and, when they change, the broken strict rules and the reason why nothing
    is done. --level debug logs the decision of every cycle.

    At the start it warns of keys, tokens, passwords and records that other users
    can read or change.

    After Ctrl-C or SIGTERM no step starts and running migrations finish; a second
    one aborts them. After a crash, what was under way is followed first.

    \b
      opendrs run /etc/opendrs/opendrs.toml
      opendrs run opendrs.toml --platform lab --format json
      opendrs run opendrs.toml --once            one cycle, for cron

    Exit status: 0 stopped, 2 bad input, 3 the platform denies what is needed, or
    the record cannot be kept; with --once as of apply.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = read_settings(config)
    name = platform or _only_platform(settings, config)
    with log_to_stderr(output_format, level), ExitStack() as stack:
        log_exposures(config, settings)
        cancellation = CancellationToken()
        stack.enter_context(cancel_on_signals(cancellation))
        source = open_source(name, settings, pace=0.0 if once else 1.0)
        require_writable(source.platform)
        parts = ControllerFactory(settings, source, cancellation, stack)
        controller = parts.create(serving=not once)
        if once:
            return exit_status(controller.run_once(), cancellation)
        controller.run_forever()
    return 0


def _only_platform(settings: Settings, config: Path) -> str:
    """Return the name of the only platform there is."""
    if len(settings.platforms) != 1:
        names = ", ".join(sorted(settings.platforms)) or "none but demo"
        raise UnknownPlatformError(
            f"{display_path(config)}: which platform? Say --platform NAME "
            f"(there is: {names})"
        )
    (name,) = settings.platforms
    return name
