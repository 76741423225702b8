"""Beam search: its paths are safe and within the limits, and lead to the best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from opendrs.optimizer import (
    BeamLimits,
    BeamPlacements,
    Floats,
    Indices,
    IterationLimit,
    PlacementGraph,
    ReachablePlacements,
)

UNITS, NODES = 5, 3


def drawn(seed: int) -> PlacementGraph:
    """Return units on nodes that are so full that few moves are safe at first."""
    draw = np.random.default_rng(seed)
    required = draw.integers(2, 9, (UNITS, 1)).astype(float)
    origin = draw.integers(0, NODES, UNITS)
    used = np.zeros((NODES, 1))
    np.add.at(used, origin, required)
    usable = used + draw.integers(0, 6, (NODES, 1))
    return PlacementGraph(
        origin=origin,
        required=required,
        available=usable - used,
        usable=usable,
        possible=draw.random((UNITS, NODES)) < 0.9,
        violated=np.zeros((UNITS, NODES), np.int64),
        avoided=np.zeros((UNITS, NODES), np.bool_),
        apart=((0, 1),),
        together=(),
        transfer=required[:, 0],
        migrations=np.ones(UNITS, np.int64),
        returns=np.ones(UNITS, np.bool_),
    )


def spread(graph: PlacementGraph, assignments: Indices) -> tuple[Floats, Floats]:
    """Return equal ranks, and the sum of squares of the use of the nodes."""
    values = np.zeros(assignments.shape[1])
    for node in range(NODES):
        values += (graph.required[:, 0] @ (assignments == node)) ** 2
    return np.zeros_like(values), values


def search(graph: PlacementGraph, limits: BeamLimits) -> BeamPlacements:
    return BeamPlacements(graph, lambda each: spread(graph, each), limits)


@pytest.mark.parametrize("seed", range(20))
def test_wide_beam_finds_the_best_placement(seed: int) -> None:
    graph = drawn(seed)
    reached = ReachablePlacements(graph, 4)

    beam = search(graph, BeamLimits(width=1000, moves=4))

    values = spread(graph, graph.assignments)[1]
    best = values[np.isfinite(reached.transfer)].min()
    assert spread(graph, beam.assignments)[1].min() == best


@pytest.mark.parametrize("seed", range(20))
def test_each_step_of_a_path_is_safe_and_within_the_limits(seed: int) -> None:
    graph = drawn(seed)
    limits = BeamLimits(width=20, moves=6, migrations=4, transfer=15)

    beam = search(graph, limits)

    assert beam.assignments[:, 0].tolist() == graph.origin.tolist()
    assert beam.path(0) == ()
    for placement in range(beam.assignments.shape[1]):
        path = beam.path(placement)
        now = graph.origin.copy()
        for move in path:
            here = replace(graph, subset=now[:, None])
            assert here.is_safe(move.unit, move.target).all()
            now[move.unit] = move.target
        assert now.tolist() == beam.assignments[:, placement].tolist()
        transfer = sum(graph.transfer[move.unit] for move in path)
        assert beam.transfer[placement] == transfer <= limits.transfer
        assert len(path) <= limits.migrations


def test_no_placement_is_kept_twice() -> None:
    beam = search(drawn(1), BeamLimits(width=50, moves=10))

    assert len(np.unique(beam.assignments, axis=1).T) == beam.assignments.shape[1]


def test_stopping_criterion_ends_the_search() -> None:
    graph, limits = drawn(0), BeamLimits(width=20, moves=6)

    def longest(stop: IterationLimit | None) -> int:
        beam = BeamPlacements(graph, lambda each: spread(graph, each), limits, stop)
        return max(len(beam.path(i)) for i in range(beam.assignments.shape[1]))

    assert longest(None) > 2
    assert longest(IterationLimit(2, 2)) == 2
    assert longest(IterationLimit(0, 0)) == 0
