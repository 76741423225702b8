"""The same problem, with units that may go nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from opendrs.policies.optimising.problem import Problem


def closed(problem: Problem, units: Sequence[int]) -> Problem:
    """Return *problem* with *units* that stay at their origin."""
    chosen = list(units)
    if not chosen:
        return problem
    class_of = problem.class_of.copy()
    kinds = class_of[chosen]
    # A class of their own for each, so that what their place costs is kept.
    class_of[chosen] = len(problem.allowed) + np.arange(len(chosen))
    nowhere = np.zeros((len(chosen), problem.nodes), np.bool_)
    allowed = np.concatenate([problem.allowed, nowhere])
    place = problem.place_cost
    if place is not None:
        place = np.concatenate([place, place[kinds]])
    return replace(problem, class_of=class_of, allowed=allowed, place_cost=place)
