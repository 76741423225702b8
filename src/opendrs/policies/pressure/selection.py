"""Selection of the starved guest that is migrated, and of its target.

The original leaves the choice of a target open. Here a target must have enough memory,
cores and CPU time. Among such nodes, the one with the best start placement score is
selected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opendrs.arrays import Mask, MoveGroup, SelectionState, SkippedGuest
from opendrs.metrics import AhpMethod, StartScorer
from opendrs.model import (
    GIB,
    NO_RESOURCES,
    Guest,
    GuestId,
    Resources,
    Snapshot,
    format_count,
    format_list,
    pluralize,
)
from opendrs.planning import GroupMove
from opendrs.policies.load_metrics import describe_infeasible_nodes
from opendrs.policies.preconditions import MAX_NOTES
from opendrs.policies.pressure.starvation import (
    PressureThresholds,
    StarvedGuest,
    eligible_guests,
    exceeds_memory_threshold,
    has_metrics,
    rank_starved,
)


class ReliefSelector:
    """Selection of a starved guest with a feasible node.

    Args:
        state: The cluster.
        thresholds: Thresholds above which a guest is starved.
        skip_reasons: Why movable guests are skipped by the policy.
    """

    def __init__(
        self,
        state: SelectionState,
        thresholds: PressureThresholds,
        skip_reasons: Mapping[GuestId, SkippedGuest],
    ) -> None:
        self._state, self._skip_reasons = state, skip_reasons
        self._targets = ReliefTargets(state, thresholds)
        self._group_of = state.cluster.group_of
        self.unplaceable: list[StarvedGuest] = []
        self._skipped: defaultdict[SkippedGuest, list[str]] = defaultdict(list)

    def select(
        self, starved_guests: Sequence[StarvedGuest], method: AhpMethod
    ) -> GroupMove | None:
        """Return the move of the most starved guest that has a feasible node."""
        for starved_guest in rank_starved(
            [t for t in starved_guests if self._is_movable(t)], method
        ):
            group = self._group_of[starved_guest.guest.id]
            target = self._targets.target(group)
            if target is not None:
                detail = self._explain(starved_guest, group, target)
                members, node = self._state.members(group), self._state.nodes[target]
                return GroupMove(members, node, detail)
            self.unplaceable.append(starved_guest)
        return None

    def notes(self) -> tuple[str, ...]:
        """Return which starved guests are not relieved, and why."""
        skipped = (
            f"starved {pluralize(len(names), 'guest')} skipped: {format_list(names)}: "
            f"{reason.detail}"
            for reason, names in self._skipped.items()
        )
        unplaceable = (
            f"starved guest without feasible node: {starved_guest.guest.id}: "
            f"{self._targets.infeasibility(self._group_of[starved_guest.guest.id])}"
            for starved_guest in self.unplaceable[:MAX_NOTES]
        )
        omitted = len(self.unplaceable) - MAX_NOTES
        more = format_count(omitted, "more starved guest")
        rest = [f"and {more} without feasible node"] if omitted > 0 else []
        return *skipped, *unplaceable, *rest

    def _is_movable(self, starved_guest: StarvedGuest) -> bool:
        name = starved_guest.guest.id
        skipped = self._state.move_groups.skipped
        reason = skipped.get(name) or self._skip_reasons.get(name)
        if reason is not None:
            self._skipped[reason].append(name)
        return reason is None

    def _explain(self, starved_guest: StarvedGuest, group: int, target: int) -> str:
        members = self._state.members(group)
        cpu, memory = self._state.arrays.demand[group].tolist()
        route = f"from {starved_guest.guest.node} to {self._state.nodes[target]}"
        demand = f"moves {cpu:.2f} cores and {memory / GIB:.2f} GiB {route}"
        sentences = [starved_guest.detail, f"{demand}, the best node for its start"]
        if len(members) > 1:
            names = format_list([guest.id for guest in members], separator=" and ")
            sentences.append(f"{names} migrate as one because of affinity")
        infeasible = describe_infeasible_nodes(
            self._targets.better_infeasible_nodes(group, target)
        )
        return "; ".join([*sentences, *infeasible])


def pressure_metrics(
    snapshot: Snapshot, thresholds: PressureThresholds
) -> dict[str, float]:
    """Return the known metrics of a cluster by name.

    They are the number of guests above the CPU pressure threshold, the number of guests
    on nodes short of memory, and the highest memory load and CPU pressure.
    """
    nodes = [node for node in snapshot.nodes.values() if has_metrics(node)]
    if not nodes:
        return {}
    guests = eligible_guests(snapshot)
    cpu_stalls = [w for guest in guests if (w := guest.pressure.cpu.some) is not None]
    short_of_memory = {
        node.id for node in nodes if exceeds_memory_threshold(node, thresholds)
    }
    memory_loads = [
        node.usage.memory / node.capacity.memory
        for node in nodes
        if node.capacity is not None and node.usage.memory is not None
    ]
    metrics: dict[str, float] = {
        "waiting_guests": sum(wait > thresholds.cpu_pressure for wait in cpu_stalls),
        "crowded_guests": sum(guest.node in short_of_memory for guest in guests),
        "highest_memory": max(memory_loads),
    }
    if cpu_stalls:
        metrics["highest_cpu_pressure"] = max(cpu_stalls)
    return metrics


def missing_metrics_notes(snapshot: Snapshot) -> tuple[str, ...]:
    """Return notes about metrics whose absence may hide starved guests."""
    without_ksm = sorted(
        node.id
        for node in snapshot.nodes.values()
        if has_metrics(node) and node.ksm_shared is None
    )
    without_pressure = [
        g.id for g in eligible_guests(snapshot) if g.pressure.cpu.some is None
    ]
    lines = (
        (without_pressure, "CPU pressure unknown"),
        (without_ksm, "amount of merged memory (KSM) unknown"),
    )
    return tuple(f"{format_list(names)}: {detail}" for names, detail in lines if names)


MAX_BETTER_NODES = 3  # better infeasible nodes in one explanation
_MEMORY_DETAIL = "memory threshold would be exceeded"
_CORES_DETAIL = "fewer cores than the guest"
_CPU_DETAIL = "CPU would be overcommitted"


class ReliefTargets:
    """Nodes of a cluster as targets for starved guests."""

    def __init__(self, state: SelectionState, thresholds: PressureThresholds) -> None:
        nodes = [state.snapshot.nodes[name] for name in state.nodes]
        self._state = state
        self._memory_limit = np.array(
            [thresholds.target_limit(node) for node in nodes], float
        )
        self._usage = state.arrays.usage
        self._cores = state.arrays.capacity[:, 0]

    def target(self, index: int) -> int | None:
        """Return the target node for the group at *index*, or None."""
        feasible = np.flatnonzero(
            self._state.feasible_mask(index) & self._sufficient_nodes(index)
        )
        if not feasible.size:
            return None
        scores = self._scores(index)[feasible]
        return int(feasible[scores.argmax()])

    def better_infeasible_nodes(
        self, index: int, target: int
    ) -> Iterator[tuple[str, str]]:
        """Yield the infeasible nodes with a better score than *target*, and why."""
        scores = self._scores(index)
        source = int(self._state.arrays.node_of[index])
        better = np.flatnonzero(scores > scores[target])
        order = better[np.argsort(-scores[better], kind="stable")]
        for node in order[order != source][:MAX_BETTER_NODES].tolist():
            yield self._state.nodes[node], self._rejection(index, node)

    def infeasibility(self, index: int) -> str:
        """Return why the group at *index* has no feasible node, by reason."""
        source = int(self._state.arrays.node_of[index])
        names: dict[str, list[str]] = {}
        for detail, fits in self._requirements(index):
            infeasible = np.flatnonzero(~fits & (np.arange(fits.size) != source))
            if infeasible.size:
                names[detail] = [self._state.nodes[node] for node in infeasible]
        fitting = self._sufficient_nodes(index)
        fitting[source] = False
        for node in np.flatnonzero(fitting)[:MAX_BETTER_NODES].tolist():
            detail = self._rejection(index, node)
            names.setdefault(detail, []).append(self._state.nodes[node])
        details = [
            f"{format_list(node_ids)}: {detail}" for detail, node_ids in names.items()
        ]
        return "; ".join(details) or "no other online node with metrics"

    def _rejection(self, index: int, node: int) -> str:
        for detail, fits in self._requirements(index):
            if not fits[node]:
                return detail
        return self._state.rejection(index, node) or "infeasible"

    def _sufficient_nodes(self, index: int) -> Mask:
        """Return the nodes with enough memory, cores and CPU time."""
        mask = np.ones(len(self._state.nodes), np.bool_)
        for _, fits in self._requirements(index):
            mask &= fits
        return mask

    def _requirements(self, index: int) -> Iterator[tuple[str, Mask]]:
        """Yield the requirements on a node, and the nodes that meet each of them."""
        cpu, memory = self._state.arrays.demand[index]
        members = self._state.members(index)
        widest = max(g.limit.cpu if g.limit is not None else 0.0 for g in members)
        yield _MEMORY_DETAIL, self._usage[:, 1] + memory <= self._memory_limit
        yield _CORES_DETAIL, widest <= self._cores
        yield _CPU_DETAIL, self._usage[:, 0] + cpu <= self._cores

    def _scores(self, index: int) -> npt.NDArray[np.float64]:
        """Return the score of each node for the start of the group."""
        state = self._state
        loads = state.current_loads()
        members = state.members(index)
        source = members[0].node
        relieved = loads[source].without_guest(_usage_of(members))
        scorer = StartScorer(list({**loads, source: relieved}.values()))
        return np.array(scorer.scores(_limit_of(members)))


def _usage_of(group: Iterable[Guest]) -> Resources:
    total = NO_RESOURCES
    for guest in group:
        total = total.plus(guest.usage.resources or NO_RESOURCES)
    return total


def _limit_of(group: MoveGroup) -> Resources:
    """Return the most that *group* may use, as its usage while starved is too low.

    It is unlimited in CPU if one guest is. For guests without a known limit, it is
    their usage.
    """
    total = _usage_of([guest for guest in group if guest.limit is None])
    for guest in group:
        total = total.plus(guest.limit or NO_RESOURCES)
    unlimited = any(guest.limit is not None and guest.limit.cpu == 0 for guest in group)
    return Resources(0.0 if unlimited else total.cpu, total.memory)
