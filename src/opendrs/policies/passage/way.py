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
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random

from opendrs.model import GIB, Action, Limits, Plan, Snapshot, first_few
from opendrs.policies.passage.asides import Asides
from opendrs.policies.passage.journey import Detours, Journey
from opendrs.policies.passage.rooms import Rooms
from opendrs.policies.passage.scene import Leg, Scene
from opendrs.policies.passage.standing import Standing
from opendrs.policies.passage.waits import interleaved
from opendrs.rules import CompiledRules

ANY_DETOUR = Detours()
MOST_DRAWN = 20  # orders that are drawn where the others give something up
MOST_LEGS = 5000  # in all of them; more take too long


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
    def actions(self) -> tuple[Action, ...]:
        """Return what is done, in order."""
        return tuple(step.action for step in self.plan.steps)

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
        journeys: The moves, in any order; no guest is in two of them. Of those for
            which there is no room or that must be apart once all are made, some are
            given up.
        snapshot: The cluster.
        rules: Its rules.
        limits: What the operator allows.
        detours: What may be transferred besides, for detours.
    """
    scene = Scene(snapshot, rules, limits)
    legs = [Leg(each, scene) for each in sorted(journeys, key=lambda each: each.name)]
    known = [leg for leg in legs if max(leg.need) < math.inf]
    unknown = [leg for leg in legs if max(leg.need) == math.inf]
    rooms = Rooms(scene)
    walks = []
    for order in _orders(known):
        walks.append(_Walk(Standing(scene, deepcopy(rooms), order), detours))
        if not walks[-1].given_up:
            break
    best = min(walks, key=_Walk.cost)
    return Passage(
        plan=interleaved(best.made, rooms),
        made=tuple(leg.journey for leg in best.made),
        detours=tuple(leg.journey for leg in best.made if leg.aside),
        given_up=tuple(leg.journey for leg in (*unknown, *best.given_up)),
    )


def _orders(legs: Sequence[Leg]) -> Iterator[Sequence[Leg]]:
    """Yield orders in which to try: the first finds a way for all in most cases.

    Of the others, now one and now another is best. The fewer there are to order, the
    more orders are tried.
    """
    yield sorted(legs, key=lambda leg: (leg.need[0], leg.name))
    yield sorted(legs, key=lambda leg: (-leg.need[0], leg.name))
    yield sorted(legs, key=lambda leg: (-leg.journey.value, leg.name))
    for seed in range(min(MOST_DRAWN, MOST_LEGS // max(1, len(legs)))):
        random = Random(seed)  # noqa: S311 - an order, not a secret
        yield random.sample(legs, len(legs))


class _Walk:
    """One way through, all steps one after another.

    Attributes:
        made: What was made, in this order.
        given_up: What was not.
    """

    def __init__(self, standing: Standing, detours: Detours) -> None:
        self.made = standing.made
        self.given_up: list[Leg] = []
        legs = standing.open.values()
        cheapest = iter(sorted(legs, key=lambda leg: (leg.journey.value, leg.name)))
        asides = Asides(standing, detours)
        standing.go_on({leg.target for leg in legs})
        while standing.open:
            if not asides.step_aside():
                name = next(leg.name for leg in cheapest if leg.name in standing.open)
                self.given_up.append(standing.open[name])
                standing.drop(standing.open[name])

    def cost(self) -> tuple[float, int]:
        """Return what is lost, and the bytes that go astray."""
        return (
            math.fsum(leg.journey.value for leg in self.given_up),
            sum(leg.journey.memory for leg in self.made if leg.aside),
        )
