"""opendrs demo: all of it, on a simulated cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opendrs.cli.audience import JsonAudience, ScreenAudience
from opendrs.cli.options import (
    JSON,
    config_option,
    format_option,
    policy_option,
    seed_option,
    set_option,
)
from opendrs.cli.performance import Task, perform
from opendrs.cli.repair import repair_command
from opendrs.cli.sources import load_settings, record_of, simulation
from opendrs.controller.selection import parse_assignments

PACE = 0.05  # real seconds for each simulated one: some five for the usual plan


@click.command(name="demo")
@seed_option
@policy_option
@set_option
@config_option
@format_option
def command(
    *,
    seed: int,
    policy: str | None,
    assignments: tuple[str, ...],
    config: Path | None,
    form: str,
) -> int:
    """See it work on a simulated cluster of 8 nodes and 60 guests.

    Shows the nodes, plans, carries the plan out, and shows the nodes again.
    All happens in memory. On a terminal it takes a few seconds, so that you
    can watch the migrations; elsewhere it is done at once.

    \b
      opendrs demo
      opendrs demo --seed 7 --set moves=3
      opendrs demo --policy auto-rebalance --set hold=1
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = settings.chosen_policy(policy, parse_assignments(assignments))
    watched = form != JSON and sys.stdout.isatty()
    source = simulation(seed=seed, pace=PACE if watched else 0.0)
    repair = repair_command(["demo", "--seed", str(seed)], config, settings)
    screen = ScreenAudience(repair, everything=True, cluster=True)
    audience = JsonAudience(repair) if form == JSON else screen
    with record_of(source, settings) as store:
        task = Task(source=source, policy=chosen, store=store)
        return perform(task, audience, consent=lambda: True)
