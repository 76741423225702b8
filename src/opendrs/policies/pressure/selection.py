"""Selection of the starved guest that is moved, and of its target.

The patch series leaves the choice of a target open. Here a target has enough memory,
cores and CPU time; among such nodes the one with the best start placement score is
taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from opendrs.arrays import AssignmentState, MoveGroup, NodeMask
from opendrs.metrics import AhpMethod, StartScorer
from opendrs.model import (
    GIB,
    NO_RESOURCES,
    Guest,
    GuestId,
    Resources,
    Snapshot,
    format_list,
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
    """The search for a guest in trouble that finds a place.

    Args:
        state: The cluster.
        thresholds: From when on a guest is in trouble.
        skip_reasons: Why guests that could move are left alone all the same.
    """

    def __init__(
        self,
        state: AssignmentState,
        thresholds: PressureThresholds,
        skip_reasons: Mapping[GuestId, str],
    ) -> None:
        self._state, self._skip_reasons = state, skip_reasons
        self._targets = ReliefTargets(state, thresholds)
        self._group_of = {
            guest.id: index
            for index in range(len(state.arrays.demand))
            for guest in state.members(index)
        }
        self.unplaceable: list[StarvedGuest] = []
        self._skipped: defaultdict[str, list[str]] = defaultdict(list)

    def select(
        self, starved_guests: Sequence[StarvedGuest], method: AhpMethod
    ) -> GroupMove | None:
        """Return where the first guest, the worst off first, goes that has a place."""
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
        """Return who of those in trouble is not helped, and why."""
        skipped = (
            f"in trouble, and left alone: {format_list(names)}: {detail}"
            for detail, names in self._skipped.items()
        )
        unplaceable = (
            f"in trouble, and nowhere to go: {starved_guest.guest.id}: "
            f"{self._targets.infeasibility(self._group_of[starved_guest.guest.id])}"
            for starved_guest in self.unplaceable[:MAX_NOTES]
        )
        omitted = len(self.unplaceable) - MAX_NOTES
        more = [f"in trouble, and nowhere to go: {omitted} more"] if omitted > 0 else []
        return *skipped, *unplaceable, *more

    def _is_movable(self, starved_guest: StarvedGuest) -> bool:
        name = starved_guest.guest.id
        detail = self._state.move_groups.skipped.get(name) or self._skip_reasons.get(
            name
        )
        if detail is not None:
            self._skipped[detail].append(name)
        return detail is None

    def _explain(self, starved_guest: StarvedGuest, group: int, target: int) -> str:
        members = self._state.members(group)
        cpu, memory = self._state.arrays.demand[group].tolist()
        route = f"from {starved_guest.guest.node} to {self._state.nodes[target]}"
        demand = f"takes {cpu:.2f} cores and {memory / GIB:.2f} GiB {route}"
        sentences = [starved_guest.detail, f"{demand}, where it would best start"]
        if len(members) > 1:
            names = format_list([guest.id for guest in members], separator=" and ")
            sentences.append(f"{names} must stay together and move as one")
        infeasible = describe_infeasible_nodes(
            self._targets.better_infeasible_nodes(group, target)
        )
        return "; ".join([*sentences, *infeasible])


def pressure_metrics(
    snapshot: Snapshot, thresholds: PressureThresholds
) -> dict[str, float]:
    """Return the measures of a cluster by name, as far as they are known.

    How many guests wait for cpu too long, how many are on nodes short of memory,
    and the most that is waited and used.
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
    """Return what is not known of *snapshot* that would tell of trouble."""
    unmeasured = sorted(
        n.id for n in snapshot.nodes.values() if n.online and not has_metrics(n)
    )
    without_ksm = sorted(
        node.id
        for node in snapshot.nodes.values()
        if has_metrics(node) and node.ksm_shared is None
    )
    without_pressure = [
        g.id for g in eligible_guests(snapshot) if g.pressure.cpu.some is None
    ]
    lines = (
        (unmeasured, "not measured, so that nobody there is judged"),
        (without_pressure, "how long it waits for cpu is not known"),
        (without_ksm, "how much memory is merged (KSM) is not known"),
    )
    return tuple(f"{format_list(names)}: {detail}" for names, detail in lines if names)


MAX_BETTER_NODES = 3  # better nodes that are named with what closes them
_MEMORY_DETAIL = "it would use more of its memory than it may when it receives"
_CORES_DETAIL = "it has fewer cores than the guest"
_CPU_DETAIL = "its processors would be overcommitted"


class ReliefTargets:
    """The nodes of a board, as places for guests in trouble."""

    def __init__(self, state: AssignmentState, thresholds: PressureThresholds) -> None:
        nodes = [state.snapshot.nodes[name] for name in state.nodes]
        self._state = state
        self._memory_limit = np.array(
            [thresholds.target_limit(node) for node in nodes], float
        )
        self._usage = state.arrays.usage
        self._cores = state.arrays.capacity[:, 0]

    def target(self, index: int) -> int | None:
        """Return the node for the unit at *index*, or None if there is none."""
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
        """Yield the nodes where it would start better, and why it may not."""
        scores = self._scores(index)
        source = int(self._state.arrays.node_of[index])
        better = np.flatnonzero(scores > scores[target])
        order = better[np.argsort(-scores[better], kind="stable")]
        for node in order[order != source][:MAX_BETTER_NODES].tolist():
            yield self._state.nodes[node], self._rejection(index, node)

    def infeasibility(self, index: int) -> str:
        """Return why the unit at *index* may go nowhere, by reason."""
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
        return "; ".join(details) or "no other node is online and measured"

    def _rejection(self, index: int, node: int) -> str:
        for detail, fits in self._requirements(index):
            if not fits[node]:
                return detail
        return self._state.rejection(index, node) or "it is not open to it"

    def _sufficient_nodes(self, index: int) -> NodeMask:
        """Return which nodes have the memory, the cores and the time."""
        mask = np.ones(len(self._state.nodes), np.bool_)
        for _, fits in self._requirements(index):
            mask &= fits
        return mask

    def _requirements(self, index: int) -> Iterator[tuple[str, NodeMask]]:
        """Yield what is asked of a node, and which nodes meet it."""
        cpu, memory = self._state.arrays.demand[index]
        members = self._state.members(index)
        widest = max(g.limit.cpu if g.limit is not None else 0.0 for g in members)
        yield _MEMORY_DETAIL, self._usage[:, 1] + memory <= self._memory_limit
        yield _CORES_DETAIL, widest <= self._cores
        yield _CPU_DETAIL, self._usage[:, 0] + cpu <= self._cores

    def _scores(self, index: int) -> npt.NDArray[np.float64]:
        """Return how good each node is for starting the unit there."""
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
    """Return what *group* may come to use: what it uses in its trouble says little.

    It is without cpu limit if one of it is; where no limit is known, it is what is
    used.
    """
    total = _usage_of([guest for guest in group if guest.limit is None])
    for guest in group:
        total = total.plus(guest.limit or NO_RESOURCES)
    unlimited = any(guest.limit is not None and guest.limit.cpu == 0 for guest in group)
    return Resources(0.0 if unlimited else total.cpu, total.memory)
