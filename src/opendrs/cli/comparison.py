"""Comparison of policies: the plan of each for one snapshot, and its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

from opendrs.cli.formatting import format_bytes
from opendrs.cli.plan_summary import plan_cost
from opendrs.config.settings import Settings
from opendrs.metrics import ImbalanceMetric, LoadModel, missing_metrics, node_loads
from opendrs.model import GIB, Plan, Snapshot
from opendrs.policies import BUILT_IN_POLICIES, Decision, DecisionReason, Policy
from opendrs.policies.load_metrics import load_metrics
from opendrs.policies.optimize import Optimize
from opendrs.policies.storage_relief import with_disk_moves
from opendrs.rules import ViolationChange, count_strict, violation_change, violations

IMMEDIATE_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "auto-rebalance": {"hold": 1},
    "pressure": {"interval": 0.0, "settle_time": 0.0},
}
"""Settings with which a policy decides in its first cycle."""
BUDGET_FRACTIONS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
"""Budgets of `optimize`, as fractions of what it would transfer without one."""
MAX_CURVE_POINTS = 200  # points of the curve of a plan

Chosen = tuple[str, Policy[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterScore:
    """Metrics of a cluster after part of a plan.

    Attributes:
        cpu: The coefficient of variation of CPU load.
        memory: The coefficient of variation of memory load.
        mean: The coefficient of variation of the mean of both loads.
        highest_load: The highest CPU or memory load of a node, as a fraction.
        violated_rules: Number of violated strict rules.
        migrations: Number of migrations so far.
        disk_moves: Number of disks moved to another storage so far.
        gib: Memory and disks transferred so far, in GiB.
    """

    cpu: float
    memory: float
    mean: float
    highest_load: float
    violated_rules: int
    migrations: int
    disk_moves: int
    gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """Result of one policy.

    Attributes:
        name: The policy, with its budget if that differs from the configured one.
        reason: The reason of the decision.
        detail: The reason as a sentence.
        rules: The rule violations before and after the plan.
        after: The metrics after the plan.
        seconds: CPU time of the decision.
        curve: The metrics after each part of the plan, from before to after.
    """

    name: str
    reason: DecisionReason
    detail: str
    rules: ViolationChange
    after: ClusterScore
    seconds: float
    curve: tuple[ClusterScore, ...]


def missing_comparison_metrics(snapshot: Snapshot) -> str:
    """Return a message on missing measurements of *snapshot*; empty if none is."""
    if not node_loads(snapshot, LoadModel.DYNAMIC):
        return "no online node has metrics"
    return missing_metrics(snapshot, LoadModel.DYNAMIC)


def score_cluster(
    snapshot: Snapshot,
    *,
    migrations: int = 0,
    disk_moves: int = 0,
    gib: float = 0.0,
) -> ClusterScore:
    """Return the metrics of *snapshot*, with the cost to reach it."""
    metrics = load_metrics(node_loads(snapshot, LoadModel.DYNAMIC), ImbalanceMetric.CV)
    return ClusterScore(
        cpu=metrics["cpu_imbalance"],
        memory=metrics["memory_imbalance"],
        mean=metrics["imbalance"],
        highest_load=max(metrics["highest_cpu"], metrics["highest_memory"]),
        violated_rules=count_strict(violations(snapshot)).rules,
        migrations=migrations,
        disk_moves=disk_moves,
        gib=gib,
    )


def compare_policies(
    snapshot: Snapshot,
    settings: Settings,
    names: Sequence[str],
    notify: Callable[[str], None],
) -> Iterator[ComparisonRow]:
    """Yield the result of each policy.

    Args:
        snapshot: The cluster.
        settings: The configuration, with the settings of the policies.
        names: The policies; if empty, all built-in ones.
        notify: Called with the name of each policy before it decides.
    """
    for name in names or sorted(BUILT_IN_POLICIES):
        policy = settings.load_policy(name, dict(IMMEDIATE_SETTINGS.get(name, {})))
        notify(policy.name)
        if isinstance(policy, Optimize):  # compilation must not count as CPU time
            replace(policy, iterations_per_group=1).decide(snapshot, None)
        yield _compare_policy(name, policy, snapshot)


def compare_budgets(
    snapshot: Snapshot, settings: Settings, notify: Callable[[str], None]
) -> Iterator[ComparisonRow]:
    """Yield the results of `optimize` with increasing budgets, at last unlimited."""
    notify("optimize, unlimited")
    unlimited = settings.load_policy(Optimize.name, {"budget": "unlimited"})
    last = _compare_policy("optimize, unlimited", unlimited, snapshot)
    for part in BUDGET_FRACTIONS if last.after.gib > 0 else ():
        gib = part * last.after.gib
        policy = settings.load_policy(Optimize.name, {"budget": f"{gib:.6g} GiB"})
        name = f"optimize, {format_bytes(gib * GIB)}"
        notify(name)
        yield _compare_policy(name, policy, snapshot)
    yield last


def _compare_policy(
    name: str, policy: Policy[Any], snapshot: Snapshot
) -> ComparisonRow:
    started_at = process_time()
    decision: Decision[Any] = policy.decide(snapshot, policy.initial_memory())
    duration = process_time() - started_at
    decision = with_disk_moves(policy, snapshot, decision)
    curve = tuple(_score_curve(snapshot, decision.plan))
    return ComparisonRow(
        name=name,
        reason=decision.reason,
        detail=decision.detail,
        rules=violation_change(
            snapshot, snapshot.apply(*(step.action for step in decision.plan.steps))
        ),
        after=curve[-1],
        seconds=duration,
        curve=curve,
    )


def _score_curve(snapshot: Snapshot, plan: Plan) -> Iterator[ClusterScore]:
    """Yield the metrics before *plan*, and after each part of it."""
    yield score_cluster(snapshot)
    stride = max(1, -(-len(plan.steps) // MAX_CURVE_POINTS))
    migrations, disk_moves, gib = 0, 0, 0.0
    for start in range(0, len(plan.steps), stride):
        actions = [step.action for step in plan.steps[start : start + stride]]
        cost = plan_cost(actions, snapshot)
        migrations += cost.migrations
        disk_moves += cost.disk_moves
        gib += cost.transferred / GIB
        snapshot = snapshot.apply(*actions)
        yield score_cluster(
            snapshot, migrations=migrations, disk_moves=disk_moves, gib=gib
        )
