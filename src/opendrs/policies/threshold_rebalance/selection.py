"""One rebalancing run: first fit from the most loaded node to less loaded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.arrays import SelectionState, SkippedGuest
from opendrs.metrics import LoadModel, demand
from opendrs.model import (
    GIB,
    NO_RESOURCES,
    Guest,
    GuestId,
    GuestKind,
    NodeId,
    Resources,
    format_count,
    format_list,
)
from opendrs.planning import GroupMove
from opendrs.policies.base import DecisionReason
from opendrs.policies.load_metrics import describe_infeasible_nodes
from opendrs.policies.threshold_rebalance.compatibility import IncusVersion
from opendrs.policies.threshold_rebalance.node_ranking import LoadGap, NodeRanking

MAX_INFEASIBLE_NODES = 3  # infeasible nodes in one explanation
MAX_SKIPPED_GROUPS = 5  # notes about groups that stay on the most loaded node
GuestNeeds = tuple[float, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Settings of a run; taken from the settings of the policy.

    Attributes:
        compatibility: Version whose arithmetic and selection are used.
        load_model: Demand of a guest: its limits, or measured use.
        threshold: Difference above which nodes are balanced.
        min_load: Fraction of its resources from which a node counts as loaded.
        max_migrations: Most groups that migrate.
    """

    compatibility: IncusVersion
    load_model: LoadModel
    threshold: float
    min_load: float
    max_migrations: int

    def balanced_detail(self, gap: LoadGap) -> str | None:
        """Return why no (further) move is necessary for *gap*, or None."""
        if gap.highest == 0:
            return "no node is loaded"
        if gap.highest < 100 * self.min_load:
            return (
                f"the highest score is {gap.highest} ({gap.busiest}), below the "
                f"minimum load {100 * self.min_load:g}"
            )
        if gap.difference < self.threshold:
            return f"{gap}, less than the threshold {self.threshold:.0%}"
        return None


@dataclass(frozen=True, slots=True)
class SkippedGroup:
    """Move group that stays on the most loaded node.

    Attributes:
        group: Index of the group.
        detail: Reason; None if no less loaded node is feasible.
    """

    group: int
    detail: str | None


@dataclass(frozen=True, slots=True)
class FeasibleGroup:
    """Move group with a feasible target.

    Attributes:
        group: Index of the group.
        target: Target node.
        expected: Score of the target with the group.
        goal: Score below which the target must stay.
    """

    group: int
    target: NodeId
    expected: int
    goal: int


