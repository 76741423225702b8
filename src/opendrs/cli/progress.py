"""What happens, while it happens: bars on a terminal, lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import BarColumn, TaskID, TextColumn
from rich.text import Text

from opendrs.cli.deeds import deed
from opendrs.cli.figures import amount, seconds
from opendrs.cli.live import LiveProgress
from opendrs.cli.screen import Screen, visible
from opendrs.controller import Brake
from opendrs.controller.documents import action_document
from opendrs.model import Step, StepId
from opendrs.ports import Outcome, StepRecord, TaskStatus
from opendrs.ports import Progress as TaskProgress

STYLES = {
    Outcome.DONE: "green",
    Outcome.FAILED: "red",
    Outcome.LOST: "red",
    Outcome.ABORTED: "yellow",
    Outcome.REFUSED: "yellow",
    Outcome.SKIPPED: "dim",
}


class Reporter:
    """A watcher that writes what happens to a console; used with `with`.

    Args:
        screen: Where to write.
        brake: What the operator stops with; said when it has been pulled.
    """

    def __init__(self, screen: Screen, brake: Brake) -> None:
        self._screen = screen
        self._brake = brake
        self._said = 0
        self._running: dict[StepId, TaskID | None] = {}
        self._why = ""
        self._bars: LiveProgress | None = None
        if screen.is_interactive:
            self._bars = _bars(screen)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def started(self, step: Step) -> None:
        """Say that *step* was started."""
        self._running[step.id] = None
        if self._bars is None:
            self._line("started", step)
        else:
            self._running[step.id] = self._add_bar(self._bars, step)

    def progressed(self, step: Step, status: TaskStatus) -> None:
        """Show how far *step* is."""
        self._say_brake()
        if self._bars is None or status.progress is None:
            return
        # A step of an earlier run was never started here.
        bar = self._running.get(step.id)
        if bar is None:
            bar = self._running[step.id] = self._add_bar(self._bars, step)
        _update(self._bars, bar, status.progress)

    def waiting(self, step: Step, why: str) -> None:
        """Say what holds everything up; who waits for others, waits in silence."""
        del step
        if not self._running and why != self._why:
            self._screen.print(f"waiting: {visible(why)}")
        self._why = why

    def ended(self, step: Step, record: StepRecord) -> None:
        """Say what came of *step*."""
        bar = self._running.pop(step.id, None)
        if self._bars is not None and bar is not None:
            self._bars.remove_task(bar)
        self._say_brake()
        outcome = record.outcome or Outcome.LOST
        self._line(outcome.value, step, _end(record), STYLES[outcome])

    def _add_bar(self, bars: LiveProgress, step: Step) -> TaskID:
        return bars.add_task(deed(step.action), total=None, state="")

    def _line(self, word: str, step: Step, rest: str = "", style: str = "") -> None:
        padded = f"{word:<8}" if self._screen.is_terminal else word
        line = Text(padded, style=style)
        line.append(f" {visible(step.id)}: {deed(step.action)}{rest}", style="default")
        self._screen.print(line)

    def _say_brake(self) -> None:
        pulls = self._brake.stopping + self._brake.aborting
        if pulls > self._said:
            self._said = pulls
            self._screen.print(
                "Aborting running migrations."
                if self._brake.aborting
                else "Starting nothing more. Running migrations finish; "
                "Ctrl-C again aborts them."
            )


def _bars(screen: Screen) -> LiveProgress:
    return LiveProgress(
        screen,
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=12),
        TextColumn("{task.fields[state]}", markup=False),
    )


def _update(bars: LiveProgress, bar: TaskID, found: TaskProgress) -> None:
    """Show what is known: the bar runs to and fro while that is too little."""
    total, remaining = found.total, found.remaining
    if total is None or remaining is None:
        bars.update(bar, state=_state(found))
        return
    bars.update(bar, total=total, completed=total - remaining, state=_state(found))


def _state(found: TaskProgress) -> str:
    parts = [
        "" if found.remaining is None else f"{amount(found.remaining)} left",
        "" if found.dirty_rate is None else f"dirty {amount(found.dirty_rate)}/s",
        "" if found.downtime is None else f"downtime {seconds(found.downtime)}",
    ]
    return ", ".join(part for part in parts if part)


def _end(record: StepRecord) -> str:
    detail = f": {visible(record.detail)}" if record.detail else ""
    if record.outcome is not Outcome.DONE or record.ended_at is None:
        return detail
    took = (record.ended_at - record.intended_at).total_seconds()
    if took < 0:  # the clock was set back meanwhile
        return detail
    return f", in {seconds(took)}{detail}"


def record_document(record: StepRecord) -> dict[str, object]:
    """Return *record* as plain values."""
    return {
        "run": record.run,
        "step": record.step,
        **action_document(record.action),
        "intended_at": record.intended_at.isoformat(),
        "task": record.task,
        "ended_at": record.ended_at.isoformat() if record.ended_at else None,
        "outcome": record.outcome.value if record.outcome else None,
        "detail": record.detail,
    }
