"""Advice to repair violated rules, where the policy `repair` could repair more."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opendrs.config.settings import Settings
from opendrs.model import Snapshot
from opendrs.policies import Policy, repair_for, repairs_rules
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.small_cluster import MAX_PLACEMENTS
from opendrs.rules import ViolationChange, ViolationCount, count_strict, violations


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairCommand:
    """The command that plans only the repair of violated rules.

    Attributes:
        policy: The policy of that command.
        line: The command line.
    """

    policy: Repair
    line: str


def repair_command(
    arguments: Sequence[str], config: Path | None, settings: Settings
) -> RepairCommand:
    """Return the command that plans the repair of violated rules.

    Args:
        arguments: The command that plans for the same cluster, without options, such
            as `plan lab`.
        config: The value of `--config`; None if it was not given.
        settings: The configuration.
    """
    policy = settings.load_policy(Repair.name)
    assert isinstance(policy, Repair)  # noqa: S101 - for the type checker
    options = ["--policy", Repair.name]
    config_options = [] if config is None else ["--config", str(config)]
    return RepairCommand(
        policy=policy,
        line=shlex.join(["opendrs", *arguments, *options, *config_options]),
    )


def may_repair_more(
    repair: Repair,
    snapshot: Snapshot,
    policy: Policy[Any] | None,
    change: ViolationChange,
) -> bool:
    """Return True if *repair* may repair more than a plan of *policy*.

    Args:
        repair: Policy that would be used.
        snapshot: Cluster before the plan.
        policy: Policy that made the plan; None if none did.
        change: Effect of the plan on violations.
    """
    if not change.strict_after or not could_repair_more(repair, policy):
        return False
    least = violations_after_repair(repair, snapshot)
    remaining = count_strict(change.after)
    return (
        least is None
        or least.rules < remaining.rules
        or least.violations < remaining.violations
    )


def could_repair_more(repair: Repair, policy: Policy[Any] | None) -> bool:
    """Return True if *repair* could repair rules that a plan of *policy* did not.

    That is so if the policy repairs none, or with less freedom: a smaller budget,
    another load, other limits, fewer guests that may migrate, or a goal that comes
    before the repair.

    Args:
        repair: Policy that would be used.
        policy: The policy that made a plan; None if none did.
    """
    if policy is None or not repairs_rules(policy):
        return True
    own = policy if isinstance(policy, Optimize | Repair) else repair_for(policy)
    if isinstance(own, Optimize) and (
        own.priorities[0] is not Goal.REPAIR
        or own.forecast_horizon > 0
        or own.tolerated_node_failures > 0
    ):
        return True
    if own.limits != repair.limits or own.load_model is not repair.load_model:
        return True
    if repair.allow_cold_migration and not own.allow_cold_migration:
        return True
    budget, other = Budget.parse(own.budget), Budget.parse(repair.budget)
    return (
        other.gib > budget.gib
        or other.migrations > budget.migrations
        or other.minutes > budget.minutes
    )


def violations_after_repair(
    repair: Repair, snapshot: Snapshot
) -> ViolationCount | None:
    """Return what *repair* leaves violated in *snapshot*; None if that takes long.

    In a small cluster, its plan is the best one, and found at once.

    Args:
        repair: Policy that would be used.
        snapshot: The cluster.
    """
    if len(snapshot.nodes) ** len(snapshot.guests) > MAX_PLACEMENTS:
        return None
    plan = repair.decide(snapshot, None).plan
    after = snapshot.apply(*(step.action for step in plan.steps))
    return count_strict(violations(after))
