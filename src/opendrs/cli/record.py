"""The command `opendrs record`: write a snapshot or a history to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import print_json, warn
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    QuantityRange,
    config_option,
    format_option,
    reject_nan,
    source_argument,
)
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.sources import observe, open_source
from opendrs.config import (
    HistoryFile,
    display_path,
    json_line,
    json_text,
    write_snapshot,
)
from opendrs.errors import (
    ConfigurationError,
    DiagnosticCode,
    InvalidFileError,
    PlatformUnavailableError,
)
from opendrs.model import TIME, Snapshot, format_count

STANDARD_OUTPUT = "-"
MAX_INTERVAL = 1e7  # seconds between two snapshots: about four months


@click.command(name="record")
@source_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="The file: TOML if it ends in .toml, otherwise JSON; - for standard output.",
)
@click.option(
    "--every",
    type=QuantityRange(TIME, 0, MAX_INTERVAL, exclusive_minimum=True),
    callback=reject_nan,
    metavar="SECONDS",
    help="Append one snapshot to FILE at this interval (JSON Lines); also '5 min'.",
)
@click.option(
    "--count",
    type=IntegerRange(1),
    metavar="N",
    help="With --every: stop after N snapshots (default: at Ctrl-C).",
)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    output: str,
    every: float | None,
    count: int | None,
    force: bool,
    config: Path | None,
    output_format: str,
) -> None:
    """Write a snapshot or a history to a file.

    A snapshot contains the nodes, guests, measurements and rules. plan, show,
    compare and check accept the file as SOURCE, so you can also attach it to a
    support request. With a history they use the last snapshot, or an
    earlier one with --at.

    An existing file is not overwritten without --force. --every appends to an
    existing history.

    \b
      opendrs record lab -o cluster.json
      opendrs record lab -o cluster.toml
      opendrs record lab -o history.jsonl --every 60
      opendrs plan history.jsonl --at 2026-11-22T09:30
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    if count is not None and every is None:
        raise ConfigurationError(
            "--count needs --every SECONDS", code=DiagnosticCode.MISSING_KEY
        )
    if every is None and not force:
        _require_absent(output)
    pace = 1.0 if every is not None and count is None else 0.0
    opened = open_source(source, load_settings(config), pace=pace)
    if every is None:
        written = _write_one(observe(opened), output)
    else:
        with _open_history(output, force=force) as add:
            written = _write_history(opened, add, every, count)
    _print_result(output, written, output_format)


def _require_absent(output: str) -> None:
    path = Path(output)
    try:
        exists = output != STANDARD_OUTPUT and path.is_file()
    except (OSError, ValueError):  # writing reports the error
        return
    if exists:
        raise InvalidFileError(
            f"{display_path(path)}: the file exists; use --force to replace it"
        )


def _write_one(snapshot: Snapshot, output: str) -> int:
    if output == STANDARD_OUTPUT:
        sys.stdout.write(json_text(snapshot))
    else:
        write_snapshot(snapshot, Path(output))
    return 1


def _write_history(
    source: ClusterSource, add: Callable[[str], None], every: float, count: int | None
) -> int:
    written = 0
    try:
        for snapshot in _observations(source, every, count):
            add(json_line(snapshot))
            written += 1
    except KeyboardInterrupt:  # the regular end
        pass
    return written


def _observations(
    source: ClusterSource, every: float, count: int | None
) -> Iterator[Snapshot]:
    """Yield a snapshot every *every* seconds; skip it if the platform is unreachable.

    Raises:
        PlatformError: The first observation failed.
    """
    yield observe(source)
    count_observed = 1
    while count is None or count_observed < count:
        source.clock.sleep(every)
        try:
            snapshot = source.platform.observe()
        except PlatformUnavailableError as error:
            warn(f"snapshot skipped: {error}")
            continue
        yield snapshot
        count_observed += 1


@contextmanager
def _open_history(output: str, *, force: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that appends a line to a history."""
    if output == STANDARD_OUTPUT:
        yield click.echo
        return
    path = Path(output)
    try:
        file = HistoryFile(path, replace=force)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(
            f"{display_path(path)}: cannot write: {reason}"
        ) from error
    if file.repair:
        warn(file.repair)
    with file:
        yield file.add


def _print_result(output: str, written: int, output_format: str) -> None:
    """Print the number of snapshots, unless they were written to standard output."""
    if output == STANDARD_OUTPUT:
        return
    if output_format == JSON:
        print_json({"file": output, "snapshots": written})
        return
    click.echo(
        f"Wrote {format_count(written, 'snapshot')} to {display_path(Path(output))}."
    )
