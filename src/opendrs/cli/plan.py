"""The command `opendrs plan`: plan migrations without executing them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json, printable
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
    time_limit_option,
)
from opendrs.cli.plan_summary import (
    MAX_RULES_LISTED,
    decision_document,
    print_summary,
    rule_report,
    summarize,
)
from opendrs.cli.plan_tables import print_decision
from opendrs.cli.progress import planning_spinner
from opendrs.cli.recorded_state import enrich_from_store
from opendrs.cli.schedule_tables import print_schedule, schedule_document
from opendrs.cli.sources import observe, open_source
from opendrs.cli.time_limit import choose_policy, decide_within
from opendrs.controller.repair_advice import repair_command
from opendrs.model import Snapshot
from opendrs.planning import estimate_schedule
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.policies import Decision, DecisionReason, Policy, decide
from opendrs.policies.optimize import Repair
from opendrs.rules import without_undo_rules


@click.command(name="plan")
@source_argument
@policy_option
@set_option
@budget_option
@time_limit_option
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
    time_limit: float | None,
    summary_only: bool,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Plan migrations and show the reason of each. Changes nothing.

    Prints a summary first. It contains the cost of the plan and, before and after the
    plan, the highest loads, the imbalance and the number of violated strict rules. The
    loads are those of nodes that are online; nodes in maintenance do not count.
    Imbalance (CV) is the coefficient of variation of the mean loads of the nodes: their
    standard deviation divided by their mean; 0 is balanced. The mean load of a node is
    the mean of its CPU and memory load. The policy optimize minimizes another
    imbalance: the root mean square (RMS) of the relative deviations of the node loads
    from the balanced load, that is, from the CPU and memory load of the cluster as a
    whole.

    If violated strict rules can be repaired, the plan contains only the repair. Execute
    it before you plan with the policy, or omit it with --set repair_first=false. The
    policy optimize repairs rules and balances in one plan. A guest on a node in
    maintenance counts as such a violation. If strict rules would remain violated after
    the plan, or guests on nodes in maintenance, the summary names them, and the command
    that repairs them if there is one.

    The steps follow in a safe order with their reasons, which are shortened if there
    are more than ten steps. Then come the load of each node
    before and after the plan, the skipped guests with the reason, and the assumptions
    of the estimated duration. The bandwidth is that of [limits] in the configuration
    file, otherwise that of recent migrations, otherwise 1 Gbit/s.

    If there are more than ten steps, ten are shown: those that repair violated strict
    rules, then those that reduce the load of their source node most. If there are
    more than 20 nodes, the five most loaded are shown. --all shows all steps and nodes,
    and further metrics of the cluster. JSON is always complete.

    If the output is a pipe or a file, each row is one line, with a tab between
    columns.

    \b
      opendrs plan cluster.json
      opendrs plan lab --set threshold=0.2 --set max_migrations=5
      opendrs plan lab --policy auto-rebalance --set load_model=static
      opendrs plan lab --policy optimize --budget '500 GiB' --time-limit 20
      opendrs plan lab --summary
      opendrs plan lab --all | grep vm42
      opendrs plan demo --format json
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    chosen = choose_policy(settings, policy, assignments, budget, time_limit)
    cluster = open_source(source, settings, at=at)
    snapshot = enrich_from_store(observe(cluster), chosen, cluster, settings)
    decision = _decide(chosen, snapshot, time_limit)
    if decision.repair_first or isinstance(chosen, Repair):
        snapshot = without_undo_rules(snapshot)  # they did not apply
    plan_schedule = estimate_schedule(decision.plan, snapshot, chosen.limits)
    repair = repair_command(["plan", source], config, settings)
    rules = rule_report(snapshot, decision.plan, chosen, repair)
    summary = summarize(chosen, decision, snapshot, plan_schedule, rules)
    if output_format == JSON:
        document = decision_document(summary, snapshot)
        if summary_only:
            del document["steps"], document["notes"]
            print_json(document)
        else:
            print_json({**document, "schedule": schedule_document(plan_schedule)})
        return
    screen = console()
    if summary_only:
        print_summary(screen, summary, None if show_all else MAX_RULES_LISTED)
        return
    print_decision(screen, summary, snapshot, show_all=show_all)
    print_schedule(screen, plan_schedule, chosen.limits)
    screen.print()
    apply_command = ["opendrs", "apply", source, *_policy_options(policy, assignments)]
    apply_command += [] if budget is None else ["--budget", budget]
    apply_command += [] if time_limit is None else ["--time-limit", f"{time_limit:g}"]
    apply_command += [] if config is None else ["--config", str(config)]
    command_line = shlex.join(apply_command)
    is_file = isinstance(cluster.platform, SnapshotFilePlatform)
    screen.print(
        printable(_advice(decision, None if is_file else command_line)), soft_wrap=True
    )


def _decide(
    policy: Policy[Any], snapshot: Snapshot, time_limit: float | None
) -> Decision[Any]:
    if time_limit is not None:
        return decide_within(policy, snapshot, time_limit)
    with planning_spinner() as notify:
        notify(policy.name)
        return decide(policy, snapshot, policy.initial_memory())


def _policy_options(policy: str | None, assignments: Sequence[str]) -> list[str]:
    """Return the options for *policy* and its settings."""
    words = [] if policy is None else ["--policy", policy]
    return words + [word for each in assignments for word in ("--set", each)]


def _advice(decision: Decision[Any], apply_command: str | None) -> str:
    if decision.plan.steps and apply_command is None:
        return "This plan is for a snapshot file and cannot be applied."
    if decision.plan.steps:
        return f"To plan again and execute: {apply_command}"
    if decision.reason is DecisionReason.HOLD_NOT_REACHED:
        return "This command counts as one cycle; to decide at once: --set hold=1"
    if decision.reason in (
        DecisionReason.INTERVAL_NOT_ELAPSED,
        DecisionReason.CLUSTER_SETTLING,
    ):
        return "To decide at once: --set interval=0 --set settle_time=0"
    return "The plan has no steps."
