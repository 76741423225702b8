"""The command `opendrs demo`: plan and execute on a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.apply_cycle import ApplyTask, run_apply_cycle
from opendrs.cli.configuration import load_settings
from opendrs.cli.options import (
    JSON,
    all_option,
    config_option,
    format_option,
    policy_option,
    seed_option,
    set_option,
    summary_option,
)
from opendrs.cli.output import JsonOutput, TableOutput
from opendrs.cli.platform_store import open_store
from opendrs.cli.sources import simulated_source, simulation_pace
from opendrs.config.controller_settings import Mode
from opendrs.config.policy_loading import parse_assignments
from opendrs.controller.repair_advice import repair_command


@click.command(name="demo")
@seed_option
@click.option(
    "--serve",
    is_flag=True,
    help="Run a controller until Ctrl-C, and serve the dashboard.",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in Mode]),
    default=Mode.ADVISE.value,
    help="Mode of the controller, with --serve (default advise).",
)
@policy_option
@set_option
@summary_option
@all_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    seed: int,
    serve: bool,
    mode: str,
    policy: str | None,
    assignments: tuple[str, ...],
    summary_only: bool,
    show_all: bool,
    config: Path | None,
    output_format: str,
) -> int:
    """Balance a simulated cluster of 8 nodes and 60 guests.

    Shows the nodes, plans, executes the plan, and shows the node loads and the
    summary again. Long lists are shortened as in the command plan. Nothing is
    written to disk. On a terminal a simulated minute takes three seconds, so that you
    can watch the migrations; otherwise the demo does not wait.

    With --serve, a controller runs on the cluster, whose load varies, until Ctrl-C. It
    prints a link to the dashboard, and logs what it does. In mode advise, it executes
    the plans that you approve, in the dashboard or with opendrs approve. Drain nodes in
    the dashboard: commands that observe the cluster themselves, such as plan and drain,
    cannot reach a simulated one. Ctrl-C aborts the running migrations. All files are
    temporary.

    \b
      opendrs demo
      opendrs demo --seed 7 --set max_migrations=3
      opendrs demo --summary
      opendrs demo --policy auto-rebalance --set hold=1
      opendrs demo --serve              a controller, with the dashboard
      opendrs demo --serve --policy consolidate --mode automatic
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    changes = parse_assignments(assignments)
    chosen = settings.load_policy(policy, changes)
    if serve:
        # The import is slow.
        from opendrs.cli.demo_controller import run_demo_controller  # noqa: PLC0415

        return run_demo_controller(seed, Mode(mode), settings, chosen.name, changes)
    source = simulated_source(seed=seed, pace=simulation_pace(output_format))
    repair = repair_command(["demo", "--seed", str(seed)], config, settings)
    table_output = TableOutput(
        repair, show_all=show_all, show_cluster=True, summary_only=summary_only
    )
    output = JsonOutput(repair) if output_format == JSON else table_output
    with open_store(source, settings) as store:
        task = ApplyTask(source=source, policy=chosen, store=store)
        return run_apply_cycle(task, output, consent=lambda: True)
