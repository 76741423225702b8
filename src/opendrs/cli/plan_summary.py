"""Summary of a plan: cost, loads, violations and the command that repairs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from opendrs.cli.cluster_load import ClusterLoad, cluster_load, print_change
from opendrs.cli.cluster_tables import ALL_OPTION_HINT
from opendrs.cli.console import printable
from opendrs.cli.formatting import format_bytes
from opendrs.cli.schedule_tables import duration_text
from opendrs.cli.storage_tables import StorageChange, storage_changes
from opendrs.controller.repair_advice import RepairCommand, may_repair_more
from opendrs.controller.serialization import plan_document, violation_documents
from opendrs.metrics import ImbalanceMetric
from opendrs.model import (
    GIB,
    Action,
    DiskMove,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Transfer,
    format_count,
)
from opendrs.planning import Schedule
from opendrs.policies import Decision, Policy, reason_text, repair_for, repairs_rules
from opendrs.policies.load_metrics import imbalance_metric_of
from opendrs.policies.optimize.repairs import (
    INFEASIBLE,
    UnresolvedViolation,
    drain_lines,
    unresolved_violations,
)
from opendrs.rules import (
    ViolationChange,
    count_strict,
    split_drains,
    violation_change,
)
from opendrs.rules.maintenance import NAME_START

MAX_RULES_LISTED = 3  # violated rules that are named without --all


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Number of moves, and what they transfer.

    Attributes:
        migrations: Number of migrations.
        disk_moves: Number of disks that are moved to another storage.
        transferred: Memory and disks in bytes; unknown ones count as 0.
    """

    migrations: int
    disk_moves: int
    transferred: int


