"""The command `opendrs access`: tokens for the dashboard and the HTTP API."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from opendrs.api.access_control import create_token, revoke_token, token_document
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import add_row, console, create_table, print_json, printable
from opendrs.cli.options import (
    JSON,
    QuantityRange,
    config_option,
    format_option,
    reject_nan,
)
from opendrs.cli.platform_store import cli_actor, open_to_operate, open_to_read
from opendrs.cli.web_context import sign_in_link
from opendrs.controller import SystemClock
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import TIME
from opendrs.ports import AccessToken, Role
from opendrs.store import DatabaseAccessStore

MAX_LIFETIME = 10 * 366 * 86_400  # seconds
DEFAULT_LIFETIME = 90 * 86_400  # seconds
platform_argument = click.argument("platform", metavar="PLATFORM")


@click.group(name="access")
def command() -> None:
    """Create, list and revoke tokens for the dashboard and the HTTP API.

    A token has a role: a viewer sees everything but the audit; an operator also
    approves plans, sets the mode, pauses and drains; an admin also manages tokens and
    reads the audit. Only the SHA-256 of a token is stored. (Tokens of host agents:
    opendrs token.)

    \b
      opendrs access create lab --name ada --role operator
      opendrs access list lab
      opendrs access revoke lab k7w2x3ab
      opendrs access link lab              a link that signs a browser in, once
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph


@command.command(name="create")
@platform_argument
@click.option("--name", required=True, metavar="TEXT", help="Its owner, for the audit.")
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    default=Role.VIEWER.value,
    help="What it allows (default viewer).",
)
@click.option(
    "--for",
    "lifetime",
    type=QuantityRange(TIME, 0, MAX_LIFETIME, exclusive_minimum=True),
    callback=reject_nan,
    default=DEFAULT_LIFETIME,
    metavar="TIME",
    help="Lifetime in seconds or with a unit, such as 30d (default 90d).",
)
@config_option
@format_option
def create(  # noqa: PLR0913 - one parameter for each option
    *,
    platform: str,
    name: str,
    role: str,
    lifetime: float,
    config: Path | None,
    output_format: str,
) -> int:
    """Create a token for PLATFORM. It is shown once.

    \b
      opendrs access create lab --name ada --role operator
      opendrs access create lab --name grafana --for 365d

    Exit status: 0 = created, 2 = invalid input, 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    with open_to_operate(platform, settings) as store:
        created = create_token(
            DatabaseAccessStore(store),
            SystemClock(),
            cli_actor(),
            name=name,
            role=Role(role),
            seconds=lifetime,
        )
    if output_format == JSON:
        print_json({**token_document(created.record), "secret": created.secret})
    else:
        click.echo(created.secret)
        until = f"{created.record.expires_at:%Y-%m-%d %H:%M}"
        click.echo(f"{role}, valid until {until} UTC; not shown again", err=True)
    return 0


@command.command(name="list")
@platform_argument
@config_option
@format_option
def list_tokens(*, platform: str, config: Path | None, output_format: str) -> int:
    """List the tokens of PLATFORM, without their secrets.

    Exit status: 0 = done, 2 = invalid input, 3 = the database cannot be read.
    """
    with open_to_read(platform, load_settings(config)) as store:
        tokens = DatabaseAccessStore(store).tokens()
    if output_format == JSON:
        print_json([token_document(each) for each in tokens])
        return 0
    screen = console()
    if not tokens:
        screen.print(f"{printable(platform)}: no tokens")
        return 0
    table = create_table("id", "name", "role", "state", "expires", "last use")
    now = SystemClock().now()
    for each in tokens:
        add_row(
            table,
            each.id,
            each.name,
            each.role.value,
            _state(each, now),
            _time_text(each.expires_at),
            _time_text(each.last_used_at),
        )
    screen.print(table)
    return 0


@command.command(name="revoke")
@platform_argument
@click.argument("token", metavar="ID")
@config_option
def revoke(*, platform: str, token: str, config: Path | None) -> int:
    """Revoke the token ID of PLATFORM, and end its browser sessions.

    Exit status: 0 = revoked, 2 = invalid input, 3 = the database cannot be used.
    """
    with open_to_operate(platform, load_settings(config)) as store:
        access = DatabaseAccessStore(store)
        if not revoke_token(access, SystemClock(), cli_actor(), token):
            known = access.token(token) is not None
            problem = "revoked before" if known else "no such token"
            raise ConfigurationError(
                f"{platform}: {repr_value(token)}: {problem}; opendrs access list "
                f"{platform} lists them",
                code=DiagnosticCode.UNKNOWN_NAME,
            )
    console().print(f"token {printable(token)}: revoked")
    return 0


@command.command(name="link")
@platform_argument
@click.option(
    "--address",
    metavar="URL",
    help="Address of the dashboard as the browser uses it (default: that of [web]).",
)
@config_option
def link(*, platform: str, address: str | None, config: Path | None) -> int:
    """Print a link that signs one browser in as an admin, within ten minutes.

    Exit status: 0 = done, 2 = invalid input, 3 = the database cannot be used.
    """
    settings = load_settings(config)
    own = f"{settings.web.scheme}://{settings.web.listen}"
    with open_to_operate(platform, settings) as store:
        access = DatabaseAccessStore(store)
        target = f"{(address or own).rstrip('/')}/"
        click.echo(sign_in_link(access, SystemClock(), cli_actor(), target))
    return 0


def _state(token: AccessToken, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    if now >= token.expires_at:
        return "expired"
    return "single use" if token.single_use else "valid"


def _time_text(time: datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M}"
