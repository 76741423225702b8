"""opendrs demo: all of it, on a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.audience import JsonAudience, ScreenAudience
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
from opendrs.cli.performance import Task, perform
from opendrs.cli.repair import repair_command
from opendrs.cli.sources import load_settings, pace_for, record_of, simulation
from opendrs.controller.selection import parse_assignments


@click.command(name="demo")
@seed_option
@policy_option
@set_option
@summary_option
@all_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    seed: int,
    policy: str | None,
    assignments: tuple[str, ...],
    brief: bool,
    everything: bool,
    config: Path | None,
    form: str,
) -> int:
    """See it work on a simulated cluster of 8 nodes and 60 guests.

    Shows the nodes, plans, executes the plan, and shows the nodes again, with a
    summary of what changed. Shows of long lists what plan shows; --all shows all.
    All happens in memory. On a terminal a simulated minute takes three seconds, so
    that you can watch the migrations; elsewhere the demo does not wait.

    \b
      opendrs demo
      opendrs demo --seed 7 --set moves=3
      opendrs demo --summary
      opendrs demo --policy auto-rebalance --set hold=1
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = settings.chosen_policy(policy, parse_assignments(assignments))
    source = simulation(seed=seed, pace=pace_for(form))
    repair = repair_command(["demo", "--seed", str(seed)], config, settings)
    screen = ScreenAudience(repair, everything=everything, cluster=True, brief=brief)
    audience = JsonAudience(repair) if form == JSON else screen
    with record_of(source, settings) as store:
        task = Task(source=source, policy=chosen, store=store)
        return perform(task, audience, consent=lambda: True)
