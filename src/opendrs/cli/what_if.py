"""The command `opendrs what-if`: a cluster after failures, new nodes and growth."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.options import (
    JSON,
    all_option,
    at_option,
    config_option,
    cores_option,
    format_option,
    memory_option,
    set_option,
    source_argument,
)
from opendrs.cli.progress import planning_spinner
from opendrs.cli.recorded_state import with_occupied_resources
from opendrs.cli.scenario_options import (
    PercentageParameter,
    read_guest_size,
    read_scenario,
)
from opendrs.cli.scenario_tables import (
    PolicyOutcome,
    WhatIfAnswer,
    answer_document,
    print_answer,
)
from opendrs.cli.sources import observe, open_source
from opendrs.config.policy_loading import parse_assignments
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import Limits, Snapshot
from opendrs.placement import (
    GuestSize,
    Scenario,
    additional_guests,
    apply_scenario,
    dispensable_nodes,
    failure_tolerance,
    required_tolerance,
)
from opendrs.policies import Policy, completed

DOES_NOT_FIT = 1  # exit status: some guests have no node


@click.command(name="what-if")
@source_argument
@click.option(
    "--fail",
    multiple=True,
    metavar="NODE",
    help="NODE fails; its guests restart on other nodes. KEY=NAME, such as rack=r1, is "
    "all nodes with this label. May be repeated.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NODE",
    help="The guests of NODE migrate to other nodes, and it is removed. May be "
    "repeated.",
)
@click.option(
    "--add",
    multiple=True,
    metavar="NxNODE",
    help="N new nodes like NODE, such as 3xnode1; NODE alone adds one. May be "
    "repeated.",
)
@click.option(
    "--grow",
    "growth",
    type=PercentageParameter(),
    default=0.0,
    metavar="PERCENT",
    help="The measured use of all guests grows, such as 20%; at most to their limits.",
)
@click.option(
    "--policy",
    metavar="NAME",
    help="Show also the load after the plan of this policy, such as balance.",
)
@set_option
@cores_option(
    "--guest-cpu", "Cores of an additional guest (default: those of the median guest)."
)
@memory_option(
    "--guest-memory",
    "Memory of an additional guest (default: that of the median guest).",
)
@click.option(
    "--like",
    metavar="GUEST",
    help="Additional guests have the size and the measured use of GUEST.",
)
@all_option
@at_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    fail: tuple[str, ...],
    remove: tuple[str, ...],
    add: tuple[str, ...],
    growth: float,
    policy: str | None,
    assignments: tuple[str, ...],
    guest_cpu: float | None,
    guest_memory: float | None,
    like: str | None,
    show_all: bool,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> int:
    """Evaluate changes of a cluster, and what it has capacity for. Changes nothing.

    Nodes are added first, then the load grows, then nodes fail or are removed. The
    answer is whether all guests have a node, with the strict rules kept and within the
    memory that [limits] allows on each node; the highest loads and the imbalance before
    and after; and for the cluster after the changes

    \b
      - whether all guests that can restart on another node do so after the failure
        of any one node, of any two at once, or of any one domain of the key
        tolerated_domain of [limits], such as a rack;
      - how many guests of one size fit in addition;
      - how many nodes could be drained together, with the rules kept.

    Without changes, the answer is about the cluster as it is. An existing node whose
    load or capacity is unknown receives no guests. A guest that cannot start on another
    node, because it is not migratable or has a local disk, stays down when its node
    fails, and then not all guests fit.

    \b
      opendrs what-if lab
      opendrs what-if lab --fail node3 --fail node4
      opendrs what-if lab --fail rack=r1
      opendrs what-if lab --grow 20% --add 2xnode1 --policy balance
      opendrs what-if lab --remove node7 --guest-cpu 4 --guest-memory '16 GiB'

    Exit status: 0 = all guests fit; 1 = not all guests fit; 2 = invalid input.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    cluster = open_source(source, settings, at=at)
    if policy is None and assignments:
        raise ConfigurationError(
            "--set: requires --policy", code=DiagnosticCode.INCONSISTENT
        )
    chosen = settings.load_policy(policy, parse_assignments(assignments))
    snapshot = with_occupied_resources(observe(cluster), cluster, settings)
    scenario = read_scenario(snapshot, add=add, remove=remove, fail=fail, growth=growth)
    size = read_guest_size(snapshot, cpu=guest_cpu, memory=guest_memory, like=like)
    with planning_spinner("evaluating") as notify:
        notify("the cluster")
        answer = answer_scenario(
            snapshot, scenario, settings.limits, size, chosen if policy else None
        )
    if output_format == JSON:
        print_json(answer_document(answer))
    else:
        print_answer(console(), answer, show_all=show_all)
    return 0 if answer.result.fits else DOES_NOT_FIT


def answer_scenario(
    snapshot: Snapshot,
    scenario: Scenario,
    limits: Limits,
    size: GuestSize | None,
    policy: Policy[Any] | None,
) -> WhatIfAnswer:
    """Return the cluster after *scenario* and *policy*, and its capacity.

    Args:
        snapshot: The cluster.
        scenario: Its changes.
        limits: Limits of the operator.
        size: Size of additional guests; None if unknown.
        policy: Policy that plans after the changes; None for no plan.
    """
    result = apply_scenario(snapshot, scenario, limits)
    final, outcome = result.after, None
    if policy is not None:
        decided = policy.decide(final, policy.initial_memory())
        decision = completed(policy, final, decided)
        after = final.apply(*(step.action for step in decision.plan.steps))
        outcome = PolicyOutcome(policy.name, decision, final, after)
        final = after
    return WhatIfAnswer(
        scenario=scenario,
        result=result,
        policy=outcome,
        tolerance=failure_tolerance(final, limits),
        required=required_tolerance(final, limits),
        additional=None if size is None else additional_guests(final, size, limits),
        dispensable=dispensable_nodes(final, limits),
        node_count=sum(node.online for node in final.nodes.values()),
    )
