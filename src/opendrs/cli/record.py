"""opendrs record: a snapshot, or a history, into a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TextIO

import click

from opendrs.cli.figures import counted
from opendrs.cli.options import (
    JSON,
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
from opendrs.platforms.file import json_line, json_text, shown_path, write_snapshot

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
    type=click.FloatRange(0, LONGEST_PAUSE, min_open=True),
    callback=a_number,
    metavar="SECONDS",
    help="Go on, and add one snapshot a line (JSON Lines) each time.",
)
@click.option(
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="With --every: stop after so many; otherwise Ctrl-C stops.",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    output: str,
    every: float | None,
    count: int | None,
    config: Path | None,
    form: str,
) -> None:
    """Write a snapshot, or a history, to a file.

    The snapshot holds nodes, guests, what was measured, and the rules; plan,
    show and check read it, and so can somebody you ask for help.

    \b
      opendrs record lab -o cluster.json
      opendrs record lab -o cluster.toml
      opendrs record lab -o history.jsonl --every 60
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if count is not None and every is None:
        raise ConfigurationError("--count needs --every SECONDS")
    pace = 1.0 if every is not None and count is None else 0.0
    opened = open_source(source, load_settings(config), pace=pace)
    if every is None:
        written = _write_one(observe(opened), output)
    else:
        written = _write_history(opened, output, every, count)
    _tell(output, written, form)


def _write_one(snapshot: Snapshot, output: str) -> int:
    if output == STANDARD_OUTPUT:
        sys.stdout.write(json_text(snapshot))
    else:
        write_snapshot(snapshot, Path(output))
    return 1


def _write_history(source: Source, output: str, every: float, count: int | None) -> int:
    written = 0
    with _appending(output) as file:
        try:
            for snapshot in _observations(source, every, count):
                file.write(json_line(snapshot) + "\n")
                file.flush()
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
def _appending(output: str) -> Iterator[TextIO]:
    path = Path(output)
    try:
        opened = (
            nullcontext(sys.stdout)
            if output == STANDARD_OUTPUT
            else path.open("a", encoding="utf-8")
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot write {shown_path(path)}: {reason}") from error
    with opened as file:
        yield file


def _tell(output: str, written: int, form: str) -> None:
    """Say what was written, unless that is where it was written to."""
    if output == STANDARD_OUTPUT:
        return
    if form == JSON:
        print_json({"file": output, "snapshots": written})
        return
    click.echo(f"Wrote {counted(written, 'snapshot')} to {shown_path(Path(output))}.")
