"""Placement of guests of failed nodes on the nodes that remain, for the guard.

Memory, committed memory and CPU, hardware, storages and strict rules decide. The guests
are placed by worst fit, by best fit, and by a bounded search with backtracking.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from opendrs.model import (
    Affinity,
    AntiAffinity,
    DomainAffinity,
    Guest,
    GuestId,
    Limits,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
    NodeId,
    Snapshot,
    missing_storages,
    needed_storages,
)
from opendrs.rules import restart_blocker, without_migration_rules

MAX_STEPS = 2000  # placements that the search for one set tries
MAX_SEARCHED = 200  # units of a set that is searched; one level of recursion each
MAX_DOMAIN_CHOICES = 16  # choices of domains that are tried for one set
ROUNDING = 0.01  # cores

Names = tuple[NodeId, ...]
Choice = Mapping[int, str]  # domain of the guests of an affinity, by index of the rule


@dataclass(frozen=True, slots=True)
class _Unit:
    """Guests on one node that restart on one node.

    Attributes:
        guests: The guests.
        needs: Bytes of measured and of committed memory, and cores; infinity if
            unknown.
        allowed: Nodes that hardware and node affinities allow.
    """

    guests: tuple[Guest, ...]
    needs: tuple[float, float, float]
    allowed: frozenset[NodeId]


class Survivors:
    """Nodes that remain after failures, and the guests that restart on them.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self.snapshot = snapshot = without_migration_rules(snapshot)
        strict = [rule for rule in snapshot.rules if getattr(rule, "strict", False)]
        self._affinities = [x for x in strict if isinstance(x, NodeAffinity)]
        self._affinities = [x for x in self._affinities if not x.domain]
        self.within = [x for x in strict if isinstance(x, DomainAffinity)]
        self.spread = [x for x in strict if isinstance(x, AntiAffinity)]
        self.rules_of = _indices(self.spread)
        self.within_of = _indices(self.within)
        self._friends = _friends([x for x in strict if isinstance(x, Affinity)])
        self._members: defaultdict[GuestId, list[GuestId]] = defaultdict(list)
        for name, leader in self._friends.items():
            self._members[leader].append(name)
        self._suited: dict[object, frozenset[NodeId]] = {}  # by hardware
        self._allowed: dict[object, frozenset[NodeId]] = {}  # and by rules
        self._node_rules = _indices(self._affinities)
        guests_on: defaultdict[NodeId, list[Guest]] = defaultdict(list)
        self.node_of: dict[GuestId, NodeId] = {}
        for name, guest in sorted(snapshot.guests.items()):
            if guest.is_active:
                guests_on[guest.node].append(guest)
                self.node_of[name] = guest.node
        self.opposite_of = self._opposite_sides(strict)
        self.free = {
            name: free
            for name, node in snapshot.nodes.items()
            if (free := _free(node, guests_on[name], limits)) is not None
        }
        self.by_free = sorted((free[0] + free[1], x) for x, free in self.free.items())
        self._limits_cpu = any(math.isfinite(each[2]) for each in self.free.values())
        self._units = {
            name: [*self._units_on(guests_on[name])] for name in snapshot.nodes
        }

    def _opposite_sides(
        self, rules: Sequence[object]
    ) -> Mapping[GuestId, list[tuple[frozenset[GuestId], frozenset[NodeId]]]]:
        """Return the guests that each must not share a node with, and their nodes."""
        found = defaultdict(list)
        for rule in rules:
            if isinstance(rule, MutualAntiAffinity):
                sides = rule.guests, rule.other_guests
                for own, other in (sides, sides[::-1]):
                    there = {self.node_of[x] for x in other if x in self.node_of}
                    for name in own:
                        found[name].append((other, frozenset(there)))
        return found

    def without_node(self, failed: Names) -> tuple[GuestId, ...]:
        """Return the guests of *failed* for which no node is found."""
        units = [unit for name in failed for unit in self._units[name]]
        units.sort(key=lambda x: (len(x.allowed), -x.needs[1], x.guests[0].id))
        fewest: list[GuestId] | None = None
        for choice in self._choices(failed, units):
            for lost in self._attempts(failed, units, choice):
                names = sorted(guest.id for unit in lost for guest in unit.guests)
                if not names:
                    return ()
                if fewest is None or len(names) < len(fewest):
                    fewest = names
        if fewest is None:
            fewest = sorted(guest.id for unit in units for guest in unit.guests)
        return tuple(fewest)

    def _attempts(
        self, failed: Names, units: Sequence[_Unit], choice: Choice
    ) -> Iterator[list[_Unit]]:
        """Yield the units without a node, by one method after the other."""
        for roomiest in (True, False):  # mostly the node with most room fits
            attempt = _Attempt(self, failed, choice)
            yield [x for x in units if not attempt.place(x, roomiest=roomiest)]
        is_searched = len(units) <= MAX_SEARCHED and all(x.allowed for x in units)
        if is_searched and _Attempt(self, failed, choice).search(units, 0):
            yield []

    def _choices(self, failed: Names, units: Sequence[_Unit]) -> Iterator[Choice]:
        """Yield domains for the affinities within one whose guests have all failed."""
        concerned = sorted(
            {
                index
                for unit in units
                for guest in unit.guests
                for index in self.within_of.get(guest.id, ())
            }
        )
        options: list[list[str]] = []
        nodes = self.snapshot.nodes
        for index in concerned:
            rule = self.within[index]
            places = {self.node_of[x] for x in rule.guests if x in self.node_of}
            stay = {nodes[x].domain(rule.domain) for x in places.difference(failed)}
            every = {nodes[x].domain(rule.domain) for x in self.free}
            domains = (stay - {None}) or (every - {None})
            options.append(sorted(each for each in domains if each is not None))
        chosen = islice(product(*options), MAX_DOMAIN_CHOICES)
        yield from (dict(zip(concerned, each, strict=True)) for each in chosen)

    def _units_on(self, guests: Sequence[Guest]) -> Iterator[_Unit]:
        """Yield the units of one node that can start on another one."""
        found: defaultdict[GuestId, list[Guest]] = defaultdict(list)
        for guest in guests:
            found[self._friends.get(guest.id, guest.id)].append(guest)
        for unit in found.values():
            source = self.snapshot.nodes[unit[0].node]
            if not any(restart_blocker(guest, source) for guest in unit):
                needs = _needs(unit, limits_cpu=self._limits_cpu)
                yield _Unit(tuple(unit), needs, self._allowed_nodes(unit, source))

    def _allowed_nodes(self, unit: Sequence[Guest], source: Node) -> frozenset[NodeId]:
        """Return the nodes that hardware and node affinities allow for *unit*."""
        members = frozenset(
            name
            for guest in unit
            for name in (
                guest.id,
                *self._members.get(self._friends.get(guest.id, guest.id), ()),
            )
            if name in self._node_rules
        )
        rules = sorted({x for name in members for x in self._node_rules[name]})
        models = frozenset(guest.cpu_model for guest in unit) - {None}
        storages = frozenset[str]().union(
            *(needed_storages(guest.disks, source.storages) for guest in unit)
        )
        cores = max(0.0 if guest.limit is None else guest.limit.cpu for guest in unit)
        hardware = (models, storages, cores, source.architecture)
        if hardware not in self._suited:
            self._suited[hardware] = frozenset(
                name
                for name in self.free
                if _suits(self.snapshot.nodes[name], source, models, storages, cores)
            )
        key = (tuple(rules), hardware)
        if key not in self._allowed:
            self._allowed[key] = self._suited[hardware].intersection(
                *(self._affinities[rule].nodes for rule in rules)
            )
        return self._allowed[key]


