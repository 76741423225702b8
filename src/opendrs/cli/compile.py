"""opendrs compile: the search of optimize as machine code, before it is needed."""

from __future__ import annotations

import atexit
from pathlib import Path
from time import monotonic

import click

from opendrs.controller import compiled_code
from opendrs.controller.events import log_event
from opendrs.optimizer import has_compiled_code_provider, register_compiled_code

NOT_COMPILED = 1


@click.command(name="compile")
@click.option(
    "--to",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The directory for compiled code; processes find it by OPENDRS_CACHE=DIR. "
    "Default: beside the installation, or ~/.cache/opendrs where that is read-only.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Only say whether there is compiled code; exit 1 if not.",
)
def command(*, directory: Path | None, check: bool) -> int:
    """Compile the search of the policy optimize, once for this machine.

    It takes about 20 s and 250 MiB. `make` and packages do it at set-up. Without it
    optimize plans clusters above 400 guests with a plain search: its plans are good,
    those of the compiled search are better. `run` compiles in the background.

    Compiled code is looked for in the directory OPENDRS_CACHE; if that is not set,
    in NUMBA_CACHE_DIR, beside the installation, and in ~/.cache/opendrs. It fits
    one version of opendrs, Numba and Python, and one kind of processor: compile again
    when one of them changes. Code that fits is copied rather than compiled again.

    \b
      opendrs compile
      opendrs compile --to /var/cache/opendrs    for a service that cannot write
      opendrs compile --check                    is there any that can be used?

    Exit status: 0 there is compiled code, 1 --check found none, 3 the directory
    cannot be written.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if check:
        return _check_directory(directory)
    started_at = monotonic()
    folder, new = compiled_code.ensure_folder(_print_line, directory)
    done = f"kept after {monotonic() - started_at:.0f} s" if new else "up to date"
    click.echo(f"compiled code: {done}: {folder}")
    return 0


def supply_compiled_code(*, background: bool) -> None:
    """Let the policies of this process use compiled code, if there is any.

    Args:
        background: Whether another process compiles meanwhile, if there is none; then
            what happens is logged.
    """
    if has_compiled_code_provider():
        return
    supply = compiled_code.CompiledCodeProvider(
        _log if background else _print_line, background=background
    )
    atexit.register(supply.close)
    register_compiled_code(supply)


def _log(line: str) -> None:
    log_event("compiled-code", line)


def _check_directory(directory: Path | None) -> int:
    if directory is None:
        folder = compiled_code.find_folder()
    else:
        folder = compiled_code.find_folder_in(directory)
    if folder is not None:
        click.echo(f"compiled code: up to date: {folder}")
        return 0
    detail = compiled_code.unusable_detail() if directory is None else None
    click.echo(f"compiled code: {detail or 'none found'}; compile: opendrs compile")
    return NOT_COMPILED


def _print_line(line: str) -> None:
    click.echo(line, err=True)
