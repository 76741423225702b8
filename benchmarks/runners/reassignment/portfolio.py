"""Many searches of one problem begin, and again and again the better half goes on.

What a search comes to is decided while it is still hot, by where the few large units
settle; the rest of its way is much the same for all. So it pays to begin many, as long
as there are moves enough for each unit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from opendrs.controller.compiled_code import require_compiled_code
from opendrs.optimizer import AnnealingSearch, Indices, Problem

PORTION = 0.5  # seconds between two looks at the clock
FIRST = 200_000  # moves until the pace is known
PORTIONS = 10  # there are at least, between two choices
ENOUGH = 60_000  # moves for each unit, or no more searches begin than there are threads
MOST = 16  # searches
LAST, APART = 0.5, 0.06  # of the way: where one of two is chosen; between two choices
# Half the searches draw units home while they are hot, half hardly: that helps where
# transient resources are what is short, and hinders where they are not.
DRIFTS = (None, 1.0)


def solve(problem: Problem, *, seconds: float, seed: int, threads: int) -> Indices:
    """Return the best assignment found in so many seconds, loading code apart."""
    require_compiled_code(print)  # loads compiled code, or compiles it
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
    """Return how far searches go, of all their way, until the better half is left.

    The last number is the end of the way, 1.
    """
    halvings = count.bit_length() - 1
    return [LAST - APART * k for k in reversed(range(halvings))] + [1.0]


def work(count: int) -> list[float]:
    """Return what there is to do between two choices, in whole searches."""
    ends = [0.0, *selection_points(count)]
    return [(count >> k) * (b - a) for k, (a, b) in enumerate(pairwise(ends))]


def _pace(problem: Problem) -> float:
    """Return how many moves a second a thread tries."""
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
    """Take all searches this far on their way."""
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
    """Take *search* this far on its way in so many seconds."""
    begin = time.monotonic()
    stop, start = begin + seconds, search.progress
    while (now := time.monotonic()) < stop:
        portion = min(PORTION, seconds / PORTIONS, stop - now)
        moves = max(1000, int(pace * portion))
        gone = (now + portion - begin) / seconds
        search.run(moves, start + (until - start) * min(gone, 1.0), threads)
        pace = moves / max(time.monotonic() - now, 1e-6)