class _Attempt:
    """Placement of the guests of failed nodes, one after the other."""

    def __init__(self, survivors: Survivors, failed: Names, choice: Choice) -> None:
        self._survivors = survivors
        self._failed = frozenset(failed)
        self._choice = choice
        self._left_by_node: dict[NodeId, tuple[float, float, float]] = {}
        self._placed: dict[GuestId, NodeId] = {}
        self._order = [*survivors.by_free]
        for name in self._failed & survivors.free.keys():
            free = survivors.free[name]
            self._order.pop(bisect_left(self._order, (free[0] + free[1], name)))
        self._steps = MAX_STEPS

    def place(self, unit: _Unit, *, roomiest: bool) -> bool:
        """Place *unit* on the node with the most or least room; return if it fits."""
        start = bisect_left(self._order, (sum(unit.needs[:2]), ""))
        order = range(start, len(self._order))
        blocked = self._blocked(unit)
        for index in reversed(order) if roomiest else order:
            name = self._order[index][1]
            if name not in blocked and self._fits(unit, name):
                self._put(unit, name, 1)
                return True
        return False

    def search(self, units: Sequence[_Unit], depth: int) -> bool:
        """Place *units* from *depth* on, with backtracking; return if all fit."""
        if depth == len(units):
            return True
        unit = units[depth]
        blocked = self._blocked(unit)
        for _, name in [*self._order]:
            if name in blocked or not self._fits(unit, name):
                continue
            self._steps -= 1
            if self._steps < 0:
                return False
            self._put(unit, name, 1)
            if self.search(units, depth + 1):
                return True
            self._put(unit, name, -1)
        return False

    def _left_on(self, name: NodeId) -> tuple[float, float, float]:
        return self._left_by_node.get(name) or self._survivors.free[name]

    def _fits(self, unit: _Unit, name: NodeId) -> bool:
        free, needs = self._left_on(name), unit.needs
        return (
            name in unit.allowed
            and needs[0] <= free[0]
            and needs[1] <= free[1]
            and needs[2] <= free[2] + ROUNDING
        )

    def _put(self, unit: _Unit, name: NodeId, sign: int) -> None:
        """Place *unit* on *name* (1), or take it off again (-1)."""
        former, needs = self._left_on(name), unit.needs
        self._order.pop(bisect_left(self._order, (former[0] + former[1], name)))
        self._left_by_node[name] = free = (
            former[0] - sign * needs[0],
            former[1] - sign * needs[1],
            former[2] - sign * needs[2],
        )
        insort(self._order, (free[0] + free[1], name))
        for guest in unit.guests:
            if sign > 0:
                self._placed[guest.id] = name
            else:
                del self._placed[guest.id]

    def _blocked(self, unit: _Unit) -> set[NodeId]:
        """Return the nodes that rules about other guests forbid for *unit*."""
        found: set[NodeId] = set()
        survivors = self._survivors
        for guest in unit.guests:
            for index in survivors.rules_of.get(guest.id, ()):
                found |= self._full_nodes(survivors.spread[index], unit)
            for others, nodes_with in survivors.opposite_of.get(guest.id, ()):
                found |= nodes_with
                found.update(x for g, x in self._placed.items() if g in others)
            for index in survivors.within_of.get(guest.id, ()):
                rule, domain = survivors.within[index], self._choice.get(index)
                nodes = survivors.snapshot.nodes
                found |= {
                    name
                    for name in self._left
                    if nodes[name].domain(rule.domain) != domain
                }
        return found

    @property
    def _left(self) -> list[NodeId]:
        return [name for _, name in self._order]

    def _full_nodes(self, rule: AntiAffinity, unit: _Unit) -> set[NodeId]:
        """Return the nodes on which *unit* would be too many guests of *rule*."""
        survivors = self._survivors
        more = sum(guest.id in rule.guests for guest in unit.guests)
        count: Counter[str] = Counter()
        for name in rule.guests:
            node = self._placed.get(name) or survivors.node_of.get(name)
            if node is not None and (name in self._placed or node not in self._failed):
                count[self._domain(rule, node)] += 1
        full = {each for each, there in count.items() if there + more > rule.max_guests}
        if more > rule.max_guests:
            return {*self._left}
        if not rule.domain:
            return {NodeId(each) for each in full}
        return {name for name in self._left if self._domain(rule, name) in full}

    def _domain(self, rule: AntiAffinity, name: NodeId) -> str:
        if not rule.domain:
            return name
        return self._survivors.snapshot.nodes[name].domain(rule.domain) or ""


