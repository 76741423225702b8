"""opendrs compare: what each policy would do, side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console

from opendrs.cli.comparison import Outcome, Row, budget_rows, comparable, outcome, rows
from opendrs.cli.curve import draw, require_picture
from opendrs.cli.live import planning
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    format_option,
    source_argument,
)
from opendrs.cli.reasons import reason_text
from opendrs.cli.repair import (
    MOST_RULES,
    RuleReport,
    print_unresolved,
    repair_command,
    rule_report,
)
from opendrs.cli.screen import add_row, console, print_json, table, visible
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.controller.documents import violation_documents
from opendrs.errors import ConfigurationError
from opendrs.model import EMPTY_PLAN
from opendrs.policies import Optimize

FIGURES = ("cpu cv", "memory cv", "broken", "moves", "GiB", "cpu s")


@click.command(name="compare")
@source_argument
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A policy to compare; may be repeated. Default: all.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the load of the fullest node over the memory that each plan migrates to "
    "FILE.svg, .png or .pdf.",
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
    everything: bool,
    at: datetime | None,
    config: Path | None,
    form: str,
) -> None:
    """Say what each policy would do about one cluster. Changes nothing.

    Each policy makes one decision, at once: what waits for several cycles does not
    wait here. Shown is what its plan leaves: the coefficients of variation of cpu
    load and of memory load, the breaches of strict rules, and what it takes: guests
    moved, memory transferred, and processor time. With optimize come budgets, from a
    twentieth of what it would move to any amount. Below the table stands how many
    broken strict rules each plan leaves, and the command that repairs them.

    \b
      opendrs compare cluster.json
      opendrs compare lab --policy balance --policy optimize
      opendrs compare cluster.json --plot curve.svg
      opendrs compare cluster.json --format json
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if plot is not None:
        require_picture(plot)
    settings = load_settings(config)
    snapshot = observe(open_source(source, settings, at=at))
    missing = comparable(snapshot)
    if missing:
        raise ConfigurationError(f"{source}: {missing}; a comparison needs it of all")
    with planning() as told:
        found = [*rows(snapshot, settings, tuple(dict.fromkeys(policies)), told)]
        by_budget = (
            [*budget_rows(snapshot, settings, told)]
            if not policies or Optimize.name in policies
            else []
        )
    compared = [*found, *by_budget]
    repair = repair_command(["plan", source], config, settings)
    report = rule_report(snapshot, EMPTY_PLAN, None, repair)
    if form == JSON:
        print_json(_document(outcome(snapshot), compared, report))
    else:
        screen = console()
        _print(screen, outcome(snapshot), compared)
        _print_rules(screen, found, report, everything=everything)
    if plot is not None:
        draw(plot, source, outcome(snapshot), found, by_budget)


def _document(
    before: Outcome, compared: Sequence[Row], report: RuleReport
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
            for row in compared
        ],
    }


def _print(screen: Console, before: Outcome, compared: Sequence[Row]) -> None:
    made = table("policy", *FIGURES, right=FIGURES, whole=["policy"])
    add_row(made, "as it is", *_cells(before), "")
    for row in compared:
        cells = _cells(row.after)
        add_row(made, visible(row.name), *cells, f"{row.seconds:.2f}")
    screen.print(made)
    idle = [row for row in compared if not row.after.moves]
    if idle:
        screen.print()
    for row in idle:
        told = f"{row.name} moves nothing: {reason_text(row.reason)} - {row.detail}"
        screen.print(visible(told))


def _print_rules(
    screen: Console, policies: Sequence[Row], report: RuleReport, *, everything: bool
) -> None:
    """Print how many strict rules stay broken after which plan, and how to repair."""
    total = len(report.unresolved)
    if not total:
        return
    screen.print()
    by_count: defaultdict[int, list[str]] = defaultdict(list)
    for row in policies:
        by_count[len(row.rules.strict_after)].append(row.name)
    for left, names in sorted(by_count.items()):
        remain = f"broken strict rules: {left} of {total} remain after"
        screen.print(visible(f"{remain} {', '.join(names)}"))
    print_unresolved(screen, report, None if everything else MOST_RULES, word="broken")


def _cells(found: Outcome) -> list[str]:
    return [
        f"{found.cpu:.4f}",
        f"{found.memory:.4f}",
        f"{found.broken}",
        f"{found.moves}",
        f"{found.gib:.1f}",
    ]
