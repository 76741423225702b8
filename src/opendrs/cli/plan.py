"""opendrs plan: what would move where, and why."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from opendrs.cli.anytime import chosen_policy, decided_within
from opendrs.cli.live import planning
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    budget_option,
    config_option,
    format_option,
    policy_option,
    set_option,
    source_argument,
    summary_option,
    time_option,
)
from opendrs.cli.proposal import print_decision
from opendrs.cli.repair import MOST_RULES, repair_command, rule_report
from opendrs.cli.screen import console, print_json, visible
from opendrs.cli.sources import load_settings, observe, open_source, with_record
from opendrs.cli.summary import decision_document, print_summary, summarize
from opendrs.cli.timing import print_schedule, schedule_document
from opendrs.model import Snapshot
from opendrs.platforms.file import FilePlatform
from opendrs.policies import Decision, Policy, Reason
from opendrs.scoring import schedule


@click.command(name="plan")
@source_argument
@policy_option
@set_option
@budget_option
@time_option
@summary_option
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    policy: str | None,
    assignments: tuple[str, ...],
    budget: str | None,
    seconds: float | None,
    brief: bool,
    everything: bool,
    at: datetime | None,
    config: Path | None,
    form: str,
) -> None:
    """Say what to move where, and why. Changes nothing.

    Shows a summary first: what the plan costs, the highest loads and the broken
    strict rules before and after, and the command that repairs the rules that stay
    broken. Then the steps in a safe order with the reason of each, the load of the
    nodes before and after, which guests were skipped and why, and what the
    duration assumes. The bandwidth is that of [limits].

    Of more than ten steps, the ten most valuable are shown: first those that repair
    a broken strict rule, then those that free most of their node. Of more than 20
    nodes, the five most loaded. --all shows all, and the measures of the policy
    itself; JSON has all.

    Through a pipe or into a file each row is one line, with a tab between columns.

    \b
      opendrs plan cluster.json
      opendrs plan lab --set threshold=0.2 --set moves=5
      opendrs plan lab --policy auto-rebalance --set hold=1
      opendrs plan lab --policy optimize --budget '500 GiB' --time 20
      opendrs plan lab --summary
      opendrs plan lab --all | grep vm42
      opendrs plan demo --format json
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = chosen_policy(settings, policy, assignments, budget, seconds)
    opened = open_source(source, settings, at=at)
    snapshot = with_record(observe(opened), chosen, opened, settings)
    decision = _decided(chosen, snapshot, seconds)
    timing = schedule(decision.plan, snapshot, chosen.limits)
    repair = repair_command(["plan", source], config, settings)
    rules = rule_report(snapshot, decision.plan, chosen, repair)
    summary = summarize(decision, snapshot, timing, rules)
    if form == JSON:
        document = decision_document(summary, snapshot)
        if brief:
            del document["steps"], document["notes"]
            print_json(document)
        else:
            print_json({**document, "schedule": schedule_document(timing)})
        return
    screen = console()
    if brief:
        print_summary(screen, summary, None if everything else MOST_RULES)
        return
    print_decision(screen, summary, snapshot, everything=everything)
    print_schedule(screen, timing, chosen.limits)
    screen.print()
    words = ["opendrs", "apply", source, *_said(policy, assignments)]
    words += [] if budget is None else ["--budget", budget]
    words += [] if seconds is None else ["--time", f"{seconds:g}"]
    words += [] if config is None else ["--config", str(config)]
    again = shlex.join(words)
    file = isinstance(opened.platform, FilePlatform)
    screen.print(visible(_advice(decision, None if file else again)), soft_wrap=True)


def _decided(
    policy: Policy[Any], snapshot: Snapshot, seconds: float | None
) -> Decision[Any]:
    if seconds is not None:
        return decided_within(policy, snapshot, seconds)
    with planning() as told:
        told(policy.name)
        return policy.decide(snapshot, policy.initial_memory())


def _said(policy: str | None, assignments: Sequence[str]) -> list[str]:
    """Return the options that say *policy* and its settings."""
    words = [] if policy is None else ["--policy", policy]
    return words + [word for each in assignments for word in ("--set", each)]


def _advice(decision: Decision[Any], again: str | None) -> str:
    if decision.plan.steps and again is None:
        return "This is a snapshot in a file: it is planned for, not changed."
    if decision.plan.steps:
        return f"To do this: {again}"
    if decision.reason is Reason.NOT_YET_SUSTAINED:
        return "One look is one cycle; to decide at once: --set hold=1"
    if decision.reason in (Reason.NOT_YET_DUE, Reason.RECENTLY_CHANGED):
        return "To decide at once: --set interval=0 --set quiet=0"
    return "There is nothing to do."
