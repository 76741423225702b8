"""The command `opendrs backtest`: policies over the recorded load of a cluster."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.backtest_record import load_record
from opendrs.cli.backtest_report import BacktestReport, print_report, report_document
from opendrs.cli.backtest_run import PolicyChoice, parse_changes, row_progress
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import print_json
from opendrs.cli.options import (
    JSON,
    IntegerRange,
    config_option,
    every_option,
    format_option,
    since_option,
)
from opendrs.policies import BUILT_IN_POLICIES
from opendrs.simulation.atomic_output import (
    PLOT_SUFFIXES,
    AtomicFiles,
    check_outputs,
)
from opendrs.simulation.backtest import run_backtest
from opendrs.simulation.plots.backtest import draw_backtest


@click.command(name="backtest")
@click.argument("source", metavar="PLATFORM|HISTORY")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME",
    help="A policy to run; repeat it for several (default: all built-in policies; with "
    "--schedule, none).",
)
@click.option(
    "--schedule",
    "with_schedule",
    is_flag=True,
    help="Run the policies of the tables [[schedule]] at their times, as one row.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="POLICY.KEY=VALUE",
    help="Override a setting of a policy, such as optimize.budget=unlimited; with one "
    "--policy, KEY=VALUE is enough. May be repeated.",
)
@since_option(
    "Use only the newest part of the record, such as '30 d' (default: all of it)."
)
@every_option(
    "Least time between two decisions of a policy, such as '1 h' (default: decide on "
    "each snapshot). The load is that of every snapshot."
)
@click.option(
    "--seed",
    type=IntegerRange(0, 2**32 - 1),
    metavar="N",
    default=1,
    help="Seed of dirty rates that are not recorded (default 1).",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Plot load and imbalance over time, and load over cost, to FILE.svg, .png or "
    ".pdf.",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    policies: tuple[str, ...],
    with_schedule: bool,
    assignments: tuple[str, ...],
    since: float | None,
    every: float,
    seed: int,
    plot: Path | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Run policies over recorded load, and compare the results.

    The load is that of a history (record --every), or of the cycles that apply and
    run recorded on a platform. Each policy starts with the first recorded placement,
    decides as the controller does, and its migrations take time. Nothing is changed.

    The rows without a policy are the recorded placement, the first placement without
    any migration, and the best plan of optimize at each decision, carried out at once
    and at no cost.

    \b
      opendrs backtest lab
      opendrs backtest lab --since '30 d' --policy balance --policy optimize
      opendrs backtest history.jsonl --policy optimize --set budget=unlimited
      opendrs backtest history.jsonl --every '1 h' --plot backtest.svg
      opendrs backtest lab --schedule --policy balance
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    check_outputs([(plot, PLOT_SUFFIXES)] if plot else [], [Path(source)])
    settings = load_settings(config)
    by_default = () if with_schedule else tuple(sorted(BUILT_IN_POLICIES))
    names = tuple(dict.fromkeys(policies)) or by_default
    choice = PolicyChoice(
        settings=settings,
        names=names,
        changes=parse_changes(names, assignments),
        with_schedule=with_schedule,
        every=every,
        seed=seed,
    )
    choice.backtest_settings()  # reports errors before the record is read
    record = load_record(source, settings, since)
    chosen = choice.backtest_settings(record.interval)
    with row_progress() as progress:
        rows = tuple(run_backtest(record, chosen, progress))
    report = BacktestReport(
        source=source, record=record, every=every, seed=seed, rows=rows
    )
    if plot is not None:
        with AtomicFiles() as files:
            draw_backtest(source, record, rows, files.new(plot), plot.suffix)
    if output_format == JSON:
        print_json(report_document(report))
    else:
        print_report(report)
