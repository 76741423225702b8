"""What each policy would do about one snapshot, and what that would bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

from opendrs.controller.settings import Settings
from opendrs.model import GIB, Migration, Plan, Relocation, Snapshot, Step
from opendrs.policies import BUILT_IN, Decision, Optimize, Policy, Reason
from opendrs.policies.measures import measures
from opendrs.rules import ViolationChange, violation_change, violations
from opendrs.scoring import ImbalanceForm, node_loads
from opendrs.scoring.usage import UsageMode, without_figures

AT_ONCE: Mapping[str, Mapping[str, object]] = {
    "auto-rebalance": {"hold": 1},
    "pressure": {"interval": 0.0, "quiet": 0.0},
}
"""Settings with which a policy decides at the first look."""
PARTS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75)
"""Of what `optimize` would transfer without a budget, the parts that are tried."""
MOST_POINTS = 200  # of a curve

Chosen = tuple[str, Policy[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a cluster stands after so much has been moved.

    Attributes:
        cpu: The coefficient of variation of processor load.
        memory: That of memory load.
        both: That of the mean of the two.
        highest: The largest load of a node, of cpu or of memory.
        broken: Breaches of strict rules.
        moves: Guests that were moved.
        gib: Memory that was transferred, in GiB.
    """

    cpu: float
    memory: float
    both: float
    highest: float
    broken: int
    moves: int
    gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one policy would do.

    Attributes:
        name: The policy, and its budget if that is not its own.
        reason: Why it decided as it did.
        detail: The reason in a sentence.
        rules: The violations of rules before and after its plan.
        after: What its plan leaves.
        seconds: Processor time it took.
        curve: What the plan leaves after each part of it, first to last.
    """

    name: str
    reason: Reason
    detail: str
    rules: ViolationChange
    after: Outcome
    seconds: float
    curve: tuple[Outcome, ...]


def comparable(snapshot: Snapshot) -> str:
    """Return what must be known of *snapshot* and is not; nothing is best."""
    return without_figures(snapshot, UsageMode.DYNAMIC)


def outcome(snapshot: Snapshot, moves: int = 0, gib: float = 0.0) -> Outcome:
    """Return how *snapshot* stands once so much has been moved."""
    found = measures(node_loads(snapshot, UsageMode.DYNAMIC), ImbalanceForm.RAW)
    return Outcome(
        cpu=found["cpu_imbalance"],
        memory=found["memory_imbalance"],
        both=found["imbalance"],
        highest=max(found["highest_cpu"], found["highest_memory"]),
        broken=sum(each.strict for each in violations(snapshot)),
        moves=moves,
        gib=gib,
    )


def rows(
    snapshot: Snapshot,
    settings: Settings,
    names: Sequence[str],
    told: Callable[[str], None],
) -> Iterator[Row]:
    """Yield what each policy would do.

    Args:
        snapshot: The cluster.
        settings: Those of the policies, as configured.
        names: The policies; all that come with opendrs where there are none.
        told: Is given the name of each before it is asked.
    """
    for name in names or sorted(BUILT_IN):
        policy = settings.chosen_policy(name, dict(AT_ONCE.get(name, {})))
        told(policy.name)
        if isinstance(policy, Optimize):  # what is compiled once is not its work
            replace(policy, effort=1).decide(snapshot, None)
        yield _row(name, policy, snapshot)


def budget_rows(
    snapshot: Snapshot, settings: Settings, told: Callable[[str], None]
) -> Iterator[Row]:
    """Yield what `optimize` would do with budgets from little to any."""
    told("optimize, unlimited")
    unlimited = settings.chosen_policy(Optimize.name, {"budget": "unlimited"})
    last = _row("optimize, unlimited", unlimited, snapshot)
    for part in PARTS if last.after.gib > 0 else ():
        budget = f"{part * last.after.gib:.6g} GiB"
        told(f"optimize, {budget}")
        policy = settings.chosen_policy(Optimize.name, {"budget": budget})
        yield _row(f"optimize, {part * last.after.gib:.0f} GiB", policy, snapshot)
    yield last


def _row(name: str, policy: Policy[Any], snapshot: Snapshot) -> Row:
    begun = process_time()
    decision: Decision[Any] = policy.decide(snapshot, policy.initial_memory())
    took = process_time() - begun
    curve = tuple(_curve(snapshot, decision.plan))
    return Row(
        name=name,
        reason=decision.reason,
        detail=decision.detail,
        rules=violation_change(
            snapshot, snapshot.after(*(step.action for step in decision.plan.steps))
        ),
        after=curve[-1],
        seconds=took,
        curve=curve,
    )


def _curve(snapshot: Snapshot, plan: Plan) -> Iterator[Outcome]:
    """Yield how the cluster stands at first, and after parts of *plan*, to the end."""
    yield outcome(snapshot)
    stride = max(1, -(-len(plan.steps) // MOST_POINTS))
    moves, gib = 0, 0.0
    for start in range(0, len(plan.steps), stride):
        steps = plan.steps[start : start + stride]
        sizes = [*_sizes(steps, snapshot)]
        moves, gib = moves + len(sizes), gib + sum(sizes)
        snapshot = snapshot.after(*(step.action for step in steps))
        yield outcome(snapshot, moves, gib)


def _sizes(steps: Sequence[Step], snapshot: Snapshot) -> Iterator[float]:
    """Yield the memory that each move transfers, in GiB."""
    for step in steps:
        if isinstance(step.action, Migration | Relocation):
            yield (snapshot.guests[step.action.guest].usage.memory or 0) / GIB
