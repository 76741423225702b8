"""Convex hulls: the nearest point of a multiple, in the norm of each node."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opendrs.optimizer import Floats
from opendrs.optimizer.bounds.lagrangian.data import ConvexHulls, convex_hull

TRIANGLE = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
SEEDS = st.integers(0, 10_000)


def nearest(corners: Floats, point: tuple[float, float], times: int = 1) -> Floats:
    scale = np.ones((1, 2))
    place = np.array([point])
    near = ConvexHulls(corners, scale).nearest(
        np.zeros(1, np.int64), place, np.array([times])
    )
    return near.ravel()


def test_convex_hull_has_vertices_counterclockwise() -> None:
    points = np.array([[1.0, 1], [0, 0], [2, 0], [0.5, 0.5], [0, 2], [1, 0], [0, 0]])

    assert convex_hull(points).tolist() == TRIANGLE.tolist()


@pytest.mark.parametrize(
    ("point", "near"),
    [
        ((0.5, 0.5), (0.5, 0.5)),
        ((2.0, 2.0), (1.0, 1.0)),
        ((-1.0, 1.0), (0.0, 1.0)),
        ((5.0, -1.0), (2.0, 0.0)),
    ],
)
def test_nearest_projects_outside_points_to_the_edge(
    point: tuple[float, float], near: tuple[float, float]
) -> None:
    assert nearest(TRIANGLE, point).tolist() == pytest.approx(near)


def test_nearest_in_twice_the_hull() -> None:
    assert nearest(TRIANGLE, (3.0, 3.0), 2).tolist() == pytest.approx([2.0, 2.0])


def test_convex_hull_has_the_vertices_of_all_sides() -> None:
    octagon = [(0, 1), (1, 0), (2, 0), (3, 1), (3, 2), (2, 3), (1, 3), (0, 2)]
    inside = [(1, 1), (2, 1), (1.5, 1.5), (1, 2), (2, 2)]
    points = np.array([*octagon[::3], *inside, *octagon], float)

    assert convex_hull(points).tolist() == [[float(x), float(y)] for x, y in octagon]


def test_convex_hull_of_collinear_points() -> None:
    line = convex_hull(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))

    assert nearest(line, (3.0, 3.0)).tolist() == pytest.approx([2.0, 2.0])
    assert nearest(line, (0.0, 2.0)).tolist() == pytest.approx([1.0, 1.0])


def test_convex_hull_of_one_point() -> None:
    assert nearest(convex_hull(np.zeros((3, 2))), (3.0, 1.0)).tolist() == [0.0, 0.0]


@given(SEEDS)
def test_nearest_is_nearer_than_all_convex_combinations(seed: int) -> None:
    draw = np.random.default_rng(seed)
    points = draw.integers(0, 5, (6, 2)).astype(float)
    scale = draw.uniform(0.5, 2, (1, 2))
    wanted = draw.uniform(-3, 8, (1, 2))
    nodes = np.zeros(1, np.int64)
    mixtures = 2 * draw.dirichlet(np.full(6, 0.3), 500) @ points

    near = ConvexHulls(convex_hull(points), scale).nearest(nodes, wanted, np.array([2]))

    distance = np.linalg.norm((near - wanted) * scale)
    others = np.linalg.norm((mixtures - wanted) * scale, axis=1)
    assert distance <= others.min() + 1e-9
    # It is in the hull: no line has it on one side and all points on the other.
    turns = np.linspace(0, 2 * np.pi, 100)
    lines = np.array([np.cos(turns), np.sin(turns)])
    assert (near @ lines <= (2 * points @ lines).max(axis=0) + 1e-9).all()
