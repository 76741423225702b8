"""Why each guest goes, why there, and which better nodes were closed, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from opendrs.model import GIB, Guest, GuestId, NodeId, Snapshot, first_few
from opendrs.policies.closed import closed_nodes
from opendrs.policies.optimising.engine import loads
from opendrs.policies.optimising.groups import Floats, Indices
from opendrs.policies.optimising.movers import CPU
from opendrs.policies.optimising.parties import Party
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.valuation import node_cost
from opendrs.rules import Violation, violations

MOST_COMPARED = 200  # parties of which better nodes are looked for that are closed
MOST_NAMED = 2  # of these nodes, how many are named


class Explanations:
    """Why the parties of one plan travel.

    Args:
        scene: The cluster before.
        problem: What was solved.
        assignment: Where each party is in the end.
        waits: For what each guest waits now, and how long, in words.
    """

    def __init__(
        self,
        scene: Scene,
        problem: Problem,
        assignment: Indices,
        waits: Mapping[GuestId, str],
    ) -> None:
        self._scene = scene
        self._waits = waits
        self._problem = problem
        self._assignment = assignment
        self._place = {name: place for place, name in enumerate(scene.nodes)}
        self._before = scene.taken_in(scene.snapshot) / scene.size
        self._load = loads(problem, assignment)
        self._after = self._load / scene.size
        self._mended = dict(_broken_by_guest(scene.snapshot))

    def of(self, unit: int, *, compared: bool) -> str:
        """Return why *unit* goes where it goes.

        Args:
            unit: The party.
            compared: Whether to look for better nodes that are closed.
        """
        party = self._scene.parties[unit]
        target = int(self._assignment[unit])
        there = self._scene.nodes[target]
        goers = [guest for guest in party.guests if guest.node != there]
        sentences = [self._move(goers, target), *self._reasons(party, goers)]
        if compared:
            sentences += closed_nodes(self._closed(unit, party, target))
        return "; ".join(sentences)

    def _move(self, goers: Sequence[Guest], target: int) -> str:
        taken = self._scene.taken_by(goers)
        cores, memory = taken[CPU], taken[self._scene.memory] / GIB
        verb = "takes"
        if len(goers) > 1:
            verb = f"{_named(goers)} go together and take"
        sources = sorted({self._place[guest.node] for guest in goers})
        here = first_few([*map(self._loads, sources)], joint=" and ")
        return (
            f"{verb} {cores:.2f} cores and {memory:.2f} GiB from {here} "
            f"to {self._loads(target)}"
        )

    def _loads(self, node: int) -> str:
        before, after = self._told(self._before[node]), self._told(self._after[node])
        return f"{self._scene.nodes[node]} ({before} → {after})"

    def _told(self, load: Floats) -> str:
        # A guest may seem to use more than its node: they are sampled at odds.
        cpu, memory = max(0.0, load[CPU]), max(0.0, load[self._scene.memory])
        return f"{cpu:.0%} cpu, {memory:.0%} memory"

    def _reasons(self, party: Party, goers: Sequence[Guest]) -> Iterator[str]:
        names = [guest.id for guest in party.guests]
        for guest in goers:
            if guest.id in self._waits:
                who = "it" if len(goers) == 1 else guest.id
                yield f"{who} waits {self._waits[guest.id]}"
        if len(names) > 1:
            yield f"{_named(party.guests)} must be together"
        mended = [self._mended[name] for name in names if name in self._mended]
        if mended:
            yield f"mends a rule that is broken: {mended[0].rule}"

    def _closed(
        self, unit: int, party: Party, target: int
    ) -> Iterator[tuple[str, str]]:
        """Yield the nodes that would be better, and what closes them."""
        every = np.arange(self._problem.nodes)
        load = self._load.copy()
        load[target] -= self._problem.demand[unit]
        more = node_cost(self._problem, load + self._problem.demand[unit], every)
        more -= node_cost(self._problem, load, every)
        may = self._problem.allowed[self._problem.class_of[unit]]
        better = np.flatnonzero(~may & (more < more[target] * (1 - 1e-9)))
        named = 0
        for node in better[np.argsort(more[better], kind="stable")]:
            name = self._scene.nodes[node]
            why = self._why(party, name)
            if why is not None and named < MOST_NAMED:
                named += 1
                yield name, why

    def _why(self, party: Party, name: NodeId) -> str | None:
        if name == party.guests[0].node:
            return None
        node = self._scene.snapshot.nodes[name]
        return self._scene.targets.unsuitable(party.guests, node)


def _named(guests: Sequence[Guest]) -> str:
    return first_few([guest.id for guest in guests], joint=" and ")


def _broken_by_guest(snapshot: Snapshot) -> Iterator[tuple[GuestId, Violation]]:
    for found in violations(snapshot):
        if found.strict:
            for guest in found.guests:
                yield guest, found
