"""The command `opendrs apply`: plan, ask for confirmation, execute."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opendrs.cli.apply_cycle import ApplyTask, run_apply_cycle
from opendrs.cli.configuration import load_settings
from opendrs.cli.options import (
    JSON,
    all_option,
    budget_option,
    config_option,
    format_option,
    policy_option,
    set_option,
    source_argument,
    time_limit_option,
)
from opendrs.cli.output import JsonOutput, TableOutput
from opendrs.cli.platform_store import open_store
from opendrs.cli.sources import open_source, require_writable, simulation_pace
from opendrs.cli.time_limit import choose_policy
from opendrs.controller.repair_advice import repair_command
from opendrs.errors import ConfigurationError, DiagnosticCode


@click.command(name="apply")
@source_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@policy_option
@set_option
@budget_option
@time_limit_option
@all_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    yes: bool,
    policy: str | None,
    assignments: tuple[str, ...],
    budget: str | None,
    time_limit: float | None,
    show_all: bool,
    config: Path | None,
    output_format: str,
) -> int:
    """Plan, ask for confirmation, and execute the plan.

    Shows the same plan as the command plan, and repeats the summary before it asks.
    A guard checks each step on a fresh snapshot before the step starts. After Ctrl-C
    no step starts and running migrations finish; a second Ctrl-C aborts them. If
    this process is killed, the next apply first determines the outcome of the steps
    in progress.

    \b
      opendrs apply lab
      opendrs apply lab --yes --set max_migrations=5
      opendrs apply lab --policy optimize --budget '500 GiB' --time-limit 20
      opendrs apply lab --yes --format json      print the outcomes as JSON

    Exit status: 0 = all done or nothing to do; 1 = you declined, or some steps were not
    started (rejected by the guard, or skipped); 3 = some steps failed.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    chosen = choose_policy(settings, policy, assignments, budget, time_limit)
    cluster = open_source(source, settings, pace=simulation_pace(output_format))
    require_writable(cluster.platform)
    _require_confirmation(yes=yes, output_format=output_format)
    with open_store(cluster, settings) as store:
        task = ApplyTask(
            source=cluster,
            policy=chosen,
            store=store,
            protection=settings.protection,
            time_limit=time_limit,
        )
        repair = repair_command(["plan", source], config, settings)
        table_output = TableOutput(repair, show_all=show_all)

        def consent() -> bool:
            return yes or _confirm(table_output)

        return run_apply_cycle(
            task, JsonOutput(repair) if output_format == JSON else table_output, consent
        )


def _require_confirmation(*, yes: bool, output_format: str) -> None:
    if not yes and output_format == JSON:
        raise ConfigurationError(
            "apply: --format json cannot ask for confirmation; add --yes",
            code=DiagnosticCode.INCONSISTENT,
        )
    if not yes and not sys.stdin.isatty():
        raise ConfigurationError(
            "apply: standard input is not a terminal, so no confirmation is possible; "
            "add --yes",
            code=DiagnosticCode.INCONSISTENT,
        )


def _confirm(table_output: TableOutput) -> bool:
    table_output.repeat_summary()
    click.echo()
    if click.confirm("Execute this plan?", default=False):
        return True
    click.echo("Nothing was started.")
    return False
