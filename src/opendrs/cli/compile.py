"""The command `opendrs compile`: compile the search of the policy optimize."""

from __future__ import annotations

import atexit
from pathlib import Path
from time import monotonic

import click

from opendrs.controller import compiled_code
from opendrs.controller.events import LogEventCode, log_event
from opendrs.optimizer import has_compiled_code_provider, register_compiled_code

NOT_COMPILED = 1


@click.command(name="compile")
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory for compiled code; set OPENDRS_CACHE=DIR to use it (default: "
    "in the installation, or ~/.cache/opendrs if that is read-only).",
)
@click.option(
    "--check",
    is_flag=True,
    help="Compile nothing; exit 1 if there is no compiled code.",
)
def command(*, directory: Path | None, check: bool) -> int:
    """Compile the search of the policy optimize for this machine.

    It takes about 20 s and 250 MiB; make does it during setup. Without compiled code,
    optimize uses a simpler search for clusters above 400 guests, and its plans are
    worse. The command run compiles in the background.

    Compiled code is loaded from the directory OPENDRS_CACHE. If that is not set, it
    is loaded from NUMBA_CACHE_DIR, the installation, or ~/.cache/opendrs. It matches
    one version of opendrs, Numba and Python, and one type of processor: compile again
    when one of them changes. Matching code is copied, not compiled again.

    \b
      opendrs compile
      opendrs compile --to /var/cache/opendrs    for a service that cannot write
      opendrs compile --check                    check only, compile nothing

    Exit status: 0 = there is compiled code; 1 = --check found none; 3 = the directory
    cannot be written.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    if check:
        return _check_directory(directory)
    started_at = monotonic()
    folder, new = compiled_code.ensure_folder(_print_line, directory)
    done = f"created in {monotonic() - started_at:.0f} s" if new else "up to date"
    click.echo(f"compiled code: {done}: {folder}")
    return 0


def supply_compiled_code(*, background: bool) -> None:
    """Let the policies of this process use compiled code, if there is any.

    Args:
        background: If there is none, compile it in another process and log the
            progress.
    """
    if has_compiled_code_provider():
        return
    supply = compiled_code.CompiledCodeProvider(
        _log if background else _print_line, background=background
    )
    atexit.register(supply.close)
    register_compiled_code(supply)


def _log(line: str) -> None:
    log_event(LogEventCode.COMPILED_CODE, line)


def _check_directory(directory: Path | None) -> int:
    if directory is None:
        folder = compiled_code.find_folder()
    else:
        folder = compiled_code.find_folder_in(directory)
    if folder is not None:
        click.echo(f"compiled code: up to date: {folder}")
        return 0
    detail = compiled_code.unusable_detail() if directory is None else None
    click.echo(f"compiled code: {detail or 'not found'}; run opendrs compile")
    return NOT_COMPILED


def _print_line(line: str) -> None:
    click.echo(line, err=True)
