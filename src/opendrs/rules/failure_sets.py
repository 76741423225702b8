"""Sets of nodes that may fail at the same time: any k nodes, or any one domain."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from opendrs.model import Limits, NodeId, Snapshot, format_list

TOLERANCE_ORIGIN = "tolerated failures"  # of the rules that keep them tolerated
MAX_RESTARTS = 100_000  # restarts for which every set of nodes is evaluated


@dataclass(frozen=True, slots=True)
class FailureSet:
    """Nodes that may fail at the same time.

    Attributes:
        name: Name of the set for the operator.
        nodes: The nodes, in order of name.
    """

    name: str
    nodes: tuple[NodeId, ...]

    @classmethod
    def of(cls, names: tuple[NodeId, ...]) -> FailureSet:
        """Return the set of the nodes *names*, named after them."""
        return cls(format_list(names, separator=" and "), names)

    def __str__(self) -> str:
        return self.name


def describe_not_tolerated(failures: Iterable[FailureSet]) -> str:
    """Return that *failures* would not be tolerated, as a sentence."""
    names = format_list([str(each) for each in failures]) or "some nodes"
    return f"the failure of {names} would not be tolerated"


def failure_sets(snapshot: Snapshot, limits: Limits) -> tuple[FailureSet, ...]:
    """Return the sets of nodes whose failure *limits* wants to be tolerated.

    Nodes that do not respond or are off have failed already. A node without a label of
    the domain is a domain of its own. A single node needs no set of its own where the
    domains have sets: what tolerates the failure of its domain tolerates that of the
    node. Of several nodes, every set is evaluated while that takes at most
    `MAX_RESTARTS` restarts. In a larger cluster it is each node together with those
    whose guests use the most memory.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
    """
    nodes = sorted(name for name, node in snapshot.nodes.items() if node.reachable)
    found = [*domain_failures(snapshot, limits)]
    # One node always remains.
    count = min(limits.tolerated_failures, len(nodes) - 1)
    if count > 1 or (count == 1 and not found):
        found += _sets_of_nodes(snapshot, nodes, count)
    return tuple({each.nodes: each for each in found}.values())


def checks_every_set(snapshot: Snapshot, limits: Limits) -> bool:
    """Return whether `failure_sets` contains every set of so many nodes."""
    count = sum(node.reachable for node in snapshot.nodes.values())
    return _is_small(snapshot, count, min(limits.tolerated_failures, count - 1))


def _is_small(snapshot: Snapshot, nodes: int, failures: int) -> bool:
    if failures < 2:
        return True
    sets_of_node = math.comb(nodes - 1, failures - 1)
    return sets_of_node * len(snapshot.guests) <= MAX_RESTARTS


def domain_failures(snapshot: Snapshot, limits: Limits) -> Iterator[FailureSet]:
    """Yield the sets of `failure_sets` that are domains; nothing without a key."""
    key = limits.tolerated_domain
    if key is None:
        return
    nodes_in: defaultdict[str, list[NodeId]] = defaultdict(list)
    for name, node in sorted(snapshot.nodes.items()):
        if not node.reachable:
            continue
        domain = node.domain(key)
        if domain is None:
            yield FailureSet.of((name,))
        else:
            nodes_in[domain].append(name)
    for domain, there in sorted(nodes_in.items()):
        yield FailureSet(f"{key} {domain}", tuple(there))


def _sets_of_nodes(
    snapshot: Snapshot, nodes: Sequence[NodeId], count: int
) -> Iterator[FailureSet]:
    """Yield every set of *count* nodes, or in a large cluster a set for each node."""
    if _is_small(snapshot, len(nodes), count):
        for names in combinations(nodes, count):
            yield FailureSet.of(names)
        return
    used = dict.fromkeys(nodes, 0)
    for guest in snapshot.guests.values():
        if guest.is_active and guest.node in used:
            used[guest.node] += guest.usage.memory or 0
    fullest = sorted(nodes, key=lambda name: (-used[name], name))
    for name in nodes:
        others = [each for each in fullest[:count] if each != name]
        yield FailureSet.of(tuple(sorted((name, *others[: count - 1]))))
