"""The policies `drain` and `return`: empty nodes in maintenance, and bring guests back.

Both search with `optimize` for the nodes of the guests concerned, while all other
guests stay. Only if the guests to drain have no place otherwise, others make room.
Stopped guests are relocated.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict

from opendrs.arrays import MobilityFilter, SkippedGuest, SkipReason
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    Guest,
    GuestId,
    Limits,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Plan,
    Snapshot,
    format_count,
    format_list,
)
from opendrs.policies.base import DRAIN, RETURN, Decision, DecisionReason
from opendrs.policies.optimize import Optimize
from opendrs.policies.optimize.budget import UNLIMITED
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.movable_groups import movable_groups
from opendrs.policies.optimize.objective import Goal
from opendrs.policies.optimize.repairs import RepairBlockers
from opendrs.policies.preconditions import (
    MeasuredPart,
    migration_in_progress,
    unmet_precondition,
)
from opendrs.policies.relocation import plan_relocations
from opendrs.policies.tolerated_failures import keeps_tolerance
from opendrs.rules import (
    compile_rules,
    with_drain_rule,
    without_undo_rules,
)

_STAYS = "it is not concerned"
_MOBILITY = MobilityFilter(load_model=LoadModel.DYNAMIC, allow_cold_migration=True)


def nodes_in_maintenance(snapshot: Snapshot) -> tuple[NodeId, ...]:
    """Return the nodes of *snapshot* that are to be empty, sorted."""
    return tuple(
        name
        for name, node in sorted(snapshot.nodes.items())
        if node.state is NodeState.MAINTENANCE
    )


def guests_on(snapshot: Snapshot, nodes: Collection[NodeId]) -> frozenset[GuestId]:
    """Return the guests on *nodes*, stopped ones included."""
    return frozenset(
        guest.id for guest in snapshot.guests.values() if guest.node in nodes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Policy that empties the nodes in maintenance, and does nothing else.

    Running guests are spread over the other nodes by `optimize`, containers by a
    restart; stopped ones are relocated. `skipped` of its decisions contains the guests
    that remain.

    Attributes:
        limits: Limits of the operator.
    """

    name: ClassVar[str] = DRAIN
    limits: Limits = DEFAULT_LIMITS

    def initial_memory(self) -> None:
        """Return None: decisions do not depend on earlier ones."""

    @keeps_tolerance
    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the plan that empties the nodes in maintenance."""
        del memory
        part = _measured_part(without_undo_rules(snapshot))
        return part.name_unmeasured(self._decide(part.snapshot))

    def _decide(self, snapshot: Snapshot) -> Decision[None]:
        """Return the plan for *snapshot*, of which all or nothing is measured."""
        drained = nodes_in_maintenance(snapshot)
        concerned = guests_on(snapshot, frozenset(drained))
        if not concerned:
            names = format_list(drained) or "no node in maintenance"
            return Decision(DecisionReason.NODES_EMPTY, None, detail=f"empty: {names}")
        waiting = migration_in_progress(snapshot)
        if waiting is not None:
            return Decision(waiting[0], None, detail=waiting[1])
        moves = self._migrate(snapshot, concerned)
        relocated = plan_relocations(moves.plan, snapshot, concerned, self.limits)
        plan = relocated.plan
        left = guests_on(
            snapshot.apply(*(step.action for step in plan.steps)), frozenset(drained)
        )
        skipped = {**moves.skipped, **relocated.skipped}
        count = format_count(len(concerned), "guest")
        detail = f"{format_list(drained)}: {len(left)} of {count} remain"
        return replace(
            moves,
            reason=DecisionReason.DRAINS_NODES
            if plan.steps
            else DecisionReason.NO_CANDIDATE,
            plan=plan,
            detail=detail,
            notes=(),
            skipped={name: skipped[name] for name in sorted(left) if name in skipped},
        )

    def _migrate(
        self, snapshot: Snapshot, concerned: frozenset[GuestId]
    ) -> Decision[None]:
        """Return the migrations of the running guests among *concerned*."""
        decision = _move(snapshot, concerned, self.limits)
        if decision.reason in (
            DecisionReason.NODES_EMPTY,
            DecisionReason.METRICS_MISSING,
        ):
            return decision
        left = _left(snapshot, decision.plan, concerned)
        blocked = _blocked(snapshot, left, self.limits)
        if any(each.reason is SkipReason.NO_FEASIBLE_NODE for each in blocked.values()):
            with_others = _search(snapshot, self.limits, (Goal.REPAIR, Goal.CONTENTION))
            remaining = _left(snapshot, with_others.plan, concerned)
            if len(remaining) < len(left):
                decision = with_others
                blocked = {name: blocked[name] for name in remaining & blocked.keys()}
        return replace(decision, skipped=blocked)


class ReturnMemory(TypedDict):
    """Memory of the policy `return`.

    Attributes:
        node: Node that was drained.
        guests: For each guest to return, the node that the drain moved it to.
    """

    node: str
    guests: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Policy that returns guests to the node that they were drained from.

    A guest returns if it is still on the node that the drain moved it to.

    Attributes:
        limits: Limits of the operator.
    """

    name: ClassVar[str] = RETURN
    limits: Limits = DEFAULT_LIMITS

    def initial_memory(self) -> ReturnMemory:
        """Return the memory without guests."""
        return {"node": "", "guests": {}}

    @keeps_tolerance
    def decide(
        self, snapshot: Snapshot, memory: ReturnMemory
    ) -> Decision[ReturnMemory]:
        """Return the plan that brings the guests back."""
        part = _measured_part(without_undo_rules(snapshot))
        return part.name_unmeasured(self._decide(part.snapshot, memory))

    def _decide(
        self, snapshot: Snapshot, memory: ReturnMemory
    ) -> Decision[ReturnMemory]:
        """Return the plan for *snapshot*, of which all or nothing is measured."""
        node = NodeId(memory["node"])
        concerned = frozenset(
            GuestId(name)
            for name, where in memory["guests"].items()
            if (guest := snapshot.guests.get(GuestId(name))) and guest.node == where
        )
        waiting = migration_in_progress(snapshot)
        if waiting is not None:
            return Decision(waiting[0], memory, detail=waiting[1])
        if not concerned or node not in snapshot.nodes:
            detail = f"{node}: no guest to return"
            return Decision(DecisionReason.NO_CANDIDATE, memory, detail=detail)
        rule = NodeAffinity(
            guests=concerned, nodes={node: 0}, name=f"return to {node}", origin="drain"
        )
        back = replace(snapshot, rules=(*snapshot.rules, rule))
        moves: Decision[Any] = _move(back, concerned, self.limits)
        relocated = plan_relocations(moves.plan, back, concerned, self.limits)
        steps = relocated.plan.steps
        count = format_count(len(concerned), "guest")
        return replace(
            moves,
            reason=DecisionReason.RETURNS_GUESTS
            if steps
            else DecisionReason.NO_CANDIDATE,
            memory=memory,
            plan=relocated.plan,
            detail=f"{len(steps)} of {count} return to {node}",
            notes=(),
            skipped={**moves.skipped, **relocated.skipped},
        )


