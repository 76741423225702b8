"""Failures that the limits want tolerated, checked again before each action.

The guests of each set of nodes that may fail must find a node among the others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from opendrs.guard.survivors import Survivors
from opendrs.model import Limits, NodeId, Snapshot, format_list

MAX_RESTARTS = 100_000  # restarts for which every set of nodes is checked

Names = tuple[NodeId, ...]


def find_intolerated_failure(
    before: Snapshot, after: Snapshot, limits: Limits
) -> str | None:
    """Return the failure that is tolerated less after than before, or None.

    That is one after which guests newly have no node, or have none in a larger number
    if the guests without a node are more in all sets together.

    Args:
        before: The cluster, with all migrations in progress done.
        after: The same with the actions to start done.
        limits: Limits of the operator.
    """
    sets = _failure_sets(before, limits)
    found = Survivors(after, limits)
    now = {names: lost for names in sets if (lost := found.without_node(names))}
    if not now:
        return None
    former = Survivors(before, limits)
    then = {names: former.without_node(names) for names in now}
    worse = [names for names in now if not then[names]]
    if not worse:
        rest = sets.keys() - now.keys()
        total = sum(map(len, then.values()))
        total += sum(len(former.without_node(names)) for names in rest)
        if sum(map(len, now.values())) <= total:
            return None
        worse = [names for names in now if len(now[names]) > len(then[names])]
    without = format_list(now[worse[0]])
    return f"failure of {sets[worse[0]]} would not be tolerated: no node for {without}"


def _failure_sets(snapshot: Snapshot, limits: Limits) -> dict[Names, str]:
    """Return the sets of nodes that may fail, with a name of each."""
    nodes = sorted(each.id for each in snapshot.nodes.values() if each.reachable)
    found: dict[Names, str] = {}
    if limits.tolerated_domain is not None:
        members: defaultdict[tuple[str, str], list[NodeId]] = defaultdict(list)
        for name in nodes:
            domain = snapshot.nodes[name].domain(limits.tolerated_domain)
            members[("", name) if domain is None else ("domain", domain)].append(name)
        for (kind, domain), there in members.items():
            label = f"{limits.tolerated_domain} {domain}" if kind else domain
            found[tuple(there)] = label
    count = min(limits.tolerated_failures, len(nodes) - 1)
    if count > 1 or (count == 1 and not found):
        for names in _sets_of_nodes(snapshot, nodes, count):
            found.setdefault(names, format_list(names, separator=" and "))
    return found


def _sets_of_nodes(
    snapshot: Snapshot, nodes: Sequence[NodeId], count: int
) -> Iterator[Names]:
    """Yield all sets of *count* nodes; in a large cluster one for each node."""
    each_node_in = math.comb(len(nodes) - 1, count - 1)
    if count == 1 or each_node_in * len(snapshot.guests) <= MAX_RESTARTS:
        yield from combinations(nodes, count)
        return
    used: Counter[NodeId] = Counter()
    for guest in snapshot.guests.values():
        if guest.is_active:
            used[guest.node] += guest.usage.memory or 0
    fullest = sorted(nodes, key=lambda name: (-used[name], name))[:count]
    for name in nodes:
        others = [each for each in fullest if each != name][: count - 1]
        yield tuple(sorted([name, *others]))
