"""Drills from files and scenario directories: run, show and compare."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.console import console, printable
from opendrs.cli.drill_output import (
    JSON,
    LOG,
    TABLE,
    DrillOutput,
    drill_progress,
    print_json_line,
    print_json_lines,
    print_log,
)
from opendrs.cli.drill_tables import (
    drill_summary_document,
    print_drill,
    print_drill_summary,
)
from opendrs.config import display_path, parse, read_text
from opendrs.errors import DiagnosticCode, InvalidFileError
from opendrs.escapes import repr_value
from opendrs.pve_ha.simulator import Drill, read_scenario, run_drill
from opendrs.pve_ha.simulator.file_format import drill_from
from opendrs.pve_ha.simulator.history import read_history
from opendrs.pve_ha.simulator.plot import DrillPlotData
from opendrs.pve_ha.simulator.pve_names import PveNames
from opendrs.pve_ha.simulator.run import TimeObserver
from opendrs.pve_ha.simulator.summary import DrillSummary, summarize_drill

EXPECTATION_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRun:
    """A finished drill and its expected results.

    Attributes:
        title: Title.
        drill: The drill.
        names: Names of guests and nodes.
        expected_log: Expected log; None if there is none.
        log_name: Name of the expected log.
        notes: Differences from the snapshot.
        failed_expectations: Messages about failed assertions.
    """

    title: str
    drill: Drill
    names: PveNames
    expected_log: str | None = None
    log_name: str = ""
    notes: tuple[str, ...] = ()
    failed_expectations: tuple[str, ...] = ()

    def diff(self) -> list[str]:
        """Return the lines of a diff between the expected log and the log."""
        if self.expected_log is None or self.expected_log == self.drill.log():
            return []
        expected, actual = self.expected_log.splitlines(), self.drill.log().splitlines()
        lines = list(
            difflib.unified_diff(
                expected, actual, self.log_name, "this drill", lineterm=""
            )
        )
        return lines or ["the expected log has no newline at its end"]


def run_drill_command(source: str, output: DrillOutput, expect: Path | None) -> int:
    """Run the drill *source*, show it, and return the exit status.

    Args:
        source: A file or a directory.
        output: Output options.
        expect: Log to compare with; None for that of the drill file.

    Raises:
        InvalidFileError: A file is invalid, or the expected log cannot be read.
    """
    log = None if expect is None else (read_text(expect), display_path(expect))
    with drill_progress("drill") as create_observer:
        run = _run_source(Path(source), log, create_observer(""))
    diff = run.diff()
    history = read_history(run.drill)
    summary = summarize_drill(history, run.names, run.drill.failure)
    output.write(DrillPlotData(run.title, run.drill, history, run.names))
    _print_run(run, summary, diff, output)
    has_failed = run.drill.failure is not None and run.expected_log is None
    return EXPECTATION_FAILED if diff or run.failed_expectations or has_failed else 0


def _run_source(
    path: Path, log: tuple[str, str] | None, observer: TimeObserver
) -> DrillRun:
    if _is_directory(path):
        drill = run_drill(read_scenario(path), observer)
        expected, log_name = log or (None, "")
        return DrillRun(
            title=path.resolve().name,
            drill=drill,
            names=PveNames(),
            expected_log=expected,
            log_name=log_name,
        )
    if not path.suffix and not _exists(path):
        raise InvalidFileError(
            f"no drill file or directory {repr_value(str(path))}; for a cluster add "
            "--fail NODE or --each-node"
        )
    document = parse(read_text(path), display_path(path), path.suffix)
    if isinstance(document, dict) and "taken_at" in document:
        raise InvalidFileError(
            f"{display_path(path)}: expected a drill file, got a snapshot; add --fail "
            "NODE or --each-node",
            code=DiagnosticCode.INCONSISTENT,
        )
    file = drill_from(document, display_path(path), path.parent)
    drill = file.run(observer)
    expected, log_name = log or (file.log, "the expected log")
    return DrillRun(
        title=file.title or path.stem,
        drill=drill,
        names=file.setup.names,
        expected_log=expected,
        log_name=log_name,
        notes=file.setup.notes,
        failed_expectations=file.failed_expectations(drill),
    )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # the name is too long or contains a zero byte
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _print_run(
    run: DrillRun, summary: DrillSummary, diff: Sequence[str], output: DrillOutput
) -> None:
    if output.output_format == JSON:
        print_json_lines(run.drill)
        document = drill_summary_document(summary)
        document["notes"] = list(run.notes)
        document["failed_expectations"] = list(run.failed_expectations)
        document["diff"] = list(diff)
        print_json_line({"summary": document})
        return
    has_expected_log = run.expected_log is not None
    if output.output_format == LOG or (
        output.output_format is None and not has_expected_log
    ):
        print_log(run.drill)
        sys.stdout.write("\n")
    screen = console()
    if output.output_format == TABLE:
        print_drill(screen, run.drill, run.names)
        screen.print()
    if has_expected_log:
        for line in diff:
            sys.stdout.write(f"{printable(line)}\n")
        comparison = "differs from" if diff else "matches"
        screen.print(printable(f"The log {comparison} {run.log_name}."))
    print_drill_summary(screen, summary, all_guests=output.guests)
    for note in run.notes:
        screen.print(printable(f"Note: {note}."))
    for expectation in run.failed_expectations:
        screen.print(printable(f"Failed: {expectation}"), style="red")
