"""How long a plan takes: on the screen, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from opendrs.cli.figures import counted, seconds
from opendrs.cli.screen import visible
from opendrs.model import Limits, first_few
from opendrs.scoring import Certainty, Schedule, Span

MOST_STEPS = 5  # of a critical path that are named


def print_schedule(screen: Console, schedule: Schedule, limits: Limits) -> None:
    """Print the longest chain of steps, what was assumed, and what will not end."""
    if not schedule.spans:
        return
    screen.print()
    if len(schedule.chain) > 1:
        took = seconds(schedule.chain_seconds)
        chain = f"step {', then '.join(schedule.chain)}"
        if len(schedule.chain) > MOST_STEPS:
            first, last = schedule.chain[0], schedule.chain[-1]
            chain = f"{len(schedule.chain)} steps, from step {first} to step {last}"
        screen.print(Text(visible(f"critical path: {chain}; {took}")))
    assumed = "; ".join(_assumed(schedule))
    if assumed:
        screen.print(Text(f"assumed: {assumed}", style="dim"))
    for line in _too_long(schedule.spans, limits):
        screen.print(Text(visible(line), style="red"))
    for line in _at_risk(schedule.spans, limits):
        screen.print(Text(visible(line), style="yellow"))


def schedule_document(schedule: Schedule) -> dict[str, object]:
    """Return *schedule* as `plan --format json` prints it."""
    return {
        "seconds": schedule.seconds,
        "at_least": schedule.at_least,
        "most_at_once": schedule.most_at_once,
        "chain": list(schedule.chain),
        "chain_seconds": schedule.chain_seconds,
        "bandwidth": schedule.bandwidth,
        "bandwidth_assumed": schedule.assumed,
        "steps": {span.step: _span_document(span) for span in schedule.spans},
    }


def _span_document(span: Span) -> dict[str, object]:
    return {
        "begin": span.begin,
        "end": span.end,
        "seconds": span.alone.seconds,
        "downtime": span.alone.downtime,
        "certainty": span.alone.certainty.value,
        "stalls": span.stalls,
    }


def _assumed(schedule: Schedule) -> Iterator[str]:
    if schedule.assumed:
        speed = schedule.bandwidth * 8 / 1e9
        yield f"links of {speed:g} Gbit/s, because [limits] names no bandwidth"
    doubts = {
        Certainty.AT_LEAST: "guests do not write to their memory during {}, because "
        "the dirty rate is not known",
        Certainty.UNKNOWN: "no time for {}, because the duration is not known",
    }
    for certainty, words in doubts.items():
        steps = [s.step for s in schedule.spans if s.alone.certainty is certainty]
        if steps:
            yield words.format(counted(len(steps), "step"))


def _too_long(spans: Sequence[Span], limits: Limits) -> Iterator[str]:
    """Yield which moves would be aborted before they have ended."""
    endless = [s.step for s in spans if s.alone.certainty is Certainty.ENDLESS]
    slow = [s.step for s in spans if _is_slow(s, limits)]
    after = f"aborted after {seconds(limits.patience)}"
    if endless:
        yield (
            f"never ends, and is {after}: {first_few(endless)}: the guest writes "
            "faster than its memory can be sent"
        )
    if slow:
        yield f"takes too long, and is {after}: {first_few(slow)}"


def _at_risk(spans: Sequence[Span], limits: Limits) -> Iterator[str]:
    """Yield which moves end, but only once fewer of them share a link."""
    stalled = [
        s.step
        for s in spans
        if s.stalls and s.alone.seconds is not None and not _is_slow(s, limits)
    ]
    if stalled:
        yield (
            f"makes no headway for a time: {first_few(stalled)}: the guest writes "
            "faster than its memory can be sent while other moves share its links"
        )


def _is_slow(span: Span, limits: Limits) -> bool:
    """Return whether a move that would end does not end in time."""
    takes = span.end - span.begin
    return span.alone.seconds is not None and takes >= limits.patience
