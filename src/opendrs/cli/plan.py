"""opendrs plan: what would move where, and why."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from opendrs.cli.options import (
    JSON,
    config_option,
    format_option,
    policy_option,
    set_option,
    source_argument,
)
from opendrs.cli.proposal import plan_document, print_decision
from opendrs.cli.screen import console, print_json
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.controller.selection import parse_assignments
from opendrs.model import Snapshot
from opendrs.policies import Decision, Reason


@click.command(name="plan")
@source_argument
@policy_option
@set_option
@config_option
@format_option
def command(
    *,
    source: str,
    policy: str | None,
    assignments: tuple[str, ...],
    config: Path | None,
    form: str,
) -> None:
    """Say what to move where, and why. Changes nothing.

    Shows the steps in a safe order with the reason of each, the load of each
    node before and after, and which guests were left alone and why.

    \b
      opendrs plan cluster.json
      opendrs plan lab --set threshold=0.2 --set moves=5
      opendrs plan lab --policy auto-rebalance --set hold=1
      opendrs plan demo --format json
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = settings.chosen_policy(policy, parse_assignments(assignments))
    snapshot = observe(open_source(source, settings))
    decision = chosen.decide(snapshot, chosen.initial_memory())
    if form == JSON:
        print_json(plan_document(chosen.name, decision))
    else:
        _print(chosen.name, decision, snapshot, source)


def _print(
    policy: str, decision: Decision[Any], snapshot: Snapshot, source: str
) -> None:
    screen = console()
    print_decision(screen, policy, decision, snapshot)
    screen.print()
    if decision.plan.steps:
        screen.print(f"To do this: opendrs apply {shlex.quote(source)}")
    elif decision.reason is Reason.NOT_YET_SUSTAINED:
        screen.print("One look is one cycle; to decide at once: --set hold=1")
    else:
        screen.print("There is nothing to do.")
