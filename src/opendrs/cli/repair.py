"""Strict rules that remain broken after a plan, and the command that repairs them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from opendrs.cli.cluster import SEE_ALL
from opendrs.cli.screen import visible
from opendrs.controller.documents import violation_documents
from opendrs.controller.settings import Settings
from opendrs.model import Plan, Snapshot
from opendrs.policies import Optimize
from opendrs.policies.optimising.repairs import (
    INFEASIBLE,
    UNJUDGED,
    Unresolved,
    unresolved,
)
from opendrs.policies.optimising.worth import Goal
from opendrs.rules import ViolationChange, violation_change

MOST_RULES = 3  # that are named
ONLY_REPAIR: Mapping[str, object] = {"budget": "unlimited", "priorities": ["repair"]}
"""Settings with which `optimize` repairs rules, and moves no guest besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairCommand:
    """The command that plans the repair of broken rules, and no more.

    Attributes:
        policy: The policy of that command.
        line: The command.
    """

    policy: Optimize
    line: str


def repair_command(
    words: Sequence[str], config: Path | None, settings: Settings
) -> RepairCommand:
    """Return the command that plans the repair of what is broken.

    Args:
        words: The command without options that plans for the same cluster, such as
            `plan lab`.
        config: The configuration that was named; None when it was not.
        settings: What is configured.
    """
    policy = settings.chosen_policy(Optimize.name, dict(ONLY_REPAIR))
    assert isinstance(policy, Optimize)  # noqa: S101 - for the type checker
    options = [
        *("--policy", Optimize.name, "--set", "budget=unlimited"),
        *("--set", 'priorities=["repair"]'),
    ]
    same = [] if config is None else ["--config", str(config)]
    return RepairCommand(
        policy=policy,
        line=shlex.join(["opendrs", *words, *options, *same]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """What a plan does to the rules.

    Attributes:
        change: The violations before and after it.
        unresolved: The strict ones that remain, and what prevents their repair.
        policy: The policy of the plan.
        repairs_rules: Whether that policy repairs rules at all.
        repair: The command that repairs them; None when the plan is that one.
    """

    change: ViolationChange
    unresolved: tuple[Unresolved, ...]
    policy: str
    repairs_rules: bool
    repair: RepairCommand | None

    @property
    def command(self) -> str | None:
        """Return the command that repairs what remains; None when none does."""
        if self.repair is None or not any(each.repairable for each in self.unresolved):
            return None
        return self.repair.line


def rule_report(
    snapshot: Snapshot, plan: Plan, policy: object, repair: RepairCommand
) -> RuleReport:
    """Return what *plan* does to the rules of *snapshot*.

    Args:
        snapshot: The cluster.
        plan: The plan.
        policy: The policy that made it.
        repair: The command that would repair rules.
    """
    after = snapshot.after(*(step.action for step in plan.steps))
    change = violation_change(snapshot, after)
    optimize = policy if isinstance(policy, Optimize) else None
    return RuleReport(
        change=change,
        unresolved=unresolved(
            change.after,
            snapshot,
            repair.policy.limits,
            mode=repair.policy.mode,
            relocate=repair.policy.relocate,
        ),
        policy=str(getattr(policy, "name", "")),
        repairs_rules=optimize is not None and Goal.REPAIR in optimize.priorities,
        repair=None if optimize == repair.policy else repair,
    )


def print_rules(
    screen: Console, report: RuleReport, most: int | None = MOST_RULES
) -> None:
    """Print how many strict rules remain broken, why, and the command for the repair.

    Args:
        screen: The console.
        report: What is printed; nothing where all rules hold.
        most: How many of the rules are named; all when None.
    """
    if not report.unresolved:
        return
    total = len(report.change.strict_before)
    why = "" if report.repairs_rules else f": {report.policy} does not repair rules"
    remain = f"broken strict rules: {len(report.unresolved)} of {total} remain"
    screen.print(Text(f"{remain}{visible(why)}", style="red"))
    print_unresolved(screen, report, most, word="stays broken")


def print_unresolved(
    screen: Console, report: RuleReport, most: int | None, *, word: str
) -> None:
    """Print which strict rules a plan leaves, and the command that repairs them.

    Args:
        screen: The console.
        report: What the plan does to the rules.
        most: How many of the rules are named, those first that no plan can repair; all
            when None.
        word: What is said of a rule that can be repaired.
    """
    infeasible = infeasible_lines(report)
    repairable = [
        f"{word}: {each.violation}" for each in report.unresolved if each.repairable
    ]
    lines = [*infeasible, *repairable]
    for line in lines[:most]:
        screen.print(Text(visible(line), style="red"))
    if most and len(lines) > most:
        screen.print(Text(f"and {len(lines) - most} more; {SEE_ALL}", style="red"))
    if report.command is not None:
        which = f" {len(repairable)} of them" if infeasible else ""
        screen.print(visible(f"to repair{which}: {report.command}"), soft_wrap=True)


def infeasible_lines(report: RuleReport) -> list[str]:
    """Return a line for each rule that no plan can repair, or that is not judged."""
    return [
        f"{INFEASIBLE if each.judged else UNJUDGED}: {each.detail}"
        for each in report.unresolved
        if each.detail
    ]


def rules_document(report: RuleReport) -> dict[str, object]:
    """Return *report* as plain values."""
    after = violation_documents(report.change.after)
    strict = (entry for entry in after if entry["strict"])
    for entry, found in zip(strict, report.unresolved, strict=True):
        entry.update(repairable=found.repairable, detail=found.detail)
    return {
        "before": violation_documents(report.change.before),
        "after": after,
        "repair": report.command,
    }
