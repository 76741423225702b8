"""opendrs token: a new token for the agent of a node."""

from __future__ import annotations

import os
from pathlib import Path

import click
import tomli_w

from opendrs.api.tokens import hash_token, new_token, require_node_name
from opendrs.cli.console import print_json
from opendrs.cli.options import JSON, format_option
from opendrs.config import display_path
from opendrs.errors import ConfigurationError


@click.command(name="token")
@click.argument("node", metavar="NODE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the token there, for nobody else to read, and do not show it.",
)
@format_option
def command(*, node: str, output: Path | None, output_format: str) -> None:
    """Make a new token for the agent of NODE.

    The token goes to the node ([agent] token_file); its hash goes into the file of
    tokens of the controller ([api] tokens). Nobody can get the token from the
    hash. The controller takes it once it is started anew.

    \b
      opendrs token h1 -o h1.token >> tokens.toml
      opendrs token h1
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    require_node_name(node)
    token = new_token()
    if output is not None:
        _write_token(output, token)
    shown = token if output is None else None
    if output_format == JSON:
        print_json({"node": node, "token": shown, "sha256": hash_token(token)})
        return
    if shown is not None:
        click.echo(f"# The token, for {node} alone: {shown}")
    click.echo(tomli_w.dumps({node: hash_token(token)}), nl=False)


def _write_token(path: Path, token: str) -> None:
    """Write *token* to a new file that nobody else can read.

    Raises:
        ConfigurationError: There is such a file, or none can be made.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"cannot write {display_path(path)}: {detail}"
        ) from error
