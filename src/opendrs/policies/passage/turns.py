"""From moves in an order of their own to a plan of which every interleaving is safe.

For policies that decide one move after another, each as if all before it were done.
The moves stay as they are, and in that order: nobody makes a detour.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy

from opendrs.model import Limits, NodeId, Snapshot
from opendrs.policies.passage.journey import Journey, Switch
from opendrs.policies.passage.rooms import Rooms
from opendrs.policies.passage.scene import Leg, Scene
from opendrs.policies.passage.standing import Standing
from opendrs.policies.passage.waits import interleaved
from opendrs.policies.passage.way import Passage
from opendrs.rules import CompiledRules


def in_turn(  # noqa: PLR0913 - journeys, the cluster they are for, and its nodes
    journeys: Sequence[Journey],
    snapshot: Snapshot,
    rules: CompiledRules,
    limits: Limits,
    *,
    wake: Iterable[Switch] = (),
    sleep: Iterable[Switch] = (),
) -> Passage:
    """Return a way to make *journeys* one after another, as safe in any other order.

    Args:
        journeys: The moves in their order; no guest is in two of them. One for which
            there is no room on its target once all before it are made, or that finds
            somebody there from whom it must be apart, is given up.
        snapshot: The cluster, in which nodes to wake stand as if they were.
        rules: Its rules.
        limits: What the operator allows.
        wake: Nodes that are woken first, if anybody comes there.
        sleep: Nodes that are put to sleep once all have left, unless somebody was to
            leave and stays. Nobody comes there, and who is not on a journey does not
            run.
    """
    scene = Scene(snapshot, rules, limits)
    legs = [Leg(each, scene) for each in journeys]
    rooms = Rooms(scene)
    standing = Standing(scene, deepcopy(rooms), legs)
    given_up = tuple(leg.journey for leg in legs if not standing.make(leg))
    made = tuple(leg.journey for leg in standing.made)
    coming = {each.target for each in made}
    staying: set[NodeId] = {guest.node for each in given_up for guest in each.guests}
    plan = interleaved(
        standing.made,
        rooms,
        wake=[each for each in wake if each.node in coming],
        sleep=[each for each in sleep if each.node not in staying],
    )
    return Passage(plan=plan, made=made, detours=(), given_up=given_up)
