"""Lines that are printed above progress bars stay, on any terminal."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.pseudo_terminal import CTRL_C, Finished, Terminal, run_in_terminal

OPENDRS = str(Path(sys.executable).with_name("opendrs"))
SIZES = [(80, 24), (200, 50), (60, 10)]
RESIZED = [(60, 24), (200, 50), (80, 12), (100, 30)] * 4
STEPS = 100
ATTEMPTS = range(5)  # a busy machine may press Ctrl-C after the last step
MANY_STEPS = """
import sys
from datetime import UTC, datetime
from opendrs.cli.console import console
from opendrs.cli.output import ProgressObserver
from opendrs.controller import CancellationToken
from opendrs.model import GuestId, LiveMigration, NodeId, Step, StepId
from opendrs.ports import Outcome, Progress, StepRecord, TaskState, TaskStatus

NOON = datetime(2026, 1, 1, tzinfo=UTC)

def step(number):
    action = LiveMigration(GuestId(f"guest-{number}"), NodeId("a"), NodeId("b"))
    return Step(StepId(str(number)), action)

def record(step):
    return StepRecord(run="", step=step.id, action=step.action, intended_at=NOON,
                      ended_at=NOON, outcome=Outcome.DONE)

with ProgressObserver(console(), CancellationToken()) as observer:
    running = []
    for number in range(100):
        running.append(step(number))
        observer.step_started(running[-1])
        for each in running:
            status = TaskStatus(TaskState.RUNNING, progress=Progress(remaining=number))
            observer.step_progressed(each, status)
        if len(running) == int(sys.argv[1]):
            ended = running.pop(0)
            observer.step_finished(ended, record(ended))
    for ended in running:
        observer.step_finished(ended, record(ended))
"""

WRITES_TO_STANDARD_ERROR = """
import sys
from rich.progress import BarColumn, TextColumn
from opendrs.cli.progress import progress_bars

with progress_bars(TextColumn("bar"), BarColumn()) as bars:
    for number in range(3):
        bars.add_task("", total=None)
    for number in range(500):
        print(f"line {number}", file=sys.stderr)
"""

ASKS_AFTER_BARS = """
from rich.progress import TextColumn
from opendrs.cli.progress import progress_bars

with progress_bars(TextColumn("bar")) as bars:
    bars.add_task("", total=None)
input("Name? ")
"""


@pytest.fixture
def terminal_environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path)} | {
        "COLUMNS": "",
        "LINES": "",
    }


def finished_steps(finished: Finished) -> Counter[int]:
    """Return how often the end of each step can be read."""
    found = (re.match(r"done\s+(\d+): ", line) for line in finished.lines)
    return Counter(int(match[1]) for match in found if match)


def many_steps(running: int) -> tuple[str, ...]:
    """Return a command that reports 100 steps, that many of them running at a time."""
    return (sys.executable, "-c", MANY_STEPS, str(running))


@pytest.mark.parametrize("size", SIZES)
def test_the_end_of_each_of_many_steps_is_shown_exactly_once(
    size: tuple[int, int], terminal_environment: dict[str, str]
) -> None:
    finished = run_in_terminal(
        many_steps(4), size=size, environment=terminal_environment
    )

    assert finished_steps(finished) == Counter(range(STEPS))


def test_more_running_steps_than_the_terminal_has_rows_hide_no_end(
    terminal_environment: dict[str, str],
) -> None:
    finished = run_in_terminal(
        many_steps(60), size=(80, 12), environment=terminal_environment
    )

    assert finished_steps(finished) == Counter(range(STEPS))
    assert not [line for line in finished.lines if "left" in line]


def test_a_terminal_that_is_resized_keeps_the_end_of_each_step(
    terminal_environment: dict[str, str],
) -> None:
    finished = run_in_terminal(
        many_steps(4), later_sizes=RESIZED, environment=terminal_environment
    )

    assert finished_steps(finished) == Counter(range(STEPS))


@pytest.mark.parametrize("size", SIZES[:2])
def test_apply_shows_the_end_of_each_step_exactly_once(
    size: tuple[int, int], terminal_environment: dict[str, str]
) -> None:
    command = [OPENDRS, "apply", "demo", "--policy", "optimize", "--yes"]

    finished = run_in_terminal(command, size=size, environment=terminal_environment)

    assert finished.status == 0
    done = next(line for line in finished.lines if line.startswith("Result: "))
    count = int(done.split()[1])
    assert count > 10
    assert finished_steps(finished) == Counter(range(1, count + 1))


def test_apply_on_a_simulated_cluster_shows_how_far_migrations_are(
    terminal_environment: dict[str, str],
) -> None:
    """Ctrl-C at a line that says so ends with an answer: there was time to read it."""
    command = [OPENDRS, "apply", "demo", "--yes", "--set", "max_migrations=1"]

    for _ in ATTEMPTS:
        finished = run_in_terminal(
            command, reply=("downtime", CTRL_C), environment=terminal_environment
        )
        text = "\n".join(finished.lines)
        if "No further step starts." in text:
            break

    assert "No further step starts." in text


def test_ctrl_c_shows_finished_and_skipped_steps(
    terminal_environment: dict[str, str],
) -> None:
    command = [OPENDRS, "apply", "demo", "--policy", "optimize", "--yes"]

    for _ in ATTEMPTS:
        finished = run_in_terminal(
            command, interrupt_at="done ", environment=terminal_environment
        )
        if finished.status != 0:
            break

    assert finished.status == 1
    text = "\n".join(finished.lines)
    assert text.count("Ctrl-C again") == 1
    result = re.search(r"Result: (\d+) done, (\d+) skipped", text)
    assert result is not None
    assert (
        sum(finished_steps(finished).values())
        == len(finished_steps(finished))
        == int(result[1])
    )


@pytest.mark.parametrize("typed", [CTRL_C, CTRL_C * 2, "a\r", "x" * 100])
def test_typed_text_leaves_no_bar_behind(
    typed: str, terminal_environment: dict[str, str]
) -> None:
    command = [OPENDRS, "apply", "demo", "--policy", "optimize", "--yes"]

    finished = run_in_terminal(
        command, reply=("GiB left", typed), environment=terminal_environment
    )

    text = "\n".join(finished.lines)
    assert re.search("^Result: ", text, re.MULTILINE)
    assert not [line for line in finished.lines if "GiB left" in line or "━" in line]


def test_keys_are_shown_again_once_the_bars_are_gone(
    terminal_environment: dict[str, str],
) -> None:
    finished = run_in_terminal(
        (sys.executable, "-c", ASKS_AFTER_BARS),
        reply=("Name?", "alpha\r"),
        environment=terminal_environment,
    )

    assert finished.lines == ["Name? alpha"]


def test_lines_written_to_standard_error_stay_above_the_bars(
    terminal_environment: dict[str, str],
) -> None:
    finished = run_in_terminal(
        (sys.executable, "-c", WRITES_TO_STANDARD_ERROR),
        environment=terminal_environment,
    )

    assert finished.lines == [f"line {number}" for number in range(500)]


def test_the_emulated_terminal_wraps_erases_and_wraps_again() -> None:
    terminal = Terminal(columns=4, rows=2)

    terminal.write("abcdef\r\ngone\r\x1b[2Knew\r\n1\r\n2")
    terminal.write("\x1b[9A\rA")
    terminal.resize(3, 2)
    terminal.write("B\n")

    assert terminal.lines == ["abcdef", "new", "AB", "2"]
