"""What may be moved in a snapshot, as `tools/judge_plan.py` counts it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from opendrs.policies.optimising.problem import Problem

Floats = npt.NDArray[np.float64]

GIB = 2**30
ROUNDED = 0.05  # GiB that the judge may leave out


def offences(snapshot: dict[str, Any]) -> Floats:
    """Return how many strict rules each guest might mend by leaving its node; (G,)."""
    count = dict.fromkeys(snapshot["guests"], 0.0)
    for rule in snapshot.get("rules", []):
        if rule.get("strict", True):
            for name in offenders(snapshot, rule):
                count[name] += 1
    return np.array([*count.values()])


def offenders(snapshot: dict[str, Any], rule: dict[str, Any]) -> list[str]:
    """Return the guests that break *rule* where they are."""
    homes = {name: snapshot["guests"][name]["node"] for name in rule["guests"]}
    if rule["kind"] == "anti-affinity":
        shared = Counter(homes.values())
        return [name for name, home in homes.items() if shared[home] > 1]
    if rule["kind"] == "affinity":
        return [*homes] if len(set(homes.values())) > 1 else []
    return [name for name, home in homes.items() if home not in rule["nodes"]]


def problem_of(
    snapshot: dict[str, Any], moves: int, gib: float, mended: int = 0
) -> Problem:
    """Return what may be moved in a snapshot, as the judge counts it.

    Raises:
        ValueError: A node is not online.
    """
    nodes, guests = snapshot["nodes"], snapshot["guests"]
    if any(node.get("state", "online") != "online" for node in nodes.values()):
        raise ValueError("there is a node that is not online")
    place = {name: index for index, name in enumerate(nodes)}
    demand = np.array(
        [(each["usage"]["cpu"], each["usage"]["memory"]) for each in guests.values()]
    )
    may = [each.get("moves", "live") != "never" for each in guests.values()]
    return Problem(
        capacity=np.array(
            [
                (each["capacity"]["cpu"], each["capacity"]["memory"])
                for each in nodes.values()
            ],
            float,
        ),
        demand=demand.astype(float),
        origin=np.array([place[each["node"]] for each in guests.values()]),
        class_of=np.array(may, np.int64),
        allowed=np.array([[False], [True]]) & np.ones(len(nodes), np.bool_),
        even_weight=np.ones(2),
        measures=np.array(
            [np.ones(len(guests)), demand[:, 1] / GIB, -offences(snapshot)]
        ),
        budgets=np.array([float(moves), gib + ROUNDED, -float(mended)]),
    )
