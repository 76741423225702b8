"""Portfolio of searches: repeatedly, the better half continues.

The result of a search is determined while it is hot, by the placement of the few large
groups; the rest is much the same for all. So it pays to start many searches, as long as
there are enough moves per group.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from opendrs.controller.compiled_code import require_compiled_code
from opendrs.optimizer import AnnealingSearch, Indices, Problem

PORTION = 0.5  # seconds between two readings of the clock
FIRST = 200_000  # moves that measure the speed
PORTIONS = 10  # least number of portions between two selections
ENOUGH = 60_000  # moves per group needed to start more searches than threads
MOST = 16  # most searches
# Progress at which one of two searches is selected, and progress between two
# selections.
LAST, APART = 0.5, 0.06
# Half of the searches have the default drift home, half a small one. A drift helps if
# transient resources are scarce, and hinders otherwise.
DRIFTS = (None, 1.0)


def solve(problem: Problem, *, seconds: float, seed: int, threads: int) -> Indices:
    """Return the best assignment found in *seconds*, without loading compiled code."""
    require_compiled_code(print)
    AnnealingSearch(problem).run(1, 1.0)
    end = time.monotonic() + seconds
    pace = _pace(problem)
    moves = threads * pace * (end - time.monotonic()) / max(problem.group_count, 1)
    count = min(threads, MOST)
    while 2 * count <= MOST and moves / sum(work(2 * count)) >= ENOUGH:
        count *= 2
    searches = [
        AnnealingSearch(problem, seed=seed * MOST + k, drift=DRIFTS[k % len(DRIFTS)])
        for k in range(count)
    ]
    best = searches[0].best
    for number, until in enumerate(selection_points(count)):
        now = time.monotonic()
        left = work(count)[number:]
        stop = now + (end - now) * left[0] / sum(left)
        _run_all(searches, until=until, stop=stop, pace=pace, threads=threads)
        best = min([best, *(each.best for each in searches)], key=lambda s: s.cost)
        searches = sorted(searches, key=lambda each: each.current_cost)
        searches = searches[: max(1, len(searches) // 2)]
    return best.assignment


def selection_points(count: int) -> list[float]:
    """Return the progress at each selection of the better half.

    The last number is the end of the search, 1.
    """
    halvings = count.bit_length() - 1
    return [LAST - APART * k for k in reversed(range(halvings))] + [1.0]


def work(count: int) -> list[float]:
    """Return the work between two selections, in whole searches."""
    ends = [0.0, *selection_points(count)]
    return [(count >> k) * (b - a) for k, (a, b) in enumerate(pairwise(ends))]


def _pace(problem: Problem) -> float:
    """Return the moves per second of one thread."""
    search = AnnealingSearch(problem)
    begin = time.monotonic()
    search.run(FIRST, 0.0)
    return FIRST / max(time.monotonic() - begin, 1e-6)


def _run_all(
    searches: Sequence[AnnealingSearch],
    *,
    until: float,
    stop: float,
    pace: float,
    threads: int,
) -> None:
    """Run all searches to the progress *until*."""
    turns = -(-len(searches) // threads)
    seconds = (stop - time.monotonic()) / turns
    shared = max(1, threads // len(searches))

    def run(search: AnnealingSearch) -> None:
        _run(search, until=until, seconds=seconds, pace=pace, threads=shared)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, searches))


def _run(
    search: AnnealingSearch, *, until: float, seconds: float, pace: float, threads: int
) -> None:
    """Run *search* to the progress *until* in *seconds*."""
    begin = time.monotonic()
    stop, start = begin + seconds, search.progress
    while (now := time.monotonic()) < stop:
        portion = min(PORTION, seconds / PORTIONS, stop - now)
        moves = max(1000, int(pace * portion))
        gone = (now + portion - begin) / seconds
        search.run(moves, start + (until - start) * min(gone, 1.0), threads)
        pace = moves / max(time.monotonic() - now, 1e-6)