def _indices(
    rules: Sequence[NodeAffinity | AntiAffinity | DomainAffinity],
) -> dict[GuestId, list[int]]:
    """Return the indices of the rules of each guest."""
    found: defaultdict[GuestId, list[int]] = defaultdict(list)
    for index, rule in enumerate(rules):
        for name in rule.guests:
            found[name].append(index)
    return dict(found)


def _friends(rules: Sequence[Affinity]) -> dict[GuestId, GuestId]:
    """Return the first of the guests that must share a node with each guest."""
    first: dict[GuestId, GuestId] = {}
    for rule in rules:
        leaders = {first.get(name, name) for name in rule.guests}
        leader = min(leaders)
        merged = {name for name, other in first.items() if other in leaders}
        first.update(dict.fromkeys(merged | rule.guests, leader))
    return first


def _free(
    node: Node, guests: Sequence[Guest], limits: Limits
) -> tuple[float, float, float] | None:
    """Return the memory, committed memory and cores that *node* has left.

    None if the node may not receive guests, or if that is unknown.
    """
    usable = limits.usable_resources(node)
    needs = _needs(
        guests, limits_cpu=usable is None or usable.committed_cpu is not None
    )
    if not node.online or usable is None or node.usage.memory is None:
        return None
    if node.usage.cpu is None or math.isinf(needs[1]) or math.isinf(needs[2]):
        return None
    cores = math.inf if usable.committed_cpu is None else usable.committed_cpu
    return (
        usable.memory - node.usage.memory,
        usable.committed_memory - needs[1],
        cores - needs[2],
    )


def _needs(guests: Sequence[Guest], *, limits_cpu: bool) -> tuple[float, float, float]:
    """Return the memory, committed memory and cores that *guests* require."""
    measured = committed = cores = 0.0
    for guest in guests:
        limit = guest.limit
        use = math.inf if guest.usage.memory is None else guest.usage.memory
        measured += use
        committed += limit.memory if limit is not None and limit.memory > 0 else use
        if limits_cpu:
            own = math.inf if guest.usage.cpu is None else guest.usage.cpu
            cores += limit.cpu if limit is not None and limit.cpu > 0 else own
    return measured, committed, cores


def _suits(
    node: Node,
    source: Node,
    models: frozenset[str | None],
    storages: frozenset[str],
    cores: float,
) -> bool:
    """Return whether the hardware of *node* suits guests of *source*."""
    return (
        None in (node.architecture, source.architecture)
        or node.architecture == source.architecture
    ) and (
        models <= {node.cpu_model}
        and not missing_storages(storages, node.storages)
        and node.capacity is not None
        and cores <= node.capacity.cpu
    )
