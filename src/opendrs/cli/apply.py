"""opendrs apply: plan, ask, and do it step by step."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opendrs.cli.apply_cycle import ApplyTask, run_apply_cycle
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
from opendrs.cli.plan_summary import repair_command
from opendrs.cli.sources import (
    load_settings,
    open_source,
    open_store,
    require_writable,
    simulation_pace,
)
from opendrs.cli.time_limit import choose_policy
from opendrs.errors import ConfigurationError


@click.command(name="apply")
@source_argument
@click.option("--yes", is_flag=True, help="Do not ask before acting.")
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
    """Plan, ask, and do it step by step.

    Shows the plan as plan does, and its summary once more before the question. Each
    step is judged once more on a fresh look at the cluster before it starts. After
    Ctrl-C no step starts and running migrations finish; Ctrl-C again aborts them.
    When this process is killed, the next apply first follows what it had
    started.

    \b
      opendrs apply lab
      opendrs apply lab --yes --set moves=5
      opendrs apply lab --policy optimize --budget '500 GiB' --time-limit 20
      opendrs apply lab --yes --format json      records of what was done

    Exit status: 0 all done or nothing to do, 1 some was refused, skipped or
    declined, 3 some failed.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = choose_policy(settings, policy, assignments, budget, time_limit)
    cluster = open_source(source, settings, pace=simulation_pace(output_format))
    require_writable(cluster.platform)
    _require_confirmation(yes=yes, output_format=output_format)
    with open_store(cluster, settings) as store:
        task = ApplyTask(
            source=cluster, policy=chosen, store=store, time_limit=time_limit
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
        raise ConfigurationError("apply --format json cannot ask; add --yes")
    if not yes and not sys.stdin.isatty():
        raise ConfigurationError(
            "apply asks before it acts, and there is no terminal to ask on; add --yes"
        )


def _confirm(table_output: TableOutput) -> bool:
    table_output.repeat_summary()
    click.echo()
    if click.confirm("Do this?", default=False):
        return True
    click.echo("Nothing was started.")
    return False