def plan_cost(actions: Iterable[Action], snapshot: Snapshot) -> PlanCost:
    """Return the cost of *actions*; power actions have none.

    Args:
        actions: Actions of a plan, or of a part of it.
        snapshot: The cluster before them.
    """
    transfers = [each for each in actions if isinstance(each, Transfer)]
    disk_moves = sum(isinstance(each, DiskMove) for each in transfers)
    return PlanCost(
        migrations=len(transfers) - disk_moves,
        disk_moves=disk_moves,
        transferred=sum(map(snapshot.transferred, transfers)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """Figures of a plan that have the same meaning for every policy.

    Attributes:
        policy: The name of the policy.
        imbalance_metric: The imbalance among the metrics of the policy.
        decision: The decision with the plan.
        migrations: The number of migrations.
        disk_moves: The number of disks that are moved to another storage.
        power_on: The number of nodes that are powered on.
        power_off: The number of nodes that are powered off.
        memory: Transferred memory and disks in bytes; unknown ones count as 0.
        schedule: The estimated duration.
        rules: The effect of the plan on violations.
        before: The load before the plan.
        after: The load after the plan.
        storages: The use of the storages in groups before and after the plan.
    """

    policy: str
    imbalance_metric: ImbalanceMetric
    decision: Decision[Any]
    migrations: int
    disk_moves: int
    power_on: int
    power_off: int
    memory: int
    schedule: Schedule
    rules: RuleReport
    before: ClusterLoad
    after: ClusterLoad
    storages: tuple[StorageChange, ...]


def summarize(
    policy: Policy[Any],
    decision: Decision[Any],
    snapshot: Snapshot,
    schedule: Schedule,
    rules: RuleReport,
) -> PlanSummary:
    """Return the summary of *decision*, which *policy* made for *snapshot*."""
    decider = repair_for(policy) if decision.repair_first else policy
    actions = [step.action for step in decision.plan.steps]
    cost, after = plan_cost(actions, snapshot), snapshot.apply(*actions)
    return PlanSummary(
        policy=policy.name,
        imbalance_metric=imbalance_metric_of(decider),
        decision=decision,
        migrations=cost.migrations,
        disk_moves=cost.disk_moves,
        power_on=sum(isinstance(each, PowerOn) for each in actions),
        power_off=sum(isinstance(each, PowerOff) for each in actions),
        memory=cost.transferred,
        schedule=schedule,
        rules=rules,
        before=cluster_load(snapshot),
        after=cluster_load(after),
        storages=storage_changes(snapshot, after, policy.limits),
    )


def print_summary(
    screen: Console, summary: PlanSummary, max_rules: int | None = MAX_RULES_LISTED
) -> None:
    """Print the reason, the cost, the loads before and after, and the violations.

    Args:
        screen: The console.
        summary: The figures.
        max_rules: Maximum number of violated rules that are named; None for all.
    """
    decision = summary.decision
    reason = Text(f"{summary.policy}: {reason_text(decision.reason)}", style="bold")
    screen.print(reason.append(f": {printable(decision.detail)}", style="not bold"))
    if decision.unmeasured:
        names = printable(", ".join(decision.unmeasured))
        screen.print(f"not measured, left out: {names}", soft_wrap=True)
    if decision.plan.steps:
        screen.print(f"plan: {', '.join(_plan_costs(summary))}")
        transfers = summary.migrations + summary.disk_moves
        duration = duration_text(summary.schedule, migrates=transfers > 0)
        screen.print(f"duration: {duration}")
        screen.print()
        print_change(screen, summary.before, summary.after, summary.rules.change)
    if summary.rules.unresolved:
        screen.print()
    print_rules(screen, summary.rules, max_rules)


def _plan_costs(summary: PlanSummary) -> Iterator[str]:
    if summary.migrations:
        yield format_count(summary.migrations, "migration")
    if summary.disk_moves:
        yield f"{format_count(summary.disk_moves, 'disk')} to another storage"
    transfers = summary.migrations + summary.disk_moves
    if transfers:
        yield f"{format_bytes(summary.memory)} to transfer"
    if transfers > 1:
        yield f"up to {summary.schedule.max_parallel} in parallel"
    if summary.power_on:
        yield f"{format_count(summary.power_on, 'node')} powered on"
    if summary.power_off:
        yield f"{format_count(summary.power_off, 'node')} powered off"


def decision_document(summary: PlanSummary, snapshot: Snapshot) -> dict[str, object]:
    """Return a decision for *snapshot* and its summary as a JSON document."""
    document = plan_document(summary.policy, summary.decision, snapshot)
    steps = document.pop("steps")
    return {
        **document,
        "repair_first": summary.decision.repair_first,
        "violated_rules": {
            "before": asdict(count_strict(summary.rules.change.before)),
            "after": asdict(count_strict(summary.rules.change.after)),
        },
        "violations": rules_document(summary.rules),
        "summary": {
            "migrations": summary.migrations,
            "disk_moves": summary.disk_moves,
            "gib": summary.memory / GIB,
            "power_on": summary.power_on,
            "power_off": summary.power_off,
            "seconds": summary.schedule.seconds,
            "before": asdict(summary.before),
            "after": asdict(summary.after),
            "storages": [asdict(each) for each in summary.storages],
        },
        "steps": steps,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """The effect of a plan on rule violations.

    Attributes:
        change: The violations before and after the plan.
        unresolved: The strict ones that remain, and what prevents their repair.
        policy: The name of the policy that made the plan.
        repairs_rules: True if that policy repairs rules.
        repair: The command that repairs them; None if it could repair no more.
    """

    change: ViolationChange
    unresolved: tuple[UnresolvedViolation, ...]
    policy: str
    repairs_rules: bool
    repair: RepairCommand | None

    @property
    def command(self) -> str | None:
        """Return the command that repairs what remains; None if no command does."""
        if self.repair is None or not any(each.repairable for each in self.unresolved):
            return None
        return self.repair.line


def rule_report(
    snapshot: Snapshot, plan: Plan, policy: Policy[Any] | None, repair: RepairCommand
) -> RuleReport:
    """Return the effect of *plan* on the rules of *snapshot*.

    Args:
        snapshot: The cluster before the plan.
        plan: The plan.
        policy: The policy that made it; None if none did.
        repair: The command that repairs violated rules.
    """
    after = snapshot.apply(*(step.action for step in plan.steps))
    change = violation_change(snapshot, after)
    is_useful = may_repair_more(repair.policy, snapshot, policy, change)
    return RuleReport(
        change=change,
        unresolved=unresolved_violations(
            change.after,
            snapshot,
            repair.policy.limits,
            load_model=repair.policy.load_model,
            allow_cold_migration=repair.policy.allow_cold_migration,
        ),
        policy="" if policy is None else policy.name,
        repairs_rules=policy is not None and repairs_rules(policy),
        repair=repair if is_useful else None,
    )


def print_rules(
    screen: Console, report: RuleReport, limit: int | None = MAX_RULES_LISTED
) -> None:
    """Print the violated strict rules that remain, and the command that repairs them.

    Args:
        screen: The console.
        report: The effect of the plan; without remaining violations nothing is printed.
        limit: Maximum number of rules that are named; None for all.
    """
    if not report.unresolved:
        return
    change = report.change
    before, after = (
        count_strict(split_drains(each)[0]) for each in (change.before, change.after)
    )
    detail = "" if report.repairs_rules else f"; {report.policy} does not repair rules"
    remaining = f"{after.rules} of {before.rules} remain{after.suffix}"
    summary = f"violated strict rules: {remaining}"
    if after.rules:
        screen.print(Text(f"{summary}{printable(detail)}", style="red"))
    print_unresolved(screen, report, limit, label="remains violated")


def print_unresolved(
    screen: Console, report: RuleReport, limit: int | None, *, label: str
) -> None:
    """Print the strict rules that a plan leaves violated, and the repair command.

    Args:
        screen: The console.
        report: The effect of the plan.
        limit: Maximum number of rules that are named; None for all. Rules that no
            plan can repair are named first.
        label: The prefix of a rule that can be repaired.
    """
    infeasible = infeasible_lines(report)
    repairable = [
        f"{label}: {each.violation}"
        for each in report.unresolved
        if each.repairable and not each.is_drain
    ]
    drains = drain_lines(report.unresolved)
    lines = [*drains, *infeasible, *repairable]
    for line in lines[:limit]:
        screen.print(Text(printable(line), style="red"))
    if limit and len(lines) > limit:
        more = f"and {len(lines) - limit} more; {ALL_OPTION_HINT}"
        screen.print(Text(more, style="red"))
    if report.command is not None:
        subset = f" {len(repairable)} of them" if infeasible and repairable else ""
        action = f"repair{subset}" if repairable else "migrate them"
        if report.repairs_rules:
            action = f"try to {action}"
        screen.print(printable(f"to {action}: {report.command}"), soft_wrap=True)


def infeasible_lines(report: RuleReport) -> list[str]:
    """Return once each what no plan can repair, and what is not evaluated.

    Drains are omitted: `drain_lines` returns them.
    """
    lines = (x.text for x in report.unresolved if x.detail and not x.is_drain)
    return [*dict.fromkeys(lines)]


def is_reported(note: str, report: RuleReport) -> bool:
    """Return True if *note* is about a rule for which the summary has a line.

    The note of a policy may name another cause why the rule remains violated.
    """
    if note in infeasible_lines(report):
        return True
    return any(
        note.startswith(
            NAME_START if each.is_drain else f"{INFEASIBLE}: {each.violation.rule}: "
        )
        for each in report.unresolved
        if each.is_drain or each.repairable is False
    )


def rules_document(report: RuleReport) -> dict[str, object]:
    """Return *report* as a JSON document."""
    after = violation_documents(report.change.after)
    strict = (entry for entry in after if entry["strict"])
    for entry, unresolved_rule in zip(strict, report.unresolved, strict=True):
        entry.update(
            repairable=unresolved_rule.repairable, detail=unresolved_rule.detail
        )
    return {
        "before": violation_documents(report.change.before),
        "after": after,
        "repair": report.command,
    }
