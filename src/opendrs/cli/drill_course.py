"""Drills that are written down: held, shown, compared with what is expected."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.drill_output import (
    JSON,
    LOG,
    TABLE,
    Output,
    print_json_line,
    print_json_lines,
    print_log,
    progress,
)
from opendrs.cli.drill_tables import print_course, print_summary, summary_document
from opendrs.cli.screen import console, visible
from opendrs.errors import InvalidFileError
from opendrs.platforms.file import parse, read_text, shown, shown_path
from opendrs.sim.drill import Drill, hold_drill, read_scenario
from opendrs.sim.drill.form import drill_from
from opendrs.sim.drill.history import history_of
from opendrs.sim.drill.naming import Names
from opendrs.sim.drill.picture import Play
from opendrs.sim.drill.running import Watcher
from opendrs.sim.drill.summary import Summary, summary_of

NOT_AS_EXPECTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A drill that was held, and what was expected of it.

    Attributes:
        title: What it is called.
        drill: What happened.
        names: What guests and nodes are called there.
        log: The log that was expected; None for none.
        log_name: Where that stands.
        remarks: What differs from the snapshot.
        disappointments: What came otherwise than expected.
    """

    title: str
    drill: Drill
    names: Names
    log: str | None = None
    log_name: str = ""
    remarks: tuple[str, ...] = ()
    disappointments: tuple[str, ...] = ()

    def difference(self) -> list[str]:
        """Return how the log differs from the one that was expected, in lines."""
        if self.log is None or self.log == self.drill.log():
            return []
        expected, found = self.log.splitlines(), self.drill.log().splitlines()
        lines = list(
            difflib.unified_diff(
                expected, found, self.log_name, "this drill", lineterm=""
            )
        )
        return lines or ["the last line of the expected log does not end"]


def hold(source: str, output: Output, expect: Path | None) -> int:
    """Hold the drill *source*, show it, and return the exit status.

    Args:
        source: A file or a directory.
        output: What to write.
        expect: A log to compare with; None for what the file says.

    Raises:
        InvalidFileError: It is no drill, or an expected log cannot be read.
    """
    log = None if expect is None else (read_text(expect), shown_path(expect))
    with progress("drill") as watcher_of:
        course = _held(Path(source), log, watcher_of(""))
    difference = course.difference()
    history = history_of(course.drill)
    play = Play(course.title, course.drill, history, course.names)
    summary = summary_of(history, course.names, course.drill.failure)
    output.write(play)
    _show(course, summary, difference, output)
    failed = course.drill.failure is not None and course.log is None
    return NOT_AS_EXPECTED if difference or course.disappointments or failed else 0


def _held(path: Path, log: tuple[str, str] | None, watcher: Watcher) -> Course:
    if _is_directory(path):
        drill = hold_drill(read_scenario(path), watcher)
        expected, log_name = log or (None, "")
        return Course(
            title=path.resolve().name,
            drill=drill,
            names=Names(),
            log=expected,
            log_name=log_name,
        )
    if not path.suffix and not _exists(path):
        raise InvalidFileError(
            f"there is no drill {shown(str(path))}; of a cluster say --fail NODE or "
            "--fail-each"
        )
    document = parse(read_text(path), shown_path(path), path.suffix)
    if isinstance(document, dict) and "taken_at" in document:
        raise InvalidFileError(
            f"{shown_path(path)} is a snapshot: say --fail NODE or --fail-each"
        )
    file = drill_from(document, shown_path(path), path.parent)
    drill = file.hold(watcher)
    expected, log_name = log or (file.log, "the expected log")
    return Course(
        title=file.title or path.stem,
        drill=drill,
        names=file.stage.names,
        log=expected,
        log_name=log_name,
        remarks=file.stage.remarks,
        disappointments=file.disappointments(drill),
    )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _show(
    course: Course, summary: Summary, difference: Sequence[str], output: Output
) -> None:
    if output.form == JSON:
        print_json_lines(course.drill)
        document = summary_document(summary)
        document["remarks"] = list(course.remarks)
        document["disappointments"] = list(course.disappointments)
        document["difference"] = list(difference)
        print_json_line({"summary": document})
        return
    compared = course.log is not None
    if output.form == LOG or (output.form is None and not compared):
        print_log(course.drill)
        sys.stdout.write("\n")
    screen = console()
    if output.form == TABLE:
        print_course(screen, course.drill, course.names)
        screen.print()
    if compared:
        for line in difference:
            sys.stdout.write(f"{visible(line)}\n")
        words = "differs from" if difference else "is as in"
        screen.print(visible(f"The log {words} {course.log_name}."))
    print_summary(screen, summary, everyone=output.guests)
    for remark in course.remarks:
        screen.print(visible(f"Note: {remark}."))
    for told in course.disappointments:
        screen.print(visible(f"Not as expected: {told}"), style="red")
