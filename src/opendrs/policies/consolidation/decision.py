"""Build the decision: a sequenced plan with its reason, metrics and notes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from opendrs.arrays import AllowedNodes, describe_skipped
from opendrs.model import GIB, NodeId, NodeState, Plan, format_list
from opendrs.planning import (
    GroupMove,
    NodePowerAction,
    SequencedPlan,
    sequence_in_order,
)
from opendrs.policies.base import Decision, DecisionReason, MemoryT
from opendrs.policies.consolidation.assignment import MoveList, NodeAssignment, NodeMove
from opendrs.policies.consolidation.history import Mask
from opendrs.policies.consolidation.input import ConsolidationInput
from opendrs.policies.consolidation.power_curve import power_draw
from opendrs.policies.consolidation.settings import DetectorSettings, ForecastSettings
from opendrs.policies.load_metrics import describe_infeasible_nodes

MAX_EXCLUDED_SHOWN = 3  # fuller nodes named with the reason for their exclusion
FULLEST_CHECKED = 20  # fullest nodes that are considered for that


class DecisionBuilder:
    """Build the decision from the selected moves.

    Args:
        inputs: The cluster.
        moves: The selected moves.
        settings: Settings of the algorithm.
        manage_power: True to power off empty nodes.
    """

    def __init__(
        self,
        inputs: ConsolidationInput,
        moves: MoveList,
        settings: DetectorSettings | ForecastSettings,
        *,
        manage_power: bool,
    ) -> None:
        self._inputs, self._moves, self._overload_threshold = (
            inputs,
            moves,
            settings.overload_threshold,
        )
        self._cluster, self._manage_power = inputs.cluster, manage_power
        target_filter = AllowedNodes(inputs.cluster)
        self._before = NodeAssignment(
            settings.averaging_window,
            inputs.node_arrays,
            inputs.guest_arrays,
            target_filter,
        )
        self._after = moves.assignment
        load = np.where(
            inputs.measured, -self._before.cpu_usage / inputs.node_arrays.cpu, np.inf
        )
        fullest = np.argsort(load, kind="stable")[
            : min(FULLEST_CHECKED, inputs.measured.sum())
        ]
        self._fullest: list[int] = fullest.tolist()
        self._sequenced = self._sequence()
        self._restore_dropped(self._sequenced.dropped)

    def decision(self, memory: MemoryT) -> Decision[MemoryT]:
        """Return the decision, with *memory* as its memory."""
        plan = self._sequenced.plan
        before = self._metrics(self._before, self._inputs.measured)
        after = self._metrics(self._after, self._running_nodes())
        return Decision(
            self._reason(plan),
            memory,
            plan,
            self._detail(before, after),
            before,
            after if plan.steps else before,
            (*self._notes(), *self._sequenced.notes),
            self._inputs.move_groups.skipped,
        )

    def _sequence(self) -> SequencedPlan:
        group_moves = [
            self._group_move(move, self._relief_reason(move))
            for move in self._moves.relief
        ]
        for moves in self._moves.drains:
            group_moves += [
                self._group_move(each, self._drain_reason(each)) for each in moves
            ]
        return sequence_in_order(
            group_moves,
            self._cluster.snapshot,
            self._cluster.rules,
            self._cluster.limits,
            power_on=self._power_on_actions(),
            power_off=self._power_off_actions(),
        )

    def _restore_dropped(self, dropped: Iterable[GroupMove]) -> None:
        """Return the guests of *dropped* moves to their nodes in the result."""
        for guest in sorted(self._cluster.group_of[each.name] for each in dropped):
            self._after.place(guest, int(self._cluster.node_of[guest]))

    def _group_move(self, move: NodeMove, reason: str) -> GroupMove:
        group = self._cluster.groups[move.guest]
        target = self._node_name(move.target)
        cpu = float(self._after.cpu_demand[move.guest])
        memory = float(self._inputs.guest_arrays.memory[move.guest]) / GIB
        change = (
            f"{self._load_text(self._before, move.target)} → "
            f"{self._load_text(self._after, move.target)} after the plan"
        )
        sentences = [
            reason,
            (
                f"moves {cpu:.2f} cores and {memory:.2f} GiB to {target} "
                f"(CPU load {change})"
            ),
        ]
        if len(group) > 1:
            names = format_list([guest.id for guest in group], separator=" and ")
            sentences.append(f"{names} migrate as one because of affinity")
        sentences += self._excluded_fuller_nodes(move)
        return GroupMove(group, target, "; ".join(sentences))

    def _relief_reason(self, move: NodeMove) -> str:
        name, load = (
            self._node_name(move.source),
            self._load_text(self._before, move.source),
        )
        if self._moves.risk is None:
            return f"{name} is overloaded (CPU load {load})"
        risk = min(1.0, self._moves.risk[move.source])
        return (
            f"{name} (CPU load {load}) is expected to lack CPU {risk:.0%} of the time"
        )

    def _drain_reason(self, move: NodeMove) -> str:
        name, load = (
            self._node_name(move.source),
            self._load_text(self._before, move.source),
        )
        return f"{name} (CPU load {load}) can be drained"

    def _excluded_fuller_nodes(self, move: NodeMove) -> list[str]:
        """Return the fuller nodes with enough CPU that were excluded, with reasons."""
        group, feasibility = (
            self._cluster.groups[move.guest],
            self._cluster.feasibility,
        )
        load = self._before.cpu_usage / self._inputs.node_arrays.cpu
        fuller = [row for row in self._fullest if load[row] > load[move.target]]
        excluded = (
            (f"{self._node_name(row)} (CPU load {load[row]:.0%})", rejection)
            for row in fuller
            if row != move.source
            for rejection in [feasibility.rejection(group, self._node_name(row))]
            if rejection is not None
        )
        shown = islice(excluded, MAX_EXCLUDED_SHOWN)
        return [*describe_infeasible_nodes(shown, "fuller")]

    def _power_on_actions(self) -> list[NodePowerAction]:
        detail = "no running node has capacity"
        return [
            NodePowerAction(self._node_name(row), detail)
            for row in np.flatnonzero(self._powered_on_nodes()).tolist()
        ]

    def _powered_on_nodes(self) -> Mask:
        """Return the nodes that are powered on because a guest migrates there."""
        return self._after.powered_on & (self._after.guest_count > 0)

    def _power_off_actions(self) -> list[NodePowerAction]:
        if not self._manage_power:
            return []
        return [
            NodePowerAction(self._node_name(row), "empty after the moves")
            for row in np.flatnonzero(self._powered_off_nodes()).tolist()
        ]

    def _powered_off_nodes(self) -> Mask:
        """Return the nodes that can be powered off after all moves.

        One node always stays on, so that a guest can be started.
        """
        powered_off = np.zeros(len(self._cluster.node_ids), np.bool_)
        if not self._manage_power:
            return powered_off
        drained = {moves[0].source for moves in self._moves.drains}
        for row, name in enumerate(self._cluster.node_ids):
            may_power_off = self._inputs.measured[row] and not self._is_cooling_down(
                name
            )
            is_drained = row in drained and not self._after.guest_count[row]
            powered_off[row] = may_power_off and (is_drained or self._is_vacant(row))
        remaining = self._inputs.measured & ~powered_off
        if not (remaining | self._powered_on_nodes()).any():
            powered_off[np.flatnonzero(powered_off)[:1]] = False
        return powered_off

    def _running_nodes(self) -> Mask:
        on = self._inputs.measured | self._powered_on_nodes()
        return on & ~self._powered_off_nodes()

    def _metrics(self, assignment: NodeAssignment, on: Mask) -> dict[str, float]:
        """Return the metrics of the cluster with the nodes *on* running."""
        fleet = self._inputs.node_arrays
        load = np.clip(assignment.cpu_usage / fleet.cpu, 0, 1)
        active = on & ((assignment.guest_count > 0) | fleet.has_immovable_guests)
        return {
            "active_hosts": float(active.sum()),
            "hosts_on": float(on.sum()),
            "overload_time_fraction": self._overload_fraction(assignment, active),
            "power_watts": float(
                power_draw(fleet.watts, fleet.curve_of, load)[on].sum()
            ),
        }

    def _overload_fraction(self, assignment: NodeAssignment, active: Mask) -> float:
        """Return the fraction of the history in which active nodes were overloaded."""
        used = assignment.usage_history()
        over: Mask = (
            used > self._overload_threshold * self._inputs.node_arrays.cpu[:, None]
        )
        time = int(used.shape[1] * active.sum())
        return float(over[active].sum() / time) if time else 0.0

    def _reason(self, plan: Plan) -> DecisionReason:
        if plan.steps:
            relieves = bool(self._moves.relief)
            return (
                DecisionReason.RELIEVES_OVERLOAD
                if relieves
                else DecisionReason.SAVES_POWER
            )
        overloaded = bool(self._moves.overloaded.any())
        return (
            DecisionReason.NO_CANDIDATE
            if overloaded
            else DecisionReason.ALREADY_CONSOLIDATED
        )

    def _detail(self, before: dict[str, float], after: dict[str, float]) -> str:
        overloaded = [
            self._node_name(row)
            for row in np.flatnonzero(self._moves.overloaded).tolist()
        ]
        text = f"overloaded nodes: {format_list(overloaded) or 'none'}"
        relieved = dict.fromkeys(
            self._node_name(each.source) for each in self._moves.relief
        )
        likely = [name for name in relieved if name not in overloaded]
        if likely:
            text += f"; nodes likely to lack CPU: {format_list(likely)}"
        if not self._moves.relief and not self._moves.drains:
            return f"{text}; no node to drain"
        return (
            f"{text}; nodes with guests {before['active_hosts']:.0f} → "
            f"{after['active_hosts']:.0f}"
        )

    def _notes(self) -> tuple[str, ...]:
        nodes, cooldown = (
            self._cluster.snapshot.nodes,
            self._cluster.limits.cooldown,
        )
        unknown = sorted(
            name
            for row, name in enumerate(self._cluster.node_ids)
            if not self._inputs.measured[row] and nodes[name].state is NodeState.UNKNOWN
        )
        return (
            *(f"{name}: not measured; left unchanged" for name in unknown),
            *(
                f"node {name}: powered on less than {cooldown:g} s ago; stays on"
                for name in self._cooling_down_nodes()
            ),
            *(
                f"contradiction: {contradiction}"
                for contradiction in self._cluster.rules.contradictions
            ),
            *describe_skipped(self._inputs.move_groups.skipped),
        )

    def _cooling_down_nodes(self) -> list[NodeId]:
        """Return the empty nodes that are not powered off yet."""
        if not self._manage_power:
            return []
        return [
            name
            for row, name in enumerate(self._cluster.node_ids)
            if self._is_vacant(row) and self._is_cooling_down(name)
        ]

    def _is_vacant(self, row: int) -> bool:
        """Return True if the node is empty and receives no guest."""
        empty = self._inputs.is_empty(self._node_name(row))
        return empty and not self._after.guest_count[row]

    def _is_cooling_down(self, name: NodeId) -> bool:
        """Return True if the node was powered on within the cooldown."""
        snapshot, limits = self._cluster.snapshot, self._cluster.limits
        powered_on_at = snapshot.nodes[name].powered_on_at
        if powered_on_at is None:
            return False
        # A time in the future is treated as now.
        elapsed = max(0.0, (snapshot.taken_at - powered_on_at).total_seconds())
        return elapsed < limits.cooldown

    def _node_name(self, row: int) -> NodeId:
        return self._cluster.node_ids[row]

    def _load_text(self, assignment: NodeAssignment, row: int) -> str:
        return f"{assignment.cpu_usage[row] / self._inputs.node_arrays.cpu[row]:.0%}"
