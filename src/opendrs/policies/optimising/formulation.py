"""The problem that a search is given, from a cluster as it sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from opendrs.model import Affinity, AntiAffinity, Guest, GuestId
from opendrs.policies.optimising.classes import CLOSED, Classes
from opendrs.policies.optimising.groups import Floats, Groups, Lists, Mask
from opendrs.policies.optimising.movers import CPU, RESOURCES
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.scene import Scene, quotient
from opendrs.policies.optimising.worth import Worth


def problem_of(scene: Scene, worth: Worth) -> Problem:
    """Return what a search is given: *scene*, and what things are worth; no budget."""
    classes = _classes(scene)
    class_of = [
        classes.of(each.guests) if each.free and known else CLOSED
        for each, known in zip(scene.parties, scene.movers.known.tolist(), strict=True)
    ]
    over = quotient(np.ones(RESOURCES), scene.even * scene.capacity.mean(axis=0))
    weights = np.zeros(RESOURCES)
    weights[CPU], weights[scene.memory] = worth.cpu, worth.memory
    safety, excess = _contention(scene, worth, over)
    return Problem(
        capacity=scene.capacity,
        demand=scene.movers.demand,
        origin=scene.origin,
        class_of=np.array(class_of, np.int64),
        allowed=classes.allowed,
        base=scene.base,
        groups=_groups(scene, worth),
        overload_weight=np.array([0.0, worth.broken, worth.broken]) * over,
        safety=safety,
        excess_weight=excess,
        even_target=scene.even,
        even_weight=quotient(weights, np.square(scene.even)),
        use_cost=np.full(len(scene.nodes), worth.used),
        place_cost=classes.place_cost(worth.broken, worth.soft),
        move_cost=worth.gib * scene.movers.effort,
    )


def _contention(scene: Scene, worth: Worth, over: Floats) -> tuple[Floats, Floats]:
    """Return the load up to which each node is calm, and what more of it costs."""
    safety = np.full_like(scene.capacity, np.inf)
    safety[:, CPU] = [worth.calm.cpu[name] for name in scene.nodes]
    safety[:, scene.memory] = [
        worth.calm.memory.get(name, np.inf) for name in scene.nodes
    ]
    excess = np.zeros_like(scene.capacity)
    measured = np.array([CPU, scene.memory])
    excess[:, measured] = worth.contention * over[measured]
    return safety, excess


def _classes(scene: Scene) -> Classes:
    rooms = [scene.room(name) for name in scene.nodes]
    blind: Mask = np.array(
        [None in (room.used, room.promised) for room in rooms], np.bool_
    )
    staying: Mapping[GuestId, Guest] = {
        name: guest
        for name, guest in scene.snapshot.guests.items()
        if guest.present and name not in scene.unit_of
    }
    return Classes(scene.snapshot, scene.rules, scene.nodes, blind, staying)


def _groups(scene: Scene, worth: Worth) -> Groups:
    found = [row for row in _rows(scene, worth) if len(row[0]) > 1]
    count = len(found)
    return Groups(
        members=Lists.of([row for row, _, _ in found]),
        strict=np.array([strict for _, strict, _ in found], np.bool_),
        apart_weight=np.array([weight for _, _, weight in found], float),
        spread=np.zeros(count, np.int64),
        needs=Lists.of([[]] * count),
    )


def _rows(scene: Scene, worth: Worth) -> Iterator[tuple[list[int], bool, float]]:
    """Yield the units of each rule about neighbours: strict or not, its weight.

    To stand apart is worth less than nothing to guests that prefer to share
    a node.
    """
    for rule in scene.snapshot.rules:
        if isinstance(rule, AntiAffinity):
            row = _named(scene, rule.guests)
            yield row, rule.strict, worth.broken if rule.strict else worth.soft
        elif isinstance(rule, Affinity) and not rule.strict:
            yield _named(scene, rule.guests), False, -worth.soft


def _named(scene: Scene, guests: frozenset[GuestId]) -> list[int]:
    return sorted({scene.unit_of[name] for name in guests if name in scene.unit_of})
