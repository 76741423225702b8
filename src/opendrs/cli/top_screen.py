"""The overview of a platform as text of a given size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.text import Text

from opendrs.cli.console import printable
from opendrs.cli.formatting import (
    describe_action,
    format_bytes,
    format_duration,
    load_bar,
    used_fraction,
)
from opendrs.controller.views.cluster_columns import BOTH, SOURCE, TARGET
from opendrs.model import StepId, format_count
from opendrs.ports import EventRecord, Outcome, PlanRecord, PlanState, StepRecord

MAX_EXCEPTIONS = 6
MAX_STEPS = 5
DEFAULT_HEIGHT = 1_000  # lines without a terminal: all nodes
BAR_WIDTH = 10
_MARKS = {SOURCE: ">", TARGET: "<", BOTH: "="}
_STYLES = {"error": "red", "warning": "yellow", "info": "dim"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Content of the screen.

    Attributes:
        now: The time.
        state: The document of the state of the platform.
        plan: The plan that waits or is executed; None without one.
        records: Its started steps.
        events: The last events, oldest first.
    """

    now: datetime
    state: Mapping[str, Any]
    plan: PlanRecord | None
    records: Mapping[StepId, StepRecord]
    events: Sequence[EventRecord]


def overview_text(overview: Overview, width: int, height: int | None) -> Text:
    """Return *overview* in lines that fit into *width* columns.

    Args:
        overview: What to show.
        width: Columns of the terminal.
        height: Rows of the terminal; None for all lines.
    """
    rows = height or DEFAULT_HEIGHT
    top = [*_controller_lines(overview), *_exception_lines(overview.state)]
    bottom = [*_plan_lines(overview), *_event_lines(overview.events)]
    space = max(2, rows - len(top) - len(bottom))
    lines = [*top, *_node_lines(overview.state, space, width), *bottom][:rows]
    for line in lines:
        line.truncate(max(1, width - 1), overflow="ellipsis")
    return Text("\n").join(lines)


def _controller_lines(overview: Overview) -> Iterator[Text]:
    state, controller = overview.state, overview.state["controller"]
    cycle = controller["last_cycle"]
    running = "controller running" if controller["running"] else "no controller runs"
    title = Text(f"{printable(state['platform'])}: ", style="bold")
    title.append(running, style="green" if controller["running"] else "bold red")
    if controller["policy"] is not None:
        title.append(f", policy {printable(controller['policy'])}", style="")
    title.append(f"  {overview.now:%Y-%m-%d %H:%M:%S} UTC", style="dim")
    yield title
    mode = state["mode"]
    yield Text(printable(f"mode {mode['mode']} ({mode['detail']}): {mode['text']}"))
    if cycle is None:
        yield Text("last cycle: none")
        return
    late = " (late or failed)" if controller["late"] else ""
    age = format_duration(cycle["age"])
    yield Text(
        printable(f"last cycle: {age} ago{late}: {cycle['reason']}: {cycle['detail']}"),
        style="red" if late else "",
    )


def _exception_lines(state: Mapping[str, Any]) -> Iterator[Text]:
    exceptions = state["exceptions"]
    if not exceptions:
        yield Text("nothing needs attention", style="green")
    for each in exceptions[:MAX_EXCEPTIONS]:
        text = f"{each['severity']}: {each['code']}: {each['detail']}"
        yield Text(printable(text), style=_STYLES.get(each["severity"], ""))
    if (more := len(exceptions) - MAX_EXCEPTIONS) > 0:
        yield Text(f"and {more} more", style="dim")


def _node_lines(state: Mapping[str, Any], space: int, width: int) -> Iterator[Text]:
    """Yield the most loaded nodes in at most *space* lines, with the heading."""
    nodes = state["nodes"]
    loads = [
        (
            used_fraction(nodes["cpu"][index], nodes["cpu_capacity"][index]),
            used_fraction(nodes["memory"][index], nodes["memory_capacity"][index]),
        )
        for index in range(len(nodes["id"]))
    ]
    order = sorted(
        range(len(loads)),
        key=lambda index: (-max(each or 0.0 for each in loads[index]), index),
    )
    shown = order[: space - 1]
    count = format_count(len(order), "node")
    guests = format_count(len(state["guests"]["id"]), "guest")
    hidden = f", the {len(shown)} most loaded" if len(shown) < len(order) else ""
    yield Text(f"{count}, {guests}{hidden}", style="bold")
    names = max((len(printable(nodes["id"][index])) for index in shown), default=0)
    names = min(names, max(8, width - 2 * (BAR_WIDTH + 12) - 14))
    for index in shown:
        name = printable(nodes["id"][index])[:names].ljust(names)
        line = Text(f"{_MARKS.get(nodes['role'][index], ' ')} {name} ")
        line.append(load_bar(loads[index][0], BAR_WIDTH, "cpu ").styled)
        line.append(load_bar(loads[index][1], BAR_WIDTH, "  memory ").styled)
        if nodes["state"][index] != "online":
            line.append(f"  {nodes['state'][index]}", style="yellow")
        if nodes["drained"][index]:
            line.append("  drained", style="yellow")
        yield line


def _plan_lines(overview: Overview) -> Iterator[Text]:
    plan, nothing = overview.plan, overview.state["nothing"]
    if plan is None:
        text = "no plan" if nothing is None else nothing["sentence"]
        yield Text(printable(f"plan: none: {text}"))
        return
    steps = format_count(len(plan.steps), "step")
    waits = plan.state is PlanState.PROPOSED
    wait = f"; opendrs approve {overview.state['platform']} {plan.id}" if waits else ""
    yield Text(
        printable(f"plan {plan.id}: {plan.state}, {steps}: {plan.reason}{wait}"),
        style="bold",
    )
    progress = {each["step"]: each for each in overview.state["progress"]}
    ended = {Outcome.DONE, Outcome.SKIPPED, Outcome.REJECTED}
    # First those that run or failed, then those that wait.
    ordered = sorted(
        plan.steps,
        key=lambda step: (
            _outcome(overview, step.id) in ended,
            step.id not in overview.records,
        ),
    )
    for step in ordered[:MAX_STEPS]:
        record = overview.records.get(step.id)
        status = "waits" if record is None else str(record.outcome or "running")
        text = f"  {step.id}: {describe_action(step.action)}: {status}"
        if found := progress.get(step.id):
            text += f", {format_bytes(found['remaining'])} remain"
        yield Text(printable(text))
    if (more := len(plan.steps) - MAX_STEPS) > 0:
        yield Text(f"  and {format_count(more, 'further step')}", style="dim")


def _outcome(overview: Overview, step: StepId) -> Outcome | None:
    record = overview.records.get(step)
    return None if record is None else record.outcome


def _event_lines(events: Sequence[EventRecord]) -> Iterator[Text]:
    for each in events:
        text = f"{each.at:%H:%M:%S} {each.code}: {each.message}"
        yield Text(printable(text), style="dim")
