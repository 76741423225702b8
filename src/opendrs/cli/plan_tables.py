"""Tables of a plan: its most valuable steps, the node loads and the notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from opendrs.cli.cluster_tables import (
    ALL_OPTION_HINT,
    MAX_UNABRIDGED_NODES,
    most_loaded,
    node_load,
)
from opendrs.cli.console import TextCell, add_row, create_table, printable
from opendrs.cli.formatting import (
    UNKNOWN,
    arrow,
    format_bytes,
    format_percent,
    format_used_cores,
    load_bar,
)
from opendrs.cli.plan_summary import (
    MAX_RULES_LISTED,
    PlanSummary,
    is_reported,
    print_summary,
)
from opendrs.cli.storage_tables import print_storages
from opendrs.model import (
    ACTION_KINDS,
    ColdMigration,
    DiskMove,
    GuestId,
    Migration,
    NodeId,
    NodeState,
    Plan,
    PowerOff,
    PowerOn,
    Resources,
    Snapshot,
    Step,
    format_count,
    format_list,
    path_of,
)
from opendrs.policies.load_metrics import (
    IMBALANCES,
    metric_label,
    metric_text,
)
from opendrs.rules import violation_change

RESOURCES = ("cpu", "memory")
CORES, MEMORY = "cores used", "memory used"  # by the guest of a step
SIZE = "size"  # of a disk that a step moves
MAX_STEPS_LISTED = 10  # without --all: the most valuable
MAX_NODES_LISTED = 5  # without --all: the most loaded
MAX_NOTES_LISTED = 5
MAX_DEPENDENCIES_LISTED = 3  # names of steps that one step depends on
POWER_ACTION_VALUE = 1.0  # the value of a step that powers a node on or off


def print_decision(
    screen: Console, summary: PlanSummary, snapshot: Snapshot, *, show_all: bool
) -> None:
    """Print the summary, the steps, the node loads before and after, and the notes.

    Args:
        screen: The console.
        summary: The decision and its figures.
        snapshot: The cluster before the plan.
        show_all: Print all steps, nodes and notes.
    """
    print_summary(screen, summary, None if show_all else MAX_RULES_LISTED)
    decision = summary.decision
    if decision.plan.steps:
        screen.print()
        print_steps(screen, decision.plan, snapshot, show_all=show_all)
        screen.print()
        after = snapshot_after(snapshot, decision.plan)
        print_loads(screen, snapshot, after, show_all=show_all)
        print_storages(screen, summary.storages, show_all=show_all)
        if show_all:
            print_metrics(screen, summary, decision.after)
    notes = [note for note in decision.notes if not is_reported(note, summary.rules)]
    if notes:
        screen.print()
    _print_notes(screen, notes, show_all=show_all)


def _print_notes(screen: Console, notes: Sequence[str], *, show_all: bool) -> None:
    limit = len(notes) if show_all else MAX_NOTES_LISTED
    for note in notes[:limit]:
        screen.print(Text(printable(note), style="dim"))
    if (left := len(notes) - limit) > 0:
        screen.print(
            Text(
                f"and {format_count(left, 'more note')}; {ALL_OPTION_HINT}", style="dim"
            )
        )


def snapshot_after(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """Return the cluster after all steps of *plan*."""
    return snapshot.apply(*(step.action for step in plan.steps))


def print_steps(
    screen: Console, plan: Plan, snapshot: Snapshot, *, show_all: bool
) -> None:
    """Print the steps with their reasons.

    A long plan is shortened to its most valuable steps, one line each.

    Args:
        screen: The console.
        plan: The plan.
        snapshot: The cluster before it.
        show_all: Print all steps, with their complete reasons.
    """
    total = len(plan.steps)
    shortened = total > MAX_STEPS_LISTED and not show_all
    steps = most_valuable(plan, snapshot, MAX_STEPS_LISTED) if shortened else plan.steps
    if shortened:
        abridgment = (
            f"{MAX_STEPS_LISTED} of {total} steps: those that repair violated rules, "
            f"then those that relieve their source node most; {ALL_OPTION_HINT}"
        )
        screen.print(Text(abridgment, style="dim"))
    headings = ["step", "guest", "from", "to", CORES, MEMORY]
    if any(isinstance(step.action, DiskMove) for step in steps):
        headings = ["step", "guest (disk)", "from", "to", "node", SIZE]
    rows = [_step_cells(step, snapshot) for step in steps]
    if any(step.depends_on for step in steps):
        headings.append("depends on")
        limit = total if show_all else MAX_DEPENDENCIES_LISTED
        rows = [
            [*row, format_list(step.depends_on, limit)]
            for row, step in zip(rows, steps, strict=True)
        ]
    if shortened or not screen.is_terminal:
        repairs = repaired_rules(plan, snapshot)
        listing = create_table(*headings, "detail", right=[CORES, MEMORY, SIZE])
        for row, step in zip(rows, steps, strict=True):
            short = _short_detail(step, snapshot, repairs=step.id in repairs)
            add_row(
                listing, *row, TextCell(Text(printable(short)), printable(step.detail))
            )
        screen.print(listing)
        return
    widths = _widths([headings, *rows])
    screen.print(Text(_aligned_line(headings, widths), style="bold"))
    for row, step in zip(rows, steps, strict=True):
        screen.print(Text(_aligned_line(row, widths)))
        detail = Text(printable(step.detail), style="dim")
        screen.print(Padding(detail, (0, 0, 0, widths[0] + 2)))


def _short_detail(step: Step, snapshot: Snapshot, *, repairs: bool) -> str:
    """Return the reason of *step* in a few words."""
    action = step.action
    if isinstance(action, PowerOn | PowerOff):
        return step.detail.partition(";")[0]
    if isinstance(action, DiskMove):
        return step.detail.partition(";")[0]
    if repairs:
        return "repairs a violated rule"
    source, target = (
        format_percent(_mean_load(snapshot, name)).strip()
        for name in (action.source, action.target)
    )
    return f"mean load before the plan: source {source}, target {target}"


def _mean_load(snapshot: Snapshot, name: NodeId) -> float | None:
    loads = [node_load(snapshot.nodes[name], resource) for resource in RESOURCES]
    known = [load for load in loads if load is not None]
    return sum(known) / len(known) if len(known) == len(loads) else None


def _step_cells(step: Step, snapshot: Snapshot) -> list[str]:
    action = step.action
    if isinstance(action, PowerOn | PowerOff):
        return [step.id, ACTION_KINDS[type(action)], "", action.node, "", ""]
    if isinstance(action, DiskMove):
        size = format_bytes(snapshot.transferred(action))
        return [step.id, *path_of(action), action.node, size]
    usage = snapshot.guests[action.guest].usage
    note = " (stop, start)" if isinstance(action, ColdMigration) else ""
    return [
        step.id,
        action.guest + note,
        action.source,
        action.target,
        format_used_cores(usage.cpu),
        format_bytes(usage.memory),
    ]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    longest = 32  # a longer name shifts the rest of its line to the right
    return [
        min(longest, max(len(printable(cell)) for cell in column))
        for column in zip(*rows, strict=True)
    ]


def _aligned_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    figures = (4, 5)
    aligned = [
        printable(cell).rjust(width)
        if index in figures
        else printable(cell).ljust(width)
        for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def print_loads(
    screen: Console, before: Snapshot, after: Snapshot, *, show_all: bool
) -> None:
    """Print the measured load of each node, before and after.

    Of more than 20 nodes, only the nodes with the highest load before or after are
    printed, in descending order, unless *show_all* is set.
    """
    names = sorted(before.nodes.keys() | after.nodes.keys())
    if len(names) > MAX_UNABRIDGED_NODES and not show_all:
        total, names = len(names), most_loaded(MAX_NODES_LISTED, before, after)
        abridgment = f"the {len(names)} most loaded of {total} nodes; {ALL_OPTION_HINT}"
        screen.print(Text(abridgment, style="dim"))
    headings = ["node"]
    for resource in RESOURCES:
        headings += [resource, f"{resource} after"]
    listing = create_table(*headings, no_wrap=headings[1:])
    for name in names:
        cells: list[str | TextCell] = [name]
        for resource in RESOURCES:
            cells.append(_load_cell(before, name, resource))
            cells.append(_load_cell(after, name, resource, before=f"{arrow()} "))
        add_row(listing, *cells)
    screen.print(listing)


def _load_cell(
    snapshot: Snapshot, name: NodeId, resource: str, before: str = ""
) -> TextCell:
    node = snapshot.nodes.get(name)  # it may have left the cluster meanwhile
    if node is None:
        return load_bar(None, prefix=before)
    if node.state is NodeState.OFFLINE:
        state = node.state.value
        return TextCell(Text(f"{before}{state}", style="dim"), state)
    return load_bar(node_load(node, resource), prefix=before)


def print_metrics(
    screen: Console, summary: PlanSummary, after: Mapping[str, float]
) -> None:
    """Print the metrics of the cluster before and *after*, if there are any."""
    before = summary.decision.before
    if not before:
        return
    listing = create_table("metric", "before", "after", right=["before", "after"])
    for name, value in before.items():
        label = metric_label(name)
        if name in IMBALANCES:
            label += f" ({summary.imbalance_metric.label})"
        then = metric_text(name, after[name]) if name in after else UNKNOWN
        add_row(listing, label, metric_text(name, value), then)
    screen.print()
    screen.print(listing)


def most_valuable(plan: Plan, snapshot: Snapshot, limit: int) -> tuple[Step, ...]:
    """Return the *limit* steps with the highest value, in the order of the plan.

    Steps that repair violated strict rules have the highest value, in order of the
    number of rules. Next is the fraction of the capacity of its source node that a
    step frees, the mean of cores and memory. A power action counts as a whole node.
    Of equal steps the earlier one has the higher value.

    Args:
        plan: The plan.
        snapshot: The cluster before it.
        limit: Maximum number of steps.
    """
    repairs = repaired_rules(plan, snapshot)
    ranked = sorted(
        range(len(plan.steps)),
        key=lambda index: (
            -repairs.get(plan.steps[index].id, 0),
            -_freed_capacity(plan.steps[index], snapshot),
            index,
        ),
    )
    return tuple(plan.steps[index] for index in sorted(ranked[:limit]))


def repaired_rules(plan: Plan, snapshot: Snapshot) -> dict[str, int]:
    """Return the number of strict rules that each step repairs for its guest.

    Steps that repair none, and detours, are omitted.
    """
    after = snapshot.apply(*(step.action for step in plan.steps))
    count: dict[GuestId, int] = {}
    for violation in violation_change(snapshot, after).repaired:
        for guest in violation.guests:
            count[guest] = count.get(guest, 0) + 1
    return {
        step.id: count[step.action.guest]
        for step in plan.steps
        if isinstance(step.action, Migration)
        and step.action.guest in count
        and after.guests[step.action.guest].node == step.action.target
    }


def _freed_capacity(step: Step, snapshot: Snapshot) -> float:
    """Return the fraction of its source node that *step* frees; 0 if unknown."""
    if isinstance(step.action, PowerOn | PowerOff):
        return POWER_ACTION_VALUE
    if isinstance(step.action, DiskMove):
        return 0.0
    capacity = snapshot.nodes[step.action.source].capacity
    used = snapshot.guests[step.action.guest].usage.resources
    return 0.0 if capacity is None or used is None else _mean_fraction(used, capacity)


def _mean_fraction(used: Resources, capacity: Resources) -> float:
    return (used.cpu / capacity.cpu + used.memory / capacity.memory) / 2
