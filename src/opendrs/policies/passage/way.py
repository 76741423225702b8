"""From moves in any order to a plan of which every interleaving is safe.

A move can be made once there is room for it on its target, and nobody is there from
whom it must be apart. Moves that wait for one another in a circle are freed by a
detour: a guest waits on a third node until its place is free. Where there is no such
node, the least valuable of them is given up.

Source:
    The circles: Hermenier et al., Entropy: a consolidation manager for clusters (2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opendrs.model import GIB, Limits, Plan, Snapshot
from opendrs.policies.passage.asides import Asides
from opendrs.policies.passage.journey import Detours, Journey
from opendrs.policies.passage.losses import Losses
from opendrs.policies.passage.scene import Leg, Scene
from opendrs.policies.passage.standing import Standing
from opendrs.policies.passage.waits import interleaved
from opendrs.policies.units import first_few
from opendrs.rules import CompiledRules

ANY_DETOUR = Detours()


@dataclass(frozen=True, slots=True)
class Passage:
    """A way through.

    Attributes:
        plan: The steps, and what each must wait for.
        made: The journeys in an order in which they can be made one by one. Who makes
            a detour is in it twice.
        detours: Those of them that lead to a node where guests only wait.
        given_up: Those that could not be made. Their guests stay where they are, or
            on the node where they wait.
    """

    plan: Plan
    made: tuple[Journey, ...]
    detours: tuple[Journey, ...]
    given_up: tuple[Journey, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what goes astray and what was given up, in words."""
        return (*self._astray(), *self._lost())

    def _astray(self) -> Iterable[str]:
        if self.detours:
            names = [guest.id for each in self.detours for guest in each.guests]
            size = sum(each.memory for each in self.detours) / GIB
            yield (
                f"by way of a third node, because they wait for one another: "
                f"{first_few(names)} ({size:.1f} GiB besides)"
            )

    def _lost(self) -> Iterable[str]:
        waiting = {guest.id for each in self.detours for guest in each.guests}
        names = [guest.id for each in self.given_up for guest in each.guests]
        if stay := [name for name in names if name not in waiting]:
            yield (
                f"given up, because there is no safe way: {first_few(stay)} "
                "stay where they are"
            )
        if astray := [name for name in names if name in waiting]:
            yield (
                f"given up halfway, because there is no safe way on: "
                f"{first_few(astray)} stay on the node where they wait"
            )


def passage(
    journeys: Sequence[Journey],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    detours: Detours = ANY_DETOUR,
) -> Passage:
    """Return a way to make *journeys* that is safe in every interleaving.

    Args:
        journeys: The moves, in any order; no guest is in two of them. What would not
            be safe once all are made is given up.
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        detours: What may be transferred besides, for detours.
    """
    scene = Scene(snapshot, rules, limits)
    legs = [Leg(each, scene) for each in sorted(journeys, key=lambda each: each.name)]
    known = [leg for leg in legs if max(leg.need) < math.inf]
    standing = Standing(scene, known)
    losses = Losses(standing)
    asides = Asides(standing, detours)
    losses.give_up_the_hopeless({leg.target for leg in known})
    standing.go_on({leg.target for leg in known})
    while standing.open:
        if not asides.step_aside():
            losses.give_up_the_least_valuable()
    lost = [leg for leg in legs if max(leg.need) == math.inf] + losses.given_up
    made = standing.made
    return Passage(
        plan=interleaved(made, scene),
        made=tuple(leg.journey for leg in made),
        detours=tuple(leg.journey for leg in made if leg.aside),
        given_up=tuple(leg.journey for leg in lost),
    )
