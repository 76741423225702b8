"""opendrs record: a snapshot, or a history, into a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from opendrs.cli.figures import counted
from opendrs.cli.options import (
    JSON,
    AmountRange,
    a_number,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.screen import print_json, warn
from opendrs.cli.sources import Source, load_settings, observe, open_source
from opendrs.errors import (
    ConfigurationError,
    InvalidFileError,
    PlatformUnavailableError,
)
from opendrs.model import Snapshot
from opendrs.model.quantities import TIME
from opendrs.platforms.file import (
    HistoryFile,
    json_line,
    json_text,
    shown_path,
    write_snapshot,
)

STANDARD_OUTPUT = "-"
LONGEST_PAUSE = 1e7  # seconds between two snapshots: some four months


@click.command(name="record")
@source_argument
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="Where to: TOML when it ends in .toml, otherwise JSON; - for the screen.",
)
@click.option(
    "--every",
    type=AmountRange(TIME, 0, LONGEST_PAUSE, above=True),
    callback=a_number,
    metavar="SECONDS",
    help="Go on, and add one snapshot a line (JSON Lines) each time; also '5 min'.",
)
@click.option(
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="With --every: stop after so many; otherwise Ctrl-C stops.",
)
@click.option("--force", is_flag=True, help="Replace FILE where it is there.")
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
    form: str,
) -> None:
    """Write a snapshot, or a history, to a file.

    The snapshot holds nodes, guests, what was measured, and the rules; plan,
    show, compare and check read it, and so can somebody you ask for help. Of a
    history they read the newest snapshot, or with --at the one of a time.

    A file that is there is not overwritten without --force; only to a history,
    --every adds.

    \b
      opendrs record lab -o cluster.json
      opendrs record lab -o cluster.toml
      opendrs record lab -o history.jsonl --every 60
      opendrs plan history.jsonl --at 2026-11-22T09:30
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if count is not None and every is None:
        raise ConfigurationError("--count needs --every SECONDS")
    if every is None and not force:
        _require_absent(output)
    pace = 1.0 if every is not None and count is None else 0.0
    opened = open_source(source, load_settings(config), pace=pace)
    if every is None:
        written = _write_one(observe(opened), output)
    else:
        with _history(output, force=force) as add:
            written = _write_history(opened, add, every, count)
    _tell(output, written, form)


def _require_absent(output: str) -> None:
    path = Path(output)
    try:
        there = output != STANDARD_OUTPUT and path.is_file()
    except (OSError, ValueError):  # writing to it says what is wrong
        return
    if there:
        raise InvalidFileError(
            f"cannot write {shown_path(path)}: it is there; --force replaces it"
        )


def _write_one(snapshot: Snapshot, output: str) -> int:
    if output == STANDARD_OUTPUT:
        sys.stdout.write(json_text(snapshot))
    else:
        write_snapshot(snapshot, Path(output))
    return 1


def _write_history(
    source: Source, add: Callable[[str], None], every: float, count: int | None
) -> int:
    written = 0
    try:
        for snapshot in _observations(source, every, count):
            add(json_line(snapshot))
            written += 1
    except KeyboardInterrupt:  # the way to end it
        pass
    return written


def _observations(
    source: Source, every: float, count: int | None
) -> Iterator[Snapshot]:
    """Yield what is seen; a platform that is away later is asked again."""
    yield observe(source)
    seen = 1
    while count is None or seen < count:
        source.clock.sleep(every)
        try:
            snapshot = source.platform.observe()
        except PlatformUnavailableError as error:
            warn(f"not seen this time: {error}")
            continue
        yield snapshot
        seen += 1


@contextmanager
def _history(output: str, *, force: bool) -> Iterator[Callable[[str], None]]:
    """Give what adds a line to a history."""
    if output == STANDARD_OUTPUT:
        yield click.echo
        return
    path = Path(output)
    try:
        file = HistoryFile(path, replace=force)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot write {shown_path(path)}: {reason}") from error
    if file.mended:
        warn(file.mended)
    with file:
        yield file.add


def _tell(output: str, written: int, form: str) -> None:
    """Say what was written, unless that is where it was written to."""
    if output == STANDARD_OUTPUT:
        return
    if form == JSON:
        print_json({"file": output, "snapshots": written})
        return
    click.echo(f"Wrote {counted(written, 'snapshot')} to {shown_path(Path(output))}.")
