"""A plan in a few lines: what it costs, and what it changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from opendrs.cli.figures import UNKNOWN, amount, counted, percent, seconds
from opendrs.cli.reasons import reason_text
from opendrs.cli.repair import MOST_RULES, RuleReport, print_rules, rules_document
from opendrs.cli.screen import Table, add_row, table, visible
from opendrs.controller.documents import plan_document
from opendrs.model import GIB, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.policies import Decision
from opendrs.policies.measures import measures
from opendrs.rules import ViolationChange
from opendrs.scoring import ImbalanceForm, Schedule, UsageMode, node_loads


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest load of a resource among the online nodes.

    Attributes:
        node: The node; the first by name of several.
        load: The used part of its capacity.
    """

    node: NodeId
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoad:
    """The measured load of a cluster; None where no online node is measured.

    Attributes:
        cpu: The node with the highest processor load.
        memory: The node with the highest memory load.
        imbalance: The coefficient of variation of the mean of both loads.
    """

    cpu: Peak | None
    memory: Peak | None
    imbalance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """A plan in figures that mean the same for every policy.

    Attributes:
        policy: The name of the policy.
        decision: What it decided.
        moves: How many migrations the plan has.
        power_on: How many nodes it powers on.
        power_off: How many nodes it powers off.
        memory: The bytes that it transfers, as far as they are known.
        schedule: How long it takes.
        rules: What it does to the rules.
        before: The load now.
        after: The load once it is done.
    """

    policy: str
    decision: Decision[Any]
    moves: int
    power_on: int
    power_off: int
    memory: int
    schedule: Schedule
    rules: RuleReport
    before: ClusterLoad
    after: ClusterLoad


def summarize(
    decision: Decision[Any], snapshot: Snapshot, schedule: Schedule, rules: RuleReport
) -> PlanSummary:
    """Return the figures of a decision about *snapshot*."""
    actions = [step.action for step in decision.plan.steps]
    moves = [each for each in actions if not isinstance(each, PowerOn | PowerOff)]
    sizes = (snapshot.guests[each.guest].usage.memory or 0 for each in moves)
    return PlanSummary(
        policy=rules.policy,
        decision=decision,
        moves=len(moves),
        power_on=sum(isinstance(each, PowerOn) for each in actions),
        power_off=sum(isinstance(each, PowerOff) for each in actions),
        memory=sum(sizes),
        schedule=schedule,
        rules=rules,
        before=cluster_load(snapshot),
        after=cluster_load(snapshot.after(*actions)),
    )


def cluster_load(snapshot: Snapshot) -> ClusterLoad:
    """Return the measured load of *snapshot*."""
    loads = node_loads(snapshot, UsageMode.DYNAMIC)
    if not loads:
        return ClusterLoad(cpu=None, memory=None, imbalance=None)
    return ClusterLoad(
        cpu=_peak({name: load.cpu for name, load in loads.items()}),
        memory=_peak({name: load.memory for name, load in loads.items()}),
        imbalance=measures(loads, ImbalanceForm.RAW)["imbalance"],
    )


def _peak(loads: dict[NodeId, float]) -> Peak:
    node = min(loads, key=lambda name: (-loads[name], name))
    return Peak(node, loads[node])


def print_summary(
    screen: Console, summary: PlanSummary, most_rules: int | None = MOST_RULES
) -> None:
    """Print the reason, the cost, the loads before and after, and the broken rules.

    Args:
        screen: The console.
        summary: The figures.
        most_rules: How many broken rules are named; all when None.
    """
    decision = summary.decision
    reason = Text(f"{summary.policy}: {reason_text(decision.reason)}", style="bold")
    screen.print(reason.append(f" - {visible(decision.detail)}", style="not bold"))
    if decision.plan.steps:
        screen.print(f"plan: {', '.join(_costs(summary))}")
        screen.print()
        print_change(screen, summary.before, summary.after, summary.rules.change)
    if summary.rules.unresolved:
        screen.print()
    print_rules(screen, summary.rules, most_rules)


def _costs(summary: PlanSummary) -> Iterator[str]:
    if summary.moves:
        yield f"{counted(summary.moves, 'move')} of {amount(summary.memory)}"
    if summary.power_on:
        yield f"{counted(summary.power_on, 'node')} powered on"
    if summary.power_off:
        yield f"{counted(summary.power_off, 'node')} powered off"
    about = "at least" if summary.schedule.at_least else "about"
    yield f"{about} {seconds(summary.schedule.seconds)}"
    if summary.moves > 1:
        yield f"up to {summary.schedule.most_at_once} at once"


def print_change(
    screen: Console, before: ClusterLoad, after: ClusterLoad, rules: ViolationChange
) -> None:
    """Print the highest loads, the imbalance and the broken rules, before and after."""
    made = table("measure", "before", "on node", "after", "on node")
    _add_peak(made, "highest cpu load", before.cpu, after.cpu)
    _add_peak(made, "highest memory load", before.memory, after.memory)
    even = (_figure(before.imbalance), "", _figure(after.imbalance), "")
    add_row(made, "imbalance", *even)
    broken, left = len(rules.strict_before), len(rules.strict_after)
    add_row(made, "broken strict rules", str(broken), "", str(left), "")
    screen.print(made)


def _add_peak(made: Table, name: str, before: Peak | None, after: Peak | None) -> None:
    cells: list[str] = []
    for peak in (before, after):
        cells += [UNKNOWN, ""] if peak is None else [_percent(peak.load), peak.node]
    add_row(made, name, *cells)


def _percent(load: float) -> str:
    return percent(load).strip()


def _figure(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def decision_document(summary: PlanSummary, snapshot: Snapshot) -> dict[str, object]:
    """Return a decision about *snapshot*, with its figures, as plain values."""
    document = plan_document(summary.policy, summary.decision, snapshot)
    steps = document.pop("steps")
    return {
        **document,
        "violations": rules_document(summary.rules),
        "summary": {
            "moves": summary.moves,
            "gib": summary.memory / GIB,
            "power_on": summary.power_on,
            "power_off": summary.power_off,
            "seconds": summary.schedule.seconds,
            "before": asdict(summary.before),
            "after": asdict(summary.after),
        },
        "steps": steps,
    }
