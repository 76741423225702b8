"""A plan on the screen: why, what, and what becomes of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from opendrs.cli.figures import UNKNOWN, amount, arrow, bar, cores, fraction
from opendrs.cli.screen import add_row, table, visible
from opendrs.controller.documents import KINDS
from opendrs.model import (
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Relocation,
    Snapshot,
    Step,
)
from opendrs.policies import Decision
from opendrs.rules import violations

MOST_NODES = 40  # nodes in the picture
MOST_BROKEN = 5  # broken rules that are named


def print_decision(
    screen: Console, policy: str, decision: Decision[Any], snapshot: Snapshot
) -> None:
    """Print why, what, what becomes of the nodes, and what was left alone."""
    reason = Text(f"{policy}: {decision.reason.value}", style="bold")
    screen.print(reason.append(f" - {visible(decision.detail)}", style="not bold"))
    after = outcome(snapshot, decision.plan)
    if decision.plan.steps:
        screen.print()
        print_steps(screen, decision.plan, snapshot)
        screen.print()
        screen.print(load_picture(snapshot, after))
        measures = measure_table(decision.before, decision.after)
        if measures is not None:
            screen.print()
            screen.print(measures)
    if decision.notes:
        screen.print()
    for note in decision.notes:
        screen.print(Text(visible(note), style="dim"))
    _print_broken(screen, after)


def _print_broken(screen: Console, after: Snapshot) -> None:
    """Print which strict rules stay broken: to mend them is not every policy's job."""
    broken = [found for found in violations(after) if found.strict]
    if broken:
        screen.print()
    for found in broken[:MOST_BROKEN]:
        screen.print(Text(f"stays broken: {visible(str(found))}", style="red"))
    if (left := len(broken) - MOST_BROKEN) > 0:
        screen.print(Text(f"stays broken: {left} more; see opendrs show", style="red"))


def outcome(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the cluster once all of *plan* is done."""
    return snapshot.after(*(step.action for step in plan.steps))


def print_steps(screen: Console, plan: Plan, snapshot: Snapshot) -> None:
    """Print the steps, and below each why it is there."""
    waits = any(step.after for step in plan.steps)
    heads = ["step", "guest", "from", "to", "cores", "memory"]
    rows = [_cells(step, snapshot) for step in plan.steps]
    if waits:
        heads.append("waits for")
        rows = [
            [*row, ", ".join(step.after)]
            for row, step in zip(rows, plan.steps, strict=True)
        ]
    widths = _widths([heads, *rows])
    screen.print(Text(_line(heads, widths), style="bold"))
    for row, step in zip(rows, plan.steps, strict=True):
        screen.print(Text(_line(row, widths)))
        why = Text(visible(step.why), style="dim")
        screen.print(Padding(why, (0, 0, 0, widths[0] + 2)))


def _cells(step: Step, snapshot: Snapshot) -> list[str]:
    action = step.action
    if isinstance(action, PowerOn | PowerOff):
        return [step.id, KINDS[type(action)], "", action.node, "", ""]
    usage = snapshot.guests[action.guest].usage
    note = " (stop, start)" if isinstance(action, Relocation) else ""
    return [
        step.id,
        action.guest + note,
        action.source,
        action.target,
        cores(usage.cpu),
        amount(usage.memory),
    ]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    longest = 32  # a longer name pushes the rest of its line to the right
    return [
        min(longest, max(len(visible(cell)) for cell in column))
        for column in zip(*rows, strict=True)
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    figures = (4, 5)
    aligned = [
        visible(cell).rjust(width) if index in figures else visible(cell).ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def load_picture(before: Snapshot, after: Snapshot) -> Table:
    """Return the measured load of each node, before and after."""
    made = table("node", "cpu", "", "", "memory", "", "")
    changed, same = _changed_first(before, after)
    for name in (changed + same)[:MOST_NODES]:
        cells: list[str | Text] = [name]
        for resource in ("cpu", "memory"):
            cells += [
                _drawn(before, name, resource),
                arrow(),
                _drawn(after, name, resource),
            ]
        add_row(made, *cells)
    if (left := len(changed + same) - MOST_NODES) > 0:
        add_row(made, f"and {left} more")
    for column in made.columns:
        column.no_wrap = column.header != "node"
    made.padding = (0, 1, 0, 0)
    return made


def _changed_first(
    before: Snapshot, after: Snapshot
) -> tuple[list[NodeId], list[NodeId]]:
    """Return the nodes in order of name if all are shown, else by change."""
    names = sorted(before.nodes)
    if len(names) <= MOST_NODES:
        return names, []
    changed = [name for name in names if before.nodes[name] != after.nodes[name]]
    return changed, [name for name in names if name not in set(changed)]


def _drawn(snapshot: Snapshot, name: NodeId, resource: str) -> Text:
    node = snapshot.nodes.get(name)
    if node is not None and node.state is NodeState.OFFLINE:
        return Text(node.state.value, style="dim")
    return bar(_load(snapshot, name, resource))


def _load(snapshot: Snapshot, name: NodeId, resource: str) -> float | None:
    node = snapshot.nodes.get(name)
    if node is None or node.capacity is None:
        return None
    used: float | None = getattr(node.usage, resource)
    total: float = getattr(node.capacity, resource)
    return fraction(used, total)


def measure_table(
    before: Mapping[str, float], after: Mapping[str, float]
) -> Table | None:
    """Return a policy's own measures before and after; None without any."""
    if not before:
        return None
    made = table("measure", "before", "after", right=["before", "after"])
    for name, value in before.items():
        then = f"{after[name]:.3f}" if name in after else UNKNOWN
        add_row(made, name.replace("_", " "), f"{value:.3f}", then)
    return made
