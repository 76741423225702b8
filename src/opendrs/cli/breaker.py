"""The command `opendrs breaker`: state and reset of the circuit breaker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from opendrs.cli.console import console, print_json, printable
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.platform_store import (
    load_entry,
    open_operator_store,
    operator_action,
)
from opendrs.cli.sources import load_settings
from opendrs.controller import SystemClock
from opendrs.controller.protection import BREAKER_KEY, RESET_KEY
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import decoding, time_as_text, time_from_text

OPEN = 1


@click.command(name="breaker")
@click.argument("platform", metavar="PLATFORM")
@click.option("--reset", is_flag=True, help="Close the circuit breaker.")
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
    """Show or reset the circuit breaker of the controller of PLATFORM.

    The circuit breaker opens after max_failures steps have failed within
    failure_window (table [protection] of the configuration). While it is open, run
    starts no plan by itself, also after a restart. Find out why the steps failed
    (opendrs history, the log of run), then reset it. A running controller continues
    with its next cycle.

    \b
      opendrs breaker lab
      opendrs breaker lab --reset --because "storage network repaired"

    Exit status: 0 closed, 1 open, 2 invalid input, 3 the database cannot be read or
    written.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    if because is not None and not reset:
        raise ConfigurationError(
            "--because: expected together with --reset",
            code=DiagnosticCode.INCONSISTENT,
        )
    if reset:
        clock = SystemClock()
        action = operator_action(clock, "breaker --reset", {"because": because or ""})
        with open_operator_store(platform, settings) as store:
            store.change(
                action, {BREAKER_KEY: None, RESET_KEY: {"at": time_as_text(action.at)}}
            )
    entry = load_entry(platform, settings, BREAKER_KEY)
    if output_format == JSON:
        print_json({"open": entry is not None, **(entry or {})})
    else:
        console().print(printable(breaker_text(platform, entry)))
    return 0 if entry is None else OPEN


def breaker_text(platform: str, entry: Mapping[str, object] | None) -> str:
    """Return the state of the circuit breaker, and the command that closes it.

    Args:
        platform: Name of the platform.
        entry: Entry of the circuit breaker in the store; None while it is closed.

    Raises:
        StoreError: The entry cannot be read.
    """
    if entry is None:
        return "circuit breaker: closed"
    with decoding("the circuit breaker", entry):
        opened_at = time_from_text(str(entry["opened_at"]))
        return (
            f"circuit breaker: open since {opened_at:%Y-%m-%d %H:%M:%S} UTC: "
            f"{entry['detail']}; to close it: opendrs breaker "
            f"{platform} --reset"
        )
