"""How hosts stand to each other: who is busiest, who least, how far apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import Node, NodeId, Snapshot
from opendrs.policies.threshold_rebalance.forms import Form, Host


class CpuMeasure(StrEnum):
    """What tells how busy the processors of a node are.

    EITHER is the load average where all nodes tell it, and else their busy cores.
    """

    LOAD_AVERAGE = "load-average"
    BUSY_CORES = "busy-cores"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Gap:
    """The busiest of some hosts and the least busy one.

    Attributes:
        busiest: The one.
        highest: Its points.
        least_busy: The other.
        lowest: Its points.
    """

    busiest: NodeId
    highest: int
    least_busy: NodeId
    lowest: int

    @property
    def difference(self) -> float:
        """Return how far they are apart, as a part of the higher, in hundredths."""
        if self.highest == 0:
            return 0.0
        return 100 * (self.highest - self.lowest) // self.highest / 100

    def __str__(self) -> str:
        return (
            f"{self.busiest} ({self.highest} points) and {self.least_busy} "
            f"({self.lowest}) are {self.difference:.0%} apart"
        )


class Standing:
    """Hosts and their points, which change as guests move.

    In Incus' own forms hosts are compared as they were in the beginning.

    Args:
        snapshot: The cluster.
        hosts: The hosts that are compared.
        form: Whose arithmetic.
    """

    def __init__(
        self, snapshot: Snapshot, hosts: Mapping[NodeId, Host], form: Form
    ) -> None:
        self.groups = _groups(snapshot, hosts)
        self._form = form
        self._hosts = dict(hosts)
        self._points = {name: host.score(form) for name, host in hosts.items()}
        self._first = dict(self._points)
        self._guests = Counter(guest.node for guest in snapshot.guests.values())

    def points(self, host: NodeId) -> int:
        """Return the points of *host*, with all that it has been given."""
        return self._points[host]

    def compared(self, host: NodeId) -> int:
        """Return the points by which *host* is compared with others."""
        return (self._first if self._form.original else self._points)[host]

    def gap(self, group: Sequence[NodeId]) -> Gap:
        """Return the busiest of *group*, which has two or more, and the least busy."""
        busiest, *_ = self._ranked(group, busiest_first=True)
        others = self._ranked(group, busiest_first=False)
        least_busy = next(name for name in others if name != busiest)
        return Gap(
            busiest, self.compared(busiest), least_busy, self.compared(least_busy)
        )

    def receivers(self, group: Sequence[NodeId], gap: Gap) -> list[NodeId]:
        """Return who of *group* may be given something, the least busy first."""
        if self._form.one_target:
            return [gap.least_busy]
        ranked = self._ranked(group, busiest_first=False)
        return [name for name in ranked if self.compared(name) < gap.highest]

    def expected(self, host: NodeId, cpu: float, memory: int) -> int:
        """Return the points of *host* with a guest more of these needs."""
        return self._hosts[host].with_guest(cpu, memory, self._form).score(self._form)

    def moved(
        self,
        source: NodeId,
        target: NodeId,
        needs: tuple[float, int],
        freed: tuple[float, int],
    ) -> None:
        """Take note that a guest goes from *source* to *target*.

        Args:
            source: Where it was; Incus' own forms do not count what it leaves.
            target: Where it goes.
            needs: Cores and bytes it is taken to need there.
            freed: Cores and bytes it used, as far as they were measured.
        """
        self._put(target, self._hosts[target].with_guest(*needs, self._form))
        if self._form.original:
            return
        self._put(source, self._hosts[source].without_guest(*freed))
        self._guests[source] -= 1
        self._guests[target] += 1

    def _put(self, name: NodeId, host: Host) -> None:
        self._hosts[name] = host
        self._points[name] = host.score(self._form)

    def _ranked(self, group: Sequence[NodeId], *, busiest_first: bool) -> list[NodeId]:
        """Return *group* in order.

        Among equals the one with more guests gives and the one with fewer
        receives. In Incus it is the other way round, by accident: it sorts hosts
        once, those with fewer guests first, and reads the list from both ends.
        """
        sign = -1 if busiest_first else 1
        if self._form.original:
            ranked = sorted(group, key=lambda n: (-self._first[n], self._guests[n], n))
            return ranked if busiest_first else ranked[::-1]
        return sorted(
            group,
            key=lambda n: (sign * self._points[n], sign * self._guests[n], n),
        )


def hosts_of(
    nodes: Iterable[Node], measure: CpuMeasure
) -> tuple[dict[NodeId, Host], tuple[NodeId, ...]]:
    """Return *nodes* as hosts, and who of them was not measured."""
    known = sorted(nodes, key=lambda node: node.id)
    if measure is CpuMeasure.EITHER:
        told = all(node.load_average is not None for node in known)
        measure = CpuMeasure.LOAD_AVERAGE if told else CpuMeasure.BUSY_CORES
    found = {node.id: _host(node, measure) for node in known}
    missing = tuple(name for name, host in found.items() if host is None)
    return {name: host for name, host in found.items() if host is not None}, missing


def _host(node: Node, measure: CpuMeasure) -> Host | None:
    average = measure is CpuMeasure.LOAD_AVERAGE
    load = node.load_average if average else node.usage.cpu
    if node.capacity is None or node.usage.memory is None or load is None:
        return None
    return Host(
        memory=node.capacity.memory,
        used=node.usage.memory,
        threads=node.capacity.cpu,
        load=load,
    )


def _groups(
    snapshot: Snapshot, hosts: Mapping[NodeId, Host]
) -> tuple[tuple[NodeId, ...], ...]:
    """Return two or more hosts of one architecture together, in order of name.

    Those whose architecture is not known are compared with each other.
    """
    groups: dict[str, list[NodeId]] = {}
    for name in sorted(hosts):
        groups.setdefault(snapshot.nodes[name].architecture or "", []).append(name)
    return tuple(tuple(group) for _, group in sorted(groups.items()) if len(group) > 1)
