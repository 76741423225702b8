"""Two searches of the same problem in parallel; the better one goes on with both.

One draws units home while it is hot, the other hardly: that helps where transient
resources are what is short, and hinders where they are not.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from opendrs.policies.optimising.engine import Search
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.problem import Problem

PORTION = 0.5  # seconds between two looks at the clock
FIRST = 200_000  # moves until the pace is known
CHOICE = 0.55  # of the time: from here on the better one is known
DRIFTS = (None, 1.0)


def solve(problem: Problem, *, end: float, seed: int, threads: int) -> Indices:
    """Return the best assignment found until *end*, of the monotonic clock."""
    Search(problem).run(1, 1.0)  # loads compiled code, or compiles it
    begin = time.monotonic()
    drifts = DRIFTS[:threads]
    searches = [
        Search(problem, seed=seed + number, drift=drift)
        for number, drift in enumerate(drifts)
    ]
    if threads > 1:
        with ThreadPoolExecutor(len(searches)) as pool:
            list(pool.map(lambda each: _run(each, begin, end, CHOICE, 1), searches))
    chosen = min(searches, key=lambda each: each.standing)
    _run(chosen, begin, end, 1.0, threads)
    return min(searches, key=lambda each: each.best.cost).best.assignment


def _run(search: Search, begin: float, end: float, until: float, threads: int) -> None:
    """Search until this part of the time is gone."""
    stop = begin + until * (end - begin)
    pace = FIRST / PORTION
    while (now := time.monotonic()) < stop:
        portion = min(PORTION, stop - now)
        moves = max(1000, int(pace * portion))
        search.run(moves, min(1.0, (now + portion - begin) / (end - begin)), threads)
        pace = moves / max(time.monotonic() - now, 1e-6)
