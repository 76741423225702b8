"""opendrs compare: what each policy would do, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from opendrs.cli.comparison import Outcome, Row, budget_rows, comparable, outcome, rows
from opendrs.cli.curve import draw, require_picture
from opendrs.cli.live import planning
from opendrs.cli.options import JSON, config_option, format_option, source_argument
from opendrs.cli.screen import add_row, console, print_json, table, visible
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.errors import ConfigurationError
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
    help="Draw the variation over the memory moved to FILE.svg, .png or .pdf.",
)
@config_option
@format_option
def command(
    *,
    source: str,
    policies: tuple[str, ...],
    plot: Path | None,
    config: Path | None,
    form: str,
) -> None:
    """Say what each policy would do about one cluster. Changes nothing.

    Each policy makes one decision, at once: what waits for several cycles does not
    wait here. Shown is what its plan leaves: the coefficients of variation of cpu
    load and of memory load, the breaches of strict rules, and what it takes: guests
    moved, memory transferred, and processor time. With optimize come budgets, from a
    twentieth of what it would move to any amount.

    \b
      opendrs compare cluster.json
      opendrs compare lab --policy balance --policy optimize
      opendrs compare cluster.json --plot curve.svg
      opendrs compare cluster.json --format json
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    if plot is not None:
        require_picture(plot)
    settings = load_settings(config)
    snapshot = observe(open_source(source, settings))
    missing = comparable(snapshot)
    if missing:
        raise ConfigurationError(f"{source}: not measured: {', '.join(missing)}")
    with planning() as told:
        found = [*rows(snapshot, settings, tuple(dict.fromkeys(policies)), told)]
        by_budget = (
            [*budget_rows(snapshot, settings, told)]
            if not policies or Optimize.name in policies
            else []
        )
    if form == JSON:
        print_json(_document(outcome(snapshot), [*found, *by_budget]))
    else:
        _print(outcome(snapshot), [*found, *by_budget])
    if plot is not None:
        draw(plot, source, found, by_budget)


def _document(before: Outcome, compared: Sequence[Row]) -> dict[str, object]:
    return {
        "before": asdict(before),
        "policies": [
            {
                "name": row.name,
                "reason": row.reason,
                "after": asdict(row.after),
                "seconds": row.seconds,
                "curve": [asdict(point) for point in row.curve],
            }
            for row in compared
        ],
    }


def _print(before: Outcome, compared: Sequence[Row]) -> None:
    made = table("policy", *FIGURES, right=FIGURES)
    add_row(made, "as it is", *_cells(before), "")
    for row in compared:
        cells = _cells(row.after)
        add_row(made, visible(row.name), *cells, f"{row.seconds:.2f}")
    made.columns[0].no_wrap = True
    screen = console()
    screen.print(made)
    idle = [row for row in compared if not row.after.moves]
    if idle:
        screen.print()
    for row in idle:
        screen.print(visible(f"{row.name} moves nothing: {row.reason}"))


def _cells(found: Outcome) -> list[str]:
    return [
        f"{found.cpu:.4f}",
        f"{found.memory:.4f}",
        f"{found.broken}",
        f"{found.moves}",
        f"{found.gib:.1f}",
    ]
