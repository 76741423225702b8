"""Validity of a proposed plan, when a newer decision has other steps.

Measurements change from cycle to cycle, and with them the steps of a decision. A plan
that an operator is reading must not disappear for that reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opendrs.controller.consent import RecordedDecision
from opendrs.controller.plan_records import are_same, remaining_steps
from opendrs.controller.step_groups import group_steps
from opendrs.errors import ModelError
from opendrs.guard import check
from opendrs.metrics import ImbalanceMetric, LoadModel, node_loads
from opendrs.model import FurtherLoad, GuestId, PowerOff, PowerOn, Snapshot, Step
from opendrs.policies import Balance, DecisionReason, Policy
from opendrs.policies.load_metrics import load_imbalance
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.balance_measure import BalanceMeasure
from opendrs.ports import PlanRecord
from opendrs.rules import balanced_loads

MAX_CHECKED = 100  # groups of steps; a check takes 6 ms in a large cluster
MIN_GAIN = 0.5  # of the newer steps, which the proposed steps have to reach


def is_still_valid(
    plan: PlanRecord, decided: RecordedDecision, waiting: Sequence[Step]
) -> bool:
    """Return True if the proposed *plan* stays open beside a newer decision.

    A plan with the same steps does. Otherwise, the situation that it was proposed for
    must still exist: the same policy decides for the same reason. The guard must allow
    the first `MAX_CHECKED` groups of steps, in order, on the present snapshot; it
    checks each step again before its start.
    A plan that improves the balance must reduce the imbalance, as its policy measures
    it, by at least `MIN_GAIN` of what the newer steps would. Any other plan must
    migrate the same guests as those, and power the same nodes on and off.

    Args:
        plan: The plan.
        decided: The newer decision.
        waiting: Those of its steps that need an approval; the others start now.
    """
    if are_same(plan.steps, waiting):
        return True
    decision, policy = decided.decision, decided.policy
    same = (decided.policy.name, decision.reason.value) == (plan.policy, plan.reason)
    if not waiting or not same:
        return False
    balances = decision.reason is DecisionReason.IMPROVES_BALANCE
    if not balances and _subjects(plan.steps) != _subjects(waiting):
        return False
    starting = remaining_steps(decision.plan.steps, waiting)
    snapshot = decided.snapshot.apply(*(step.action for step in starting))
    after = _after(plan.steps, snapshot, policy)
    if after is None or not balances:
        return after is not None
    newer = snapshot.apply(*(step.action for step in waiting))
    before, proposed, decided_now = _imbalances(policy, snapshot, after, newer)
    gain = before - proposed
    return gain > 0 and gain >= MIN_GAIN * (before - decided_now)


def _subjects(steps: Sequence[Step]) -> set[GuestId | PowerOn | PowerOff]:
    """Return the migrated guests and the power actions of *steps*."""
    return {
        action if isinstance(action, PowerOn | PowerOff) else action.guest
        for action in (step.action for step in steps)
    }


def _after(
    steps: Sequence[Step], snapshot: Snapshot, policy: Policy[Any]
) -> Snapshot | None:
    """Return the cluster after *steps*, or None if the guard rejects one of them."""
    groups = group_steps(steps, snapshot.rules)
    try:
        for group in groups[:MAX_CHECKED]:
            actions = [step.action for step in group]
            if check(actions, snapshot, policy.limits) is not None:
                return None
            snapshot = snapshot.apply(*actions)
        rest = (step.action for group in groups[MAX_CHECKED:] for step in group)
        return snapshot.apply(*rest)
    except ModelError:  # a node or a guest is gone
        return None


def _imbalances(
    policy: Policy[Any], snapshot: Snapshot, *after: Snapshot
) -> list[float]:
    """Return the imbalances of *snapshot*, and after each of the plans for it.

    `balance` and `optimize` count further loads; other policies count CPU and memory.

    Args:
        policy: Policy whose measure counts.
        snapshot: Cluster.
        after: The same cluster after each of the plans.
    """
    clusters = (snapshot, *after)
    if isinstance(policy, Optimize):
        return _deviations(policy, clusters)
    load_model = getattr(policy, "load_model", LoadModel.DYNAMIC)
    further: Sequence[FurtherLoad] = ()
    metric = ImbalanceMetric.CV
    if isinstance(policy, Balance):
        further = balanced_loads(snapshot, policy.limits)
        metric = policy.imbalance_metric
    return [
        load_imbalance(node_loads(each, load_model, further), metric)
        for each in clusters
    ]


def _deviations(policy: Optimize, clusters: Sequence[Snapshot]) -> list[float]:
    """Return the RMS deviations from the balanced load of the first cluster."""
    further = balanced_loads(clusters[0], policy.limits)
    loads = [node_loads(each, policy.load_model) for each in clusters]
    own = policy.cpu_weight, policy.memory_weight
    weights = (*own, *(each.weight for each in further))
    measure = BalanceMeasure.of(clusters[0], loads[0], loads[0], weights, further)
    return [
        measure.deviation(each, load)
        for each, load in zip(clusters, loads, strict=True)
    ]
