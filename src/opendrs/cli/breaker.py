"""The command `opendrs breaker`: state and reset of the circuit breaker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json, printable
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.platform_store import (
    cli_actor,
    open_operator_store,
    open_to_read,
)
from opendrs.controller import SystemClock
from opendrs.controller.modes import BREAKER_KEY, OPERATOR_ENTRIES, open_api_breaker
from opendrs.controller.operator_commands import reset_breakers
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import decoding, time_from_text

OPEN = 1


@click.command(name="breaker")
@click.argument("platform", metavar="PLATFORM")
@click.option("--reset", is_flag=True, help="Close both circuit breakers.")
@click.option("--because", metavar="TEXT", help="Why, for the audit.")
@config_option
@format_option
def command(
    *,
    platform: str,
    reset: bool,
    because: str | None,
    config: Path | None,
    output_format: str,
) -> int:
    """Show or reset the circuit breakers of the controller of PLATFORM.

    The circuit breaker opens after max_failures steps have failed within
    failure_window (table [protection] of the configuration). While it is open, run
    starts no plan by itself, also after a restart. Find out why the steps failed
    (opendrs history, the log of run), then reset it. A running controller continues
    with its next cycle.

    The API circuit breaker opens after max_api_errors requests to the platform have
    failed within api_error_window, and closes by itself when the platform has answered
    for api_recovery_time. While it is open, no step starts.

    \b
      opendrs breaker lab
      opendrs breaker lab --reset --because "storage network repaired"

    Exit status: 0 = both circuit breakers are closed; 1 = one is open; 2 = invalid
    input; 3 = the database cannot be read or written.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    if because is not None and not reset:
        raise ConfigurationError(
            "--because: expected together with --reset",
            code=DiagnosticCode.INCONSISTENT,
        )
    if reset:
        with open_operator_store(platform, settings) as store:
            reset_breakers(store, SystemClock(), cli_actor(), because or "")
    with open_to_read(platform, settings) as store:
        entries = store.load_all(OPERATOR_ENTRIES)
    entry, api_entry = entries.get(BREAKER_KEY), open_api_breaker(entries)
    if output_format == JSON:
        print_json({"open": entry is not None, **(entry or {}), "api": api_entry})
    else:
        console().print(printable(breaker_text(entry, platform)))
        console().print(printable(breaker_text(api_entry, None)))
    return 0 if entry is None and api_entry is None else OPEN


def breaker_text(entry: Mapping[str, object] | None, platform: str | None) -> str:
    """Return the state of a circuit breaker, and what closes it.

    Args:
        entry: Entry of the circuit breaker in the store; None while it is closed.
        platform: Name of the platform; None for the breaker of its API, which closes
            by itself.

    Raises:
        StoreError: The entry cannot be read.
    """
    name = "API circuit breaker" if platform is None else "circuit breaker"
    if entry is None:
        return f"{name}: closed"
    closing = (
        "it closes by itself when the platform answers"
        if platform is None
        else f"to close it: opendrs breaker {platform} --reset"
    )
    with decoding(f"the {name}", entry):
        opened_at = time_from_text(str(entry["opened_at"]))
        since = f"{opened_at:%Y-%m-%d %H:%M:%S} UTC"
        return f"{name}: open since {since}: {entry['detail']}; {closing}"
