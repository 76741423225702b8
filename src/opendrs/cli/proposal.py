"""A plan on the screen: why, what, and what becomes of the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from opendrs.cli.cluster import FEW_NODES, SEE_ALL, most_loaded, node_load
from opendrs.cli.figures import (
    UNKNOWN,
    amount,
    arrow,
    bar,
    cores,
    counted,
    percent,
)
from opendrs.cli.repair import MOST_RULES, infeasible_lines
from opendrs.cli.screen import Cell, add_row, table, visible
from opendrs.cli.summary import PlanSummary, print_summary
from opendrs.cli.value import most_valuable, repaired_rules
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
    first_few,
)

RESOURCES = ("cpu", "memory")
MOST_STEPS = 10  # that are shown of a plan with more
MOST_NODES = 5  # of more than a few, the most loaded
MOST_NOTES = 5
MOST_WAITED_FOR = 3  # steps that are named as those that one waits for


def print_decision(
    screen: Console, summary: PlanSummary, snapshot: Snapshot, *, everything: bool
) -> None:
    """Print a summary, then the steps, what becomes of the nodes, and the notes.

    Args:
        screen: The console.
        summary: The decision and its figures.
        snapshot: The cluster it is about.
        everything: Whether to print all steps, nodes and notes, however many.
    """
    print_summary(screen, summary, None if everything else MOST_RULES)
    decision = summary.decision
    if decision.plan.steps:
        screen.print()
        print_steps(screen, decision.plan, snapshot, everything=everything)
        screen.print()
        after = outcome(snapshot, decision.plan)
        print_loads(screen, snapshot, after, everything=everything)
        if everything:
            print_measures(screen, decision.before, decision.after)
    reported = {*infeasible_lines(summary.rules)}
    notes = [note for note in decision.notes if note not in reported]
    if notes:
        screen.print()
    _print_notes(screen, notes, everything=everything)


def _print_notes(screen: Console, notes: Sequence[str], *, everything: bool) -> None:
    most = len(notes) if everything else MOST_NOTES
    for note in notes[:most]:
        screen.print(Text(visible(note), style="dim"))
    if (left := len(notes) - most) > 0:
        screen.print(Text(f"and {counted(left, 'more note')}; {SEE_ALL}", style="dim"))


def outcome(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the cluster once all of *plan* is done."""
    return snapshot.after(*(step.action for step in plan.steps))


def print_steps(
    screen: Console, plan: Plan, snapshot: Snapshot, *, everything: bool
) -> None:
    """Print the steps with their reasons; of many, the most valuable, in one line each.

    Args:
        screen: The console.
        plan: The plan.
        snapshot: The cluster before it.
        everything: Whether to print all steps, with the whole of their reasons.
    """
    total = len(plan.steps)
    brief = total > MOST_STEPS and not everything
    steps = most_valuable(plan, snapshot, MOST_STEPS) if brief else plan.steps
    if brief:
        which = f"the {MOST_STEPS} most valuable of {total} steps; {SEE_ALL}"
        screen.print(Text(which, style="dim"))
    heads = ["step", "guest", "from", "to", "cores", "memory"]
    rows = [_cells(step, snapshot) for step in steps]
    if any(step.after for step in steps):
        heads.append("waits for")
        most = total if everything else MOST_WAITED_FOR
        rows = [
            [*row, first_few(step.after, most)]
            for row, step in zip(rows, steps, strict=True)
        ]
    if brief or not screen.is_terminal:
        repairs = repaired_rules(plan, snapshot)
        made = table(*heads, "why", right=["cores", "memory"])
        for row, step in zip(rows, steps, strict=True):
            short = _short_reason(step, snapshot, repairs=step.id in repairs)
            add_row(made, *row, Cell(Text(visible(short)), visible(step.why)))
        screen.print(made)
        return
    widths = _widths([heads, *rows])
    screen.print(Text(_line(heads, widths), style="bold"))
    for row, step in zip(rows, steps, strict=True):
        screen.print(Text(_line(row, widths)))
        why = Text(visible(step.why), style="dim")
        screen.print(Padding(why, (0, 0, 0, widths[0] + 2)))


def _short_reason(step: Step, snapshot: Snapshot, *, repairs: bool) -> str:
    """Return why *step* is there, in a few words."""
    action = step.action
    if isinstance(action, PowerOn | PowerOff):
        return step.why.partition(";")[0]
    if repairs:
        return "repairs a broken rule"
    source, target = (_mean(snapshot, name) for name in (action.source, action.target))
    return f"{percent(source).strip()} loaded, target {percent(target).strip()}"


def _mean(snapshot: Snapshot, name: NodeId) -> float | None:
    loads = [node_load(snapshot.nodes[name], resource) for resource in RESOURCES]
    known = [load for load in loads if load is not None]
    return sum(known) / len(known) if len(known) == len(loads) else None


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


def print_loads(
    screen: Console, before: Snapshot, after: Snapshot, *, everything: bool
) -> None:
    """Print the measured load of each node, before and after.

    Of many nodes the most loaded are printed, before or after, the worst first.
    """
    names = sorted(before.nodes.keys() | after.nodes.keys())
    if len(names) > FEW_NODES and not everything:
        total, names = len(names), most_loaded(MOST_NODES, before, after)
        which = f"the {len(names)} most loaded of {total} nodes; {SEE_ALL}"
        screen.print(Text(which, style="dim"))
    heads = ["node"]
    for resource in RESOURCES:
        heads += [resource, f"{resource} after"]
    made = table(*heads, whole=heads[1:])
    for name in names:
        cells: list[str | Cell] = [name]
        for resource in RESOURCES:
            cells.append(_drawn(before, name, resource))
            cells.append(_drawn(after, name, resource, before=f"{arrow()} "))
        add_row(made, *cells)
    screen.print(made)


def _drawn(snapshot: Snapshot, name: NodeId, resource: str, before: str = "") -> Cell:
    node = snapshot.nodes.get(name)  # a platform may have lost it meanwhile
    if node is None:
        return bar(None, before=before)
    if node.state is NodeState.OFFLINE:
        state = node.state.value
        return Cell(Text(f"{before}{state}", style="dim"), state)
    return bar(node_load(node, resource), before=before)


def print_measures(
    screen: Console, before: Mapping[str, float], after: Mapping[str, float]
) -> None:
    """Print a policy's own measures before and after, if it has any."""
    if not before:
        return
    made = table("measure", "before", "after", right=["before", "after"])
    for name, value in before.items():
        then = f"{after[name]:.3f}" if name in after else UNKNOWN
        add_row(made, name.replace("_", " "), f"{value:.3f}", then)
    screen.print()
    screen.print(made)
