"""The estimated schedule of a plan, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.console import printable
from opendrs.cli.formatting import format_duration
from opendrs.model import Limits, format_count, format_list
from opendrs.planning import BandwidthSource, Certainty, Schedule, ScheduledStep

MAX_PATH_STEPS = 5  # of a critical path; a longer one is not listed step by step


def duration_text(schedule: Schedule, *, migrates: bool) -> str:
    """Return the duration, with the bandwidth if the plan *migrates* guests."""
    qualifier = "at least" if schedule.at_least else "about"
    duration = f"{qualifier} {format_duration(schedule.seconds)}"
    if not migrates:
        return duration
    gigabits = f"{schedule.bandwidth * 8 / 1e9:.3g} Gbit/s"
    return f"{duration} at {gigabits} per link ({schedule.bandwidth_source})"


def print_schedule(screen: Console, schedule: Schedule, limits: Limits) -> None:
    """Print the critical path, the assumptions, and the steps that will time out."""
    if not schedule.steps:
        return
    screen.print()
    if len(schedule.critical_path) > 1:
        duration = format_duration(schedule.critical_path_seconds)
        path_text = f"step {', then '.join(schedule.critical_path)}"
        if len(schedule.critical_path) > MAX_PATH_STEPS:
            first, last = schedule.critical_path[0], schedule.critical_path[-1]
            path_text = (
                f"{len(schedule.critical_path)} steps, from step {first} to step {last}"
            )
        screen.print(Text(printable(f"critical path: {path_text}: {duration}")))
    assumptions = "; ".join(_assumptions(schedule))
    if assumptions:
        screen.print(Text(f"duration estimated with: {assumptions}", style="dim"))
    for line in _timeout_warnings(schedule.steps, limits):
        screen.print(Text(printable(line), style="red"))
    for line in _convergence_warnings(schedule.steps, limits):
        screen.print(Text(printable(line), style="yellow"))


def schedule_document(schedule: Schedule) -> dict[str, object]:
    """Return *schedule* as `plan --format json` prints it."""
    return {
        "seconds": schedule.seconds,
        "at_least": schedule.at_least,
        "max_parallel": schedule.max_parallel,
        "critical_path": list(schedule.critical_path),
        "critical_path_seconds": schedule.critical_path_seconds,
        "bandwidth": schedule.bandwidth,
        "bandwidth_source": schedule.bandwidth_source.value,
        "steps": {
            scheduled_step.step: _step_document(scheduled_step)
            for scheduled_step in schedule.steps
        },
    }


def _step_document(scheduled_step: ScheduledStep) -> dict[str, object]:
    return {
        "start": scheduled_step.start,
        "end": scheduled_step.end,
        "seconds": scheduled_step.alone.seconds,
        "downtime": scheduled_step.alone.downtime,
        "certainty": scheduled_step.alone.certainty.value,
        "non_converging": scheduled_step.non_converging,
    }


def _assumptions(schedule: Schedule) -> Iterator[str]:
    gigabits = schedule.bandwidth * 8 / 1e9
    if schedule.bandwidth_source is BandwidthSource.ASSUMED:
        yield (
            f"bandwidth {gigabits:g} Gbit/s per link (assumed; [limits] bandwidth is "
            "not set)"
        )
    elif schedule.bandwidth_source is BandwidthSource.MEASURED:
        yield f"bandwidth {gigabits:.3g} Gbit/s per link (that of recent migrations)"
    explanations = {
        (Certainty.AT_LEAST, False): "dirty rate 0 for {} (not measured; if higher, "
        "the plan takes longer)",
        (Certainty.AT_LEAST, True): "copies of {} as fast as a link (a slower storage "
        "takes longer)",
        (Certainty.UNKNOWN, False): "0 s for {} (duration unknown)",
    }
    for kind, explanation in explanations.items():
        count = sum((s.alone.certainty, s.moves_disk) == kind for s in schedule.steps)
        if count:
            noun = "disk" if kind[1] else "step"
            yield explanation.format(format_count(count, noun))


def _timeout_warnings(spans: Sequence[ScheduledStep], limits: Limits) -> Iterator[str]:
    """Yield a line for each reason why migrations reach their timeout."""
    never_completing = [
        s.step for s in spans if s.alone.certainty is Certainty.NEVER_COMPLETES
    ]
    slow = [s.step for s in spans if _exceeds_timeout(s, limits)]
    timeout = f"after the timeout of {format_duration(limits.migration_timeout)}"
    if never_completing:
        yield (
            f"does not converge: {format_list(never_completing)}: the guest writes "
            f"faster than its memory can be sent; aborted {timeout}"
        )
    if slow:
        yield f"too slow: {format_list(slow)}: aborted {timeout}"


def _convergence_warnings(
    spans: Sequence[ScheduledStep], limits: Limits
) -> Iterator[str]:
    """Yield a line on migrations that converge only once fewer share a link."""
    non_converging = [
        s.step
        for s in spans
        if s.non_converging
        and s.alone.seconds is not None
        and not _exceeds_timeout(s, limits)
    ]
    if non_converging:
        yield (
            f"temporarily not converging: {format_list(non_converging)}: the guest "
            "writes faster than its memory can be sent while other migrations share "
            "its links"
        )


def _exceeds_timeout(scheduled_step: ScheduledStep, limits: Limits) -> bool:
    """Return True if a migration that would complete exceeds its timeout."""
    duration = scheduled_step.end - scheduled_step.start
    return (
        scheduled_step.alone.seconds is not None
        and duration >= limits.migration_timeout
    )
