"""Cluster while guests move, of which only the changed nodes are computed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from opendrs.metrics import LoadModel, NodeLoad, node_loads
from opendrs.model import FurtherLoad, GuestId, Limits, Migration, NodeId, Snapshot
from opendrs.rules import CompiledRules, FeasibilityChecker


class ClusterAfterMoves:
    """Cluster after migrations, with the loads and feasible nodes of each state.

    A migration changes two nodes. They and their guests are a snapshot of their own, so
    that a change costs the same in a cluster of any size.

    Attributes:
        feasibility: Feasible nodes of guests after the migrations.

    Args:
        snapshot: The cluster before the migrations.
        rules: Its compiled rules.
        limits: Limits of the operator.
        load_model: Load that counts.
        further: Further loads that count.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        limits: Limits,
        load_model: LoadModel,
        further: Sequence[FurtherLoad] = (),
    ) -> None:
        self.feasibility = FeasibilityChecker(snapshot, rules, limits)
        self._before = snapshot
        self._load_model = load_model
        self._further = further
        self._nodes = dict(snapshot.nodes)
        self._guests = dict(snapshot.guests)
        self._loads = node_loads(snapshot, load_model, further)
        self._place = {name: place for place, name in enumerate(snapshot.guests)}
        self._guests_on: defaultdict[NodeId, set[GuestId]] = defaultdict(set)
        for name, guest in snapshot.guests.items():
            for node in guest.occupied_nodes:
                self._guests_on[node].add(name)

    @property
    def snapshot(self) -> Snapshot:
        """Return the cluster after the migrations."""
        return replace(self._before, nodes={**self._nodes}, guests={**self._guests})

    @property
    def loads(self) -> dict[NodeId, NodeLoad]:
        """Return the load of each node whose load is known, in order of name."""
        return {**self._loads}

    def migrate(self, migrations: Sequence[Migration]) -> None:
        """Apply *migrations*."""
        changed = {node for each in migrations for node in (each.source, each.target)}
        after = self._part(changed).apply(*migrations)
        for each in migrations:
            self._guests[each.guest] = after.guests[each.guest]
            self._guests_on[each.source].discard(each.guest)
            self._guests_on[each.target].add(each.guest)
        loads = node_loads(after, self._load_model, self._further)
        for node in changed:
            self._nodes[node] = after.nodes[node]
            if node in self._loads:
                self._loads[node] = loads[node]
        self.feasibility.update(after, changed)

    def _part(self, nodes: set[NodeId]) -> Snapshot:
        """Return *nodes*, their guests, and the nodes that these migrate from or to.

        The guests have the order of the whole, which determines the rounding of sums.
        """
        names = {name for node in nodes for name in self._guests_on[node]}
        guests = {
            name: self._guests[name]
            for name in sorted(names, key=self._place.__getitem__)
        }
        occupied = {node for each in guests.values() for node in each.occupied_nodes}
        return Snapshot(
            self._before.taken_at,
            {node: self._nodes[node] for node in nodes | occupied},
            guests,
        )