class RebalanceRun:
    """Rebalancing run.

    Args:
        state: The cluster, to which the moves are applied.
        ranking: Participating nodes.
        settings: Settings of the run.
        cooldown_reasons: Why movable guests are skipped.

    Attributes:
        moves: Moves, in order.
        reason: Reason for the end of the run.
        details: Details of the end, one per architecture.
        skipped_notes: Notes about groups that stay.
    """

    def __init__(
        self,
        state: SelectionState,
        ranking: NodeRanking,
        settings: RunSettings,
        cooldown_reasons: Mapping[GuestId, SkippedGuest],
    ) -> None:
        self._state, self._ranking, self._settings = state, ranking, settings
        self._index = state.cluster.index
        self._cooldown_reasons = cooldown_reasons
        self._groups = _groups_by_node(state)
        self.moves: list[GroupMove] = []
        self.reason = DecisionReason.BALANCED
        self.details: list[str] = []
        self.skipped_notes: list[str] = []
        for comparable in ranking.groups:
            self._rebalance(comparable)

    def _rebalance(self, comparable: Sequence[NodeId]) -> None:
        """Move guests within *comparable* until no move is necessary or possible."""
        while True:
            gap = self._ranking.gap(comparable)
            balanced = self._settings.balanced_detail(gap)
            if balanced is not None:
                self.details.append(balanced)
                return
            if len(self.moves) >= self._settings.max_migrations:
                self._end(
                    DecisionReason.MIGRATION_LIMIT_REACHED,
                    f"{gap}; the limit of "
                    f"{format_count(self._settings.max_migrations, 'migration')} is "
                    "reached",
                )
                return
            targets = self._ranking.targets(comparable, gap)
            skipped = self._move_first_feasible(gap, targets)
            if skipped is not None:
                names = format_list(targets, separator=" or ")
                detail = f"{gap}; no feasible move to {names}"
                self._end(DecisionReason.NO_CANDIDATE, detail)
                self.skipped_notes += self._describe_skipped(gap, comparable, skipped)
                return

    def _end(self, reason: DecisionReason, detail: str) -> None:
        self.reason = reason
        self.details.append(detail)

    def _move_first_feasible(
        self, gap: LoadGap, targets: Sequence[NodeId]
    ) -> list[SkippedGroup] | None:
        """Move the first feasible group, or return why all groups stay."""
        groups = self._groups[gap.busiest]
        skipped: list[SkippedGroup] = []
        for group in tuple(groups):
            result = self._evaluate(group, gap, targets)
            if (
                isinstance(result, FeasibleGroup)
                or self._settings.compatibility.is_incus
            ):
                groups.remove(group)  # Incus considers each guest once
            if isinstance(result, FeasibleGroup):
                self._move(result, gap, targets)
                return None
            skipped.append(result)
        return skipped

    def _evaluate(
        self, group: int, gap: LoadGap, targets: Sequence[NodeId]
    ) -> SkippedGroup | FeasibleGroup:
        """Return whether *group* can move to the least loaded feasible node."""
        for guest in self._state.members(group):
            if guest.id in self._cooldown_reasons:
                return SkippedGroup(group, self._cooldown_reasons[guest.id].detail)
            if guest.kind is not GuestKind.VM:
                return SkippedGroup(group, "only virtual machines are migrated")
        feasible = self._state.feasible_mask(group)
        target = next((n for n in targets if feasible[self._index[n]]), None)
        if target is None:
            return SkippedGroup(group, None)
        ranking = self._ranking
        goal = (gap.highest + ranking.compared_score(target)) // 2
        current = ranking.score(target)
        expected = ranking.expected_score(target, *_sum(self._needs(group)))
        if current >= goal or expected >= goal:
            detail = (
                f"the score of {target} would change from {current} to {expected}, "
                f"not below the goal {goal}"
            )
            return SkippedGroup(group, detail)
        return FeasibleGroup(group, target, expected, goal)

    def _move(
        self, feasible: FeasibleGroup, gap: LoadGap, targets: Sequence[NodeId]
    ) -> None:
        members = self._state.members(feasible.group)
        detail = self._explain(feasible, gap, targets)
        self.moves.append(GroupMove(members, feasible.target, detail))
        for guest, need in zip(members, self._needs(feasible.group), strict=True):
            freed = (guest.usage.cpu or 0.0, guest.usage.memory or 0)
            self._ranking.record_move(gap.busiest, feasible.target, need, freed)
        self._state.place(feasible.group, self._index[feasible.target])

    def _explain(
        self, feasible: FeasibleGroup, gap: LoadGap, targets: Sequence[NodeId]
    ) -> str:
        """Return why this group moves to this target and not to a less loaded one."""
        members, target = self._state.members(feasible.group), feasible.target
        cpu, memory = _sum(self._needs(feasible.group))
        change = (
            f"a demand of {cpu:.2f} cores and {memory / GIB:.2f} GiB changes the score "
            f"of {target} from {self._ranking.score(target)} to {feasible.expected}, "
            f"below the goal {feasible.goal}"
        )
        sentences = [str(gap), change]
        if len(members) > 1:
            names = format_list([guest.id for guest in members], separator=" and ")
            sentences.append(f"{names} migrate as one because of affinity")
        infeasible = (
            (f"{name} (score {self._ranking.score(name)})", detail)
            for name in targets[: targets.index(target)][:MAX_INFEASIBLE_NODES]
            if (detail := self._rejection(feasible.group, name)) is not None
        )
        return "; ".join(
            [*sentences, *describe_infeasible_nodes(infeasible, "less loaded")]
        )

    def _rejection(self, group: int, node: NodeId) -> str | None:
        return self._state.rejection(group, self._index[node])

    def _needs(self, group: int) -> list[GuestNeeds]:
        return [needs_of(guest, self._settings) for guest in self._state.members(group)]

    def _describe_skipped(
        self,
        gap: LoadGap,
        comparable: Sequence[NodeId],
        skipped: Sequence[SkippedGroup],
    ) -> list[str]:
        """Return why the first few groups stay on the most loaded node."""
        targets = self._ranking.targets(comparable, gap)
        lines = []
        for skipped_group in skipped[:MAX_SKIPPED_GROUPS]:
            members = [guest.id for guest in self._state.members(skipped_group.group)]
            names = format_list(members, separator=" and ")
            detail = skipped_group.detail or self._infeasibility(
                skipped_group.group, targets
            )
            lines.append(f"stays on {gap.busiest}: {names}: {detail}")
        if (omitted := len(skipped) - MAX_SKIPPED_GROUPS) > 0:
            lines.append(f"stays on {gap.busiest}: {omitted} more")
        return lines

    def _infeasibility(self, group: int, targets: Sequence[NodeId]) -> str:
        details = [
            f"{name}: {self._rejection(group, name)}"
            for name in targets[:MAX_INFEASIBLE_NODES]
        ]
        more = (
            [f"{omitted} more"]
            if (omitted := len(targets) - MAX_INFEASIBLE_NODES) > 0
            else []
        )
        return "; ".join(["no feasible node", *details, *more])


def needs_of(guest: Guest, settings: RunSettings) -> GuestNeeds:
    """Return the cores and bytes that *guest* requires on its target.

    If it uses more than its limit, its use counts. Incus assumes one core and 1 GiB for
    a guest without limit.
    """
    known = demand(guest, settings.load_model) or NO_RESOURCES
    if settings.compatibility.is_incus:
        return known.cpu or 1.0, known.memory or GIB
    used = Resources(guest.usage.cpu or 0.0, guest.usage.memory or 0)
    return max(known.cpu, used.cpu), max(known.memory, used.memory)


def _sum(parts: Sequence[GuestNeeds]) -> GuestNeeds:
    return sum(cpu for cpu, _ in parts), sum(memory for _, memory in parts)


def _groups_by_node(state: SelectionState) -> dict[NodeId, list[int]]:
    """Return the indices of the groups of each node, in order of name."""
    result: dict[NodeId, list[int]] = {name: [] for name in state.nodes}
    for group, node in enumerate(np.asarray(state.arrays.node_of).tolist()):
        result[state.nodes[node]].append(group)
    return result
