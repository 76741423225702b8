"""The command `opendrs token`: create a token for the agent of a node."""

from __future__ import annotations

import os
from pathlib import Path

import click
import tomli_w

from opendrs.api.tokens import hash_token, new_token, require_node_name
from opendrs.cli.console import print_json
from opendrs.cli.options import JSON, format_option
from opendrs.config import display_path
from opendrs.errors import ConfigurationError, DiagnosticCode


@click.command(name="token")
@click.argument("node", metavar="NODE")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the token to FILE, readable only by its owner, and do not print it.",
)
@format_option
def command(*, node: str, output: Path | None, output_format: str) -> None:
    """Create a token for the agent of NODE.

    Copy the token to the node ([agent] token_file), and append the printed line with
    its hash to the token file of the controller ([api] tokens). The token cannot be
    derived from the hash. Restart the controller to accept the token.

    \b
      opendrs token h1 -o h1.token >> tokens.toml
      opendrs token h1
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    require_node_name(node)
    token = new_token()
    if output is not None:
        _write_token(output, token)
    shown = token if output is None else None
    if output_format == JSON:
        print_json({"node": node, "token": shown, "sha256": hash_token(token)})
        return
    if shown is not None:
        click.echo(f"# token of {node}, secret: {shown}")
    click.echo(tomli_w.dumps({node: hash_token(token)}), nl=False)


def _write_token(path: Path, token: str) -> None:
    """Write *token* to a new file that only its owner can read.

    Raises:
        ConfigurationError: The file exists, or cannot be created.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{token}\n")
    except FileExistsError as error:
        raise ConfigurationError(
            f"{display_path(path)}: the file exists; delete it or name another one"
        ) from error
    except (OSError, ValueError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"{display_path(path)}: cannot write: {detail}",
            code=DiagnosticCode.UNUSABLE_FILE,
        ) from error
