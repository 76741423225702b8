"""Lower bound of the sum of variations: no plan is below it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runners.imbalance_bound import (
    GIB,
    BoxSearch,
    Line,
    judged_problem,
    least_corner,
    least_sum,
    violations_per_guest,
)


def drawn(seed: int) -> dict[str, Any]:
    """Return six guests on three nodes of different capacity."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(20, 60, 3).tolist()
    return {
        "nodes": {
            f"n{i}": {"capacity": {"cpu": size, "memory": 2 * size * GIB}}
            for i, size in enumerate(sizes)
        },
        "guests": {
            f"g{i}": {
                "node": f"n{draw.integers(0, 2)}",
                "usage": {
                    "cpu": int(draw.integers(1, 9)),
                    "memory": int(draw.integers(1, 20)) * GIB,
                },
                "mobility": "none" if draw.random() < 0.1 else "live",
            }
            for i in range(6)
        },
        "rules": [
            {"kind": "anti-affinity", "guests": ["g0", "g1", "g2"]},
            {"kind": "affinity", "guests": ["g3", "g4"], "strict": True},
            {"kind": "affinity", "guests": ["g0", "g5"], "strict": False},
            {"kind": "node-affinity", "guests": ["g5", "g1"], "nodes": ["n2"]},
        ],
    }


def broken(snapshot: dict[str, Any], places: dict[str, str]) -> int:
    """Return the number of violations of strict rules, as judge_plan.py counts them."""
    total = 0
    for rule in snapshot["rules"]:
        homes = [places[name] for name in rule["guests"]]
        if rule.get("strict", True):
            total += {
                "anti-affinity": len(homes) - len(set(homes)),
                "affinity": len(set(homes)) - 1,
                "node-affinity": sum(h not in rule.get("nodes", []) for h in homes),
            }[rule["kind"]]
    return total


def sums(
    snapshot: dict[str, Any], moves: int, gib: float, repaired: int = 0
) -> list[float]:
    """Return the sum of both variations of each plan, in plain loops."""
    nodes, guests = snapshot["nodes"], snapshot["guests"]
    now = broken(snapshot, {name: guest["node"] for name, guest in guests.items()})
    found = []
    for places in product(nodes, repeat=len(guests)):
        pairs = list(zip(guests.values(), places, strict=True))
        moved = [guest for guest, place in pairs if guest["node"] != place]
        if (
            any(guest.get("mobility") == "none" for guest in moved)
            or len(moved) > moves
        ):
            continue
        if sum(guest["usage"]["memory"] for guest in moved) > gib * GIB:
            continue
        if now - broken(snapshot, dict(zip(guests, places, strict=True))) < repaired:
            continue
        total = 0.0
        for kind in ("cpu", "memory"):
            shares = [
                sum(guest["usage"][kind] for guest, place in pairs if place == name)
                / node["capacity"][kind]
                for name, node in nodes.items()
            ]
            total += float(np.std(shares) / np.mean(shares))
        found.append(total)
    return found


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(0, 3), st.integers(0, 60), st.integers(0, 2))
@settings(max_examples=8, deadline=None)
def test_bound_is_below_all_plans(
    seed: int, moves: int, gib: int, repaired: int
) -> None:
    snapshot = drawn(seed)
    possible = sums(snapshot, moves, gib, repaired)
    assume(possible)

    problem = judged_problem(snapshot, moves, gib, repaired)
    search = BoxSearch(problem, looks=(10, 15, 5), boxes=100)

    assert search.least(enough=min(possible)) <= min(possible) + 1e-9


def test_guest_prices_raise_the_bound() -> None:
    snapshot = drawn(5)
    search = BoxSearch(judged_problem(snapshot, 2, 20.0), looks=(10, 15, 20))

    least, more = search.least(), search.least(enough=0.043)

    assert least < 0.04
    assert 0.043 <= more <= min(sums(snapshot, 2, 20.0)) + 1e-9


def test_bound_with_repairs_is_higher() -> None:
    # By hand: one of the small guests has to leave, so with one move no other can.
    snapshot = drawn(1)
    small = {"usage": {"cpu": 1, "memory": GIB}, "node": "n0"}
    large = {"usage": {"cpu": 9, "memory": 9 * GIB}, "node": "n0"}
    snapshot["guests"] = {"g0": small, "g1": small, "g2": large, "g3": large}
    snapshot["rules"] = [{"kind": "anti-affinity", "guests": ["g0", "g1"]}]

    either = least_sum(snapshot, 1, 9.0)
    repairing = least_sum(snapshot, 1, 9.0, 1)

    assert either < 0.8 * repairing
    assert 0.95 * min(sums({**snapshot}, 1, 9.0, 1)) < repairing


def test_offenders_of_rules_are_found() -> None:
    snapshot = drawn(1)
    for name, node in zip(snapshot["guests"], "001010", strict=True):
        snapshot["guests"][name]["node"] = f"n{node}"

    # g0 and g1 share a node, g3 and g4 share none, g1 and g5 should be elsewhere.
    assert violations_per_guest(snapshot).tolist() == [1, 2, 0, 1, 1, 1]


def test_bound_without_moves_is_the_present_sum() -> None:
    snapshot = drawn(1)

    assert least_sum(snapshot, 0, 0.0) == pytest.approx(
        sums(snapshot, 0, 0.0)[0], rel=0.03
    )


def test_least_corner_has_the_least_sum_of_roots() -> None:
    # By hand: between A + B >= 5 and the axes, sqrt(5) at (5, 0) and at (0, 5). With
    # A >= 1 and B >= 1 besides, 2 + 1 at (4, 1) and at (1, 4).
    one = Line(np.array([1.0, 1.0]), 5.0)
    sides = [Line(np.array([1.0, 0.0]), 1.0), Line(np.array([0.0, 1.0]), 1.0)]

    assert least_corner([one]).root == pytest.approx(5**0.5)
    assert least_corner([one, *sides]).root == pytest.approx(3.0)


def test_bound_with_offline_node_raises() -> None:
    snapshot = drawn(1)
    snapshot["nodes"]["n0"]["state"] = "offline"

    with pytest.raises(ValueError, match="expected all online"):
        judged_problem(snapshot, 1, 1.0)
