"""Output options of opendrs drill, and its progress display."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import SpinnerColumn, TextColumn

from opendrs.cli.console import printable
from opendrs.cli.progress import counting_bars, progress_bars
from opendrs.config import display_path
from opendrs.errors import ConfigurationError, DiagnosticCode, InvalidFileError
from opendrs.escapes import escape_text
from opendrs.pve_ha.simulator import Drill
from opendrs.pve_ha.simulator.drill_log import format_log
from opendrs.pve_ha.simulator.plot import DrillPlotData, check_plot_path, write_plot
from opendrs.pve_ha.simulator.run import TimeObserver, ignore_time

LOG, JSON, TABLE = "log", "json", "table"
FORMATS = (LOG, JSON, TABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillOutput:
    """Output options.

    Attributes:
        output_format: log, json or table; None for the default of the command.
        log: File for the log; None for none.
        plot: File for the plot; None for none.
        guests: List all affected guests.
    """

    output_format: str | None = None
    log: Path | None = None
    plot: Path | None = None
    guests: bool = False

    def check(self) -> None:
        """Check the file names before a long drill.

        Raises:
            ConfigurationError: A directory does not exist.
            InvalidFileError: The suffix of the plot is neither .svg nor .png.
        """
        if self.plot is not None:
            check_plot_path(self.plot)
        for path in (self.plot, self.log):
            if path is not None and not path.parent.is_dir():
                raise ConfigurationError(
                    f"cannot write {display_path(path)}: no such directory",
                    code=DiagnosticCode.UNUSABLE_FILE,
                )

    def write(self, data: DrillPlotData) -> None:
        """Write the log and the plot to their files.

        Raises:
            InvalidFileError: A file cannot be written.
        """
        if self.log is not None:
            write_log(self.log, data.drill)
        if self.plot is not None:
            write_plot(data, self.plot)


def write_log(path: Path, drill: Drill) -> None:
    """Write the log of *drill* to *path*.

    Raises:
        InvalidFileError: It cannot be written.
    """
    try:
        path.write_text(escape_text(drill.log()), encoding="utf-8")
    except OSError as error:
        raise InvalidFileError(
            f"cannot write {display_path(path)}: {error.strerror}"
        ) from error


def print_log(drill: Drill) -> None:
    """Print the log of *drill* in the format of Proxmox VE."""
    encoding = sys.stdout.encoding or "utf-8"
    text = format_log(drill.entries)
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def print_json_lines(drill: Drill) -> None:
    """Print the log of *drill* as one JSON object per line."""
    for entry in drill.entries:
        sys.stdout.write(f"{entry.json()}\n")


def print_json_line(value: object) -> None:
    """Print *value* as JSON on one line."""
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False)}\n")


@contextmanager
def drill_progress(title: str) -> Iterator[Callable[[str], TimeObserver]]:
    """Show the simulated time of a drill on a terminal.

    Yields a function that creates an observer for an activity.
    """
    text = TextColumn("{task.description}", markup=False)
    with progress_bars(SpinnerColumn(), text) as bars:
        if bars is None:
            yield lambda _: ignore_time
            return
        line = bars.add_task(printable(title), total=None)

        def create_observer(activity: str) -> TimeObserver:
            description = printable(f"{title}{activity}")
            return lambda time: bars.update(
                line, description=f"{description}: {time} s"
            )

        yield create_observer


@contextmanager
def count_progress(count: int) -> Iterator[Callable[[str], None]]:
    """Show the number of finished tasks out of *count* on a terminal.

    Yields a function to call with a description before each task.
    """
    with counting_bars() as bars:
        if bars is None:
            yield lambda _: None
            return
        line = bars.add_task("", total=count)
        counter = itertools.count()
        yield lambda description: bars.update(
            line, description=printable(description), completed=next(counter)
        )
