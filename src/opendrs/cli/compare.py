"""The command `opendrs compare`: the plans of all policies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from opendrs.cli.comparison import (
    ClusterScore,
    ComparisonRow,
    compare_budgets,
    compare_policies,
    missing_comparison_metrics,
    score_cluster,
)
from opendrs.cli.comparison_plot import draw_comparison, require_plot_path
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import add_row, console, create_table, print_json, printable
from opendrs.cli.formatting import format_bytes
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.plan_summary import (
    MAX_RULES_LISTED,
    RuleReport,
    print_unresolved,
    rule_report,
)
from opendrs.cli.progress import planning_spinner
from opendrs.cli.sources import observe, open_source
from opendrs.controller.repair_advice import repair_command
from opendrs.controller.serialization import violation_documents
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import EMPTY_PLAN, GIB
from opendrs.policies import reason_text
from opendrs.policies.optimize import Optimize
from opendrs.rules import Violation, count_strict, split_drains

DISK_MOVES = "disks\nmoved"  # only shown if some plan moves disks
COLUMNS = (
    "CPU\nCV",
    "memory\nCV",
    "violated\nstrict rules",
    "migrations",
    DISK_MOVES,
    "transfer",
    "CPU\ntime",
)


@click.command(name="compare")
@source_argument
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A policy to compare; may be repeated (default: all).",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot the load of the most loaded node over the migrated memory of each plan "
    "to FILE.svg, .png or .pdf.",
)
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    policies: tuple[str, ...],
    plot: Path | None,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Compare the plans of all policies for one cluster. Changes nothing.

    Each policy decides once and immediately, even a policy that normally waits for
    several cycles. The table shows the cluster after each plan: the imbalance of CPU
    load (CPU CV) and of memory load (memory CV), and the violated strict rules. No
    repair precedes the policies, in contrast to plan.
    Imbalance is the coefficient of variation (CV) of the node loads: their standard
    deviation divided by their mean; 0 is balanced. The table also shows the cost: the
    migrations, the disks that move to another storage if there are any, the memory and
    disks to transfer, and the CPU time of the policy.

    optimize is also run with budgets, from a twentieth of what it would migrate up to
    an unlimited amount. Below the table are the policies that migrate nothing, with
    the reason, and the number of strict rules that each plan leaves violated, with the
    command that repairs them.

    \b
      opendrs compare cluster.json
      opendrs compare lab --policy balance --policy optimize
      opendrs compare cluster.json --plot curve.svg
      opendrs compare cluster.json --format json
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    if plot is not None:
        require_plot_path(plot)
    settings = load_settings(config)
    snapshot = observe(open_source(source, settings, at=at))
    missing = missing_comparison_metrics(snapshot)
    if missing:
        raise ConfigurationError(
            f"{source}: {missing}; compare needs all measurements",
            code=DiagnosticCode.INCOMPLETE,
        )
    with planning_spinner() as notify:
        policy_rows = [
            *compare_policies(
                snapshot, settings, tuple(dict.fromkeys(policies)), notify
            )
        ]
        budget_curve = (
            [*compare_budgets(snapshot, settings, notify)]
            if not policies or Optimize.name in policies
            else []
        )
    all_rows = [*policy_rows, *budget_curve]
    repair = repair_command(["plan", source], config, settings)
    report = rule_report(snapshot, EMPTY_PLAN, None, repair)
    if output_format == JSON:
        print_json(_comparison_document(score_cluster(snapshot), all_rows, report))
    else:
        screen = console()
        _print_table(screen, score_cluster(snapshot), all_rows)
        _print_rules(screen, policy_rows, report, show_all=show_all)
    if plot is not None:
        draw_comparison(
            plot, source, score_cluster(snapshot), policy_rows, budget_curve
        )


def _comparison_document(
    before: ClusterScore, all_rows: Sequence[ComparisonRow], report: RuleReport
) -> dict[str, object]:
    return {
        "before": asdict(before),
        "repair": report.command,
        "policies": [
            {
                "name": row.name,
                "reason": row.reason.value,
                "detail": row.detail,
                "after": asdict(row.after),
                "violations": {
                    "before": violation_documents(row.rules.before),
                    "after": violation_documents(row.rules.after),
                },
                "seconds": row.seconds,
                "curve": [asdict(point) for point in row.curve],
            }
            for row in all_rows
        ],
    }


def _print_table(
    screen: Console, before: ClusterScore, all_rows: Sequence[ComparisonRow]
) -> None:
    has_disks = any(row.after.disk_moves for row in all_rows)
    shown = [each for each in COLUMNS if has_disks or each != DISK_MOVES]
    listing = create_table("policy", *shown, right=shown, no_wrap=["policy", *shown])

    def add(name: str, score: ClusterScore, duration: str) -> None:
        cells = dict(zip(COLUMNS, (*_cells(score), duration), strict=True))
        add_row(listing, name, *(cells[each] for each in shown))

    add("(current cluster)", before, "")
    for row in all_rows:
        add(printable(row.name), row.after, f"{row.seconds:.2f} s")
    screen.print(listing)
    without_migrations = [row for row in all_rows if not row.after.migrations]
    if without_migrations:
        screen.print()
    for row in without_migrations:
        reason = reason_text(row.reason)
        message = f"{row.name}: no migrations: {reason}: {row.detail}"
        screen.print(printable(message))


def _print_rules(
    screen: Console,
    policies: Sequence[ComparisonRow],
    report: RuleReport,
    *,
    show_all: bool,
) -> None:
    """Print how many strict rules each plan leaves violated, and the repair command."""
    if not count_strict(report.change.before).rules:
        return
    screen.print()
    counts_before = _remaining_counts(report.change.before)
    counts_after = {each.name: _remaining_counts(each.rules.after) for each in policies}
    for what, total in counts_before.items():
        if not total:
            continue
        by_count: defaultdict[int, list[str]] = defaultdict(list)
        for name, counts in counts_after.items():
            by_count[counts[what]].append(name)
        for left, names in sorted(by_count.items()):
            remain = f"{what}: {left} of {total} remain after {', '.join(names)}"
            screen.print(printable(remain))
    print_unresolved(
        screen, report, None if show_all else MAX_RULES_LISTED, label="violated"
    )


def _remaining_counts(remaining: Iterable[Violation]) -> dict[str, int]:
    """Return the number of violated strict rules, and of guests to drain."""
    rules, drains = split_drains(remaining)
    counted = count_strict(rules).rules
    return {"violated strict rules": counted, "guests to drain": len(drains)}


def _cells(score: ClusterScore) -> list[str]:
    return [
        f"{score.cpu:.3f}",
        f"{score.memory:.3f}",
        f"{score.violated_rules}",
        f"{score.migrations}",
        f"{score.disk_moves}",
        format_bytes(score.gib * GIB),
    ]