def _measured_part(snapshot: Snapshot) -> MeasuredPart:
    """Return the part of *snapshot* that is measured; all if that is too little."""
    if unmet_precondition(snapshot, LoadModel.DYNAMIC) is not None:
        return MeasuredPart(snapshot, (), "")
    return MeasuredPart.of(snapshot, LoadModel.DYNAMIC)


def _move(
    snapshot: Snapshot, concerned: frozenset[GuestId], limits: Limits
) -> Decision[None]:
    """Return the migrations of the running guests among *concerned*, and no others."""
    active = [name for name in concerned if snapshot.guests[name].is_active]
    if not active:
        return Decision(DecisionReason.NODES_EMPTY, None)
    unmet = unmet_precondition(snapshot, LoadModel.DYNAMIC)
    if unmet is not None:
        unknown = SkippedGuest(SkipReason.METRICS_MISSING, unmet[1])
        return Decision(unmet[0], None, skipped=dict.fromkeys(active, unknown))
    decision = _search(with_others_staying(snapshot, concerned), limits)
    skipped = {
        name: each for name, each in decision.skipped.items() if name in concerned
    }
    return replace(decision, skipped=skipped)


def with_others_staying(snapshot: Snapshot, concerned: Collection[GuestId]) -> Snapshot:
    """Return *snapshot* in which only the guests *concerned* may migrate."""

    def staying(guest: Guest) -> Guest:
        if guest.id in concerned:
            return guest
        return replace(guest, mobility=Mobility.NONE, mobility_detail=_STAYS)

    guests = {name: staying(guest) for name, guest in snapshot.guests.items()}
    return replace(snapshot, guests=guests)


def _search(
    snapshot: Snapshot,
    limits: Limits,
    priorities: tuple[Goal, ...] = (Goal.REPAIR, Goal.CONTENTION, Goal.BALANCE),
) -> Decision[None]:
    """Return the plan of `optimize` without a budget or a threshold.

    The failures to tolerate are left to the caller: *snapshot* may have further rules,
    which guests that restart do not obey.
    """
    return Optimize(
        priorities=priorities,
        budget=UNLIMITED,
        threshold=0.0,
        min_improvement=0.0,
        allow_cold_migration=True,
        limits=replace(limits, tolerated_failures=0, tolerated_domain=None),
    ).decide(snapshot, None)


def _left(
    snapshot: Snapshot, plan: Plan, concerned: frozenset[GuestId]
) -> frozenset[GuestId]:
    """Return the active guests among *concerned* that *plan* does not move."""
    after = snapshot.apply(*(step.action for step in plan.steps))
    return frozenset(
        name
        for name in concerned
        if snapshot.guests[name].is_active
        and after.guests[name].node == snapshot.guests[name].node
    )


def _blocked(
    snapshot: Snapshot, left: frozenset[GuestId], limits: Limits
) -> dict[GuestId, SkippedGuest]:
    """Return why each guest in *left* stays."""
    if not left:
        return {}
    ruled = with_drain_rule(snapshot)
    rules = compile_rules(ruled)
    groups = movable_groups(ruled, rules, limits, _MOBILITY)
    cluster = EncodedCluster(ruled, rules, groups.groups, limits, _MOBILITY.load_model)
    blockers = RepairBlockers(cluster, groups)
    return {
        name: groups.skipped.get(name)
        or SkippedGuest(SkipReason.NO_FEASIBLE_NODE, blockers.blocker(name))
        for name in sorted(left)
    }
