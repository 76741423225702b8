"""Ranking of nodes by score, and the gap between most and least loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import Node, NodeId, Snapshot
from opendrs.policies.threshold_rebalance.compatibility import IncusVersion, ScoredNode


class CpuMetric(StrEnum):
    """Metric of the CPU load of a node.

    AUTO is the load average if it is known for all nodes, otherwise their busy cores.
    """

    LOAD_AVERAGE = "load-average"
    BUSY_CORES = "busy-cores"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class LoadGap:
    """Most and least loaded of some nodes.

    Attributes:
        busiest: Most loaded node.
        highest: Its score.
        least_busy: Least loaded node.
        lowest: Its score.
    """

    busiest: NodeId
    highest: int
    least_busy: NodeId
    lowest: int

    @property
    def difference(self) -> float:
        """Return the difference as a fraction of the higher score, in hundredths."""
        if self.highest == 0:
            return 0.0
        return 100 * (self.highest - self.lowest) // self.highest / 100

    def __str__(self) -> str:
        return (
            f"the scores of {self.busiest} ({self.highest}) and {self.least_busy} "
            f"({self.lowest}) differ by {self.difference:.0%}"
        )


class NodeRanking:
    """Nodes and their scores, which change as guests are moved.

    In the versions of Incus, nodes are compared by their initial scores.

    Args:
        snapshot: The cluster.
        nodes: Nodes that are compared.
        compatibility: Version whose arithmetic is used.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        nodes: Mapping[NodeId, ScoredNode],
        compatibility: IncusVersion,
    ) -> None:
        self.groups = _groups(snapshot, nodes)
        self._compatibility = compatibility
        self._nodes = dict(nodes)
        self._scores = {name: node.score(compatibility) for name, node in nodes.items()}
        self._initial_scores = dict(self._scores)
        self._guests = Counter(guest.node for guest in snapshot.guests.values())

    def score(self, node: NodeId) -> int:
        """Return the score of *node*, including the moves so far."""
        return self._scores[node]

    def compared_score(self, node: NodeId) -> int:
        """Return the score by which *node* is compared with others."""
        return (self._initial_scores if self._compatibility.is_incus else self._scores)[
            node
        ]

    def gap(self, group: Sequence[NodeId]) -> LoadGap:
        """Return the most and the least loaded of *group*, which has at least two."""
        busiest, *_ = self._ranked(group, busiest_first=True)
        others = self._ranked(group, busiest_first=False)
        least_busy = next(name for name in others if name != busiest)
        return LoadGap(
            busiest,
            self.compared_score(busiest),
            least_busy,
            self.compared_score(least_busy),
        )

    def targets(self, group: Sequence[NodeId], gap: LoadGap) -> list[NodeId]:
        """Return the possible targets of *group*, the least loaded first."""
        if self._compatibility.single_target:
            return [gap.least_busy]
        ranked = self._ranked(group, busiest_first=False)
        return [name for name in ranked if self.compared_score(name) < gap.highest]

    def expected_score(self, node: NodeId, cpu: float, memory: int) -> int:
        """Return the score of *node* with the demand of a guest added."""
        return (
            self._nodes[node]
            .with_guest(cpu, memory, self._compatibility)
            .score(self._compatibility)
        )

    def record_move(
        self,
        source: NodeId,
        target: NodeId,
        needs: tuple[float, int],
        freed: tuple[float, int],
    ) -> None:
        """Update the scores for the move of a guest.

        Args:
            source: Source node; unchanged in the versions of Incus.
            target: Target node.
            needs: Cores and bytes that are added to the target.
            freed: Measured cores and bytes that are removed from the source.
        """
        self._update(
            target, self._nodes[target].with_guest(*needs, self._compatibility)
        )
        if self._compatibility.is_incus:
            return
        self._update(source, self._nodes[source].without_guest(*freed))
        self._guests[source] -= 1
        self._guests[target] += 1

    def _update(self, name: NodeId, node: ScoredNode) -> None:
        self._nodes[name] = node
        self._scores[name] = node.score(self._compatibility)

    def _ranked(self, group: Sequence[NodeId], *, busiest_first: bool) -> list[NodeId]:
        """Return *group* in order.

        Of equal nodes, the one with more guests is the source and the one with fewer is
        the target. Incus does the opposite by accident: it sorts the nodes once, those
        with fewer guests first, and reads the list from both ends.
        """
        sign = -1 if busiest_first else 1
        if self._compatibility.is_incus:
            ranked = sorted(
                group, key=lambda n: (-self._initial_scores[n], self._guests[n], n)
            )
            return ranked if busiest_first else ranked[::-1]
        return sorted(
            group,
            key=lambda n: (sign * self._scores[n], sign * self._guests[n], n),
        )


def scored_nodes(
    nodes: Iterable[Node], cpu_metric: CpuMetric
) -> tuple[dict[NodeId, ScoredNode], tuple[NodeId, ...]]:
    """Return the load of *nodes*, and the nodes with missing metrics."""
    ordered = sorted(nodes, key=lambda node: node.id)
    if cpu_metric is CpuMetric.AUTO:
        measured = (
            node
            for node in ordered
            if _scored_node(node, CpuMetric.LOAD_AVERAGE)
            or _scored_node(node, CpuMetric.BUSY_CORES)
        )
        all_known = all(node.load_average is not None for node in measured)
        cpu_metric = CpuMetric.LOAD_AVERAGE if all_known else CpuMetric.BUSY_CORES
    scored = {node.id: _scored_node(node, cpu_metric) for node in ordered}
    missing = tuple(name for name, each in scored.items() if each is None)
    return {name: each for name, each in scored.items() if each is not None}, missing


def _scored_node(node: Node, cpu_metric: CpuMetric) -> ScoredNode | None:
    average = cpu_metric is CpuMetric.LOAD_AVERAGE
    load = node.load_average if average else node.usage.cpu
    if node.capacity is None or node.usage.memory is None or load is None:
        return None
    return ScoredNode(
        memory=node.capacity.memory,
        used=node.usage.memory,
        threads=node.capacity.cpu,
        load=load,
    )


def _groups(
    snapshot: Snapshot, nodes: Mapping[NodeId, ScoredNode]
) -> tuple[tuple[NodeId, ...], ...]:
    """Return the groups of two or more nodes of one architecture, in order of name.

    Nodes of unknown architecture form one group.
    """
    groups: dict[str, list[NodeId]] = {}
    for name in sorted(nodes):
        groups.setdefault(snapshot.nodes[name].architecture or "", []).append(name)
    return tuple(tuple(group) for _, group in sorted(groups.items()) if len(group) > 1)
