"""Plans after which the cluster tolerates no fewer failures than before.

The failures are those of the limits: any k nodes, or any one domain such as a rack. The
decorator `keeps_tolerance` makes the steps of a plan one after the other. Those after
which less would be tolerated are left out, and the policy decides again, with their
targets forbidden for their guests, so that others may move in their place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import groupby
from typing import Any, TypeVar

from opendrs.arrays import SkippedGuest, SkipReason
from opendrs.model import (
    EMPTY_PLAN,
    GuestId,
    Limits,
    NodeAffinity,
    NodeId,
    Plan,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    format_count,
    format_list,
)
from opendrs.placement import FailureReserves
from opendrs.policies.base import Decision, DecisionReason, MemoryT
from opendrs.rules import (
    TOLERANCE_ORIGIN,
    FailureSet,
    checks_every_set,
    compile_rules,
    describe_not_tolerated,
)

MAX_ROUNDS = 5  # decisions of one policy
MAX_DECIDED_GUESTS = 5000  # total over these decisions; more take too long
MAX_NAMED = 3  # failures in the notes

PolicyT = TypeVar("PolicyT", bound=Any)
InputT = TypeVar("InputT")
Decide = Callable[[PolicyT, Snapshot, InputT], Decision[MemoryT]]


def keeps_tolerance(
    decide: Decide[PolicyT, InputT, MemoryT],
) -> Decide[PolicyT, InputT, MemoryT]:
    """Return *decide* of a policy with plans after which no less is tolerated.

    Besides the snapshot it has one argument, such as the memory of the policy.
    """

    @wraps(decide)
    def decide_tolerantly(
        policy: PolicyT, snapshot: Snapshot, given: InputT
    ) -> Decision[MemoryT]:
        if not policy.limits.tolerates_failures:
            return decide(policy, snapshot, given)
        return _decide(policy, snapshot, given, decide)

    return decide_tolerantly


def _decide(
    policy: PolicyT,
    snapshot: Snapshot,
    given: InputT,
    decide: Decide[PolicyT, InputT, MemoryT],
) -> Decision[MemoryT]:
    """Return the decision of *policy* whose plan keeps what is tolerated."""
    rounds = max(1, min(MAX_ROUNDS, MAX_DECIDED_GUESTS // (len(snapshot.guests) or 1)))
    forbidden = ForbiddenMoves()
    for index in range(1 + rounds):
        decision = decide(policy, forbidden.apply_to(snapshot), given)
        kept = _keep(decision.plan, snapshot, policy.limits)
        if not kept.prevented:
            break
        forbidden.add(kept, snapshot)
        if index == rounds:
            after = decide(policy, kept.reserves.snapshot, given)
            decision = _shortened(decision, kept, after)
    return replace(
        decision,
        notes=(
            *decision.notes,
            *forbidden.notes(),
            *tolerance_notes(kept.reserves, snapshot, after=bool(decision.plan.steps)),
        ),
        skipped={**forbidden.skipped(decision.plan), **decision.skipped},
    )


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """Part of a plan after which no less is tolerated.

    Attributes:
        steps: Its steps.
        prevented: Steps after which less would be tolerated, with the failures.
        reserves: Restarts after the part.
        planned: Number of steps of the whole plan.
    """

    steps: tuple[Step, ...]
    prevented: tuple[tuple[Step, tuple[FailureSet, ...]], ...]
    reserves: FailureReserves
    planned: int


def _keep(plan: Plan, snapshot: Snapshot, limits: Limits) -> KeptPlan:
    """Return the part of *plan* after which no less is tolerated.

    Guests do not leave a node to power it off if it must stay on.
    """
    useless: set[StepId] = set()
    failures: dict[StepId, tuple[FailureSet, ...]] = {}
    while True:
        kept = _make_steps(plan, snapshot, limits, useless)
        failures |= {step.id: found for step, found in kept.prevented if found}
        busy = {
            step.action.node
            for step, _ in kept.prevented
            if isinstance(step.action, PowerOff)
        }
        left = {
            step.id
            for step in kept.steps
            if not isinstance(step.action, PowerOn | PowerOff)
            and step.action.source in busy
        }
        if not left:
            break
        useless |= left
    done = {step.id for step in kept.steps}
    prevented = tuple(
        (step, failures[step.id])
        for step in plan.steps
        if step.id in failures and step.id not in done
    )
    return replace(kept, prevented=prevented)


def _make_steps(
    plan: Plan, snapshot: Snapshot, limits: Limits, useless: set[StepId]
) -> KeptPlan:
    """Return the part of *plan* without *useless* steps and those after them."""
    reserves = FailureReserves(snapshot, limits)
    kept: list[Step] = []
    prevented: list[tuple[Step, tuple[FailureSet, ...]]] = []
    omitted = set(useless)
    for unit in _units(plan, snapshot):
        if any(s.id in omitted or not omitted.isdisjoint(s.depends_on) for s in unit):
            omitted.update(step.id for step in unit)
            prevented += [
                (step, ())
                for step in unit
                if isinstance(step.action, PowerOff) and step.id not in useless
            ]
            continue
        failures = reserves.try_actions([step.action for step in unit])
        if failures:
            omitted.update(step.id for step in unit)
            prevented += [(step, failures) for step in unit]
        else:
            kept += unit
    return KeptPlan(tuple(kept), tuple(prevented), reserves, len(plan.steps))


def _units(plan: Plan, snapshot: Snapshot) -> Iterator[list[Step]]:
    """Yield the steps of *plan* that start together: those of a move group."""
    together = compile_rules(snapshot).together

    def unit_of(step: Step) -> tuple[str, ...]:
        action = step.action
        if isinstance(action, PowerOn | PowerOff) or action.guest not in together:
            return (step.id,)
        return (min(together[action.guest]), action.target)

    for _, steps in groupby(plan.steps, key=unit_of):
        yield [*steps]


@dataclass(slots=True)
class ForbiddenMoves:
    """Moves after which less would be tolerated, as rules for further decisions.

    Attributes:
        targets: Failures that would not be tolerated with each guest on each node.
        busy: Guests of each node that must stay on, with the failures.
    """

    targets: dict[tuple[GuestId, NodeId], tuple[FailureSet, ...]] = field(
        default_factory=dict
    )
    busy: dict[NodeId, tuple[frozenset[GuestId], tuple[FailureSet, ...]]] = field(
        default_factory=dict
    )

    def add(self, kept: KeptPlan, snapshot: Snapshot) -> None:
        """Forbid the steps that *kept* prevents."""
        for step, failures in kept.prevented:
            action = step.action
            if isinstance(action, PowerOff):
                there = frozenset(
                    guest.id
                    for guest in snapshot.guests.values()
                    if guest.node == action.node
                )
                self.busy[action.node] = (there, failures)
            elif not isinstance(action, PowerOn):
                self.targets[action.guest, action.target] = failures

    def apply_to(self, snapshot: Snapshot) -> Snapshot:
        """Return *snapshot* with rules against these moves."""
        guests_off: defaultdict[NodeId, set[GuestId]] = defaultdict(set)
        for guest, target in self.targets:
            guests_off[target].add(guest)
        rules = [
            NodeAffinity(
                guests=frozenset(guests),
                nodes=dict.fromkeys(sorted(snapshot.nodes.keys() - {target}), 0),
                name=f"memory of {target} is kept for failures",
                origin=TOLERANCE_ORIGIN,
            )
            for target, guests in sorted(guests_off.items())
        ]
        rules += [
            NodeAffinity(
                guests=guests,
                nodes={node: 0},
                name=f"{node} is kept on for failures",
                origin=TOLERANCE_ORIGIN,
            )
            for node, (guests, _) in sorted(self.busy.items())
            if guests
        ]
        return replace(snapshot, rules=(*snapshot.rules, *rules))

    def skipped(self, plan: Plan) -> Mapping[GuestId, SkippedGuest]:
        """Return why the guests that *plan* does not move were not moved."""
        moved = {
            step.action.guest
            for step in plan.steps
            if not isinstance(step.action, PowerOn | PowerOff)
        }
        return {
            guest: SkippedGuest(
                SkipReason.FAILURE_NOT_TOLERATED,
                f"with it on {target}, {describe_not_tolerated(failures)}",
            )
            for (guest, target), failures in sorted(self.targets.items())
            if guest not in moved
        }

    def notes(self) -> Iterator[str]:
        """Yield notes that name the moves and the nodes that stay on."""
        if self.targets:
            names = [f"{guest} to {target}" for guest, target in sorted(self.targets)]
            yield (
                "not planned, because fewer failures would be tolerated: "
                f"{format_list(names)}"
            )
        if self.busy:
            yield (
                "kept on, because fewer failures would be tolerated: "
                f"{format_list(sorted(self.busy))}"
            )


def _shortened(
    decision: Decision[MemoryT], kept: KeptPlan, after: Decision[MemoryT]
) -> Decision[MemoryT]:
    """Return *decision* with the steps of *kept*; none if these do not improve it.

    Args:
        decision: The decision with the whole plan.
        kept: The part of the plan.
        after: Decision on the cluster after the part, with its metrics.
    """
    count = format_count(kept.planned, "planned step")
    worse = decision.reason is DecisionReason.IMPROVES_BALANCE and (
        after.before.get("imbalance", 0.0) >= decision.before.get("imbalance", 0.0)
    )
    if worse or not any(not isinstance(x.action, PowerOn) for x in kept.steps):
        return replace(
            decision,
            reason=DecisionReason.NO_CANDIDATE,
            plan=EMPTY_PLAN,
            detail=f"fewer failures would be tolerated after {count}",
            after=decision.before,
        )
    return replace(
        decision,
        plan=Plan(kept.steps),
        detail=f"{len(kept.steps)} of {count}: {decision.detail}",
        after=after.before,
    )


def tolerance_notes(
    reserves: FailureReserves, snapshot: Snapshot, *, after: bool
) -> Iterator[str]:
    """Yield notes about failures that are not tolerated, or were not evaluated.

    Args:
        reserves: Restarts after each failure.
        snapshot: The cluster before the plan.
        after: Whether the restarts are those after a plan with steps.
    """
    found = [*reserves.intolerated()]
    when = " after the plan" if after else ""
    for failure, guests in found[:MAX_NAMED]:
        yield (
            f"failure of {failure} is not tolerated{when}: no node for "
            f"{format_list(guests)}"
        )
    if len(found) > MAX_NAMED:
        more = len(found) - MAX_NAMED
        yield f"{format_count(more, 'further failure')} not tolerated{when}"
    if not checks_every_set(snapshot, reserves.limits):
        yield (
            "not every set of nodes was evaluated: the cluster is too large for "
            f"{reserves.limits.tolerated_failures} failures at the same time"
        )
