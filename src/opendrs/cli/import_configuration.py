"""The command `opendrs import`: configuration from that of another program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import tomli_w
from rich.text import Text

from opendrs.cli.connect import validated_settings
from opendrs.cli.console import add_row, console, create_table, print_json, printable
from opendrs.cli.options import JSON, format_option
from opendrs.cli.secret_files import SecretFiles
from opendrs.config import (
    Diagnostic,
    Severity,
    display_path,
    path_text,
    raise_diagnostics,
)
from opendrs.config.proxlb import (
    POLICY,
    ImportedSetting,
    Translation,
    read_document,
    translate,
)
from opendrs.config.snapshot_writing import replace_file
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_toml

BAD_INPUT = 2
KIND = "proxmox"


@click.group(name="import")
def command() -> None:
    """Convert the configuration of ProxLB.

    \b
      opendrs import proxlb /etc/proxlb/proxlb.yaml --name lab
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph


@command.command(name="proxlb")
@click.argument(
    "source", metavar="FILE", type=click.Path(path_type=Path, allow_dash=False)
)
@click.option(
    "--name",
    default=KIND,
    metavar="NAME",
    help="Name of the platform (default: proxmox).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("opendrs.toml"),
    metavar="FILE",
    help="Configuration file to write (default: opendrs.toml).",
)
@click.option(
    "--ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Certificate authority of the hosts, such as pve-root-ca.pem.",
)
@click.option(
    "--fingerprint",
    "fingerprints",
    multiple=True,
    metavar="SHA256",
    help="Fingerprint of the certificate of a host; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
@format_option
def proxlb(  # noqa: PLR0913 - one for each option
    *,
    source: Path,
    name: str,
    output: Path,
    ca: Path | None,
    fingerprints: Sequence[str],
    force: bool,
    output_format: str,
) -> int:
    """Convert the configuration of ProxLB 1.1 or 2.

    Each setting of FILE is listed: taken; differs, with the difference; or unsupported,
    with what to do instead. Nothing is sent to the cluster. The secret is written to a
    file of its own that only you can read.

    \b
      opendrs import proxlb /etc/proxlb/proxlb.yaml --name lab --ca pve-root-ca.pem
      opendrs check opendrs.toml --online        afterwards
      opendrs plan lab

    Exit status: 0 = written; 2 = invalid input (nothing is written).
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    _require_absent(output, force=force)
    trusted = ca is not None or bool(fingerprints)
    translation, problems = translate(read_document(source), trusted=trusted)
    if problems and output_format == JSON:
        print_json({"diagnostics": [_problem(source, each) for each in problems]})
        return BAD_INPUT
    raise_diagnostics(display_path(source), problems, InvalidFileError)
    if ca is not None:
        translation.platform["ca"] = _relative(ca, output.parent)
    if fingerprints:
        translation.platform["fingerprints"] = list(fingerprints)
    secret = _write(translation, name, output, force=force)
    if output_format == JSON:
        print_json(
            {
                "file": str(output),
                "platform": name,
                "secret_file": str(output.parent / secret),
                "settings": [_document(each) for each in translation.settings],
            }
        )
        return 0
    _print_settings(translation.settings)
    click.echo("The tags plb_* of guests are rules: proxlb_tags = true")
    written = f"written: {display_path(output)}, {display_path(output.parent / secret)}"
    click.echo(printable(f"{written}; next: opendrs check {output} --online"))
    return 0


def _require_absent(path: Path, *, force: bool) -> None:
    """Check that *path* does not exist, or is a file that may be replaced.

    Raises:
        InvalidFileError: It exists, or is not a valid path.
    """
    try:
        exists, is_file = path.exists(), path.is_file()
    except (OSError, ValueError) as error:  # such as a name that is too long
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"{display_path(path)}: {reason}") from error
    if exists and not is_file:
        raise InvalidFileError(f"{display_path(path)}: expected a regular file")
    if exists and not force:
        raise InvalidFileError(
            f"{display_path(path)}: the file exists; use --force to replace it"
        )


def _relative(path: Path, directory: Path) -> str:
    """Return *path* for a configuration in *directory*."""
    return str(path) if path.is_absolute() else os.path.relpath(path, directory)


def configuration_text(translation: Translation, name: str) -> str:
    """Return the configuration of the platform *name*, as TOML."""
    setting, _ = translation.secret
    platform = {
        "kind": KIND,
        f"{setting}_file": f"{name}-{setting}",
        **translation.platform,
    }
    document: dict[str, object] = {
        "platform": {name: platform},
        "policy": {"name": POLICY, POLICY: translation.policy},
        "limits": translation.limits,
    }
    if translation.controller:
        document["controller"] = translation.controller
    if translation.rules:
        document["rules"] = translation.rules
    return escape_toml(tomli_w.dumps(document))


def _write(translation: Translation, name: str, output: Path, *, force: bool) -> Path:
    """Write the configuration and the secret; return the file of the secret.

    Raises:
        ConfigurationError: The name or a file is not valid, or cannot be written.
    """
    setting, secret = translation.secret
    text = configuration_text(translation, name)
    validated_settings(text, output)
    _require_absent(output.parent / f"{name}-{setting}", force=force)
    with SecretFiles(output.parent, name, replace=force) as files:
        path = files.write(setting, secret)
        replace_file(output, text)
        files.keep()
    return path


def _print_settings(settings: Iterable[ImportedSetting]) -> None:
    screen = console()
    if screen.is_terminal:
        table = create_table("result", "setting: in OpenDRS")
        for each in settings:
            add_row(table, each.status, _terminal_cell(each))
    else:
        table = create_table("setting", "result", "in OpenDRS", "detail")
        for each in settings:
            add_row(table, path_text(each.path), each.status, each.target, each.detail)
    screen.print(table)


def _terminal_cell(setting: ImportedSetting) -> Text:
    """Return both settings in one line, and the detail below them."""
    names = [path_text(setting.path), setting.target]
    cell = Text(printable(": ".join(filter(None, names))))
    if setting.detail:
        cell.append(f"\n{printable(setting.detail)}", style="dim")
    return cell


def _document(setting: ImportedSetting) -> dict[str, str | None]:
    return {
        "field": path_text(setting.path),
        "status": setting.status.value,
        "target": setting.target or None,
        "detail": setting.detail or None,
    }


def _problem(source: Path, problem: Diagnostic) -> dict[str, str | None]:
    return {
        "severity": Severity.ERROR.value,
        "code": problem.code.value,
        "file": str(source),
        "field": path_text((*problem.path, *problem.subpath)) or None,
        "message": problem.text,
    }
